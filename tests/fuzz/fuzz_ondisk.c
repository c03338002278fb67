// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_ondisk.c - blocks of the shard files
 *
 * Input: a byte of choice, then the front of the block. The checksum is made
 * right afterwards unless the choice says no, or nothing would get past it.
 * What decodes must encode to the very block again. Or else the input is the
 * fields of a header: when they are possible, they come back.
 */
#include "base/hash.h"
#include "core/ssd/ondisk.h"

#include "fuzz/fuzz.h"

enum { CHOOSE_SUPERBLOCK = 1, CHOOSE_NO_SUM = 2, CHOOSE_FIELDS = 4 };

static void check_entry(const uint8_t *block, int err,
			const struct fkv_entry_info *e)
{
	uint8_t again[FKV_BLOCK];

	if (err)
		return;
	fuzz_check(e->type == FKV_ENTRY_VALUE || e->type == FKV_ENTRY_SKIP);
	fuzz_check(e->key_len <= FKV_KEY_MAX);
	fuzz_check(e->key >= block &&
		   e->key + e->key_len <= block + FKV_BLOCK - 8);
	fuzz_check(e->entry_len >= FKV_BLOCK && !(e->entry_len % FKV_BLOCK));
	if (e->type == FKV_ENTRY_VALUE) {
		fuzz_check(e->key_len > 0);
		fuzz_check(e->len <= e->entry_len - FKV_BLOCK);
	}
	fkv_entry_encode(again, e);
	fuzz_check(!memcmp(again, block, FKV_BLOCK));
}

static void check_superblock(const uint8_t *block, int err,
			     const struct fkv_superblock *sb)
{
	uint8_t again[FKV_BLOCK];

	if (err)
		return;
	fuzz_check(sb->shard < sb->nr_shards);
	fuzz_check(sb->nr_shards <= FKV_SHARDS_MAX);
	fuzz_check(sb->ring_size && !(sb->ring_size % FKV_BLOCK));
	fkv_superblock_encode(again, sb);
	fuzz_check(!memcmp(again, block, FKV_BLOCK));
}

static void check_error(int err)
{
	fuzz_check(!err || err == -ENOMSG || err == -EBADMSG ||
		   err == -EPROTONOSUPPORT);
}

/* One bit elsewhere, and it must not pass. */
static void check_flipped(uint8_t *block, bool superblock, unsigned int bit)
{
	struct fkv_superblock sb;
	struct fkv_entry_info e;

	block[bit / 8] ^= (uint8_t)(1u << bit % 8);
	fuzz_check(superblock ? fkv_superblock_decode(block, &sb) :
				fkv_entry_decode(block, &e));
	block[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

static void take_superblock(struct fuzz_in *in, uint8_t *block)
{
	struct fkv_superblock sb, got;

	memset(&sb, 0, sizeof(sb));
	memset(&got, 0, sizeof(got));
	fuzz_take(in, sb.store_id, sizeof(sb.store_id));
	fuzz_take(in, &sb.instance_hash, sizeof(sb.instance_hash));
	sb.nr_shards = 1 + fuzz_u8(in) % FKV_SHARDS_MAX;
	sb.shard = fuzz_u8(in) % sb.nr_shards;
	sb.ring_size = (1 + (uint64_t)fuzz_u16(in)) * FKV_BLOCK;
	fkv_superblock_encode(block, &sb);
	fuzz_check(!fkv_superblock_decode(block, &got));
	fuzz_check(!memcmp(&sb, &got, sizeof(sb)));
}

static void take_entry(struct fuzz_in *in, uint8_t *block)
{
	uint8_t key[FKV_KEY_MAX];
	struct fkv_entry_info e, got;

	memset(&e, 0, sizeof(e));
	memset(&got, 0, sizeof(got));
	e.type = fuzz_u8(in) % 2 ? FKV_ENTRY_VALUE : FKV_ENTRY_SKIP;
	e.entry_len = (1 + (uint64_t)fuzz_u16(in)) * FKV_BLOCK;
	if (e.type == FKV_ENTRY_VALUE) {
		e.key_len = 1 + fuzz_u16(in) % FKV_KEY_MAX;
		e.len = fuzz_u16(in) % (e.entry_len - FKV_BLOCK + 1);
	}
	fuzz_take(in, e.store_id, sizeof(e.store_id));
	fuzz_take(in, &e.incarnation, sizeof(e.incarnation));
	fuzz_take(in, &e.shard, sizeof(e.shard));
	fuzz_take(in, &e.vpos, sizeof(e.vpos));
	fuzz_take(in, &e.put_id, sizeof(e.put_id));
	fuzz_take(in, &e.sum, sizeof(e.sum));
	fuzz_take(in, &e.seq, sizeof(e.seq));
	fuzz_take(in, &e.lease_id, sizeof(e.lease_id));
	fuzz_take(in, key, sizeof(key));
	e.key = key;
	fkv_entry_encode(block, &e);
	fuzz_check(!fkv_entry_decode(block, &got));
	fuzz_check(!memcmp(got.key, key, e.key_len));
	got.key = key;
	fuzz_check(!memcmp(&e, &got, sizeof(e)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	uint8_t choice = fuzz_u8(&in);
	uint8_t *block = fuzz_alloc(FKV_BLOCK);
	struct fkv_superblock sb;
	struct fkv_entry_info e;
	int err;

	if (choice & CHOOSE_FIELDS) {
		if (choice & CHOOSE_SUPERBLOCK)
			take_superblock(&in, block);
		else
			take_entry(&in, block);
		free(block);
		return 0;
	}
	fuzz_take(&in, block, FKV_BLOCK);
	if (!(choice & CHOOSE_NO_SUM)) {
		uint64_t sum = fkv_hash_bytes(block, FKV_BLOCK - 8);

		for (int i = 0; i < 8; i++)
			block[FKV_BLOCK - 8 + i] = (uint8_t)(sum >> 8 * i);
	}
	if (choice & CHOOSE_SUPERBLOCK) {
		err = fkv_superblock_decode(block, &sb);
		check_superblock(block, err, &sb);
	} else {
		err = fkv_entry_decode(block, &e);
		check_entry(block, err, &e);
	}
	check_error(err);
	if (!err)
		check_flipped(block, choice & CHOOSE_SUPERBLOCK,
			      (unsigned int)(block[64] * 128));
	free(block);
	return 0;
}
