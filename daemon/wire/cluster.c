// SPDX-License-Identifier: Apache-2.0
#include "cluster_internal.h"

/* More than any message that encodes can need. */
#define POOL_LIMIT	(1u * 1024 * 1024)
#define POOL_PER_BYTE	4u

#define KIND(name)	FKV__PB__MESSAGE__KIND_##name

static const int kinds[FKV_CLUSTER_NR] = {
	[FKV_CLUSTER_BATCH] = KIND(BATCH),
	[FKV_CLUSTER_REGISTER] = KIND(REGISTER),
	[FKV_CLUSTER_REGISTERED] = KIND(REGISTERED),
	[FKV_CLUSTER_HEARTBEAT] = KIND(HEARTBEAT),
	[FKV_CLUSTER_HEARTBEAT_REPLY] = KIND(HEARTBEAT_REPLY),
	[FKV_CLUSTER_FENCE] = KIND(FENCE),
	[FKV_CLUSTER_FENCED] = KIND(FENCED),
	[FKV_CLUSTER_QUIET] = KIND(QUIET),
	[FKV_CLUSTER_STAGE_READ] = KIND(STAGE_READ),
	[FKV_CLUSTER_PUSHED] = KIND(PUSHED),
	[FKV_CLUSTER_BYE] = KIND(BYE),
	[FKV_CLUSTER_MEMBER] = KIND(MEMBER),
};

/* ---- what is in range ---- */

static bool text_ok(const char *s, size_t min, size_t max)
{
	size_t n = s ? strlen(s) : 0;

	return n >= min && n <= max;
}

static bool part_ok(uint32_t part, uint32_t parts)
{
	return part < parts && parts <= FKV_CLUSTER_PARTS_MAX;
}

static bool range_ok(const struct fkv_cluster_range *r, uint64_t segment)
{
	return r->len && !(r->offset % FKV_EXTENT_UNIT) &&
	       !(r->len % FKV_EXTENT_UNIT) && r->offset <= segment &&
	       r->len <= segment - r->offset;
}

static int register_check(const struct fkv_cluster_register *r,
			  const char **why)
{
	if (!text_ok(r->name, 1, FKV_CLUSTER_NAME_MAX))
		return fkv_wrong(why, -EINVAL, "a name has 1 to 255 bytes");
	if (!text_ok(r->address, 0, FKV_CLUSTER_NAME_MAX))
		return fkv_wrong(why, -EINVAL, "an address is over 255 bytes");
	if (!r->incarnation)
		return fkv_wrong(why, -EINVAL, "incarnation 0");
	if (r->epoch_seen > FKV_CLUSTER_EPOCH_MAX)
		return fkv_wrong(why, -EINVAL, "an epoch is over 20 bits");
	if (r->segment_bytes > FKV_SEGMENT_MAX ||
	    r->segment_bytes % FKV_EXTENT_UNIT)
		return fkv_wrong(why, -EINVAL, "size of segment out of range");
	if (r->ssd_devices > FKV_DEVICES_MAX || r->ssd_shards > FKV_SHARDS_MAX ||
	    r->transports & ~(FKV_CLUSTER_TCP | FKV_CLUSTER_VERBS))
		return fkv_wrong(why, -EINVAL, "unknown transport, or too many "
				 "devices");
	if (!part_ok(r->part, r->parts))
		return fkv_wrong(why, -EINVAL, "part out of range");
	if (r->n > FKV_CLUSTER_RANGES_MAX)
		return fkv_wrong(why, -E2BIG, "over 4096 busy ranges in a part");
	for (uint32_t i = 0; i < r->n; i++)
		if (!range_ok(&r->busy[i], r->segment_bytes))
			return fkv_wrong(why, -EINVAL, "a busy range is not "
					 "whole units of the segment");
	return 0;
}

