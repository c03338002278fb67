// SPDX-License-Identifier: Apache-2.0
/*
 * seeds.c - inputs of the targets that read binary
 *
 * seeds DIRECTORY: writes DIRECTORY/{request,reply,ondisk,kbody}/seed-*. Run
 * again (make fuzz-seeds) when a struct changes; texts are written by hand.
 */
#include <sys/stat.h>

#include "core/ssd/ondisk.h"
#include "linux/fluxonkv.h"

#include "fuzz/fuzz.h"

static const char *top;
static uint8_t buf[16384];
static size_t len;

static void write_seed(const char *target, const char *name, const char *more,
		       size_t from)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", top, target);
	mkdir(path, 0777);
	snprintf(path, sizeof(path), "%s/%s/seed-%s%s", top, target, more,
		 name);
	f = fopen(path, "we");
	fuzz_check(f && fwrite(buf + from, 1, len - from, f) == len - from &&
		   !fclose(f));
}

/* Bodies are read by the module too, which is told first which way. */
static void save(const char *target, const char *name)
{
	write_seed(target, name, "", 0);
	if (!strcmp(target, "request")) {
		memmove(buf + 1, buf, len++);
		buf[0] = 0;
		write_seed("kbody", name, "request-", 0);
		memmove(buf, buf + 1, --len);
	} else if (!strcmp(target, "reply")) {
		uint8_t op = buf[0], third = buf[2];

		buf[2] = (uint8_t)(op << 1 | 1);
		write_seed("kbody", name, "reply-", 2);
		buf[2] = third;
	}
}

static void put(const void *p, size_t n)
{
	fuzz_check(n <= sizeof(buf) - len);
	if (n)
		memcpy(buf + len, p, n);
	len += n;
}

static void pad(size_t n)
{
	memset(buf + len, 0, n);
	len += n;
}

/* ---- requests ---- */

static struct fluxonkv_req *request(uint16_t op)
{
	struct fluxonkv_req req = {
		.size = sizeof(req), .op = op,
		.item_size = sizeof(struct fluxonkv_item),
		.timeout_ns = 10 * FKV_SEC,
	};

	len = 0;
	put(&req, sizeof(req));
	return (struct fluxonkv_req *)buf;
}

static struct fluxonkv_item *item(const char *key, size_t key_len)
{
	struct fluxonkv_item it = { .key_len = (uint32_t)key_len };
	size_t at = len;

	put(&it, sizeof(it));
	put(key, key_len);
	pad(-key_len & 7);
	((struct fluxonkv_req *)buf)->nr++;
	return (struct fluxonkv_item *)(buf + at);
}

static void requests_of_keys(void)
{
	static const char longest[FKV_KEY_MAX + 1] = { 1, 2, 3 };

	request(FLUXONKV_OP_GET)->flags = FLUXONKV_REQ_INTO;
	item("model/7", 7);
	item("12345678", 8);
	save("request", "get-2");
	request(FLUXONKV_OP_GET);
	item(longest, FKV_KEY_MAX);
	save("request", "get-longest-key");
	request(FLUXONKV_OP_GET);
	item("a", 1);
	item(longest, FKV_KEY_MAX + 1);
	save("request", "get-key-too-long");
	request(FLUXONKV_OP_DELETE);
	item("a", 1);
	item("", 0);
	save("request", "delete-empty-key");
	request(FLUXONKV_OP_STAT)->flags = FLUXONKV_REQ_WARM;
	for (int i = 0; i < 16; i++)
		item("block", 5);
	save("request", "stat-16");
	request(FLUXONKV_OP_LIST)->arg = 100;
	item("model/", 6);
	item("", 0);
	save("request", "list");
	request(FLUXONKV_OP_COUNT);
	item("", 0);
	save("request", "count");
	request(FLUXONKV_OP_ADMIN);
	item("routes", 6);
	item("model\\x00", 9);
	save("request", "admin");
}

static void requests_of_ids(void)
{
	static const char *const names[] = {
		[FLUXONKV_OP_RELEASE] = "release",
		[FLUXONKV_OP_PUT_EXTEND] = "put-extend",
		[FLUXONKV_OP_PUT_COMMIT] = "put-commit",
		[FLUXONKV_OP_PUT_ABORT] = "put-abort",
	};

	for (uint16_t op = 0; op < FKV_ARRAY_SIZE(names); op++) {
		if (!names[op])
			continue;
		request(op);
		item("", 0)->id = 0x100000002;
		item("", 0)->id = 3;
		save("request", names[op]);
	}
	request(FLUXONKV_OP_PUT_COMMIT);
	item("", 0)->flags = FLUXONKV_COMMIT_HOLD;
	save("request", "put-commit-hold");
}

