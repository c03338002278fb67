// SPDX-License-Identifier: Apache-2.0
/*
 * cluster_core.c - the messages of the cores
 *
 * All fields of all types are carried, for a core may use one more tomorrow;
 * the form of a type says what it cannot be without.
 */
#include "cluster_internal.h"

#define FLAGS_KNOWN \
	(FLUXONKV_PUT_EXCL | FLUXONKV_PUT_NOWAIT | FLUXONKV_PUT_MEMORY)
#define WHERE_KNOWN	(FLUXONKV_IN_MEMORY | FLUXONKV_ON_SSD)

struct form {
	Fkv__Pb__CoreType type;
	bool key;
	bool deadline;
};

#define FORM(name, ...) \
	[FKV_MSG_##name] = { FKV__PB__CORE_TYPE__##name, __VA_ARGS__ }

static const struct form forms[FKV_MSG_NR] = {
	FORM(PUT_START, true, true),
	FORM(PUT_DONE, false, false),
	FORM(PUT_REVOKE, false, false),
	FORM(PUT_CANCEL, false, false),
	FORM(GET_START, true, true),
	FORM(GET_DONE, false, false),
	FORM(GET_REVOKE, false, false),
	FORM(DELETE, true, false),
	FORM(STAT, true, false),
	FORM(LIST, false, false),
	FORM(COUNT, false, false),
	FORM(SSD_COMMIT, true, false),
	FORM(PERSIST_FAILED, true, false),
	FORM(SSD_TAIL, false, false),
	FORM(SSD_LOST, true, false),
	FORM(SSD_STATE, false, false),
	FORM(RETIRED, false, false),
	FORM(EVICTED, false, false),
	FORM(QUIET, false, false),
	FORM(HITS, false, false),
	FORM(PINS, false, false),
	FORM(PUT_PLAN, false, false),
	FORM(PUT_DONE_R, false, false),
	FORM(GET_PLAN, false, false),
	FORM(GET_DONE_R, false, false),
	FORM(DELETE_R, false, false),
	FORM(STAT_R, false, false),
	FORM(LIST_R, false, false),
	FORM(COUNT_R, false, false),
	FORM(SSD_COMMIT_R, false, false),
	FORM(RETIRE, true, false),
	FORM(EVICT, true, false),
	FORM(PERSIST, true, false),
	FORM(EXPOSE, false, false),
	FORM(FENCE, false, false),
	FORM(EXPOSED, false, false),
	FORM(FENCED, false, false),
};

uint64_t fkv_timeout_of(uint64_t deadline_ns, uint64_t now_ns)
{
	if (deadline_ns == FKV_NEVER)
		return FKV_NEVER;
	return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

uint64_t fkv_deadline_of(uint64_t timeout_ns, uint64_t now_ns)
{
	return timeout_ns > FKV_NEVER - now_ns ? FKV_NEVER : now_ns + timeout_ns;
}

void fkv_key_encode(const struct fkv_key *key, ProtobufCBinaryData *pb)
{
	if (!key)
		return;
	pb->data = (uint8_t *)(uintptr_t)key->data;
	pb->len = key->len;
}

int fkv_key_decode(const ProtobufCBinaryData *pb, struct fkv_key **ret,
		   const char **why)
{
	if (!pb->len)
		return 0;
	if (pb->len > FKV_KEY_MAX)
		return fkv_wrong(why, -E2BIG, "a key is over 512 bytes");
	*ret = fkv_key_create(pb->data, pb->len);
	return *ret ? 0 : -ENOMEM;
}

/* ---- what is in range ---- */

static bool source_ok(const struct fkv_msg *m)
{
	if (m->type == FKV_MSG_STAT_R)
		return !(m->source & ~(uint32_t)WHERE_KNOWN);
	return m->source <= FLUXONKV_SOURCE_MISS;
}

static bool core_res_ok(const struct fkv_msg *m)
{
	if (m->type == FKV_MSG_EVICTED)
		return m->res >= FKV_EVICT_OK && m->res <= FKV_EVICT_HELD;
	return fkv_res_ok(m->res);
}

static int listing_check(const struct fkv_listing *l, const char **why)
{
	if (l->n > FKV_LIST_MAX)
		return fkv_wrong(why, -E2BIG, "a listing has over 1000 keys");
	for (uint32_t i = 0; i < l->n; i++) {
		const struct fkv_listed *at = &l->at[i];

		if (!at->key)
			return fkv_wrong(why, -EINVAL,
					 "a listing has an empty key");
		if (at->len > FKV_VALUE_MAX ||
		    at->where & ~(uint32_t)WHERE_KNOWN)
			return fkv_wrong(why, -EINVAL, "a listing has a length "
					 "or place out of range");
	}
	return 0;
}

static int core_check(const struct fkv_msg *m, const char **why)
{
	if ((unsigned int)m->type >= FKV_MSG_NR)
		return fkv_wrong(why, -EPROTO, "unknown type of message");
	if (forms[m->type].key && !m->key)
		return fkv_wrong(why, -EINVAL,
				 "a key of 1 to 512 bytes is missing");
	if (m->class >= FKV_CLASS_NR)
		return fkv_wrong(why, -EINVAL, "unknown class");
	if (m->flags & ~(uint32_t)FLAGS_KNOWN)
		return fkv_wrong(why, -EINVAL, "unknown flag");
	if (!source_ok(m))
		return fkv_wrong(why, -EINVAL, "unknown source");
	if (!core_res_ok(m))
		return fkv_wrong(why, -EINVAL, "result out of range");
	if (m->shard >= FKV_SHARDS_MAX)
		return fkv_wrong(why, -EINVAL, "shard out of range");
	if (m->len > FKV_VALUE_MAX || m->offset > FKV_SEGMENT_MAX ||
	    m->remote > FKV_SEGMENT_MAX)
		return fkv_wrong(why, -EINVAL, "length or offset out of range");
	if (m->type == FKV_MSG_LIST && (m->n < 1 || m->n > FKV_LIST_MAX))
		return fkv_wrong(why, -EINVAL, "a list of 1 to 1000 is allowed");
	if (m->type == FKV_MSG_LIST_R && !m->res && !m->listing)
		return fkv_wrong(why, -EINVAL, "a listing is missing");
	if (m->text && strlen(m->text) >= FKV_TEXT_MAX)
		return fkv_wrong(why, -E2BIG, "a text is over 399 bytes");
	return m->listing ? listing_check(m->listing, why) : 0;
}

int fkv_batch_check(const struct fkv_cluster_batch *b, const char **why)
{
	uint32_t most = FKV_CLUSTER_RECALL_MAX;
	int err = 0;

	if (!b->n)
		return fkv_wrong(why, -EINVAL, "an empty batch");
	for (uint32_t i = 0; i < b->n && b->n <= most && !err; i++) {
		if (!fkv_msg_is_recall(b->msgs[i].type))
			most = FKV_CLUSTER_BATCH_MAX;
		err = core_check(&b->msgs[i], why);
	}
	if (b->n > most)
		return fkv_wrong(why, -E2BIG, "a batch of up to 128, or of 256 "
				 "recalls, is allowed");
	return err;
}

/* ---- to protobuf ---- */

static Fkv__Pb__Listed *listed_encode(const struct fkv_listed *l,
				      struct fkv_pool *pool)
{
	Fkv__Pb__Listed *pb = fkv_pool_alloc(pool, sizeof(*pb));

	if (!pb)
		return NULL;
	fkv__pb__listed__init(pb);
	fkv_key_encode(l->key, &pb->key);
	pb->len = l->len;
	pb->put_id = l->put_id;
	pb->where = l->where;
	return pb;
}

static Fkv__Pb__Listing *listing_encode(const struct fkv_listing *l,
					struct fkv_pool *pool)
{
	Fkv__Pb__Listing *pb = fkv_pool_alloc(pool, sizeof(*pb));

	if (!pb)
		return NULL;
	fkv__pb__listing__init(pb);
	pb->more = l->more;
	pb->at = fkv_pool_alloc(pool, l->n * sizeof(*pb->at));
	for (; pb->at && pb->n_at < l->n; pb->n_at++) {
		pb->at[pb->n_at] = listed_encode(&l->at[pb->n_at], pool);
		if (!pb->at[pb->n_at])
			return NULL;
	}
	return pb->at ? pb : NULL;
}

static Fkv__Pb__Core *core_encode(const struct fkv_msg *m, uint64_t now_ns,
				  struct fkv_pool *pool)
{
	Fkv__Pb__Core *pb = fkv_pool_alloc(pool, sizeof(*pb));

	if (!pb)
		return NULL;
	fkv__pb__core__init(pb);
	pb->type = forms[m->type].type;
	pb->res = m->res;
	pb->flags = m->flags;
	pb->shard = m->shard;
	pb->source = m->source;
	pb->class_ = m->class;
	pb->grant = m->grant;
	pb->held = m->held;
	pb->drop = m->drop;
	pb->first = m->first;
	pb->suspect = m->suspect;
	pb->op = m->op;
	fkv_key_encode(m->key, &pb->key);
	fkv_key_encode(m->key2, &pb->key2);
	pb->put_id = m->put_id;
	pb->len = m->len;
	pb->extent = m->extent;
	pb->offset = m->offset;
	pb->seq = m->seq;
	pb->ticket = m->ticket;
	pb->incarnation = m->incarnation;
	pb->remote = m->remote;
	pb->n = m->n;
	if (forms[m->type].deadline)
		pb->timeout_ns = fkv_timeout_of(m->deadline_ns, now_ns);
	if (m->text)
		pb->text = (char *)(uintptr_t)m->text;
	if (m->listing) {
		pb->listing = listing_encode(m->listing, pool);
		if (!pb->listing)
			return NULL;
	}
	return pb;
}

Fkv__Pb__Batch *fkv_batch_encode(const struct fkv_cluster_batch *b,
				 uint64_t now_ns, struct fkv_pool *pool)
{
	Fkv__Pb__Batch *pb = fkv_pool_alloc(pool, sizeof(*pb));

	if (!pb)
		return NULL;
	fkv__pb__batch__init(pb);
	pb->msgs = fkv_pool_alloc(pool, b->n * sizeof(*pb->msgs));
	for (; pb->msgs && pb->n_msgs < b->n; pb->n_msgs++) {
		pb->msgs[pb->n_msgs] = core_encode(&b->msgs[pb->n_msgs],
						   now_ns, pool);
		if (!pb->msgs[pb->n_msgs])
			return NULL;
	}
	return pb->msgs ? pb : NULL;
}

/* ---- from protobuf ---- */

static int listing_decode(const Fkv__Pb__Listing *pb, struct fkv_listing **ret,
			  const char **why)
{
	struct fkv_listing *l;
	int err = 0;

	if (pb->n_at > FKV_LIST_MAX)
		return fkv_wrong(why, -E2BIG, "a listing has over 1000 keys");
	l = fkv_zalloc(sizeof(*l) + pb->n_at * sizeof(l->at[0]));
	if (!l)
		return -ENOMEM;
	l->more = pb->more;
	for (; l->n < pb->n_at && !err; l->n++) {
		const Fkv__Pb__Listed *from = pb->at[l->n];
		struct fkv_listed *at = &l->at[l->n];

		err = fkv_key_decode(&from->key, &at->key, why);
		at->len = from->len;
		at->put_id = from->put_id;
		at->where = from->where;
	}
	*ret = l;
	return err;
}

static int type_decode(Fkv__Pb__CoreType type, enum fkv_msg_type *ret,
		       const char **why)
{
	for (int i = 0; i < FKV_MSG_NR; i++)
		if (forms[i].type == type && type) {
			*ret = (enum fkv_msg_type)i;
			return 0;
		}
	return fkv_wrong(why, -EPROTO, "unknown type of message");
}

static void core_numbers(const Fkv__Pb__Core *pb, struct fkv_msg *m)
{
	m->res = pb->res;
	m->flags = pb->flags;
	m->shard = pb->shard;
	m->source = pb->source;
	/* what does not fit is no class either */
	m->class = pb->class_ < FKV_CLASS_NR ? (uint8_t)pb->class_ :
					       FKV_CLASS_NR;
	m->grant = pb->grant;
	m->held = pb->held;
	m->drop = pb->drop;
	m->first = pb->first;
	m->suspect = pb->suspect;
	m->op = pb->op;
	m->put_id = pb->put_id;
	m->len = pb->len;
	m->extent = pb->extent;
	m->offset = pb->offset;
	m->seq = pb->seq;
	m->ticket = pb->ticket;
	m->incarnation = pb->incarnation;
	m->remote = pb->remote;
	m->n = pb->n;
}

static int core_decode(const Fkv__Pb__Core *pb, uint64_t now_ns,
		       struct fkv_msg *m, const char **why)
{
	int err = type_decode(pb->type, &m->type, why);

	core_numbers(pb, m);
	if (!err && forms[m->type].deadline)
		m->deadline_ns = fkv_deadline_of(pb->timeout_ns, now_ns);
	if (pb->text && *pb->text)
		m->text = pb->text;
	if (!err)
		err = fkv_key_decode(&pb->key, &m->key, why);
	if (!err)
		err = fkv_key_decode(&pb->key2, &m->key2, why);
	if (!err && pb->listing)
		err = listing_decode(pb->listing, &m->listing, why);
	return err;
}

int fkv_batch_decode(const Fkv__Pb__Batch *pb, uint64_t now_ns,
		     struct fkv_pool *pool, struct fkv_cluster_batch *ret,
		     const char **why)
{
	int err = 0;

	if (pb->n_msgs > FKV_CLUSTER_RECALL_MAX)
		return fkv_wrong(why, -E2BIG, "a batch of up to 128, or of 256 "
				 "recalls, is allowed");
	ret->msgs = fkv_pool_alloc(pool, pb->n_msgs * sizeof(*ret->msgs));
	if (!ret->msgs)
		return -ENOMEM;
	for (; ret->n < pb->n_msgs && !err; ret->n++)
		err = core_decode(pb->msgs[ret->n], now_ns,
				  &ret->msgs[ret->n], why);
	return err;
}
