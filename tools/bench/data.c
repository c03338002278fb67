// SPDX-License-Identifier: Apache-2.0
/*
 * data.c - loading, wiping and the state before a measurement
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/data.h"
#include "bench/payload.h"
#include "bench/run.h"

#define LIST_MAX	1000u
#define SETTLE_POLL_NS	(50 * 1000000ULL)

size_t bench_key(char *buf, const char *prefix, uint64_t index)
{
	return (size_t)snprintf(buf, BENCH_KEY_MAX, "%s%" PRIu64, prefix,
				index);
}

static uint64_t number_at(struct json_object *o, const char *outer,
			  const char *inner)
{
	struct json_object *v = NULL;

	if (outer && !json_object_object_get_ex(o, outer, &o))
		return 0;
	if (!o || !json_object_object_get_ex(o, inner, &v))
		return 0;
	return json_object_get_uint64(v);
}

static void status_read(struct json_object *o, struct bench_status *ret)
{
	struct json_object *ssd = NULL, *engine = NULL;

	ret->known = true;
	ret->memory_bytes = number_at(o, "memory", "capacity_bytes");
	ret->ssd_bytes = number_at(o, "ssd", "capacity_bytes");
	ret->persist_pending = number_at(o, NULL, "persist_pending");
	ret->pid = number_at(o, NULL, "pid");
	if (json_object_object_get_ex(o, "ssd", &ssd) && ssd &&
	    json_object_object_get_ex(ssd, "engine", &engine) && engine)
		snprintf(ret->engine, sizeof(ret->engine), "%s",
			 json_object_get_string(engine));
}

static int status_ask(struct fluxonkv *client, struct bench_status *ret)
{
	struct json_object *o;
	char *text;
	int res;

	memset(ret, 0, sizeof(*ret));
	res = fluxonkv_admin(client, "status", NULL, &text);
	if (res)
		return res;
	o = json_tokener_parse(text);
	free(text);
	if (!o || !json_object_is_type(o, json_type_object)) {
		json_object_put(o);
		return -EPROTO;
	}
	status_read(o, ret);
	json_object_put(o);
	return 0;
}

int bench_status_get(const char *address, struct bench_status *ret)
{
	struct fluxonkv *client;
	int res;

	memset(ret, 0, sizeof(*ret));
	res = fluxonkv_open(address, &client);
	if (res)
		return res;
	res = status_ask(client, ret);
	fluxonkv_close(client);
	return res;
}

/* Delete up to LIST_MAX keys; *ret_n says how many there were. */
static int wipe_some(struct fluxonkv *client, const char *prefix,
		     struct fluxonkv_listed_key *listed, size_t *ret_n)
{
	struct fluxonkv_key p = { prefix, strlen(prefix) };
	struct fluxonkv_key none = { "", 0 };
	struct fluxonkv_key keys[LIST_MAX];
	int statuses[LIST_MAX], res;
	size_t n, gone = 0;

	res = fluxonkv_list(client, &p, &none, listed, LIST_MAX, &n);
	if (res)
		return res;
	*ret_n = n;
	for (size_t i = 0; i < n; i++)
		keys[i] = (struct fluxonkv_key){ listed[i].key,
						 listed[i].key_len };
	res = n ? fluxonkv_delete_many(client, keys, n, statuses) : 0;
	if (res || !n)
		return res;
	for (size_t i = 0; i < n; i++)
		gone += !statuses[i] || statuses[i] == -ENOENT;
	return gone ? 0 : statuses[0];	/* else it would be asked for ever */
}

int bench_wipe(const char *address, const char *prefix)
{
	struct fluxonkv_listed_key *listed;
	struct fluxonkv *client;
	size_t n = 0;
	int res;

	listed = malloc(LIST_MAX * sizeof(*listed));
	if (!listed)
		return -ENOMEM;
	res = fluxonkv_open(address, &client);
	if (!res) {
		do {
			res = wipe_some(client, prefix, listed, &n);
		} while (!res && n);
		fluxonkv_close(client);
	}
	free(listed);
	return res;
}

/* Fisher and Yates, always the same order. */
static uint64_t *make_order(const struct bench_load *l)
{
	uint64_t *order = calloc(l->keys, sizeof(*order)), swap;
	struct bench_worker dice = { .random = 1 };

	if (!order)
		return NULL;
	for (uint64_t i = 0; i < l->keys; i++)
		order[i] = l->from + i;
	for (uint64_t i = l->keys - 1; l->shuffled && i > 0; i--) {
		uint64_t j = bench_worker_random(&dice) % (i + 1);

		swap = order[i];
		order[i] = order[j];
		order[j] = swap;
	}
	return order;
}

static int load_all(struct bench_report *r, const struct bench_load *l,
		    struct fluxonkv *client, void *value)
{
	uint64_t *order = make_order(l);
	char key[BENCH_KEY_MAX];
	int res = order ? 0 : -ENOMEM;

	for (uint64_t i = 0; i < l->keys && !res; i++) {
		size_t len = bench_key(key, l->prefix, order[i]);

		if (!(i % 64))
			bench_report_progress(r, "loading %" PRIu64 " of %"
					      PRIu64 " keys", i, l->keys);
		bench_payload_fill(value, l->value_bytes,
				   bench_payload_seed(key, len));
		res = fluxonkv_put(client, key, len, value, l->value_bytes,
				   FLUXONKV_EXCL);
		if (res)
			bench_report_fail(r, "put of %s: %s (%s)", key,
					  fluxonkv_strerror(res),
					  fluxonkv_last_error());
		if (l->gap_ms > 0)
			bench_sleep_until_ns(bench_now_ns() +
					     (uint64_t)(l->gap_ms * 1e6));
	}
	free(order);
	bench_report_progress(r, "%s", "");
	return res;
}

int bench_load(struct bench_report *r, const struct bench_load *load)
{
	void *value = malloc(load->value_bytes + 1);
	struct fluxonkv *client;
	int res;

	if (!value) {
		bench_report_fail(r, "no memory for a value of %" PRIu64
				  " bytes", load->value_bytes);
		return -ENOMEM;
	}
	res = fluxonkv_open(load->address, &client);
	if (res) {
		bench_report_fail(r, "open: %s", fluxonkv_last_error());
	} else {
		/* Putting may wait for the SSD: that is not a failure here. */
		fluxonkv_set_timeout(client, 60000);
		res = load_all(r, load, client, value);
		fluxonkv_close(client);
	}
	free(value);
	return res;
}

int bench_settle(struct bench_report *r, const char *address, double seconds)
{
	uint64_t until = bench_now_ns() + (uint64_t)(seconds * 1e9);
	struct bench_status s = { .known = false };
	struct fluxonkv *client;
	int res;

	res = fluxonkv_open(address, &client);
	if (res)
		return res;
	for (;;) {
		res = status_ask(client, &s);
		if (res || !s.persist_pending)
			break;
		if (bench_now_ns() > until) {
			res = -ETIMEDOUT;
			break;
		}
		bench_report_progress(r, "%" PRIu64 " values to persist",
				      s.persist_pending);
		bench_sleep_until_ns(bench_now_ns() + SETTLE_POLL_NS);
	}
	fluxonkv_close(client);
	bench_report_progress(r, "%s", "");
	return res;
}
