// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE 1
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib.h"

#ifndef FLUXONKV_VERSION
#define FLUXONKV_VERSION "0.1.0"
#endif

static __thread char last_error[512];

int fkv_lib_fail(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(last_error, sizeof(last_error), fmt, ap);
	va_end(ap);
	return err;
}

const char *fluxonkv_last_error(void)
{
	return last_error;
}

int fkv_ms_until(uint64_t until)
{
	uint64_t now = fkv_now_ns();
	uint64_t ms;

	if (until <= now)
		return 0;
	ms = (until - now + FKV_LIB_MS - 1) / FKV_LIB_MS;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

static const struct {
	int err;
	const char *text;
} sentences[] = {
	{ 0, "success" },
	{ EACCES, "no permission to use the daemon's socket or the device" },
	{ EAGAIN, "the call would have had to wait, and its timeout is 0" },
	{ EBUSY, "another put of the key is in flight" },
	{ ECONNREFUSED, "no daemon listens at the address" },
	{ EDQUOT, "over the cap of pinned bytes" },
	{ EEXIST, "the key has a value already" },
	{ EFBIG, "the value is larger than values may be here" },
	{ EINVAL, "an argument is out of range" },
	{ EIO, "the value could not be read from SSD" },
	{ ENOBUFS, "the value is larger than the buffer" },
	{ ENODEV, "there is no such device: the kernel module is not loaded" },
	{ ENOENT, "no such key" },
	{ ENOMEM, "out of memory" },
	{ ENOSPC, "no room in memory came free in time" },
	{ ENOTCONN, "the daemon is gone" },
	{ EOPNOTSUPP, "the daemon does not know this operation" },
	{ EOWNERDEAD, "the client was inherited through fork()" },
	{ EPERM, "only the daemon's user and root may do this" },
	{ EPROTO, "the daemon broke the protocol" },
	{ EPROTONOSUPPORT, "the daemon speaks another ABI version" },
	{ ETIMEDOUT, "the deadline passed" },
	{ E2BIG, "key longer than 512 bytes or batch larger than 1,024" },
};

const char *fluxonkv_strerror(int err)
{
	const char *name;

	if (err < 0 && err != INT_MIN)
		err = -err;
	for (size_t i = 0; i < sizeof(sentences) / sizeof(sentences[0]); i++) {
		if (sentences[i].err == err)
			return sentences[i].text;
	}
	name = strerrordesc_np(err);
	return name ? name : "unknown error";
}

const char *fluxonkv_served_name(enum fluxonkv_served source)
{
	static const char *const names[] = {
		[FLUXONKV_SERVED_NONE] = "none",
		[FLUXONKV_SERVED_LOCAL] = "local",
		[FLUXONKV_SERVED_MEMORY_REMOTE] = "memory-remote",
		[FLUXONKV_SERVED_SSD_LOCAL] = "ssd-local",
		[FLUXONKV_SERVED_SSD_REMOTE] = "ssd-remote",
		[FLUXONKV_SERVED_MISS] = "miss",
	};

	if ((unsigned int)source >= sizeof(names) / sizeof(names[0]))
		return "unknown";
	return names[source];
}

const char *fluxonkv_version(void)
{
	return FLUXONKV_VERSION;
}
