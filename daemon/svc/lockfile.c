// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
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

/* Does any process accept at @path? A full queue is one that lives, too. */
static bool served(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	bool yes;
	int fd;

	if (strlen(path) >= sizeof(sa.sun_path))
		return false;
	strcpy(sa.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return false;
	yes = !connect(fd, (struct sockaddr *)&sa, sizeof(sa)) ||
	      errno == EAGAIN || errno == EPROTOTYPE;
	close(fd);
	return yes;
}

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
	if (served(path)) {
		snprintf(err, err_size, "another process listens on %s: it is "
			 "left alone", path);
		return -EADDRINUSE;
	}
	return unlink(path) ? -errno : 0;
}

void fkv_lockfile_clear(const char *socket)
{
	char err[256];

	remove_socket(socket, err, sizeof(err));
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

/*
 * What the last daemon left: did it stop cleanly, and its epoch. Only an
 * empty file, or one that a daemon wrote, is ours to write to.
 */
static int read_last(struct fkv_lockfile *l, char *err, size_t err_size)
{
	char buf[96] = "", word[16] = "";
	uint64_t epoch = 0;
	ssize_t n;
	int pid;

	n = pread(l->fd, buf, sizeof(buf) - 1, 0);
	if (n < 0) {
		snprintf(err, err_size, "cannot read %s: %s", l->path,
			 strerror(errno));
		return -EIO;
	}
	if (n > 0 && (sscanf(buf, "%15s pid %d epoch %" SCNu64, word, &pid,
			     &epoch) != 3 ||
		      (strcmp(word, "running") && strcmp(word, "stopped")))) {
		snprintf(err, err_size, "%s is not the lock file of a "
			 "fluxonkvd (expected \"running|stopped pid N epoch "
			 "N\"): it is left alone", l->path);
		return -EEXIST;
	}
	if (!strcmp(word, "running"))
		l->wait_until_ns = fkv_clock_ns() + WAIT_NS;
	l->epoch = epoch < EPOCH_MAX ? epoch + 1 : EPOCH_MAX;
	return 0;
}

/* A regular file, not through a link: what is written there is ours. */
static int open_file(struct fkv_lockfile *l, char *err, size_t err_size)
{
	struct stat st;

	l->fd = open(l->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW |
		     O_NONBLOCK, 0600);
	if (l->fd < 0) {
		snprintf(err, err_size, "cannot open %s: %s", l->path,
			 errno == ELOOP ? "it is a symbolic link" :
			 strerror(errno));
		return -errno;
	}
	if (!fstat(l->fd, &st) && S_ISREG(st.st_mode))
		return 0;
	snprintf(err, err_size, "%s is not a regular file: it is left alone",
		 l->path);
	close(l->fd);
	return -EEXIST;
}

uint64_t fkv_lockfile_epoch(const struct fkv_lockfile *l)
{
	return l->epoch;
}

int fkv_lockfile_raise(struct fkv_lockfile *l, uint64_t epoch)
{
	uint64_t was = l->epoch;
	int err;

	if (epoch > EPOCH_MAX)
		return -EOVERFLOW;
	l->epoch = epoch;
	err = say(l, "running");
	if (err)
		l->epoch = was;
	return err;
}

int fkv_lockfile_take(const char *socket_path, struct fkv_lockfile **ret,
		      char *err, size_t err_size)
{
	struct fkv_lockfile *l = fkv_zalloc(sizeof(*l));
	int res = -ENOMEM;

	if (!l || asprintf(&l->path, "%s.lock", socket_path) < 0)
		goto err_free;
	res = open_file(l, err, err_size);
	if (res)
		goto err_free;
	if (flock(l->fd, LOCK_EX | LOCK_NB)) {
		res = refuse(l->path, l->fd, err, err_size);
		goto err_close;
	}
	res = read_last(l, err, err_size);
	if (!res)
		res = remove_socket(socket_path, err, err_size);
	if (res)
		goto err_close;
	res = say(l, "running");
	if (res) {
		snprintf(err, err_size, "cannot write %s", l->path);
		/* half of a first line would be nobody's */
		if (l->epoch == 1 && ftruncate(l->fd, 0))
			fkv_log(FKV_LOG_WARN, "remove %s", l->path);
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