static int registered_check(const struct fkv_cluster_registered *r,
			    const char **why)
{
	if (!fkv_res_ok(r->res))
		return fkv_wrong(why, -EINVAL, "result out of range");
	if (r->epoch > FKV_CLUSTER_EPOCH_MAX)
		return fkv_wrong(why, -EINVAL, "an epoch is over 20 bits");
	if (r->lease_ns > FKV_CLUSTER_TIME_MAX ||
	    r->heartbeat_ns > FKV_CLUSTER_TIME_MAX ||
	    (!r->res && (!r->heartbeat_ns || r->lease_ns < r->heartbeat_ns)))
		return fkv_wrong(why, -EINVAL, "lease or heartbeat out of range");
	if (!text_ok(r->text, 0, FKV_TEXT_MAX - 1))
		return fkv_wrong(why, -E2BIG, "a text is over 399 bytes");
	return 0;
}

static int beat_check(const struct fkv_cluster_heartbeat *h, const char **why)
{
	if (!part_ok(h->part, h->parts))
		return fkv_wrong(why, -EINVAL, "part out of range");
	if (h->n > FKV_CLUSTER_OPS_MAX)
		return fkv_wrong(why, -E2BIG, "over 16384 ops in a part");
	return 0;
}

static int reply_check(const struct fkv_cluster_heartbeat_reply *h,
		       const char **why)
{
	if (!fkv_res_ok(h->res) || h->epoch > FKV_CLUSTER_EPOCH_MAX ||
	    h->lease_ns > FKV_CLUSTER_TIME_MAX)
		return fkv_wrong(why, -EINVAL,
				 "result, epoch or lease out of range");
	return 0;
}

static int fence_check(const struct fkv_cluster_fence *f, const char **why)
{
	if (!f->incarnation || !f->op)
		return fkv_wrong(why, -EINVAL, "incarnation 0 or op 0");
	if (!fkv_res_ok(f->res))
		return fkv_wrong(why, -EINVAL, "result out of range");
	return 0;
}

static int quiet_check(const struct fkv_cluster_quiet *q, const char **why)
{
	if (!q->n || q->n > FKV_CLUSTER_RECALL_MAX)
		return fkv_wrong(why, -E2BIG, "1 to 256 ops can be quiet");
	return 0;
}

static int stage_check(const struct fkv_cluster_stage_read *s,
		       const char **why)
{
	if (!s->key)
		return fkv_wrong(why, -EINVAL,
				 "a key of 1 to 512 bytes is missing");
	if (!s->incarnation || !s->op)
		return fkv_wrong(why, -EINVAL, "incarnation 0 or op 0");
	if (!s->len || s->len > FKV_VALUE_MAX || s->offset > FKV_SEGMENT_MAX ||
	    s->offset % FKV_EXTENT_UNIT)
		return fkv_wrong(why, -EINVAL, "length or offset out of range");
	if (s->slot >= FKV_CLUSTER_SLOTS_MAX)
		return fkv_wrong(why, -EINVAL, "slot out of range");
	return 0;
}

static int pushed_check(const struct fkv_cluster_pushed *p, const char **why)
{
	if (!fkv_res_ok(p->res) || p->bytes > FKV_VALUE_MAX || !p->op)
		return fkv_wrong(why, -EINVAL, "op 0, or result or length out "
				 "of range");
	return 0;
}

static int bye_check(const struct fkv_cluster_bye *b, const char **why)
{
	if (b->reason >= FKV_CLUSTER_LEAVE_NR)
		return fkv_wrong(why, -EINVAL, "unknown reason to leave");
	if (!text_ok(b->text, 0, FKV_TEXT_MAX - 1))
		return fkv_wrong(why, -E2BIG, "a text is over 399 bytes");
	return 0;
}

static int member_check(const struct fkv_cluster_member *m, const char **why)
{
	if (!m->incarnation ||
	    m->transports & ~(FKV_CLUSTER_TCP | FKV_CLUSTER_VERBS))
		return fkv_wrong(why, -EINVAL,
				 "incarnation 0, or unknown transport");
	if (!text_ok(m->name, 0, FKV_CLUSTER_NAME_MAX) ||
	    !text_ok(m->address, 0, FKV_CLUSTER_NAME_MAX))
		return fkv_wrong(why, -E2BIG,
				 "a name or an address is over 255 bytes");
	return 0;
}

