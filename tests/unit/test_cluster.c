// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>

#include "wire/cluster.h"
#include "wire/cluster.pb-c.h"

#define NOW	(1000 * FKV_SEC)
#define LATER	(5000 * FKV_SEC)	/* now, where it is decoded */

static uint8_t buf[FKV_CLUSTER_BYTES_MAX];
static size_t len;
static struct fkv_cluster_msg in, got;
static const char *why;

static void setup(void)
{
	memset(&in, 0, sizeof(in));
	memset(&got, 0, sizeof(got));
	got.type = FKV_CLUSTER_NR;
	len = 0;
	why = NULL;
}

static void teardown(void)
{
	fkv_alloc_fail = NULL;
	fkv_cluster_msg_done(&got);
}

static int decode(void)
{
	uint8_t *exact = malloc(len ? len : 1);
	int err;

	fkv_cluster_msg_done(&got);
	memcpy(exact, buf, len);
	why = NULL;
	err = fkv_cluster_decode(exact, len, LATER, &got, &why);
	free(exact);
	ck_assert(!err || why);
	return err;
}

static void round_trip(void)
{
	ck_assert_int_eq(fkv_cluster_encode(&in, NOW, buf, sizeof(buf), &len),
			 0);
	ck_assert_int_eq(decode(), 0);
	ck_assert_int_eq(got.type, in.type);
}

static int encode_error(void)
{
	return fkv_cluster_encode(&in, NOW, buf, sizeof(buf), &len);
}

static struct fkv_key *key(const char *s)
{
	return fkv_key_create(s, strlen(s));
}

#define BIT(type)	(1ULL << FKV_MSG_##type)

static bool needs_key(enum fkv_msg_type type)
{
	return (BIT(PUT_START) | BIT(GET_START) | BIT(DELETE) | BIT(STAT) |
		BIT(SSD_COMMIT) | BIT(PERSIST_FAILED) | BIT(SSD_LOST) |
		BIT(RETIRE) | BIT(EVICT) | BIT(PERSIST)) >> type & 1;
}

static bool has_deadline(enum fkv_msg_type type)
{
	return type == FKV_MSG_PUT_START || type == FKV_MSG_GET_START;
}

static struct fkv_msg core[FKV_CLUSTER_RECALL_MAX + 1];

/* One message with something in every field. */
static void fill(struct fkv_msg *m, enum fkv_msg_type type)
{
	*m = (struct fkv_msg){
		.type = type, .res = -5, .flags = FLUXONKV_PUT_NOWAIT,
		.shard = 9, .source = FLUXONKV_ON_SSD,
		.class = FKV_CLASS_PUT, .grant = true, .held = true,
		.drop = true, .first = true, .op = UINT64_MAX - 1,
		.put_id = 1ULL << 63, .len = FKV_VALUE_MAX, .extent = 3,
		.offset = FKV_SEGMENT_MAX, .seq = 1ULL << 60, .n = 1000,
		.suspect = true, .ticket = 1ULL << 50,
		.incarnation = UINT64_MAX, .remote = FKV_SEGMENT_MAX,
		.text = "no room: 5 of 7",
	};
	m->key = key("a key");
	m->key2 = key("b");
	if (type == FKV_MSG_EVICTED)
		m->res = FKV_EVICT_HELD;
	if (has_deadline(type))
		m->deadline_ns = NOW + 7;
}

static void batch(uint32_t n)
{
	in.type = FKV_CLUSTER_BATCH;
	in.batch.msgs = core;
	in.batch.n = n;
}

static void drop_core(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		fkv_msg_done(&core[i]);
}

static void same_core(const struct fkv_msg *a, const struct fkv_msg *b)
{
	struct fkv_msg x = *a, y = *b;

	ck_assert(!a->key == !b->key && !a->key2 == !b->key2);
	ck_assert(!a->key || fkv_key_equal(a->key, b->key));
	ck_assert(!a->key2 || fkv_key_equal(a->key2, b->key2));
	ck_assert_str_eq(a->text ? a->text : "", b->text ? b->text : "");
	if (has_deadline(a->type) && a->deadline_ns != FKV_NEVER)
		ck_assert_uint_eq(a->deadline_ns - NOW, b->deadline_ns - LATER);
	else
		ck_assert_uint_eq(a->deadline_ns, b->deadline_ns);
	x.key = x.key2 = y.key = y.key2 = NULL;
	x.text = y.text = NULL;
	x.listing = y.listing = NULL;
	x.deadline_ns = y.deadline_ns = 0;
	ck_assert_mem_eq(&x, &y, sizeof(x));
}

