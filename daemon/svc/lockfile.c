// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "svc/lockfile.h"

#define WAIT_NS		(1200 * FKV_MS)

struct fkv_lockfile {
	int fd;
	char *path;
	uint64_t wait_until_ns;
	uint64_t epoch;
	bool waited;
};

#define EPOCH_MAX	((1ULL << 20) - 1)

static int remove_socket(const char *path, char *err, size_t err_size)
{
	struct stat st;

	if (lstat(path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode)) {
		snprintf(err, err_size, "%s exists and is not a socket: it is "
			 "left alone", path);
		return -EEXIST;
	}
	return unlink(path) ? -errno : 0;
}

static int refuse(const char *path, int fd, char *err, size_t err_size)
{
	char buf[64] = "";
	ssize_t n = pread(fd, buf, sizeof(buf) - 1, 0);

	buf[n > 0 ? n : 0] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
	snprintf(err, err_size, "%s is locked: another fluxonkvd serves this "
		 "socket (%s)", path, *buf ? buf : "no pid given");
	return -EBUSY;
}

static int say(struct fkv_lockfile *l, const char *word)
{
	char buf[96];
	int n = snprintf(buf, sizeof(buf), "%s pid %d epoch %" PRIu64 "\n",
			 word, getpid(), l->epoch);

	if (pwrite(l->fd, buf, (size_t)n, 0) != n ||
	    ftruncate(l->fd, n) || fsync(l->fd)) {
		fkv_log(FKV_LOG_WARN, "cannot write %s: %s", l->path,
			strerror(errno));
		return -EIO;
	}
	return 0;
}

/* What the last daemon left: did it stop cleanly, and its epoch. */
static void read_last(struct fkv_lockfile *l)
{
	char buf[96] = "", word[16] = "";
	uint64_t epoch = 0;
	int pid;

	if (pread(l->fd, buf, sizeof(buf) - 1, 0) > 0)
		sscanf(buf, "%15s pid %d epoch %" SCNu64, word, &pid, &epoch);
	if (!strcmp(word, "running"))
		l->wait_until_ns = fkv_clock_ns() + WAIT_NS;
	l->epoch = epoch < EPOCH_MAX ? epoch + 1 : EPOCH_MAX;
}

uint64_t fkv_lockfile_epoch(const struct fkv_lockfile *l)
{
	return l->epoch;
}

int fkv_lockfile_take(const char *socket_path, struct fkv_lockfile **ret,
		      char *err, size_t err_size)
{
	struct fkv_lockfile *l = fkv_zalloc(sizeof(*l));
	int res = -ENOMEM;

	if (!l || asprintf(&l->path, "%s.lock", socket_path) < 0)
		goto err_free;
	l->fd = open(l->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (l->fd < 0) {
		res = -errno;
		snprintf(err, err_size, "cannot open %s: %s", l->path,
			 strerror(errno));
		goto err_free;
	}
	if (flock(l->fd, LOCK_EX | LOCK_NB)) {
		res = refuse(l->path, l->fd, err, err_size);
		goto err_close;
	}
	read_last(l);
	res = remove_socket(socket_path, err, err_size);
	if (res)
		goto err_close;
	res = say(l, "running");
	if (res) {
		snprintf(err, err_size, "cannot write %s", l->path);
		goto err_close;
	}
	*ret = l;
	return 0;

err_close:
	close(l->fd);
err_free:
	if (l)
		free(l->path);
	fkv_free(l);
	return res;
}

void fkv_lockfile_wait(struct fkv_lockfile *l)
{
	uint64_t now = fkv_clock_ns();

	l->waited = true;
	if (now < l->wait_until_ns)
		usleep((useconds_t)((l->wait_until_ns - now) / 1000));
}

void fkv_lockfile_release(struct fkv_lockfile *l, bool clean)
{
	if (!l)
		return;
	/* who never served must not hide that its predecessor was killed */
	if (clean && (l->waited || !l->wait_until_ns))
		say(l, "stopped");
	close(l->fd);
	free(l->path);
	fkv_free(l);
}
