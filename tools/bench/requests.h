/* SPDX-License-Identifier: Apache-2.0 */
/*
 * requests.h - a recorded trace of prefix-cache requests
 *
 * One JSON object a line: "timestamp" (ms) and "hash_ids" (one id per block,
 * front to back; equal ids are the same prefix block). Read whole, then
 * unchanged.
 */
#ifndef FKV_BENCH_REQUESTS_H
#define FKV_BENCH_REQUESTS_H

#include <stddef.h>
#include <stdint.h>

struct bench_request {
	double timestamp_ms;
	size_t first;			/* into ids */
	size_t n;
};

struct bench_requests {
	struct bench_request *v;
	size_t n;
	uint64_t *ids;
	size_t nr_ids;
};

/*
 * Read at most @max requests (0: all) of @path. 0, or -errno: -EINVAL for a
 * line that is no request; *ret_line is the line reached (from 1).
 */
int bench_requests_read(const char *path, size_t max,
			struct bench_requests *ret, size_t *ret_line);
void bench_requests_done(struct bench_requests *r);

#endif
