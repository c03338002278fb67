/* SPDX-License-Identifier: Apache-2.0 */
/* A tracepoint reads its arguments, as an enabled one does. */
#ifndef FKV_TESTS_KMOD_TRACEPOINT_H
#define FKV_TESTS_KMOD_TRACEPOINT_H

#include <kernel.h>

#define PARAMS(...)	__VA_ARGS__
#define TP_PROTO(...)	__VA_ARGS__
#define TP_ARGS(...)	__VA_ARGS__

#define TRACE_EVENT(name, proto, args, ...)				\
	static __attribute__((noipa, unused))				\
	void trace_##name(proto)					\
	{								\
		shim_traced(#name);					\
	}								\
	static __attribute__((unused))					\
	bool trace_##name##_enabled(void)				\
	{								\
		return READ_ONCE(shim_tracing);				\
	}
#define DECLARE_EVENT_CLASS(name, ...)
#define DEFINE_EVENT(of, name, proto, args) \
	TRACE_EVENT(name, PARAMS(proto), PARAMS(args))

#endif