START_TEST(every_core_message_comes_back_as_it_was)
{
	enum fkv_msg_type type = (enum fkv_msg_type)_i;

	/* padding too is compared */
	memset(core, 0, sizeof(core));
	fill(&core[0], type);
	if (type == FKV_MSG_LIST_R)
		core[0].listing = fkv_zalloc(sizeof(struct fkv_listing));
	batch(1);
	round_trip();
	ck_assert_uint_eq(got.batch.n, 1);
	same_core(&core[0], &got.batch.msgs[0]);
	drop_core(1);
	/* and with nothing in any */
	memset(core, 0, sizeof(core));
	core[0].type = type;
	core[0].key = needs_key(type) ? key("k") : NULL;
	core[0].n = type == FKV_MSG_LIST;
	core[0].deadline_ns = has_deadline(type) ? FKV_NEVER : 0;
	if (type == FKV_MSG_LIST_R)
		core[0].listing = fkv_zalloc(sizeof(struct fkv_listing));
	round_trip();
	same_core(&core[0], &got.batch.msgs[0]);
	drop_core(1);
	ck_assert_int_eq(encode_error(), needs_key(type) ? -EINVAL :
			 type == FKV_MSG_LIST_R ? -EINVAL : 0);
}
END_TEST

START_TEST(a_deadline_that_has_passed_leaves_no_time)
{
	fill(&core[0], FKV_MSG_GET_START);
	core[0].source = 0;
	core[0].deadline_ns = NOW - 1;
	batch(1);
	round_trip();
	ck_assert_uint_eq(got.batch.msgs[0].deadline_ns, LATER);
	drop_core(1);
}
END_TEST

START_TEST(keys_of_1_to_512_bytes_of_any_value)
{
	uint8_t bytes[FKV_KEY_MAX];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 3);
	for (size_t n = 1; n <= FKV_KEY_MAX; n++) {
		memset(&core[0], 0, sizeof(core[0]));
		core[0].type = FKV_MSG_STAT;
		core[0].key = fkv_key_create(bytes, n);
		batch(1);
		round_trip();
		ck_assert(fkv_key_equal(core[0].key, got.batch.msgs[0].key));
		drop_core(1);
	}
}
END_TEST

/* M4a */
START_TEST(a_batch_has_128_messages_or_256_recalls)
{
	memset(core, 0, sizeof(core));
	for (uint32_t i = 0; i < FKV_ARRAY_SIZE(core); i++) {
		core[i].type = i % 2 ? FKV_MSG_EVICT : FKV_MSG_EVICTED;
		core[i].key = key("k");
		core[i].extent = i;
	}
	batch(FKV_CLUSTER_RECALL_MAX);
	round_trip();
	ck_assert_uint_eq(got.batch.n, FKV_CLUSTER_RECALL_MAX);
	for (uint32_t i = 0; i < FKV_CLUSTER_RECALL_MAX; i++)
		same_core(&core[i], &got.batch.msgs[i]);
	in.batch.n++;
	ck_assert_int_eq(encode_error(), -EINVAL);
	in.batch.n = 0;
	ck_assert_int_eq(encode_error(), -EINVAL);
	core[100].type = FKV_MSG_STAT;
	in.batch.n = FKV_CLUSTER_BATCH_MAX;
	round_trip();
	in.batch.n++;
	ck_assert_int_eq(encode_error(), -EINVAL);
	drop_core(FKV_ARRAY_SIZE(core));
}
END_TEST

static struct fkv_listing *listing(uint32_t n, size_t key_len)
{
	struct fkv_listing *l = fkv_zalloc(sizeof(*l) + n * sizeof(l->at[0]));
	uint8_t bytes[FKV_KEY_MAX] = { 0 };

	l->n = n;
	l->more = true;
	for (uint32_t i = 0; i < n; i++) {
		memcpy(bytes, &i, sizeof(i));
		l->at[i].key = fkv_key_create(bytes, key_len);
		l->at[i].len = FKV_VALUE_MAX;
		l->at[i].put_id = UINT64_MAX;
		l->at[i].where = FLUXONKV_IN_MEMORY;
	}
	return l;
}

