// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fork.h"
#include "kdev.h"
#include "map.h"

_Static_assert(sizeof(struct fluxonkv_hello) == 64, "hello");
_Static_assert(sizeof(struct fluxonkv_attach) == 136, "attach");

bool fkv_kdev_exists(void)
{
	return !fkv_kdev_sys.access(FKV_KDEV, F_OK);
}

int fkv_kdev_check_name(const char *name)
{
	static const char known[] = "abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t len = strlen(name);

	if (len < FLUXONKV_NAME_MAX && strspn(name, known) == len)
		return 0;
	return fkv_lib_fail(-EINVAL, "address \"dev:%.80s\", expected a name "
			    "of up to %d letters, digits, \".\", \"_\" and "
			    "\"-\" behind \"dev:\"", name,
			    FLUXONKV_NAME_MAX - 1);
}

static int open_failed(int err)
{
	switch (err) {
	case -ENOENT:
	case -ENODEV:
	case -ENXIO:
		return fkv_lib_fail(-ENODEV, "there is no " FKV_KDEV ": the "
				    "kernel module fluxonkv is not loaded");
	case -EACCES:
	case -EPERM:
		return fkv_lib_fail(-EACCES, "no permission to open " FKV_KDEV
				    ": this user must be in the group "
				    "fluxonkv");
	default:
		return fkv_lib_fail(err, "cannot open " FKV_KDEV ": %s",
				    strerror(-err));
	}
}

static int open_device(struct fkv_conn **ret)
{
	struct fkv_conn *conn = NULL;
	int fd, err = -ENOMEM;

	fkv_fork_lock();
	fd = fkv_kdev_sys.open(FKV_KDEV, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		conn = fkv_conn_create(fd);
	else
		err = -errno;
	if (!conn && fd >= 0)
		close(fd);
	fkv_fork_unlock();
	*ret = conn;
	if (!conn)
		return open_failed(err);
	conn->ops = &fkv_kdev_ops;
	conn->device = true;
	conn->keep.done = true;
	return 0;
}

/* Does the module speak our ABI? */
static int check_module(struct fkv_conn *conn)
{
	struct fluxonkv_features f = { .size = sizeof(f) };
	int err = fkv_kdev_command(conn, FLUXONKV_IOC_FEATURES, &f);

	if (err)
		return fkv_lib_fail(-EPROTONOSUPPORT, FKV_KDEV " is not the one "
				    "that this library knows: %s",
				    strerror(-err));
	if (f.abi != FLUXONKV_ABI_VERSION)
		return fkv_lib_fail(-EPROTONOSUPPORT, "the kernel module "
				    "speaks ABI version %u, expected %d",
				    f.abi, FLUXONKV_ABI_VERSION);
	return 0;
}

static int attach_failed(const char *name, int err)
{
	switch (err) {
	case -EADDRNOTAVAIL:
	case -EADDRINUSE:
	case -EAGAIN:
	case -EBADFD:
	case -ENOENT:
	case -ENOTCONN:
		if (*name)
			return fkv_lib_fail(-ECONNREFUSED, "no daemon has the "
					    "instance \"%s\" of " FKV_KDEV, name);
		return fkv_lib_fail(-ECONNREFUSED, "no daemon, or more than "
				    "one, has an instance of " FKV_KDEV
				    ": expected \"dev:INSTANCE\"");
	case -EUSERS:
		return fkv_lib_fail(-ENOTCONN, "the daemon has no room for one "
				    "more client");
	case -EACCES:
	case -EPERM:
		return fkv_lib_fail(-EACCES, "no permission to use the "
				    "instance \"%s\" of " FKV_KDEV, name);
	default:
		return fkv_lib_fail(err, "cannot attach to the instance \"%s\" "
				    "of " FKV_KDEV ": %s", name, strerror(-err));
	}
}

static int attach(struct fkv_conn *conn, char name[FLUXONKV_NAME_MAX])
{
	struct fluxonkv_attach a = { .size = sizeof(a) };
	struct fluxonkv_hello *h = &conn->hello;
	int err;

	memcpy(a.name, name, strlen(name));
	err = fkv_kdev_command(conn, FLUXONKV_IOC_ATTACH, &a);
	if (err)
		return attach_failed(name, err);
	a.name[sizeof(a.name) - 1] = '\0';
	memcpy(name, a.name, sizeof(a.name));
	*h = a.hello;
	err = fkv_hello_check(h, FLUXONKV_HELLO_WRITABLE |
			      FLUXONKV_HELLO_STRICT);
	if (err)
		return err;
	if (!h->segment_bytes || h->segment_bytes > FLUXONKV_SEGMENT_MAX ||
	    h->segment_bytes % FLUXONKV_SEGMENT_UNIT)
		return fkv_lib_fail(-EPROTO, "the daemon broke the protocol: "
				    "a segment of %llu bytes",
				    (unsigned long long)h->segment_bytes);
	return 0;
}

static int map_all(struct fkv_conn *conn)
{
	struct fkv_mapped m = {
		.fd = conn->fds[0],
		.bytes = conn->hello.segment_bytes,
		.what = "segment",
	};

	fkv_fork_lock();
	conn->segment = fkv_map(&m, PROT_READ);
	m.offset = FLUXONKV_WINDOW_OFFSET;
	m.what = "put windows";
	if (conn->segment)
		conn->writable = fkv_map(&m, PROT_READ | PROT_WRITE);
	if (conn->writable)
		conn->writable_bytes = m.bytes;
	fkv_fork_unlock();
	return conn->writable ? 0 : -ENOMEM;
}

int fkv_kdev_open(char name[FLUXONKV_NAME_MAX], struct fkv_conn **ret_conn)
{
	struct fkv_conn *conn;
	int err = open_device(&conn);

	if (err)
		return err;
	err = check_module(conn);
	if (!err)
		err = attach(conn, name);
	if (!err)
		err = map_all(conn);
	if (err) {
		fkv_conn_free(conn);
		return err;
	}
	/* puts have all of the segment to lie in */
	conn->hello.flags |= FLUXONKV_HELLO_WRITABLE;
	*ret_conn = conn;
	return 0;
}
