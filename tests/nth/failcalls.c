// SPDX-License-Identifier: Apache-2.0
/*
 * failcalls - calls of the system that fail as nth_io_fails() says
 *
 * They stand before the C library's, and liburing's, for the whole program and
 * its libraries. What the C library calls by itself is not seen.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nth.h"

/*
 * One of @type NAME @params: @err, in its way (@fail), or what the next in line
 * makes of it.
 */
#define CALL(type, name, params, args, fail)			\
	type name params					\
	{							\
		static type (*_Atomic real) params;		\
								\
		if (!real)					\
			real = dlsym(RTLD_NEXT, #name);		\
		if (!for_libuv(__builtin_return_address(0)) &&	\
		    nth_call_fails(#name))			\
			fail;					\
		return real args;				\
	}

/* libuv (1.44) leaves its files when its loop cannot be made. */
static bool for_libuv(void *by)
{
	Dl_info info;

	return dladdr(by, &info) && strstr(info.dli_fname, "/libuv");
}

static int no(int err)
{
	errno = err;
	return -1;
}

static int mode_of(int flags, va_list ap)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, int) : 0;
}

int open(const char *path, int flags, ...)
{
	va_list ap;
	int mode;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	return openat(AT_FDCWD, path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
	static int (*_Atomic real)(int, const char *, int, ...);
	va_list ap;
	int mode;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	if (!real)
		real = dlsym(RTLD_NEXT, "openat");
	return nth_call_fails(path) ? no(EMFILE) : real(dir, path, flags, mode);
}

CALL(FILE *, fopen, (const char *path, const char *mode), (path, mode),
     return (errno = EMFILE, NULL))
CALL(int, mkdir, (const char *path, mode_t mode), (path, mode),
     return no(ENOSPC))
CALL(int, fstat, (int fd, struct stat *st), (fd, st), return no(EIO))
CALL(int, stat, (const char *path, struct stat *st), (path, st),
     return no(EIO))
CALL(int, lstat, (const char *path, struct stat *st), (path, st),
     return no(EIO))
CALL(int, ftruncate, (int fd, off_t size), (fd, size), return no(EIO))
CALL(int, fallocate, (int fd, int mode, off_t at, off_t size),
     (fd, mode, at, size), return no(ENOSPC))
CALL(int, posix_fallocate, (int fd, off_t at, off_t size), (fd, at, size),
     return ENOSPC)
CALL(int, fsync, (int fd), (fd), return no(EIO))
CALL(int, fdatasync, (int fd), (fd), return no(EIO))
CALL(int, flock, (int fd, int how), (fd, how), return no(ENOLCK))
CALL(int, unlink, (const char *path), (path), return no(EIO))
CALL(int, chmod, (const char *path, mode_t mode), (path, mode),
     return no(EPERM))
CALL(int, fchmod, (int fd, mode_t mode), (fd, mode), return no(EPERM))
CALL(ssize_t, pread, (int fd, void *buf, size_t size, off_t at),
     (fd, buf, size, at), return no(EIO))
/* Half of it gets to the disk. */
CALL(ssize_t, pwrite, (int fd, const void *buf, size_t size, off_t at),
     (fd, buf, size, at),
     return size > 1 ? real(fd, buf, size / 2, at) : no(ENOSPC))
CALL(void *, mmap,
     (void *at, size_t size, int prot, int flags, int fd, off_t off),
     (at, size, prot, flags, fd, off), return (errno = ENOMEM, MAP_FAILED))
CALL(int, mlock, (const void *at, size_t size), (at, size),
     return no(ENOMEM))
CALL(int, memfd_create, (const char *name, unsigned int flags),
     (name, flags), return no(EMFILE))
CALL(int, eventfd, (unsigned int n, int flags), (n, flags),
     return no(EMFILE))
CALL(int, epoll_create1, (int flags), (flags), return no(EMFILE))
CALL(int, pipe2, (int fd[2], int flags), (fd, flags), return no(EMFILE))
CALL(int, socket, (int domain, int type, int protocol),
     (domain, type, protocol), return no(EMFILE))
CALL(int, bind, (int fd, const struct sockaddr *sa, socklen_t size),
     (fd, sa, size), return no(EADDRINUSE))
CALL(int, listen, (int fd, int n), (fd, n), return no(EADDRINUSE))
CALL(int, setsockopt,
     (int fd, int level, int name, const void *value, socklen_t size),
     (fd, level, name, value, size), return no(ENOBUFS))
CALL(ssize_t, getrandom, (void *buf, size_t size, unsigned int flags),
     (buf, size, flags), return no(EAGAIN))
CALL(int, pthread_create,
     (pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg),
     (t, attr, run, arg), return EAGAIN)
CALL(int, io_uring_queue_init,
     (unsigned int n, struct io_uring *ring, unsigned int flags),
     (n, ring, flags), return -ENOMEM)
CALL(int, io_uring_register_buffers,
     (struct io_uring *ring, const struct iovec *iov, unsigned int n),
     (ring, iov, n), return -ENOMEM)
CALL(int, io_uring_register_files,
     (struct io_uring *ring, const int *fds, unsigned int n), (ring, fds, n),
     return -EMFILE)