static int check(const struct fkv_cluster_msg *m, const char **why)
{
	switch (m->type) {
	case FKV_CLUSTER_BATCH:
		return fkv_batch_check(&m->batch, why);
	case FKV_CLUSTER_REGISTER:
		return register_check(&m->reg, why);
	case FKV_CLUSTER_REGISTERED:
		return registered_check(&m->registered, why);
	case FKV_CLUSTER_HEARTBEAT:
		return beat_check(&m->heartbeat, why);
	case FKV_CLUSTER_HEARTBEAT_REPLY:
		return reply_check(&m->heartbeat_reply, why);
	case FKV_CLUSTER_FENCE:
	case FKV_CLUSTER_FENCED:
		return fence_check(&m->fence, why);
	case FKV_CLUSTER_QUIET:
		return quiet_check(&m->quiet, why);
	case FKV_CLUSTER_STAGE_READ:
		return stage_check(&m->stage_read, why);
	case FKV_CLUSTER_PUSHED:
		return pushed_check(&m->pushed, why);
	case FKV_CLUSTER_BYE:
		return bye_check(&m->bye, why);
	case FKV_CLUSTER_MEMBER:
		return member_check(&m->member, why);
	case FKV_CLUSTER_NR:
		break;
	}
	return fkv_wrong(why, -EPROTO, "unknown kind of message");
}

/* ---- to protobuf ---- */

/* What is only read by the packer is not copied. */
static void *unconst(const void *p)
{
	return (void *)(uintptr_t)p;
}

static char *text(const char *s)
{
	return s ? unconst(s) : (char *)unconst("");
}

static bool ranges_encode(const struct fkv_cluster_register *r,
			  struct fkv_pool *pool, Fkv__Pb__Register *pb)
{
	Fkv__Pb__Range *at = fkv_pool_alloc(pool, r->n * sizeof(*at));

	pb->busy = fkv_pool_alloc(pool, r->n * sizeof(*pb->busy));
	if (!at || !pb->busy)
		return false;
	for (; pb->n_busy < r->n; pb->n_busy++, at++) {
		fkv__pb__range__init(at);
		at->offset = r->busy[pb->n_busy].offset;
		at->len = r->busy[pb->n_busy].len;
		pb->busy[pb->n_busy] = at;
	}
	return true;
}

static bool register_encode(const struct fkv_cluster_register *r,
			    struct fkv_pool *pool, Fkv__Pb__Register *pb)
{
	fkv__pb__register__init(pb);
	pb->name = text(r->name);
	pb->incarnation = r->incarnation;
	pb->epoch_seen = r->epoch_seen;
	pb->segment_bytes = r->segment_bytes;
	pb->ssd_devices = r->ssd_devices;
	pb->transports = r->transports;
	pb->address = text(r->address);
	pb->part = r->part;
	pb->parts = r->parts;
	pb->was = r->was;
	pb->ssd_shards = r->ssd_shards;
	return ranges_encode(r, pool, pb);
}

static void stage_encode(const struct fkv_cluster_stage_read *s,
			 uint64_t now_ns, Fkv__Pb__StageRead *pb)
{
	fkv__pb__stage_read__init(pb);
	pb->op = s->op;
	fkv_key_encode(s->key, &pb->key);
	pb->put_id = s->put_id;
	pb->len = s->len;
	pb->incarnation = s->incarnation;
	pb->offset = s->offset;
	pb->slot = s->slot;
	pb->generation = s->generation;
	pb->timeout_ns = fkv_timeout_of(s->deadline_ns, now_ns);
}

union parts {
	Fkv__Pb__Register reg;
	Fkv__Pb__Registered registered;
	Fkv__Pb__Heartbeat heartbeat;
	Fkv__Pb__HeartbeatReply reply;
	Fkv__Pb__Fence fence;
	Fkv__Pb__Quiet quiet;
	Fkv__Pb__StageRead stage;
	Fkv__Pb__Pushed pushed;
	Fkv__Pb__Bye bye;
	Fkv__Pb__Member member;
};

