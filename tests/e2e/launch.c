// SPDX-License-Identifier: Apache-2.0
/*
 * launch.c - run a program in which calls answer an errno: io_uring EPERM as
 * containers do, ENOSYS as old kernels do; with DEAF the kernel module's RECV
 * answers EFAULT. launch EPERM|ENOSYS|DEAF PROGRAM...
 */
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <linux/fluxonkv.h>

static int no_io_uring(scmp_filter_ctx ctx, uint16_t err)
{
	static const char *const calls[] = {
		"io_uring_setup", "io_uring_enter", "io_uring_register",
	};
	int res = 0;

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		int nr = seccomp_syscall_resolve_name(calls[i]);

		res = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(err), nr, 0);
		if (res)
			break;
	}
	return res;
}

static int deaf(scmp_filter_ctx ctx)
{
	return seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EFAULT), SCMP_SYS(ioctl), 1,
				SCMP_A1(SCMP_CMP_EQ, FLUXONKV_IOC_RECV, 0));
}

int main(int argc, char **argv)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	int res;

	if (argc < 3 || !ctx)
		return 2;
	if (!strcmp(argv[1], "DEAF"))
		res = deaf(ctx);
	else
		res = no_io_uring(ctx, strcmp(argv[1], "ENOSYS") ? EPERM :
								   ENOSYS);
	if (!res)
		res = seccomp_load(ctx);
	seccomp_release(ctx);
	if (res) {
		fprintf(stderr, "launch: no seccomp: %s\n", strerror(-res));
		return 77;
	}
	execv(argv[2], argv + 2);
	fprintf(stderr, "launch: %s: %s\n", argv[2], strerror(errno));
	return 2;
}
