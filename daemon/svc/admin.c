// SPDX-License-Identifier: Apache-2.0
/*
 * admin.c - what operators ask: JSON of state, text of metrics
 */
#include <ctype.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/version.h"
#include "svc/admin.h"

#define ROUTES_MAX	1000u

/* Of the answer that is being made: json-c ends a process that goes on. */
static bool no_memory;

static struct json_object *made(struct json_object *o)
{
	no_memory |= !o;
	return o;
}

static struct json_object *object(void)
{
	return made(json_object_new_object());
}

static struct json_object *array(void)
{
	return made(json_object_new_array());
}

/* @v is taken over. */
static void put(struct json_object *o, const char *name, struct json_object *v)
{
	if (o && v && !json_object_object_add(o, name, v))
		return;
	json_object_put(v);
	no_memory = true;
}

static void append(struct json_object *list, struct json_object *v)
{
	if (list && v && !json_object_array_add(list, v))
		return;
	json_object_put(v);
	no_memory = true;
}

static void put_u64(struct json_object *o, const char *name, uint64_t v)
{
	put(o, name, json_object_new_uint64(v));
}

static void put_str(struct json_object *o, const char *name, const char *v)
{
	put(o, name, json_object_new_string(v));
}

static void put_bool(struct json_object *o, const char *name, bool v)
{
	put(o, name, json_object_new_boolean(v));
}

/* Keys are bytes: printable ASCII as it is, the rest and '\' as \xNN. */
static void put_key(struct json_object *o, const char *name,
		    const struct fkv_key *key)
{
	static const char hex[] = "0123456789abcdef";
	char buf[FKV_KEY_MAX * 4 + 1], *p = buf;

	for (uint32_t i = 0; i < key->len; i++) {
		uint8_t c = key->data[i];

		if (c >= 0x20 && c < 0x7f && c != '\\') {
			*p++ = (char)c;
			continue;
		}
		*p++ = '\\';
		*p++ = 'x';
		*p++ = hex[c >> 4];
		*p++ = hex[c & 15];
	}
	*p = '\0';
	put_str(o, name, buf);
}

/* What an owner knows of its own; the rest is the master's to tell. */
static struct json_object *owned_json(struct fkv_engine *e,
				      const struct fkv_report *r)
{
	struct json_object *o = object();

	put_u64(o, "capacity_bytes", fkv_engine_config(e)->cfg->memory);
	put_u64(o, "pinned_bytes", r->owner.pinned_bytes);
	return o;
}

static struct json_object *memory_json(const struct fkv_report *r)
{
	struct json_object *o = object();

	put_u64(o, "capacity_bytes", r->master.capacity);
	put_u64(o, "used_bytes", r->master.used);
	put_u64(o, "free_bytes", r->master.free);
	put_u64(o, "unevictable_bytes", r->master.unevictable);
	put_u64(o, "pinned_bytes", r->master.pinned_bytes);
	put_u64(o, "held_bytes", r->master.cause_bytes[4]);
	put_u64(o, "largest_hole_bytes", r->master.largest_hole);
	put_u64(o, "holes", r->master.holes);
	return o;
}

static struct json_object *ssd_summary(struct fkv_engine *e)
{
	const struct fkv_engine_config *ec = fkv_engine_config(e);
	struct json_object *o = object();
	struct fkv_ring_stats rs = { 0 };

	if (fkv_engine_ring(e))
		fkv_ring_get_stats(fkv_engine_ring(e), &rs);
	put_u64(o, "capacity_bytes", rs.capacity);
	put_u64(o, "used_bytes", rs.used);
	put_u64(o, "devices", ec->nr_devices);
	if (ec->nr_devices) {
		struct fkv_device_stats ds;

		fkv_device_get_stats(ec->devices[0], &ds);
		put_str(o, "engine", ds.engine);
		put_bool(o, "direct", ds.direct);
		put_u64(o, "registered_buffers", ds.registered_buffers);
	}
	return o;
}

static uint64_t hits_local(const struct fkv_report *r)
{
	return r->owner.hits_local + r->index.counter[FLUXONKV_CNT_HITS];
}

static void identity(struct json_object *o, struct fkv_engine *e)
{
	const struct fkv_engine_config *ec = fkv_engine_config(e);

	put_str(o, "version", FKV_VERSION);
	put_str(o, "role", fkv_role_name(ec->cfg->role));
	put_str(o, "cluster", ec->cfg->cluster_name);
	put_str(o, "instance", ec->cfg->instance_key);
	put_u64(o, "pid", (uint64_t)getpid());
	put_u64(o, "epoch", fkv_engine_epoch(e));
	put_u64(o, "uptime_s", (fkv_clock_ns() - ec->started_ns) / FKV_SEC);
}