START_TEST(the_largest_listing_fits)
{
	const struct fkv_listing *l;

	memset(core, 0, sizeof(core));
	core[0].type = FKV_MSG_LIST_R;
	core[0].listing = listing(FKV_LIST_MAX, FKV_KEY_MAX);
	batch(1);
	round_trip();
	l = got.batch.msgs[0].listing;
	ck_assert_uint_eq(l->n, FKV_LIST_MAX);
	ck_assert(l->more);
	for (uint32_t i = 0; i < l->n; i++) {
		const struct fkv_listed *at = &core[0].listing->at[i];

		ck_assert(fkv_key_equal(l->at[i].key, at->key));
		ck_assert_uint_eq(l->at[i].len, FKV_VALUE_MAX);
		ck_assert_uint_eq(l->at[i].put_id, UINT64_MAX);
		ck_assert_uint_eq(l->at[i].where, FLUXONKV_IN_MEMORY);
	}
	/* two of them do not: to be sent one by one */
	core[1].type = FKV_MSG_LIST_R;
	core[1].listing = listing(FKV_LIST_MAX, FKV_KEY_MAX);
	in.batch.n = 2;
	ck_assert_int_eq(encode_error(), -EMSGSIZE);
	in.batch.n = 1;
	ck_assert_int_eq(fkv_cluster_encode(&in, NOW, buf, 1000, &len),
			 -EMSGSIZE);
	/* far too much is not a lack of memory */
	for (uint32_t i = 2; i < FKV_CLUSTER_BATCH_MAX; i++) {
		core[i].type = FKV_MSG_LIST_R;
		core[i].listing = listing(FKV_LIST_MAX, 4);
	}
	in.batch.n = FKV_CLUSTER_BATCH_MAX;
	ck_assert_int_eq(encode_error(), -EMSGSIZE);
	drop_core(FKV_CLUSTER_BATCH_MAX);
}
END_TEST

START_TEST(register_and_registered_come_back)
{
	static struct fkv_cluster_range busy[FKV_CLUSTER_RANGES_MAX + 1];

	for (uint32_t i = 0; i < FKV_ARRAY_SIZE(busy); i++) {
		busy[i].offset = (uint64_t)i * 8192;
		busy[i].len = 4096;
	}
	in.type = FKV_CLUSTER_REGISTER;
	in.reg = (struct fkv_cluster_register){
		.name = "owner-7", .incarnation = UINT64_MAX, .epoch_seen = 5,
		.segment_bytes = FKV_GIB, .ssd_devices = 2, .ssd_shards = 8,
		.was = UINT64_MAX - 1,
		.transports = FKV_CLUSTER_TCP | FKV_CLUSTER_VERBS,
		.address = "[fd00::1]:7000", .part = 1, .parts = 2,
		.n = FKV_CLUSTER_RANGES_MAX, .busy = busy,
	};
	round_trip();
	ck_assert_str_eq(got.reg.name, "owner-7");
	ck_assert_str_eq(got.reg.address, "[fd00::1]:7000");
	ck_assert_uint_eq(got.reg.incarnation, UINT64_MAX);
	ck_assert_uint_eq(got.reg.epoch_seen, 5);
	ck_assert_uint_eq(got.reg.segment_bytes, FKV_GIB);
	ck_assert_uint_eq(got.reg.ssd_devices, 2);
	ck_assert_uint_eq(got.reg.ssd_shards, 8);
	ck_assert_uint_eq(got.reg.was, UINT64_MAX - 1);
	ck_assert_uint_eq(got.reg.transports, 3);
	ck_assert_uint_eq(got.reg.part, 1);
	ck_assert_uint_eq(got.reg.parts, 2);
	ck_assert_uint_eq(got.reg.n, FKV_CLUSTER_RANGES_MAX);
	ck_assert_mem_eq(got.reg.busy, busy,
			 sizeof(busy[0]) * FKV_CLUSTER_RANGES_MAX);
	in.reg.n++;
	ck_assert_int_eq(encode_error(), -EINVAL);

	in.type = FKV_CLUSTER_REGISTERED;
	in.registered = (struct fkv_cluster_registered){
		.epoch = FKV_CLUSTER_EPOCH_MAX, .lease_ns = 3 * FKV_SEC,
		.heartbeat_ns = FKV_SEC / 2, .text = "welcome",
	};
	round_trip();
	ck_assert_int_eq(got.registered.res, 0);
	ck_assert_uint_eq(got.registered.epoch, FKV_CLUSTER_EPOCH_MAX);
	ck_assert_uint_eq(got.registered.lease_ns, 3 * FKV_SEC);
	ck_assert_uint_eq(got.registered.heartbeat_ns, FKV_SEC / 2);
	ck_assert_str_eq(got.registered.text, "welcome");
}
END_TEST

