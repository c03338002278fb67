// SPDX-License-Identifier: Apache-2.0
/*
 * nth_start - the daemon starts, each allocation and call of the system failing
 *
 * It gets to serve, or says why not and ends with a failure; either way it
 * leaves nothing that keeps the next start from working. It runs in this
 * process, so that memory and files that are left are seen.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "nth.h"

#define SAID	16384u

int fluxonkvd_main(int argc, char **argv);
int sd_notify(int unset, const char *state);

struct start_case {
	const char *name;
	const char *engine;
	bool fresh;			/* no file of a start before */
};

static char dir[64], path[96], ssd[96], yaml[96];
static bool served;
static int err_fd, said_fd;
static char said[SAID];

/* It serves: no more failures, and that is all that is wanted. */
int sd_notify(int unset, const char *state)
{
	(void)unset;
	if (strcmp(state, "READY=1"))
		return 0;
	served = true;
	nth_heal();
	kill(getpid(), SIGTERM);
	return 0;
}

/* The grace that clients of one that was killed have. */
int usleep(useconds_t us)
{
	(void)us;
	return 0;
}

static int run(const struct start_case *c, bool fails)
{
	char *argv[] = {
		"fluxonkvd", "--standalone", "--config", yaml, "--socket",
		path, "--memory", "8MiB", "--ssd", ssd, "--io-engine",
		(char *)c->engine, "--metrics", "127.0.0.1:0", NULL,
	};
	ssize_t n;
	int res;

	served = false;
	if (ftruncate(said_fd, 0) || lseek(said_fd, 0, SEEK_SET) ||
	    dup2(said_fd, 2) < 0)
		nth_wrong("cannot take what it says");
	if (fails)
		nth_arm();
	res = fluxonkvd_main(sizeof(argv) / sizeof(argv[0]) - 1, argv);
	if (fails)
		nth_disarm();
	dup2(err_fd, 2);
	n = pread(said_fd, said, sizeof(said) - 1, 0);
	said[n > 0 ? n : 0] = '\0';
	return res;
}

/* Its last line, which says what went wrong. */
static const char *last_line(void)
{
	size_t n = strlen(said);
	char *p;

	while (n && said[n - 1] == '\n')
		said[--n] = '\0';
	p = strrchr(said, '\n');
	return p ? p + 1 : said;
}

static int remove_one(const char *name, const struct stat *st, int type,
		      struct FTW *f)
{
	(void)st;
	(void)type;
	(void)f;
	return strcmp(name, yaml) && strcmp(name, dir) ? remove(name) : 0;
}

static void remove_files(void)
{
	if (nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS))
		nth_wrong("cannot remove files below %s", dir);
}

static void make_ssd(void)
{
	char name[96];

	snprintf(name, sizeof(name), "%s/ssd", dir);
	if (mkdir(name, 0700))
		nth_wrong("cannot make %s", name);
}

static void scenario(void *arg)
{
	const struct start_case *c = arg;
	int res;

	if (c->fresh) {
		remove_files();
		make_ssd();
	}
	res = run(c, true);
	nth_heal();
	if (served) {
		nth_check(!res, "it served, and ends with %d: %s", res,
			  last_line());
	} else {
		nth_check(nth_failures(), "without a failure it ends: %s",
			  last_line());
		nth_check(res == 1 || res == 2, "it ends with %d", res);
		nth_check(strlen(last_line()) > 20, "it says '%s'", said);
	}
	if (getenv("NTH_SHOW") && !served)
		printf("%lu: %d %s\n", nth.n, res, last_line());
	/* with all failing, to remove it fails, too: the next start does */
	nth_check(access(path, F_OK) || nth.what == NTH_REST, "its socket is left");
	if (served)
		return;
	res = run(c, false);
	nth_check(!res && served, "the next start ends with %d: %s", res,
		  last_line());
}

static const struct start_case cases[] = {
	{ "first start", "threads", true },
	{ "start", "auto", false },
};

static bool prepare(void)
{
	static const char text[] = "cluster_name: north\nio_depth: 8\n";
	int fd;

	strcpy(dir, "/var/tmp/fkv-nth-XXXXXX");
	if (!mkdtemp(dir))
		return false;
	snprintf(path, sizeof(path), "%s/s", dir);
	snprintf(ssd, sizeof(ssd), "%s/ssd:64MiB", dir);
	make_ssd();
	snprintf(yaml, sizeof(yaml), "%s/f.yaml", dir);
	fd = open(yaml, O_WRONLY | O_CREAT, 0600);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return false;
	close(fd);
	err_fd = fcntl(2, F_DUPFD_CLOEXEC, 3);
	said_fd = memfd_create("said", MFD_CLOEXEC);
	return err_fd >= 0 && said_fd >= 0;
}

int main(void)
{
	if (!prepare()) {
		perror(dir);
		return EXIT_FAILURE;
	}
	nth_keeps_threads();
	nth_few_rests();
	/* what libraries make once and keep */
	if (run(&cases[0], false) || !served) {
		fprintf(stderr, "it does not start: %s\n", last_line());
		return EXIT_FAILURE;
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char name[64];

		snprintf(name, sizeof(name), "%s, memory", cases[i].name);
		nth_all(name, scenario, (void *)&cases[i]);
		snprintf(name, sizeof(name), "%s, calls", cases[i].name);
		nth_all_io(name, scenario, (void *)&cases[i]);
	}
	uv_library_shutdown();
	remove_files();
	unlink(yaml);
	rmdir(dir);
	return nth_end();
}