static void master_status(struct json_object *o, struct fkv_engine *e)
{
	struct fkv_report r;

	fkv_engine_report(e, &r);
	identity(o, e);
	put_str(o, "listen", fkv_engine_config(e)->cfg->listen);
	put_u64(o, "members", r.master.members);
	put_u64(o, "members_live", r.master.members_live);
	put_u64(o, "sessions", r.hub.sessions);
	put(o, "memory", memory_json(&r));
	put_u64(o, "keys", r.master.keys);
	put_u64(o, "keys_memory", r.master.keys_memory);
	put_u64(o, "keys_ssd", r.master.keys_ssd);
	put_u64(o, "waiting", r.master.waiting);
	put_u64(o, "tombs", r.master.tombs);
	put_u64(o, "leaked_ops", r.master.leaked_ops);
}

/* Of an owner: is its master there, and what is left of the lease. */
static void uplink_status(struct json_object *o, struct fkv_engine *e,
			  const struct fkv_report *r)
{
	const struct fkv_uplink_stats *u = &r->uplink;

	put_str(o, "master", fkv_engine_config(e)->cfg->master);
	put_str(o, "master_state", !u->connected ? "not connected" :
		!u->session ? "joining" :
		fkv_engine_lease(e) ? "registered" : "no lease");
	put_u64(o, "lease_ms", fkv_engine_lease(e) / FKV_MS);
	put_u64(o, "sessions", r->owner.sessions);
	put_u64(o, "stale_serving_ms", r->stale_ns / FKV_MS);
}

static struct json_object *status_json(struct fkv_engine *e)
{
	const struct fkv_engine_config *ec = fkv_engine_config(e);
	struct json_object *o = object();
	struct json_object *hits = object();
	struct fkv_report r;

	if (ec->cfg->role == FKV_ROLE_MASTER) {
		json_object_put(hits);
		master_status(o, e);
		return o;
	}
	fkv_engine_report(e, &r);
	identity(o, e);
	put_u64(o, "incarnation", r.uplink.incarnation ?
		r.uplink.incarnation : ec->incarnation);
	if (ec->cfg->role == FKV_ROLE_OWNER)
		uplink_status(o, e, &r);
	put(o, "memory", ec->cfg->role == FKV_ROLE_OWNER ?
	    owned_json(e, &r) : memory_json(&r));
	put(o, "ssd", ssd_summary(e));
	if (fkv_engine_master(e)) {
		put_u64(o, "keys", r.master.keys);
		put_u64(o, "keys_memory", r.master.keys_memory);
		put_u64(o, "keys_ssd", r.master.keys_ssd);
	}
	put_u64(o, "clients", r.owner.clients);
	put_u64(o, "holders", r.holders);
	put_u64(o, "pinned_bytes", fkv_engine_master(e) ?
		r.master.pinned_bytes : r.owner.pinned_bytes);
	put_u64(o, "open_puts", r.owner.open_puts);
	put_u64(o, "persist_pending", r.owner.persist_queued +
		r.owner.persist_active + r.owner.persist_committing);
	put_u64(o, "hits_local", hits_local(&r));
	put_u64(hits, "local", hits_local(&r));
	put_u64(hits, "ssd_local", r.owner.hits_ssd);
	put_u64(hits, "memory_remote", r.owner.hits_memory_remote);
	put_u64(hits, "ssd_remote", r.owner.hits_ssd_remote);
	put(o, "hits", hits);
	put_u64(o, "misses", r.owner.misses);
	put_u64(o, "get_errors", r.owner.get_errors);
	if (fkv_engine_master(e)) {
		put_u64(o, "evictions", r.master.evictions);
		put_u64(o, "waiting", r.master.waiting);
	}
	return o;
}

static struct json_object *holders_json(struct fkv_engine *e)
{
	struct fkv_front *front = fkv_engine_front(e);
	struct json_object *list = array();
	struct fkv_client_info c;
	pid_t pid;

	front->ops->count(front);
	for (uint64_t i = 0; fkv_engine_client(e, i, &c, &pid); i++) {
		struct json_object *o = object();

		put_u64(o, "client", c.client);
		put_u64(o, "pid", (uint64_t)pid);
		put_u64(o, "uid", c.uid);
		put_u64(o, "holders", c.holders);
		put_u64(o, "pinned_bytes", c.pinned_bytes);
		put_u64(o, "open_puts", c.open_puts);
		append(list, o);
	}
	return list;
}

static struct json_object *segments_json(struct fkv_engine *e)
{
	const struct fkv_engine_config *ec = fkv_engine_config(e);
	struct json_object *list = array();
	struct json_object *o = object();
	struct fkv_report r;

