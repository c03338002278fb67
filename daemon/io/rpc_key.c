// SPDX-License-Identifier: Apache-2.0
/*
 * rpc_key.c - the cluster's key from its file
 */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/rpc.h"

/* Who may read it can join the cluster, who may write it can split it. */
static int check_file(int fd, const char *path, char *err, size_t size)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode)) {
		snprintf(err, size, "%s is not a file", path);
		return -EINVAL;
	}
	if (st.st_mode & 0177 || (st.st_uid != geteuid() && st.st_uid)) {
		snprintf(err, size, "%s has mode %04o and user %u: a cluster "
			 "key must have 0600 and belong to user %u or root",
			 path, st.st_mode & 07777, st.st_uid, geteuid());
		return -EPERM;
	}
	return 0;
}

static int read_key(int fd, const char *path, uint8_t key[FKV_AUTH_KEY],
		    char *err, size_t size)
{
	char text[2 * FKV_AUTH_KEY + 2];
	ssize_t n = read(fd, text, sizeof(text));
	int res;

	if (n < 0)
		return -errno;
	res = fkv_auth_key_parse(text, (size_t)n, key);
	if (res)
		snprintf(err, size, "%s must have %u hexadecimal digits, not "
			 "all 0 (make one: openssl rand -hex 32)", path,
			 2 * FKV_AUTH_KEY);
	sodium_memzero(text, sizeof(text));
	return res;
}

int fkv_rpc_key_read(const char *path, uint8_t key[FKV_AUTH_KEY], char *err,
		     size_t err_size)
{
	/* a fifo must not make it wait */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int res = fd < 0 ? -errno : 0;

	snprintf(err, err_size, "%s: %s", path, strerror(-res));
	if (fd < 0)
		return res;
	res = check_file(fd, path, err, err_size);
	if (!res)
		res = read_key(fd, path, key, err, err_size);
	close(fd);
	return res;
}