START_TEST(heartbeat_and_lease_come_back)
{
	static uint64_t ops[FKV_CLUSTER_OPS_MAX + 1];

	for (uint32_t i = 0; i < FKV_ARRAY_SIZE(ops); i++)
		ops[i] = UINT64_MAX - i;
	in.type = FKV_CLUSTER_HEARTBEAT;
	in.heartbeat = (struct fkv_cluster_heartbeat){
		.seq = 12, .part = 2, .parts = 3, .n = FKV_CLUSTER_OPS_MAX,
		.ops = ops,
	};
	round_trip();
	ck_assert_uint_eq(got.heartbeat.seq, 12);
	ck_assert_uint_eq(got.heartbeat.part, 2);
	ck_assert_uint_eq(got.heartbeat.parts, 3);
	ck_assert_uint_eq(got.heartbeat.n, FKV_CLUSTER_OPS_MAX);
	ck_assert_mem_eq(got.heartbeat.ops, ops,
			 FKV_CLUSTER_OPS_MAX * sizeof(ops[0]));
	in.heartbeat.n++;
	ck_assert_int_eq(encode_error(), -EINVAL);
	in.heartbeat.n = 0;
	round_trip();
	ck_assert_uint_eq(got.heartbeat.n, 0);

	in.type = FKV_CLUSTER_HEARTBEAT_REPLY;
	in.heartbeat_reply = (struct fkv_cluster_heartbeat_reply){
		.seq = 13, .res = -ESTALE, .epoch = 9, .lease_ns = 77,
	};
	round_trip();
	ck_assert_mem_eq(&got.heartbeat_reply, &in.heartbeat_reply,
			 sizeof(in.heartbeat_reply));
}
END_TEST

START_TEST(fence_quiet_and_bye_come_back)
{
	uint64_t ops[FKV_CLUSTER_RECALL_MAX + 1];

	for (int i = 0; i < 2; i++) {
		in.type = i ? FKV_CLUSTER_FENCED : FKV_CLUSTER_FENCE;
		in.fence = (struct fkv_cluster_fence){
			.incarnation = 5, .op = 6, .res = i ? -ENOENT : 0,
		};
		round_trip();
		ck_assert_uint_eq(got.fence.incarnation, 5);
		ck_assert_uint_eq(got.fence.op, 6);
		ck_assert_int_eq(got.fence.res, i ? -ENOENT : 0);
	}
	memset(ops, 0x77, sizeof(ops));
	in.type = FKV_CLUSTER_QUIET;
	in.quiet.ops = ops;
	in.quiet.n = FKV_CLUSTER_RECALL_MAX;
	round_trip();
	ck_assert_uint_eq(got.quiet.n, FKV_CLUSTER_RECALL_MAX);
	ck_assert_mem_eq(got.quiet.ops, ops, 256 * sizeof(ops[0]));
	in.quiet.n++;
	ck_assert_int_eq(encode_error(), -EINVAL);
	in.quiet.n = 0;
	ck_assert_int_eq(encode_error(), -EINVAL);

	in.type = FKV_CLUSTER_BYE;
	in.bye.reason = FKV_CLUSTER_RESTARTS;
	in.bye.text = "upgrade";
	round_trip();
	ck_assert_uint_eq(got.bye.reason, FKV_CLUSTER_RESTARTS);
	ck_assert_str_eq(got.bye.text, "upgrade");
	in.bye.reason = FKV_CLUSTER_LEAVE_NR;
	ck_assert_int_eq(encode_error(), -EINVAL);
}
END_TEST

