// SPDX-License-Identifier: Apache-2.0
/*
 * launch.c - run a program in which io_uring answers an errno: EPERM as
 * containers do, ENOSYS as old kernels do. launch EPERM|ENOSYS PROGRAM...
 */
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static const char *const calls[] = {
		"io_uring_setup", "io_uring_enter", "io_uring_register",
	};
	uint16_t err = argc > 1 && !strcmp(argv[1], "ENOSYS") ? ENOSYS : EPERM;
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	int res = -ENOMEM;

	if (argc < 3 || !ctx)
		return 2;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		int nr = seccomp_syscall_resolve_name(calls[i]);

		res = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(err), nr, 0);
		if (res)
			break;
	}
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