/* The kinds that need neither memory nor time. */
static void small_encode(const struct fkv_cluster_msg *m, union parts *p)
{
	switch (m->type) {
	case FKV_CLUSTER_REGISTERED:
		fkv__pb__registered__init(&p->registered);
		p->registered.res = m->registered.res;
		p->registered.epoch = m->registered.epoch;
		p->registered.lease_ns = m->registered.lease_ns;
		p->registered.heartbeat_ns = m->registered.heartbeat_ns;
		p->registered.text = text(m->registered.text);
		break;
	case FKV_CLUSTER_HEARTBEAT:
		fkv__pb__heartbeat__init(&p->heartbeat);
		p->heartbeat.seq = m->heartbeat.seq;
		p->heartbeat.part = m->heartbeat.part;
		p->heartbeat.parts = m->heartbeat.parts;
		p->heartbeat.n_ops = m->heartbeat.n;
		p->heartbeat.ops = unconst(m->heartbeat.ops);
		break;
	case FKV_CLUSTER_HEARTBEAT_REPLY:
		fkv__pb__heartbeat_reply__init(&p->reply);
		p->reply.seq = m->heartbeat_reply.seq;
		p->reply.res = m->heartbeat_reply.res;
		p->reply.epoch = m->heartbeat_reply.epoch;
		p->reply.lease_ns = m->heartbeat_reply.lease_ns;
		break;
	case FKV_CLUSTER_FENCE:
	case FKV_CLUSTER_FENCED:
		fkv__pb__fence__init(&p->fence);
		p->fence.incarnation = m->fence.incarnation;
		p->fence.op = m->fence.op;
		p->fence.res = m->fence.res;
		break;
	case FKV_CLUSTER_QUIET:
		fkv__pb__quiet__init(&p->quiet);
		p->quiet.n_ops = m->quiet.n;
		p->quiet.ops = unconst(m->quiet.ops);
		break;
	case FKV_CLUSTER_PUSHED:
		fkv__pb__pushed__init(&p->pushed);
		p->pushed.op = m->pushed.op;
		p->pushed.res = m->pushed.res;
		p->pushed.bytes = m->pushed.bytes;
		break;
	case FKV_CLUSTER_MEMBER:
		fkv__pb__member__init(&p->member);
		p->member.incarnation = m->member.incarnation;
		p->member.gone = m->member.gone;
		p->member.transports = m->member.transports;
		p->member.name = text(m->member.name);
		p->member.address = text(m->member.address);
		break;
	default:
		fkv__pb__bye__init(&p->bye);
		p->bye.reason = m->bye.reason;
		p->bye.text = text(m->bye.text);
	}
}

/* Fill @pb; @p is the memory of what it points to. */
static bool fill(const struct fkv_cluster_msg *m, uint64_t now_ns,
		 struct fkv_pool *pool, union parts *p, Fkv__Pb__Message *pb)
{
	fkv__pb__message__init(pb);
	pb->version = FKV_CLUSTER_VERSION;
	pb->kind_case = (Fkv__Pb__Message__KindCase)kinds[m->type];
	if (m->type == FKV_CLUSTER_BATCH) {
		pb->batch = fkv_batch_encode(&m->batch, now_ns, pool);
		return pb->batch;
	}
	/* the packer takes the pointer of any kind from the same place */
	pb->register_ = &p->reg;
	if (m->type == FKV_CLUSTER_REGISTER)
		return register_encode(&m->reg, pool, &p->reg);
	if (m->type == FKV_CLUSTER_STAGE_READ)
		stage_encode(&m->stage_read, now_ns, &p->stage);
	else
		small_encode(m, p);
	return true;
}

int fkv_cluster_encode(const struct fkv_cluster_msg *m, uint64_t now_ns,
		       void *buf, size_t room, size_t *ret_len)
{
	struct fkv_pool *pool;
	Fkv__Pb__Message pb;
	union parts parts;
	const char *why;
	size_t n;
	int err = check(m, &why);

	if (err)
		return -EINVAL;
	pool = fkv_pool_create(POOL_LIMIT);
	if (!pool)
		return -ENOMEM;
	if (!fill(m, now_ns, pool, &parts, &pb)) {
		/* every batch that the check lets pass fits, but for listings */
		err = pool->over ? -EMSGSIZE : -ENOMEM;
		goto out;
	}
	n = fkv__pb__message__get_packed_size(&pb);
	if (n > room || n > FKV_CLUSTER_BYTES_MAX)
		err = -EMSGSIZE;
	else
		*ret_len = fkv__pb__message__pack(&pb, buf);
out:
	fkv_pool_free(pool);
	return err;
}