START_TEST(member_comes_back)
{
	in.type = FKV_CLUSTER_MEMBER;
	in.member = (struct fkv_cluster_member){
		.incarnation = 77,
		.gone = true,
		.transports = FKV_CLUSTER_TCP,
		.name = "n1",
		.address = "10.0.0.1:7000",
	};
	round_trip();
	ck_assert_uint_eq(got.member.incarnation, 77);
	ck_assert(got.member.gone);
	ck_assert_uint_eq(got.member.transports, FKV_CLUSTER_TCP);
	ck_assert_str_eq(got.member.name, "n1");
	ck_assert_str_eq(got.member.address, "10.0.0.1:7000");
	in.member.transports = 1u << 9;
	ck_assert_int_eq(encode_error(), -EINVAL);
	in.member.transports = 0;
	in.member.incarnation = 0;
	ck_assert_int_eq(encode_error(), -EINVAL);
}
END_TEST

START_TEST(stage_read_and_pushed_come_back)
{
	const struct fkv_cluster_stage_read *s = &got.stage_read;

	in.type = FKV_CLUSTER_STAGE_READ;
	in.stage_read = (struct fkv_cluster_stage_read){
		.op = 4, .key = key("k"), .put_id = 8, .len = 123456,
		.incarnation = 99, .offset = 8192, .slot = 15,
		.generation = 1ULL << 40, .deadline_ns = NOW + 5,
	};
	round_trip();
	ck_assert(fkv_key_equal(s->key, in.stage_read.key));
	ck_assert_uint_eq(s->op, 4);
	ck_assert_uint_eq(s->put_id, 8);
	ck_assert_uint_eq(s->len, 123456);
	ck_assert_uint_eq(s->incarnation, 99);
	ck_assert_uint_eq(s->offset, 8192);
	ck_assert_uint_eq(s->slot, 15);
	ck_assert_uint_eq(s->generation, 1ULL << 40);
	ck_assert_uint_eq(s->deadline_ns, LATER + 5);
	fkv_key_put(in.stage_read.key);
	in.stage_read.key = NULL;
	ck_assert_int_eq(encode_error(), -EINVAL);

	in.type = FKV_CLUSTER_PUSHED;
	in.pushed = (struct fkv_cluster_pushed){ 4, -EBADMSG, 99 };
	round_trip();
	ck_assert_mem_eq(&got.pushed, &in.pushed, sizeof(in.pushed));
}
END_TEST

/* ---- out of range: made with protobuf itself ---- */

static Fkv__Pb__Message top;
static Fkv__Pb__Core c;

static int pack_and_decode(void)
{
	len = fkv__pb__message__pack(&top, buf);
	return decode();
}

static void pb_batch(Fkv__Pb__CoreType type)
{
	static uint8_t one_key[1] = { 'k' };
	static Fkv__Pb__Batch b;
	static Fkv__Pb__Core *list[1] = { &c };

	fkv__pb__message__init(&top);
	fkv__pb__batch__init(&b);
	fkv__pb__core__init(&c);
	top.version = FKV_CLUSTER_VERSION;
	top.kind_case = FKV__PB__MESSAGE__KIND_BATCH;
	top.batch = &b;
	b.msgs = list;
	b.n_msgs = 1;
	c.type = type;
	c.key.data = one_key;
	c.key.len = sizeof(one_key);
}

