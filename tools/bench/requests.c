// SPDX-License-Identifier: Apache-2.0
/*
 * requests.c - read a trace
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "bench/requests.h"

/* Room for one more after @n elements; grows by doubling. */
static int room(void *array, size_t n, size_t size)
{
	void **p = array, *bigger;

	if (n & (n - 1) || (n && n < 64))
		return 0;
	bigger = reallocarray(*p, n ? 2 * n : 64, size);
	if (!bigger)
		return -ENOMEM;
	*p = bigger;
	return 0;
}

static int add_ids(struct bench_requests *r, struct json_object *ids)
{
	size_t n = json_object_array_length(ids);
	struct json_object *id;

	for (size_t i = 0; i < n; i++) {
		id = json_object_array_get_idx(ids, i);
		if (!json_object_is_type(id, json_type_int) ||
		    json_object_get_int64(id) < 0)
			return -EINVAL;
		if (room(&r->ids, r->nr_ids, sizeof(*r->ids)))
			return -ENOMEM;
		r->ids[r->nr_ids++] = json_object_get_uint64(id);
	}
	return 0;
}

static int add(struct bench_requests *r, struct json_object *o)
{
	struct bench_request q = { .first = r->nr_ids };
	struct json_object *time, *ids;
	int res;

	if (!json_object_is_type(o, json_type_object) ||
	    !json_object_object_get_ex(o, "timestamp", &time) ||
	    !json_object_object_get_ex(o, "hash_ids", &ids) ||
	    !json_object_is_type(ids, json_type_array))
		return -EINVAL;
	if (!json_object_is_type(time, json_type_int) &&
	    !json_object_is_type(time, json_type_double))
		return -EINVAL;
	q.timestamp_ms = json_object_get_double(time);
	if (!isfinite(q.timestamp_ms))
		return -EINVAL;
	res = add_ids(r, ids);
	if (!res)
		res = room(&r->v, r->n, sizeof(*r->v));
	if (res)
		return res;
	q.n = r->nr_ids - q.first;
	r->v[r->n++] = q;
	return 0;
}

static int add_line(struct bench_requests *r, const char *line)
{
	struct json_object *o;
	int res;

	if (!line[strspn(line, " \t\r\n")])
		return 0;
	o = json_tokener_parse(line);
	if (!o)
		return -EINVAL;
	res = add(r, o);
	json_object_put(o);
	return res;
}

int bench_requests_read(const char *path, size_t max,
			struct bench_requests *ret, size_t *ret_line)
{
	FILE *f = fopen(path, "re");
	size_t size = 0;
	char *line = NULL;
	int res = 0;

	memset(ret, 0, sizeof(*ret));
	*ret_line = 0;
	if (!f)
		return -errno;
	while (!res && (!max || ret->n < max) && getline(&line, &size, f) > 0) {
		++*ret_line;
		res = add_line(ret, line);
	}
	if (!res && ferror(f))
		res = -EIO;
	free(line);
	fclose(f);
	if (res)
		bench_requests_done(ret);
	return res;
}

void bench_requests_done(struct bench_requests *r)
{
	free(r->v);
	free(r->ids);
	memset(r, 0, sizeof(*r));
}