static void requests_of_puts(void)
{
	struct fluxonkv_item *it;

	request(FLUXONKV_OP_PUT_BEGIN);
	it = item("model/7", 7);
	it->len = 4096;
	it->flags = FLUXONKV_PUT_EXCL | FLUXONKV_PUT_NOWAIT |
		    FLUXONKV_PUT_MEMORY;
	item("b", 1)->len = FKV_VALUE_MAX;
	save("request", "put-begin");
	request(FLUXONKV_OP_PUT_BEGIN);
	item("b", 1)->len = FKV_VALUE_MAX + 1;
	item("c", 1)->id = 7;
	item("d", 1)->flags = 8;
	item("e", 1)->zero = 1;
	save("request", "put-begin-wrong-items");
}

/* Structs as a newer client would send them. */
static void requests_larger(void)
{
	struct fluxonkv_req *req = request(FLUXONKV_OP_GET);

	req->size += 8;
	req->item_size += 16;
	pad(8);
	item("a key", 5);
	/* the key behind the larger item */
	len -= 8;
	pad(16);
	put("a key", 5);
	pad(3);
	save("request", "get-larger-structs");
	buf[sizeof(*req)] = 1;
	save("request", "get-unknown-field");
}

static void requests_broken(void)
{
	request(FLUXONKV_OP_HELLO)->arg = 4026531834;
	save("request", "hello");
	len--;
	save("request", "short-header");
	request(13);
	save("request", "unknown-op");
	request(FLUXONKV_OP_GET);
	item("12345678", 8);
	len -= 4;
	save("request", "cut-key");
	request(FLUXONKV_OP_GET);
	item("1234567", 7);
	buf[len - 1] = 1;
	save("request", "dirty-padding");
	request(FLUXONKV_OP_GET);
	item("1", 1)->key_len = UINT32_MAX;
	save("request", "key-length-overflow");
	request(FLUXONKV_OP_RELEASE)->nr = FKV_BATCH_MAX + 1;
	save("request", "too-many");
}

/* ---- replies ---- */

static struct fluxonkv_rep *reply(uint8_t op, uint16_t asked, size_t item_size)
{
	struct fluxonkv_rep rep = {
		.size = sizeof(rep), .op = op, .item_size = (uint32_t)item_size,
	};

	len = 0;
	put(&op, 1);
	put(&asked, 2);
	put(&rep, sizeof(rep));
	return (struct fluxonkv_rep *)(buf + 3);
}

static void rep_set(size_t field, uint32_t v)
{
	memcpy(buf + 3 + field, &v, sizeof(v));
}

#define REP(field)	offsetof(struct fluxonkv_rep, field)

static void results(uint8_t op, uint32_t n, const char *name)
{
	struct fluxonkv_result res = {
		.source = 1, .offset = 4096, .len = 77, .version = 5, .id = 9,
	};

	reply(op, (uint16_t)n, sizeof(res));
	rep_set(REP(nr), n);
	for (uint32_t i = 0; i < n; i++) {
		res.status = i % 2 ? -2 : 0;
		put(&res, sizeof(res));
	}
	save("reply", name);
}

static void listed(const char *key, uint32_t key_len)
{
	struct fluxonkv_listed at = {
		.key_len = key_len, .where = 1, .len = 5, .version = 6,
	};

	put(&at, sizeof(at));
	put(key, key_len);
	pad(-key_len & 7);
}

static void replies_of_lists(void)
{
	reply(FLUXONKV_OP_LIST, 0xffff, sizeof(struct fluxonkv_listed));
	rep_set(REP(nr), 3);
	listed("a", 1);
	listed("12345678", 8);
	listed("123456789", 9);
	save("reply", "list");
	len -= 8;
	save("reply", "list-cut");
	reply(FLUXONKV_OP_LIST, 0xffff, sizeof(struct fluxonkv_listed) + 8);
	rep_set(REP(nr), 1);
	listed("", 0);
	pad(8);
	save("reply", "list-empty-key");
	reply(FLUXONKV_OP_LIST, 0xffff, sizeof(struct fluxonkv_listed));
	save("reply", "list-none");
}

static void replies_of_calls(void)
{
	struct fluxonkv_hello hello = {
		.abi = 1, .flags = 3, .incarnation = 4, .client = 5,
		.segment_bytes = FKV_GIB, .index_bytes = FKV_MIB,
		.pins_bytes = 4096, .client_cap_bytes = FKV_GIB / 2,
	};

	results(FLUXONKV_OP_GET, 1, "get-1");
	results(FLUXONKV_OP_GET, 12, "get-12");
	results(FLUXONKV_OP_PUT_BEGIN, 2, "put-begin");
	results(FLUXONKV_OP_STAT, 3, "stat");
	reply(FLUXONKV_OP_HELLO, 1, sizeof(hello));
	rep_set(REP(nr), 1);
	put(&hello, sizeof(hello));
	save("reply", "hello");
	reply(FLUXONKV_OP_COUNT, 0, sizeof(struct fluxonkv_result));
	save("reply", "count");
	reply(FLUXONKV_OP_ADMIN, 0xffff, sizeof(struct fluxonkv_result));
	rep_set(REP(text_len), 15);
	put("{\"balanced\":true}", 15);
	save("reply", "admin");
}

