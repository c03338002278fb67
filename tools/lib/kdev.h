/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kdev.h - a connection through the kernel module's device
 *
 * A struct fkv_conn whose descriptor is an open /dev/fluxonkv, attached to an
 * instance. A call is one ioctl that comes back with the reply: nobody reads
 * for others, nothing is late. Puts are written through the window mapping,
 * where the segment's offsets hold. There is no shared index here: the kernel
 * has it. Held bytes outlive the daemon by the kernel, until they are released
 * by this descriptor or it is closed; there is nothing to copy.
 */
#ifndef FKV_LIB_KDEV_H
#define FKV_LIB_KDEV_H

#include "conn.h"

#define FKV_KDEV	"/dev/fluxonkv"

/* The system calls made on the device; a test has others. */
struct fkv_kdev_sys {
	int (*open)(const char *path, int flags);
	int (*ioctl)(int fd, unsigned long request, void *arg);
	int (*access)(const char *path, int mode);
};

extern struct fkv_kdev_sys fkv_kdev_sys;

extern const struct fkv_conn_ops fkv_kdev_ops;

/* An ioctl on its descriptor: 0 or -errno. */
int fkv_kdev_command(const struct fkv_conn *conn, unsigned long request,
		     void *arg);

/* Is there such a device at all? */
bool fkv_kdev_exists(void);

/* 0, or -EINVAL with a sentence; "" is the only instance there is. */
int fkv_kdev_check_name(const char *name);

/*
 * Attach to the instance @name, once, and map its segment; @name becomes the
 * instance's when it was "": who comes back wants the same. Errors: ENODEV (the
 * module is not loaded), EACCES, ECONNREFUSED (no daemon has that instance),
 * ENOTCONN (it has no room for one more client), EPROTO, EPROTONOSUPPORT,
 * ENOMEM and those of open(); each with a sentence.
 */
int fkv_kdev_open(char name[FLUXONKV_NAME_MAX], struct fkv_conn **ret_conn);

#endif
