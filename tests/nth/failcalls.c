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

/* Of the function that it stands in: is the call to fail? */
#define FAILS(name)						\
	(!for_libuv(__builtin_return_address(0)) && nth_call_fails(#name))

/* What the next in line makes of it. */
#define REAL(name)						\
	({							\
		static _Atomic(void *) real_;			\
								\
		(typeof(&name))next(&real_, #name);		\
	})

/* libuv (1.44) leaves its files when its loop cannot be made. */
static bool for_libuv(void *by)
{
	Dl_info info;

	return dladdr(by, &info) && strstr(info.dli_fname, "/libuv");
}

static void *next(_Atomic(void *) *real, const char *name)
{
	if (!*real)
		*real = dlsym(RTLD_NEXT, name);
	return *real;
}

static int no(int err)
{
	errno = err;
	return -1;
}

static void *none(int err, void *result)
{
	errno = err;
	return result;
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
	va_list ap;
	int mode;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	return nth_call_fails(path) ? no(EMFILE) :
		REAL(openat)(dir, path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
	return FAILS(fopen) ? none(EMFILE, NULL) : REAL(fopen)(path, mode);
}

int mkdir(const char *path, mode_t mode)
{
	return FAILS(mkdir) ? no(ENOSPC) : REAL(mkdir)(path, mode);
}

int fstat(int fd, struct stat *st)
{
	return FAILS(fstat) ? no(EIO) : REAL(fstat)(fd, st);
}

int stat(const char *path, struct stat *st)
{
	return FAILS(stat) ? no(EIO) : REAL(stat)(path, st);
}

int lstat(const char *path, struct stat *st)
{
	return FAILS(lstat) ? no(EIO) : REAL(lstat)(path, st);
}

int ftruncate(int fd, off_t size)
{
	return FAILS(ftruncate) ? no(EIO) : REAL(ftruncate)(fd, size);
}

int fallocate(int fd, int mode, off_t at, off_t size)
{
	return FAILS(fallocate) ? no(ENOSPC) :
		REAL(fallocate)(fd, mode, at, size);
}

int posix_fallocate(int fd, off_t at, off_t size)
{
	return FAILS(posix_fallocate) ? ENOSPC :
		REAL(posix_fallocate)(fd, at, size);
}

int fsync(int fd)
{
	return FAILS(fsync) ? no(EIO) : REAL(fsync)(fd);
}

int fdatasync(int fd)
{
	return FAILS(fdatasync) ? no(EIO) : REAL(fdatasync)(fd);
}

int flock(int fd, int how)
{
	return FAILS(flock) ? no(ENOLCK) : REAL(flock)(fd, how);
}

int unlink(const char *path)
{
	return FAILS(unlink) ? no(EIO) : REAL(unlink)(path);
}

int chmod(const char *path, mode_t mode)
{
	return FAILS(chmod) ? no(EPERM) : REAL(chmod)(path, mode);
}

int fchmod(int fd, mode_t mode)
{
	return FAILS(fchmod) ? no(EPERM) : REAL(fchmod)(fd, mode);
}

ssize_t pread(int fd, void *buf, size_t size, off_t at)
{
	return FAILS(pread) ? no(EIO) : REAL(pread)(fd, buf, size, at);
}

/* Half of it gets to the disk. */
ssize_t pwrite(int fd, const void *buf, size_t size, off_t at)
{
	if (FAILS(pwrite))
		return size > 1 ? REAL(pwrite)(fd, buf, size / 2, at) :
			no(ENOSPC);
	return REAL(pwrite)(fd, buf, size, at);
}

void *mmap(void *at, size_t size, int prot, int flags, int fd, off_t off)
{
	return FAILS(mmap) ? none(ENOMEM, MAP_FAILED) :
		REAL(mmap)(at, size, prot, flags, fd, off);
}

int mlock(const void *at, size_t size)
{
	return FAILS(mlock) ? no(ENOMEM) : REAL(mlock)(at, size);
}

int memfd_create(const char *name, unsigned int flags)
{
	return FAILS(memfd_create) ? no(EMFILE) :
		REAL(memfd_create)(name, flags);
}

int eventfd(unsigned int n, int flags)
{
	return FAILS(eventfd) ? no(EMFILE) : REAL(eventfd)(n, flags);
}

int epoll_create1(int flags)
{
	return FAILS(epoll_create1) ? no(EMFILE) : REAL(epoll_create1)(flags);
}

int pipe2(int fd[2], int flags)
{
	return FAILS(pipe2) ? no(EMFILE) : REAL(pipe2)(fd, flags);
}

int socket(int domain, int type, int protocol)
{
	return FAILS(socket) ? no(EMFILE) :
		REAL(socket)(domain, type, protocol);
}

int bind(int fd, const struct sockaddr *sa, socklen_t size)
{
	return FAILS(bind) ? no(EADDRINUSE) : REAL(bind)(fd, sa, size);
}

int listen(int fd, int n)
{
	return FAILS(listen) ? no(EADDRINUSE) : REAL(listen)(fd, n);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
	return FAILS(setsockopt) ? no(ENOBUFS) :
		REAL(setsockopt)(fd, level, name, value, size);
}

ssize_t getrandom(void *buf, size_t size, unsigned int flags)
{
	return FAILS(getrandom) ? no(EAGAIN) :
		REAL(getrandom)(buf, size, flags);
}

int pthread_create(pthread_t *t, const pthread_attr_t *attr,
		   void *(*run)(void *), void *arg)
{
	return FAILS(pthread_create) ? EAGAIN :
		REAL(pthread_create)(t, attr, run, arg);
}

int io_uring_queue_init(unsigned int n, struct io_uring *ring,
			unsigned int flags)
{
	return FAILS(io_uring_queue_init) ? -ENOMEM :
		REAL(io_uring_queue_init)(n, ring, flags);
}

int io_uring_register_buffers(struct io_uring *ring, const struct iovec *iov,
			      unsigned int n)
{
	return FAILS(io_uring_register_buffers) ? -ENOMEM :
		REAL(io_uring_register_buffers)(ring, iov, n);
}

int io_uring_register_files(struct io_uring *ring, const int *fds,
			    unsigned int n)
{
	return FAILS(io_uring_register_files) ? -EMFILE :
		REAL(io_uring_register_files)(ring, fds, n);
}
