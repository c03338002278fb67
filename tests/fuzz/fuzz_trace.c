// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_trace.c - the benchmark's reader of recorded requests
 *
 * Input: a byte of how many requests are wanted at most, then the file. Times
 * must be numbers that a replay can wait for, ids lie in the list of ids one
 * request behind the other, and a shorter reading is the front of a longer.
 * The input as numbers, written as a trace, must be read as they are.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>

#include "bench/requests.h"
#include "fuzz/fuzz.h"

static size_t count_lines(const uint8_t *p, size_t n)
{
	size_t lines = n && p[n - 1] != '\n';

	for (size_t i = 0; i < n; i++)
		lines += p[i] == '\n';
	return lines;
}

static void check_requests(const struct bench_requests *r)
{
	size_t next = 0;

	for (size_t i = 0; i < r->n; i++) {
		fuzz_check(r->v[i].first == next);
		fuzz_check(r->v[i].n <= r->nr_ids - next);
		fuzz_check(isfinite(r->v[i].timestamp_ms));
		next += r->v[i].n;
	}
	fuzz_check(next == r->nr_ids);
}

static int read_some(size_t max, size_t lines, struct bench_requests *ret)
{
	size_t line = SIZE_MAX;
	int err = bench_requests_read("trace.jsonl", max, ret, &line);

	fuzz_check(line <= lines);
	if (!err) {
		fuzz_check(ret->n <= line && (!max || ret->n <= max));
		check_requests(ret);
		return 0;
	}
	fuzz_check(err == -EINVAL);
	fuzz_check(line > 0);
	fuzz_check(!ret->v && !ret->ids && !ret->n && !ret->nr_ids);
	return err;
}

static void check_front(const struct bench_requests *front,
			const struct bench_requests *all)
{
	fuzz_check(front->n <= all->n && front->nr_ids <= all->nr_ids);
	for (size_t i = 0; i < front->n; i++)
		fuzz_check(front->v[i].n == all->v[i].n);
	if (front->nr_ids)
		fuzz_check(!memcmp(front->ids, all->ids,
				   front->nr_ids * sizeof(*all->ids)));
}

/* Requests of up to seven ids, each a word of the input. */
static size_t write_trace(struct fuzz_in in, char *text, size_t size,
			  uint64_t *ids, size_t *ret_nr_ids)
{
	FILE *f = fmemopen(text, size, "w");
	size_t n = 0, nr_ids = 0;

	fuzz_check(f);
	while (in.left && n < 8) {
		uint8_t want = fuzz_u8(&in) % 8;

		fprintf(f, "{\"timestamp\":%zu,\"hash_ids\":[", n++);
		for (uint8_t i = 0; i < want; i++) {
			fuzz_take(&in, &ids[nr_ids], sizeof(*ids));
			fprintf(f, "%s%" PRIu64, i ? "," : "", ids[nr_ids++]);
		}
		fprintf(f, "]}\n");
	}
	fclose(f);
	*ret_nr_ids = nr_ids;
	return n;
}

static void check_written(struct fuzz_in in)
{
	uint64_t ids[8 * 7];
	struct bench_requests r;
	char text[4096] = "";
	size_t line, nr_ids, n;

	n = write_trace(in, text, sizeof(text), ids, &nr_ids);
	fuzz_file_set(text, strlen(text));
	fuzz_check(!bench_requests_read("trace.jsonl", 0, &r, &line));
	fuzz_file_clear();
	fuzz_check(r.n == n && line == n && r.nr_ids == nr_ids);
	if (nr_ids)
		fuzz_check(!memcmp(r.ids, ids, nr_ids * sizeof(*ids)));
	for (size_t i = 0; i < n; i++)
		fuzz_check(r.v[i].timestamp_ms == (double)i);
	bench_requests_done(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	size_t max = fuzz_u8(&in), lines = count_lines(in.p, in.left);
	struct bench_requests all, front;
	uint8_t *file = fuzz_copy(in.p, in.left);
	int err, err_front;

	fuzz_file_set(file, in.left);
	err = read_some(0, lines, &all);
	err_front = read_some(max + 1, lines, &front);
	fuzz_file_clear();
	fuzz_check(err || !err_front);
	if (!err) {
		fuzz_check(front.n == (all.n < max + 1 ? all.n : max + 1));
		check_front(&front, &all);
	}
	bench_requests_done(&all);
	bench_requests_done(&front);
	free(file);
	check_written(in);
	return 0;
}