/* ---- from protobuf ---- */

static void *pool_alloc(void *pool, size_t size)
{
	return fkv_pool_alloc(pool, size);
}

static void pool_keep(void *pool, void *p)
{
	(void)pool;
	(void)p;
}

static int register_decode(const Fkv__Pb__Register *pb, struct fkv_pool *pool,
			   struct fkv_cluster_register *r, const char **why)
{
	r->name = pb->name;
	r->incarnation = pb->incarnation;
	r->epoch_seen = pb->epoch_seen;
	r->segment_bytes = pb->segment_bytes;
	r->ssd_devices = pb->ssd_devices;
	r->transports = pb->transports;
	r->address = pb->address;
	r->part = pb->part;
	r->parts = pb->parts;
	r->was = pb->was;
	r->ssd_shards = pb->ssd_shards;
	if (pb->n_busy > FKV_CLUSTER_RANGES_MAX)
		return fkv_wrong(why, -E2BIG, "over 4096 busy ranges in a part");
	r->busy = fkv_pool_alloc(pool, pb->n_busy * sizeof(*r->busy));
	if (!r->busy)
		return -ENOMEM;
	for (; r->n < pb->n_busy; r->n++) {
		r->busy[r->n].offset = pb->busy[r->n]->offset;
		r->busy[r->n].len = pb->busy[r->n]->len;
	}
	return 0;
}

static int stage_decode(const Fkv__Pb__StageRead *pb, uint64_t now_ns,
			struct fkv_cluster_stage_read *s, const char **why)
{
	s->op = pb->op;
	s->put_id = pb->put_id;
	s->len = pb->len;
	s->incarnation = pb->incarnation;
	s->offset = pb->offset;
	s->slot = pb->slot;
	s->generation = pb->generation;
	s->deadline_ns = fkv_deadline_of(pb->timeout_ns, now_ns);
	return fkv_key_decode(&pb->key, &s->key, why);
}

static int ops_decode(size_t n, uint64_t *ops, uint32_t *ret_n,
		      const uint64_t **ret_ops)
{
	/* one more is as wrong as many more, and fits */
	*ret_n = (uint32_t)fkv_min_u64(n, FKV_CLUSTER_OPS_MAX + 1);
	*ret_ops = ops;
	return 0;
}

static void fence_decode(const Fkv__Pb__Fence *pb, struct fkv_cluster_fence *f)
{
	f->incarnation = pb->incarnation;
	f->op = pb->op;
	f->res = pb->res;
}

static void beat_decode(const Fkv__Pb__Heartbeat *pb,
			struct fkv_cluster_heartbeat *h)
{
	h->seq = pb->seq;
	h->part = pb->part;
	h->parts = pb->parts;
	ops_decode(pb->n_ops, pb->ops, &h->n, &h->ops);
}

static void registered_decode(const Fkv__Pb__Registered *pb,
			      struct fkv_cluster_registered *r)
{
	r->res = pb->res;
	r->epoch = pb->epoch;
	r->lease_ns = pb->lease_ns;
	r->heartbeat_ns = pb->heartbeat_ns;
	r->text = pb->text;
}

static void reply_decode(const Fkv__Pb__HeartbeatReply *pb,
			 struct fkv_cluster_heartbeat_reply *h)
{
	h->seq = pb->seq;
	h->res = pb->res;
	h->epoch = pb->epoch;
	h->lease_ns = pb->lease_ns;
}

static void member_decode(const Fkv__Pb__Member *pb,
			  struct fkv_cluster_member *m)
{
	m->incarnation = pb->incarnation;
	m->gone = pb->gone;
	m->transports = pb->transports;
	m->name = pb->name;
	m->address = pb->address;
}

