// SPDX-License-Identifier: Apache-2.0
/*
 * uml-xstate - preloaded into User Mode Linux: larger processor state
 *
 * Linux 6.1 as User Mode Linux keeps 2696 bytes of a process's XSAVE area and
 * writes as many back; the host takes a whole area only, which on processors
 * with AMX is larger (EFAULT). What is behind these bytes is AMX's, which needs
 * a permission that no process in the guest asks for: zeros are its state.
 */
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static char area[65536];
static size_t area_len;

static long call(long request, pid_t pid, void *addr, void *data)
{
	return syscall(SYS_ptrace, request, pid, addr, data);
}

/* The size of an area of this host, asked for once. */
static size_t whole(pid_t pid)
{
	struct iovec all = { area, sizeof(area) };

	if (!area_len &&
	    !call(PTRACE_GETREGSET, pid, (void *)(long)NT_X86_XSTATE, &all))
		area_len = all.iov_len;
	return area_len;
}

static long set_xstate(pid_t pid, void *addr, struct iovec *part)
{
	struct iovec all = { area, whole(pid) };

	if (all.iov_len <= part->iov_len)
		return call(PTRACE_SETREGSET, pid, addr, part);
	memset(area, 0, all.iov_len);
	memcpy(area, part->iov_base, part->iov_len);
	return call(PTRACE_SETREGSET, pid, addr, &all);
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list ap;
	pid_t pid;
	void *addr, *data;
	long peeked = 0, ret;

	va_start(ap, request);
	pid = va_arg(ap, pid_t);
	addr = va_arg(ap, void *);
	data = va_arg(ap, void *);
	va_end(ap);

	if (request == PTRACE_SETREGSET && (long)addr == NT_X86_XSTATE)
		return set_xstate(pid, addr, data);
	/* these three give their word as the result, as libc's do */
	if (request < PTRACE_PEEKTEXT || request > PTRACE_PEEKUSER)
		return call(request, pid, addr, data);
	ret = call(request, pid, addr, &peeked);
	if (ret >= 0)
		errno = 0;
	return ret < 0 ? ret : peeked;
}