#define REFUSED(type_, err_, ...)					\
	do {								\
		pb_batch(FKV__PB__CORE_TYPE__##type_);			\
		ck_assert_int_eq(pack_and_decode(), 0);			\
		__VA_ARGS__;						\
		ck_assert_int_eq(pack_and_decode(), err_);		\
	} while (0)

START_TEST(numbers_out_of_range_are_refused_with_a_reason)
{
	static uint8_t long_key[FKV_KEY_MAX + 1];
	static char long_text[FKV_TEXT_MAX + 1];

	memset(long_text, 't', FKV_TEXT_MAX);
	REFUSED(STAT, -EPROTO, c.type = (Fkv__Pb__CoreType)9999);
	REFUSED(STAT, -EPROTO, c.type = FKV__PB__CORE_TYPE__NONE);
	REFUSED(STAT, -EPROTO, c.type = (Fkv__Pb__CoreType)-1);
	REFUSED(STAT, -EINVAL, c.key.len = 0);
	REFUSED(STAT, -E2BIG, c.key.data = long_key;
		c.key.len = sizeof(long_key));
	REFUSED(STAT, -E2BIG, c.key2.data = long_key;
		c.key2.len = sizeof(long_key));
	REFUSED(GET_START, -EINVAL, c.class_ = FKV_CLASS_NR);
	REFUSED(GET_START, -EINVAL, c.class_ = 256);
	REFUSED(PUT_START, -EINVAL, c.flags = 8);
	REFUSED(PUT_START, -EINVAL, c.len = FKV_VALUE_MAX + 1);
	REFUSED(PUT_PLAN, -EINVAL, c.offset = FKV_SEGMENT_MAX + 1);
	REFUSED(PUT_PLAN, -EINVAL, c.res = 1);
	REFUSED(PUT_PLAN, -EINVAL, c.res = -4096);
	REFUSED(PUT_PLAN, -E2BIG, c.text = long_text);
	REFUSED(GET_PLAN, -EINVAL, c.source = FLUXONKV_SOURCE_MISS + 1);
	REFUSED(STAT_R, -EINVAL, c.source = 4);
	REFUSED(EVICTED, -EINVAL, c.res = FKV_EVICT_HELD + 1);
	REFUSED(EVICTED, -EINVAL, c.res = -1);
	REFUSED(SSD_TAIL, -EINVAL, c.shard = FKV_SHARDS_MAX);
	pb_batch(FKV__PB__CORE_TYPE__LIST);
	ck_assert_int_eq(pack_and_decode(), -EINVAL);
	c.n = FKV_LIST_MAX + 1;
	ck_assert_int_eq(pack_and_decode(), -EINVAL);
	c.n = FKV_LIST_MAX;
	ck_assert_int_eq(pack_and_decode(), 0);
	pb_batch(FKV__PB__CORE_TYPE__LIST_R);
	ck_assert_int_eq(pack_and_decode(), -EINVAL);
	c.res = -ENOMEM;
	ck_assert_int_eq(pack_and_decode(), 0);
}
END_TEST

START_TEST(listings_out_of_range_are_refused)
{
	static Fkv__Pb__Listed at;
	static Fkv__Pb__Listed *list[FKV_LIST_MAX + 1];
	Fkv__Pb__Listing l;

	pb_batch(FKV__PB__CORE_TYPE__LIST_R);
	fkv__pb__listing__init(&l);
	fkv__pb__listed__init(&at);
	for (size_t i = 0; i < FKV_ARRAY_SIZE(list); i++)
		list[i] = &at;
	c.listing = &l;
	l.at = list;
	l.n_at = 1;
	at.key = c.key;
	ck_assert_int_eq(pack_and_decode(), 0);
	l.n_at = FKV_LIST_MAX + 1;
	ck_assert_int_eq(pack_and_decode(), -E2BIG);
	l.n_at = 2;
	at.len = FKV_VALUE_MAX + 1;
	ck_assert_int_eq(pack_and_decode(), -EINVAL);
	at.len = 0;
	at.where = 4;
	ck_assert_int_eq(pack_and_decode(), -EINVAL);
	at.where = 0;
	at.key.len = 0;
	ck_assert_int_eq(pack_and_decode(), -EINVAL);
}
END_TEST

START_TEST(another_version_or_kind_is_refused)
{
	pb_batch(FKV__PB__CORE_TYPE__STAT);
	top.version = FKV_CLUSTER_VERSION + 1;
	ck_assert_int_eq(pack_and_decode(), -EPROTONOSUPPORT);
	top.version = 0;
	ck_assert_int_eq(pack_and_decode(), -EPROTONOSUPPORT);
	len = 0;
	ck_assert_int_eq(decode(), -EPROTONOSUPPORT);
	fkv__pb__message__init(&top);
	top.version = FKV_CLUSTER_VERSION;
	ck_assert_int_eq(pack_and_decode(), -EPROTO);
	/* a kind that a later version has: field 99 */
	memcpy(buf, "\x08\x01\x9a\x06\x00", 5);
	len = 5;
	ck_assert_int_eq(decode(), -EPROTO);
}
END_TEST

START_TEST(unknown_fields_are_passed_over)
{
	pb_batch(FKV__PB__CORE_TYPE__STAT);
	len = fkv__pb__message__pack(&top, buf);
	/* field 200, a number; field 201, bytes */
	memcpy(buf + len, "\xc0\x0c\x05\xca\x0c\x03xyz", 9);
	len += 9;
	ck_assert_int_eq(decode(), 0);
	ck_assert_uint_eq(got.batch.n, 1);
}
END_TEST

START_TEST(every_cut_and_flip_is_an_error_or_a_message)
{
	size_t whole;

	memset(core, 0, sizeof(core));
	for (uint32_t i = 0; i < 4; i++) {
		fill(&core[i], i % 2 ? FKV_MSG_EVICT : FKV_MSG_GET_START);
		core[i].source = 0;
	}
	batch(4);
	round_trip();
	drop_core(4);
	whole = len;
	for (len = 0; len < whole; len++)
		ck_assert_int_ne(decode(), 0);
	for (size_t bit = 0; bit < whole * 8; bit++) {
		buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
		len = whole;
		decode();
		buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	ck_assert_int_eq(decode(), 0);
}
END_TEST

static size_t allocated;

static bool count_bytes(size_t size)
{
	allocated += size;
	return false;
}

/* Two bytes each of a message that is a hundred in memory. */
START_TEST(a_message_that_unpacks_to_too_much_is_refused)
{
	uint32_t inner = FKV_CLUSTER_BYTES_MAX - 10;

	/* version 1; batch of that length; empty messages */
	memcpy(buf, "\x08\x01\x12", 3);
	len = 3;
	for (uint32_t v = inner; v; v >>= 7)
		buf[len++] = (uint8_t)((v & 127) | (v > 127 ? 128 : 0));
	for (uint32_t i = 0; i < inner / 2; i++) {
		buf[len++] = 0x0a;
		buf[len++] = 0;
	}
	allocated = 0;
	fkv_alloc_fail = count_bytes;
	ck_assert_int_eq(decode(), -E2BIG);
	fkv_alloc_fail = NULL;
	ck_assert_uint_lt(allocated, 6 * FKV_MIB);
	len = FKV_CLUSTER_BYTES_MAX;
	ck_assert_int_ne(decode(), 0);
	ck_assert_int_eq(fkv_cluster_decode(buf, FKV_CLUSTER_BYTES_MAX + 1,
					    NOW, &got, &why), -E2BIG);
}
END_TEST

static unsigned int fail_at, allocations;

static bool fail_nth(size_t size)
{
	(void)size;
	return ++allocations == fail_at;
}

START_TEST(without_memory_nothing_is_lost)
{
	size_t whole;
	int err = -1;

	memset(core, 0, sizeof(core));
	fill(&core[0], FKV_MSG_LIST_R);
	core[0].listing = listing(1000, 100);
	batch(1);
	round_trip();
	whole = len;
	fkv_cluster_msg_done(&got);
	for (fail_at = 1; err; fail_at++) {
		fkv_alloc_fail = fail_nth;
		allocations = 0;
		err = fkv_cluster_decode(buf, whole, LATER, &got, &why);
		fkv_alloc_fail = NULL;
		ck_assert(!err || err == -ENOMEM);
	}
	ck_assert_uint_gt(fail_at, 1000);
	for (fail_at = 1, err = -1; err; fail_at++) {
		fkv_alloc_fail = fail_nth;
		allocations = 0;
		err = encode_error();
		fkv_alloc_fail = NULL;
		ck_assert(!err || err == -ENOMEM);
	}
	drop_core(1);
}
END_TEST

static void add_tests(TCase *tc)
{
	tcase_add_loop_test(tc, every_core_message_comes_back_as_it_was, 0,
			    FKV_MSG_NR);
	tcase_add_test(tc, a_deadline_that_has_passed_leaves_no_time);
	tcase_add_test(tc, keys_of_1_to_512_bytes_of_any_value);
	tcase_add_test(tc, a_batch_has_128_messages_or_256_recalls);
	tcase_add_test(tc, the_largest_listing_fits);
	tcase_add_test(tc, register_and_registered_come_back);
	tcase_add_test(tc, heartbeat_and_lease_come_back);
	tcase_add_test(tc, fence_quiet_and_bye_come_back);
	tcase_add_test(tc, member_comes_back);
	tcase_add_test(tc, stage_read_and_pushed_come_back);
	tcase_add_test(tc, numbers_out_of_range_are_refused_with_a_reason);
	tcase_add_test(tc, listings_out_of_range_are_refused);
	tcase_add_test(tc, another_version_or_kind_is_refused);
	tcase_add_test(tc, unknown_fields_are_passed_over);
	tcase_add_test(tc, every_cut_and_flip_is_an_error_or_a_message);
	tcase_add_test(tc, a_message_that_unpacks_to_too_much_is_refused);
	tcase_add_test(tc, without_memory_nothing_is_lost);
}

int main(void)
{
	Suite *s = suite_create("cluster");
	TCase *tc = tcase_create("cluster");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	add_tests(tc);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