	fkv_engine_report(e, &r);
	put_str(o, "name", ec->cfg->instance_key);
	put_u64(o, "bytes", ec->cfg->memory);
	if (fkv_engine_master(e))
		put_u64(o, "used_bytes", r.master.used);
	put_bool(o, "locked", fkv_segment_locked(ec->segment));
	put_str(o, "huge", fkv_segment_pages(ec->segment));
	append(list, o);
	return list;
}

static bool has_prefix(const struct fkv_key *key, const struct fkv_key *prefix)
{
	return !prefix || (key->len >= prefix->len &&
			   !memcmp(key->data, prefix->data, prefix->len));
}

/* Owners, as the master sees them. */
static struct json_object *members_json(struct fkv_engine *e)
{
	struct fkv_master *m = fkv_engine_master(e);
	struct fkv_hub *hub = fkv_engine_hub(e);
	struct json_object *list = array();
	struct fkv_member_info info;

	for (uint32_t i = 0; fkv_master_member(m, i, &info); i++) {
		struct json_object *o = object();

		put_str(o, "name", *info.name ? info.name :
			fkv_engine_config(e)->cfg->instance_key);
		put_str(o, "state", !info.live ? "out" :
			info.suspect ? "suspect" : "live");
		put_bool(o, "connected", !hub || fkv_hub_is_connected(hub, i));
		put_str(o, "address", info.address ? info.address : "");
		put_u64(o, "incarnation", info.incarnation);
		put_u64(o, "capacity_bytes", info.capacity);
		put_u64(o, "free_bytes", info.free);
		put_u64(o, "unevictable_bytes", info.unevictable);
		put_u64(o, "replicas", info.replicas);
		put_u64(o, "ssd_devices", info.ssd_devices);
		append(list, o);
	}
	return list;
}

/* The bytes of a key in put_key()'s form; NULL for none, or out of memory. */
static struct fkv_key *parse_key(const char *text)
{
	uint8_t buf[FKV_KEY_MAX];
	size_t n = 0;

	while (*text && n < sizeof(buf)) {
		char hex[3] = "";

		if (!strncmp(text, "\\x", 2) && isxdigit(text[2]) &&
		    isxdigit(text[3])) {
			memcpy(hex, text + 2, 2);
			buf[n++] = (uint8_t)strtoul(hex, NULL, 16);
			text += 4;
		} else if (!strncmp(text, "\\\\", 2)) {
			buf[n++] = '\\';
			text += 2;
		} else {
			buf[n++] = (uint8_t)*text++;
		}
	}
	return n ? fkv_key_create(buf, n) : NULL;
}

static struct json_object *route_json(const struct fkv_route_info *info)
{
	struct json_object *o = object();

	put_key(o, "key", info->key);
	put_u64(o, "len", info->len);
	put_u64(o, "version", info->put_id);
	put_bool(o, "memory", info->memory);
	put_bool(o, "ssd", info->ssd);
	put_u64(o, "offset", info->offset);
	put_u64(o, "frequency", info->frequency);
	put_u64(o, "refs", info->refs);
	put_str(o, "state", info->pending ? "persisting" :
		info->unbacked ? "unbacked" : "ready");
	return o;
}

/* The first 1,000 routes whose key begins with @prefix. */
static struct json_object *routes_json(struct fkv_engine *e,
				       const char *prefix)
{
	struct json_object *list = array();
	struct fkv_master *m = fkv_engine_master(e);
	struct fkv_key *from = parse_key(prefix);
	struct fkv_route_info info;
	unsigned int n = 0;
	bool more;

	more = from && fkv_master_route_at(m, from, &info);
	if (!more)
		more = fkv_master_route_after(m, from, &info);
	while (more && n++ < ROUTES_MAX && has_prefix(info.key, from)) {
		append(list, route_json(&info));
		more = fkv_master_route_after(m, info.key, &info);
	}
	fkv_key_put(from);
	return list;
}

static struct json_object *device_json(struct fkv_engine *e, uint32_t d)
{
	const struct fkv_engine_config *ec = fkv_engine_config(e);
	struct json_object *o = object();
	struct fkv_device_stats ds;
	struct fkv_ring_stats rs;