static void small_decode(const Fkv__Pb__Message *pb, struct fkv_cluster_msg *m)
{
	switch (m->type) {
	case FKV_CLUSTER_REGISTERED:
		registered_decode(pb->registered, &m->registered);
		break;
	case FKV_CLUSTER_HEARTBEAT:
		beat_decode(pb->heartbeat, &m->heartbeat);
		break;
	case FKV_CLUSTER_HEARTBEAT_REPLY:
		reply_decode(pb->heartbeat_reply, &m->heartbeat_reply);
		break;
	case FKV_CLUSTER_FENCE:
		fence_decode(pb->fence, &m->fence);
		break;
	case FKV_CLUSTER_FENCED:
		fence_decode(pb->fenced, &m->fence);
		break;
	case FKV_CLUSTER_QUIET:
		ops_decode(pb->quiet->n_ops, pb->quiet->ops, &m->quiet.n,
			   &m->quiet.ops);
		break;
	case FKV_CLUSTER_PUSHED:
		m->pushed.op = pb->pushed->op;
		m->pushed.res = pb->pushed->res;
		m->pushed.bytes = pb->pushed->bytes;
		break;
	case FKV_CLUSTER_MEMBER:
		member_decode(pb->member, &m->member);
		break;
	default:
		m->bye.reason = pb->bye->reason;
		m->bye.text = pb->bye->text;
	}
}

static int kind_decode(const Fkv__Pb__Message *pb, uint64_t now_ns,
		       struct fkv_cluster_msg *m, const char **why)
{
	int i;

	if (pb->version != FKV_CLUSTER_VERSION)
		return fkv_wrong(why, -EPROTONOSUPPORT,
				 "a message of another version");
	for (i = 0; i < FKV_CLUSTER_NR; i++)
		if (kinds[i] == (int)pb->kind_case)
			break;
	if (i == FKV_CLUSTER_NR)
		return fkv_wrong(why, -EPROTO, "unknown kind of message");
	m->type = (enum fkv_cluster_type)i;
	if (m->type == FKV_CLUSTER_BATCH)
		return fkv_batch_decode(pb->batch, now_ns, m->pool, &m->batch,
					why);
	if (m->type == FKV_CLUSTER_REGISTER)
		return register_decode(pb->register_, m->pool, &m->reg, why);
	if (m->type == FKV_CLUSTER_STAGE_READ)
		return stage_decode(pb->stage_read, now_ns, &m->stage_read,
				    why);
	small_decode(pb, m);
	return 0;
}

static int pool_error(const struct fkv_pool *pool, const char **why)
{
	if (pool->over)
		return fkv_wrong(why, -E2BIG, "a message that unpacks to more "
				 "than it may");
	return fkv_wrong(why, -ENOMEM, "out of memory");
}

static int unpack_error(const struct fkv_pool *pool, const char **why)
{
	if (pool->failed || pool->over)
		return pool_error(pool, why);
	return fkv_wrong(why, -EPROTO, "not a protobuf message");
}

int fkv_cluster_decode(const void *data, size_t size, uint64_t now_ns,
		       struct fkv_cluster_msg *ret, const char **why)
{
	struct fkv_cluster_msg m = { .type = FKV_CLUSTER_NR };
	ProtobufCAllocator allocator = { pool_alloc, pool_keep, NULL };
	Fkv__Pb__Message *pb;
	int err;

	*why = "out of memory";
	if (size > FKV_CLUSTER_BYTES_MAX)
		return fkv_wrong(why, -E2BIG, "a message is too large");
	m.pool = fkv_pool_create(POOL_LIMIT + POOL_PER_BYTE * size);
	if (!m.pool)
		return -ENOMEM;
	allocator.allocator_data = m.pool;
	pb = fkv__pb__message__unpack(&allocator, size, data);
	err = pb ? kind_decode(pb, now_ns, &m, why) :
		   unpack_error(m.pool, why);
	if (!err)
		err = check(&m, why);
	/* there was memory, but not for so much of one message */
	if (err == -ENOMEM)
		err = pool_error(m.pool, why);
	if (err) {
		fkv_cluster_msg_done(&m);
		return err;
	}
	*ret = m;
	return 0;
}

void fkv_cluster_msg_done(struct fkv_cluster_msg *m)
{
	if (m->type == FKV_CLUSTER_BATCH)
		for (uint32_t i = 0; i < m->batch.n; i++)
			fkv_msg_done(&m->batch.msgs[i]);
	if (m->type == FKV_CLUSTER_STAGE_READ)
		fkv_key_put(m->stage_read.key);
	fkv_pool_free(m->pool);
	memset(m, 0, sizeof(*m));
	m->type = FKV_CLUSTER_NR;
}