static void replies_broken(void)
{
	reply(FLUXONKV_OP_GET, 2, sizeof(struct fluxonkv_result));
	rep_set(REP(status), (uint32_t)-22);
	rep_set(REP(text_len), 10);
	put("a sentence", 10);
	save("reply", "error");
	rep_set(REP(text_len), UINT32_MAX);
	save("reply", "text-overflow");
	rep_set(REP(text_len), 10);
	rep_set(REP(status), 22);
	save("reply", "positive-status");
	reply(FLUXONKV_OP_GET, 1, 4096);
	rep_set(REP(nr), 1025);
	save("reply", "too-many");
	reply(FLUXONKV_OP_GET, 1, UINT32_MAX);
	rep_set(REP(nr), 1);
	save("reply", "item-too-large");
	reply(FLUXONKV_OP_DELETE, 1, sizeof(struct fluxonkv_result) + 8);
	rep_set(REP(nr), 1);
	pad(sizeof(struct fluxonkv_result) + 8);
	save("reply", "larger-result");
	buf[len - 1] = 1;
	save("reply", "unknown-field");
}

/* ---- blocks ---- */

static void block(uint8_t choice, const uint8_t *b, size_t n, const char *name)
{
	len = 0;
	put(&choice, 1);
	put(b, n);
	save("ondisk", name);
}

static void entries(void)
{
	struct fkv_entry_info e = {
		.type = FKV_ENTRY_VALUE, .store_id = { 1, 2, 3 },
		.incarnation = 77, .shard = 2, .key_len = 7, .vpos = 8192,
		.put_id = 0x100000009, .len = 4000, .entry_len = 8192,
		.sum = 0x1234567890, .seq = 5,
		.key = (const uint8_t *)"model/7",
	};
	uint8_t b[FKV_BLOCK];

	fkv_entry_encode(b, &e);
	block(2, b, sizeof(b), "entry-whole");
	block(0, b, 136, "entry");
	e.entry_len = 1ULL << 40;
	e.len = e.entry_len - FKV_BLOCK;
	e.lease_id = 3;
	fkv_entry_encode(b, &e);
	block(0, b, 136, "entry-large");
	e.type = FKV_ENTRY_SKIP;
	e.key_len = 0;
	fkv_entry_encode(b, &e);
	block(0, b, 112, "skip");
	b[8] = 2;
	block(0, b, 112, "entry-version-2");
	b[8] = 1;
	b[80] = 1;
	block(0, b, 112, "entry-odd-length");
	memset(b, 0, sizeof(b));
	block(0, b, 16, "entry-zeros");
}

static void entries_full(void)
{
	uint8_t key[FKV_KEY_MAX], b[FKV_BLOCK];
	struct fkv_entry_info e = {
		.type = FKV_ENTRY_VALUE, .key_len = FKV_KEY_MAX, .len = 1,
		.entry_len = 8192, .key = key,
	};

	for (size_t i = 0; i < sizeof(key); i++)
		key[i] = (uint8_t)(i + 1);
	fkv_entry_encode(b, &e);
	block(0, b, 640, "entry-longest-key");
	b[44] = 1;
	block(0, b, 640, "entry-key-one-longer");
	b[44] = 0;
	e.len = 4097;
	fkv_entry_encode(b, &e);
	block(0, b, 640, "entry-value-too-long");
	block(4, key, sizeof(key), "fields-entry");
	block(4, key + 1, 100, "fields-skip");
	block(5, key, 40, "fields-superblock");
}

static void superblocks(void)
{
	struct fkv_superblock sb = {
		.store_id = { 9, 8, 7 }, .instance_hash = 0x1122334455,
		.shard = 3, .nr_shards = 4, .ring_size = FKV_GIB,
	};
	uint8_t b[FKV_BLOCK];

	fkv_superblock_encode(b, &sb);
	block(3, b, sizeof(b), "superblock-whole");
	block(1, b, 56, "superblock");
	b[0] ^= 1;
	block(1, b, 56, "superblock-magic");
	b[0] ^= 1;
	b[8] = 9;
	block(1, b, 56, "superblock-version");
	b[4095] ^= 1;
	block(3, b, sizeof(b), "superblock-sum");
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: seeds DIRECTORY\n");
		return 2;
	}
	top = argv[1];
	requests_of_keys();
	requests_of_ids();
	requests_of_puts();
	requests_larger();
	requests_broken();
	replies_of_calls();
	replies_of_lists();
	replies_broken();
	entries();
	entries_full();
	superblocks();
	return 0;
}