	fkv_device_get_stats(ec->devices[d], &ds);
	fkv_ring_device_stats(fkv_engine_ring(e), d, &rs);
	put_u64(o, "device", d);
	put_str(o, "path", fkv_device_path(ec->devices[d]));
	put_str(o, "state", fkv_ring_device_works(fkv_engine_ring(e), d) ?
		"on" : "off");
	put_str(o, "engine", ds.engine);
	put_bool(o, "direct", ds.direct);
	put_u64(o, "alignment", ds.alignment);
	put_u64(o, "registered_buffers", ds.registered_buffers);
	put_u64(o, "capacity_bytes", rs.capacity);
	put_u64(o, "used_bytes", rs.used);
	put_u64(o, "entries", rs.entries);
	put_u64(o, "evictions", rs.evictions);
	put_u64(o, "shards", ec->shards_per_device);
	put_u64(o, "blocked_by_write", rs.blocked_write);
	put_u64(o, "blocked_by_read", rs.blocked_read);
	put_u64(o, "blocked_by_commit", rs.blocked_commit);
	return o;
}

static struct json_object *ssd_json(struct fkv_engine *e)
{
	struct json_object *list = array();

	for (uint32_t d = 0; d < fkv_engine_config(e)->nr_devices; d++)
		append(list, device_json(e, d));
	return list;
}

/* Live objects by class: all but routes go to zero when nobody is here. */
static struct json_object *refs_json(struct fkv_engine *e)
{
	struct json_object *o = object();
	struct fkv_report r;

	fkv_engine_report(e, &r);
	put_u64(o, "clients", r.owner.clients);
	put_u64(o, "holders", r.owner.holders);
	put_u64(o, "entries", r.owner.entries);
	put_u64(o, "entries_retired", r.owner.entries_retired);
	put_u64(o, "open_puts", r.owner.open_puts);
	put_u64(o, "expired_puts", r.owner.expired_puts);
	put_u64(o, "fetches", r.owner.fetches);
	put_u64(o, "pending_ops", r.owner.pending_ops);
	put_u64(o, "calls", r.owner.calls);
	put_u64(o, "persist_queued", r.owner.persist_queued);
	put_u64(o, "persist_active", r.owner.persist_active);
	put_u64(o, "persist_committing", r.owner.persist_committing);
	put_u64(o, "master_ops", r.master.ops);
	put_u64(o, "master_extents", r.master.extents);
	put_u64(o, "routes", r.master.keys);
	put_u64(o, "index_used", r.index.used);
	put_u64(o, "index_retired", r.index.retired);
	put_u64(o, "transfers", r.uplink.moves.active);
	put_u64(o, "serving", r.uplink.moves.serving);
	put_u64(o, "stages", r.owner.stages);
	put_u64(o, "opened", r.uplink.moves.opened);
	put_u64(o, "leaked_ops", r.master.leaked_ops);
	put_u64(o, "bad_messages", r.master.bad_messages);
	put_u64(o, "stale_tokens", r.owner.stale_tokens);
	return o;
}

/* Walks everything: an operator's check that accounts balance. */
static struct json_object *check_json(struct fkv_engine *e)
{
	struct json_object *o = object();

	if (fkv_engine_master(e))
		fkv_master_check(fkv_engine_master(e));
	if (fkv_engine_owner(e))
		fkv_owner_check(fkv_engine_owner(e));
	if (fkv_engine_ring(e))
		fkv_ring_check(fkv_engine_ring(e));
	put_bool(o, "balanced", true);
	return o;
}

static struct json_object *answer(struct fkv_engine *e, const char *word,
				  const char *argument)
{
	if (!strcmp(word, "status"))
		return status_json(e);
	if (!strcmp(word, "holders"))
		return holders_json(e);
	if (!strcmp(word, "segments"))
		return segments_json(e);
	if (!strcmp(word, "routes"))
		return routes_json(e, argument);
	if (!strcmp(word, "members"))
		return members_json(e);
	if (!strcmp(word, "ssd"))
		return ssd_json(e);
	if (!strcmp(word, "refs"))
		return refs_json(e);
	if (!strcmp(word, "check"))
		return check_json(e);
	return NULL;
}

char *fkv_admin_answer(struct fkv_engine *e, const char *word,
		       const char *argument, int *ret_err)
{
	struct json_object *o;
	const char *said;
	char *text;

	if (!strcmp(word, "metrics")) {
		text = fkv_admin_metrics(e);
		*ret_err = -ENOMEM;
		return text;
	}
	/* what only a master knows */
	if (!fkv_engine_master(e) &&
	    (!strcmp(word, "routes") || !strcmp(word, "members"))) {
		*ret_err = -EOPNOTSUPP;
		return NULL;
	}
	no_memory = false;
	o = answer(e, word, argument);
	*ret_err = o || no_memory ? -ENOMEM : -EINVAL;
	if (!o || no_memory) {
		json_object_put(o);
		return NULL;
	}
	said = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN);
	text = said ? strdup(said) : NULL;
	json_object_put(o);
	return text;
}
