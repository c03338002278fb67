/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * trace.h - tracepoints: scalars, and only ever appended to
 *
 * They are an ABI (Documentation/tracing.md). session, holder and put are
 * numbers of this host, @hash names a key within one instance, times are ns.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM fluxonkv

#if !defined(FKV_KMOD_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define FKV_KMOD_TRACE_H

#include <linux/tracepoint.h>

/* A key was looked up; hit: 1, else the daemon is asked. */
TRACE_EVENT(fluxonkv_get,
	TP_PROTO(u64 session, u32 hash, u64 put_id, u64 len, int hit),
	TP_ARGS(session, hash, put_id, len, hit),
	TP_STRUCT__entry(
		__field(u64, session)
		__field(u32, hash)
		__field(u64, put_id)
		__field(u64, len)
		__field(int, hit)
	),
	TP_fast_assign(
		__entry->session = session;
		__entry->hash = hash;
		__entry->put_id = put_id;
		__entry->len = len;
		__entry->hit = hit;
	),
	TP_printk("session=%llu hash=%08x put_id=%llu len=%llu hit=%d",
		  __entry->session, __entry->hash, __entry->put_id,
		  __entry->len, __entry->hit)
);

/* A holder begins. */
TRACE_EVENT(fluxonkv_hold,
	TP_PROTO(u64 session, u64 holder, u32 hash, u64 put_id, u64 len),
	TP_ARGS(session, holder, hash, put_id, len),
	TP_STRUCT__entry(
		__field(u64, session)
		__field(u64, holder)
		__field(u32, hash)
		__field(u64, put_id)
		__field(u64, len)
	),
	TP_fast_assign(
		__entry->session = session;
		__entry->holder = holder;
		__entry->hash = hash;
		__entry->put_id = put_id;
		__entry->len = len;
	),
	TP_printk("session=%llu holder=%llu hash=%08x put_id=%llu len=%llu",
		  __entry->session, __entry->holder, __entry->hash,
		  __entry->put_id, __entry->len)
);

/* A holder ends, by release or with its open file. */
TRACE_EVENT(fluxonkv_release,
	TP_PROTO(u64 session, u64 holder, u32 hash, u64 put_id, u64 len,
		 u64 age_ns),
	TP_ARGS(session, holder, hash, put_id, len, age_ns),
	TP_STRUCT__entry(
		__field(u64, session)
		__field(u64, holder)
		__field(u32, hash)
		__field(u64, put_id)
		__field(u64, len)
		__field(u64, age_ns)
	),
	TP_fast_assign(
		__entry->session = session;
		__entry->holder = holder;
		__entry->hash = hash;
		__entry->put_id = put_id;
		__entry->len = len;
		__entry->age_ns = age_ns;
	),
	TP_printk("session=%llu holder=%llu hash=%08x put_id=%llu len=%llu age_ns=%llu",
		  __entry->session, __entry->holder, __entry->hash,
		  __entry->put_id, __entry->len, __entry->age_ns)
);

/* A put was begun in place, or copied; result: 0 or -errno. */
TRACE_EVENT(fluxonkv_put,
	TP_PROTO(u64 session, u64 put, u64 offset, u64 len, int result),
	TP_ARGS(session, put, offset, len, result),
	TP_STRUCT__entry(
		__field(u64, session)
		__field(u64, put)
		__field(u64, offset)
		__field(u64, len)
		__field(int, result)
	),
	TP_fast_assign(
		__entry->session = session;
		__entry->put = put;
		__entry->offset = offset;
		__entry->len = len;
		__entry->result = result;
	),
	TP_printk("session=%llu put=%llu offset=%llu len=%llu result=%d",
		  __entry->session, __entry->put, __entry->offset,
		  __entry->len, __entry->result)
);

DECLARE_EVENT_CLASS(fluxonkv_version,
	TP_PROTO(u32 hash, u64 put_id, u64 offset, u64 len, int result),
	TP_ARGS(hash, put_id, offset, len, result),
	TP_STRUCT__entry(
		__field(u32, hash)
		__field(u64, put_id)
		__field(u64, offset)
		__field(u64, len)
		__field(int, result)
	),
	TP_fast_assign(
		__entry->hash = hash;
		__entry->put_id = put_id;
		__entry->offset = offset;
		__entry->len = len;
		__entry->result = result;
	),
	TP_printk("hash=%08x put_id=%llu offset=%llu len=%llu result=%d",
		  __entry->hash, __entry->put_id, __entry->offset,
		  __entry->len, __entry->result)
);

/* A version came into the index; result: 0 or -errno. */
DEFINE_EVENT(fluxonkv_version, fluxonkv_publish,
	TP_PROTO(u32 hash, u64 put_id, u64 offset, u64 len, int result),
	TP_ARGS(hash, put_id, offset, len, result)
);

/* A version left the index; result: 1 when it is still held. */
DEFINE_EVENT(fluxonkv_version, fluxonkv_retire,
	TP_PROTO(u32 hash, u64 put_id, u64 offset, u64 len, int result),
	TP_ARGS(hash, put_id, offset, len, result)
);

/* A request waited for the daemon; result: 0 or -errno. */
TRACE_EVENT(fluxonkv_wait,
	TP_PROTO(u64 session, u64 cookie, u32 op, int result, u64 ns),
	TP_ARGS(session, cookie, op, result, ns),
	TP_STRUCT__entry(
		__field(u64, session)
		__field(u64, cookie)
		__field(u32, op)
		__field(int, result)
		__field(u64, ns)
	),
	TP_fast_assign(
		__entry->session = session;
		__entry->cookie = cookie;
		__entry->op = op;
		__entry->result = result;
		__entry->ns = ns;
	),
	TP_printk("session=%llu cookie=%llu op=%u result=%d ns=%llu",
		  __entry->session, __entry->cookie, __entry->op,
		  __entry->result, __entry->ns)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
