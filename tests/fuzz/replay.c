// SPDX-License-Identifier: Apache-2.0
/*
 * replay.c - run a target over the files of directories, without libFuzzer
 *
 * All files in one child first; only when that one dies, each in a child of
 * its own, to name those that fail. Leaks are found at a child's exit.
 */
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz/fuzz.h"

#define FILES_MAX	65536u
#define FILE_MAX	(1u << 20)
#define CHILD_SECONDS	300

static char *paths[FILES_MAX];
static unsigned int nr_paths, passed, failed, skipped;

static void skip(const char *path, const char *why)
{
	fprintf(stderr, "SKIP %s: %s\n", path, why);
	skipped++;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_file(const char *dir, const char *name)
{
	struct stat st;
	char *path;

	if (name[0] == '.')
		return;
	fuzz_check(asprintf(&path, "%s/%s", dir, name) > 0);
	if (stat(path, &st) || !S_ISREG(st.st_mode))
		skip(path, "not a file");
	else if (st.st_size > FILE_MAX)
		skip(path, "larger than 1 MiB");
	else if (nr_paths == FILES_MAX)
		skip(path, "too many files");
	else {
		paths[nr_paths++] = path;
		return;
	}
	free(path);
}

static void add_dir(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	if (!d) {
		skip(dir, "not a directory");
		return;
	}
	while ((e = readdir(d)))
		add_file(dir, e->d_name);
	closedir(d);
}

static void run_file(const char *path)
{
	FILE *f = fopen(path, "re");
	uint8_t *data = fuzz_alloc(FILE_MAX);
	size_t n;

	fuzz_check(f);
	n = fread(data, 1, FILE_MAX, f);
	fuzz_check(!ferror(f));
	fclose(f);
	LLVMFuzzerTestOneInput(data, n);
	free(data);
}

/* Files @from to before @to in a child; did it end well? */
static bool run_files(unsigned int from, unsigned int to)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	fuzz_check(pid >= 0);
	if (!pid) {
		alarm(CHILD_SECONDS);
		for (unsigned int i = from; i < to; i++)
			run_file(paths[i]);
		exit(0);
	}
	fuzz_check(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static void run_each(void)
{
	for (unsigned int i = 0; i < nr_paths; i++) {
		if (run_files(i, i + 1)) {
			passed++;
			continue;
		}
		failed++;
		printf("FAIL %s\n", paths[i]);
	}
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		add_dir(argv[i]);
	qsort(paths, nr_paths, sizeof(paths[0]), by_name);
	if (nr_paths && run_files(0, nr_paths)) {
		passed = nr_paths;
	} else {
		run_each();
		/* only together: what one input leaves behind fails another */
		if (nr_paths && !failed)
			failed++;
	}
	printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
	for (unsigned int i = 0; i < nr_paths; i++)
		free(paths[i]);
	return failed || !passed ? EXIT_FAILURE : EXIT_SUCCESS;
}
