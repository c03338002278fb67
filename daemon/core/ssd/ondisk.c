// SPDX-License-Identifier: Apache-2.0
#include <endian.h>

#include "base/hash.h"
#include "core/ssd/ondisk.h"

struct disk_superblock {
	uint64_t magic;
	uint16_t version;
	uint16_t zero0;
	uint32_t zero1;
	uint8_t store_id[16];
	uint64_t instance_hash;
	uint32_t shard;
	uint32_t nr_shards;
	uint64_t ring_size;
	uint8_t zero[4032];
	uint64_t sum;
};

struct disk_entry {
	uint64_t magic;
	uint16_t version;
	uint16_t type;
	uint32_t flags;
	uint8_t store_id[16];
	uint64_t incarnation;
	uint32_t shard;
	uint32_t key_len;
	uint64_t vpos;
	uint32_t sum_chunk;
	uint32_t zero0;
	uint64_t put_id;
	uint64_t len;
	uint64_t entry_len;
	uint64_t payload_sum;
	uint64_t seq;
	uint64_t lease_id;
	uint8_t zero1[16];
	uint8_t key[FKV_KEY_MAX];
	uint8_t zero2[3448];
	uint64_t header_sum;
};

#define AT(type, field, off) \
	_Static_assert(offsetof(struct type, field) == (off), #field)
AT(disk_superblock, store_id, 16);
AT(disk_superblock, instance_hash, 32);
AT(disk_superblock, shard, 40);
AT(disk_superblock, ring_size, 48);
AT(disk_superblock, sum, 4088);
AT(disk_entry, version, 8);
AT(disk_entry, type, 10);
AT(disk_entry, flags, 12);
AT(disk_entry, store_id, 16);
AT(disk_entry, incarnation, 32);
AT(disk_entry, shard, 40);
AT(disk_entry, key_len, 44);
AT(disk_entry, vpos, 48);
AT(disk_entry, sum_chunk, 56);
AT(disk_entry, put_id, 64);
AT(disk_entry, len, 72);
AT(disk_entry, entry_len, 80);
AT(disk_entry, payload_sum, 88);
AT(disk_entry, seq, 96);
AT(disk_entry, lease_id, 104);
AT(disk_entry, zero1, 112);
AT(disk_entry, key, 128);
AT(disk_entry, zero2, 640);
AT(disk_entry, header_sum, 4088);
_Static_assert(sizeof(struct disk_superblock) == FKV_BLOCK, "superblock");
_Static_assert(sizeof(struct disk_entry) == FKV_BLOCK, "entry header");

static uint64_t block_sum(const void *block)
{
	return fkv_hash_bytes(block, FKV_BLOCK - 8);
}

void fkv_superblock_encode(uint8_t block[FKV_BLOCK],
			   const struct fkv_superblock *sb)
{
	struct disk_superblock d = {
		.magic = htole64(FKV_SHARD_MAGIC),
		.version = htole16(FKV_ONDISK_VERSION),
		.instance_hash = htole64(sb->instance_hash),
		.shard = htole32(sb->shard),
		.nr_shards = htole32(sb->nr_shards),
		.ring_size = htole64(sb->ring_size),
	};

	memcpy(d.store_id, sb->store_id, sizeof(d.store_id));
	d.sum = htole64(block_sum(&d));
	memcpy(block, &d, sizeof(d));
}

static bool superblock_possible(const struct fkv_superblock *sb)
{
	return sb->nr_shards <= FKV_SHARDS_MAX && sb->shard < sb->nr_shards &&
	       sb->ring_size && !(sb->ring_size % FKV_BLOCK);
}

int fkv_superblock_decode(const uint8_t block[FKV_BLOCK],
			  struct fkv_superblock *ret)
{
	uint8_t again[FKV_BLOCK];
	struct disk_superblock d;

	memcpy(&d, block, sizeof(d));
	if (le64toh(d.magic) != FKV_SHARD_MAGIC)
		return -ENOMSG;
	if (le64toh(d.sum) != block_sum(&d))
		return -EBADMSG;
	if (le16toh(d.version) != FKV_ONDISK_VERSION)
		return -EPROTONOSUPPORT;
	memcpy(ret->store_id, d.store_id, sizeof(d.store_id));
	ret->instance_hash = le64toh(d.instance_hash);
	ret->shard = le32toh(d.shard);
	ret->nr_shards = le32toh(d.nr_shards);
	ret->ring_size = le64toh(d.ring_size);
	if (!superblock_possible(ret))
		return -EBADMSG;
	/* no byte of it goes unread: what is zero must be zero */
	fkv_superblock_encode(again, ret);
	return memcmp(again, block, FKV_BLOCK) ? -EBADMSG : 0;
}

void fkv_entry_encode(uint8_t block[FKV_BLOCK],
		      const struct fkv_entry_info *info)
{
	struct disk_entry d = {
		.magic = htole64(FKV_ENTRY_MAGIC),
		.version = htole16(FKV_ONDISK_VERSION),
		.type = htole16(info->type),
		.incarnation = htole64(info->incarnation),
		.shard = htole32(info->shard),
		.key_len = htole32(info->key_len),
		.vpos = htole64(info->vpos),
		.sum_chunk = htole32(FKV_SUM_CHUNK_LOG2),
		.put_id = htole64(info->put_id),
		.len = htole64(info->len),
		.entry_len = htole64(info->entry_len),
		.payload_sum = htole64(info->sum),
		.seq = htole64(info->seq),
		.lease_id = htole64(info->lease_id),
	};

	fkv_assert(info->key_len <= FKV_KEY_MAX);
	memcpy(d.store_id, info->store_id, sizeof(d.store_id));
	if (info->key_len)
		memcpy(d.key, info->key, info->key_len);
	d.header_sum = htole64(block_sum(&d));
	memcpy(block, &d, sizeof(d));
}

static int entry_check(const struct disk_entry *d)
{
	uint16_t type = le16toh(d->type);
	uint64_t entry_len = le64toh(d->entry_len);

	if (le16toh(d->version) != FKV_ONDISK_VERSION || d->flags)
		return -EPROTONOSUPPORT;
	if (le32toh(d->sum_chunk) != FKV_SUM_CHUNK_LOG2)
		return -EPROTONOSUPPORT;
	if (type != FKV_ENTRY_VALUE && type != FKV_ENTRY_SKIP)
		return -EPROTONOSUPPORT;
	if (entry_len < FKV_BLOCK || entry_len % FKV_BLOCK)
		return -EBADMSG;
	if (le32toh(d->key_len) > FKV_KEY_MAX)
		return -EBADMSG;
	if (type == FKV_ENTRY_SKIP)
		return 0;
	if (!le32toh(d->key_len))
		return -EBADMSG;
	return le64toh(d->len) > entry_len - FKV_BLOCK ? -EBADMSG : 0;
}

int fkv_entry_decode(const uint8_t block[FKV_BLOCK],
		     struct fkv_entry_info *ret)
{
	uint8_t again[FKV_BLOCK];
	struct disk_entry d;
	int err;

	memcpy(&d, block, sizeof(d));
	if (le64toh(d.magic) != FKV_ENTRY_MAGIC)
		return -ENOMSG;
	if (le64toh(d.header_sum) != block_sum(&d))
		return -EBADMSG;
	err = entry_check(&d);
	if (err)
		return err;
	*ret = (struct fkv_entry_info){
		.type = le16toh(d.type),
		.incarnation = le64toh(d.incarnation),
		.shard = le32toh(d.shard),
		.key_len = le32toh(d.key_len),
		.vpos = le64toh(d.vpos),
		.put_id = le64toh(d.put_id),
		.len = le64toh(d.len),
		.entry_len = le64toh(d.entry_len),
		.sum = le64toh(d.payload_sum),
		.seq = le64toh(d.seq),
		.lease_id = le64toh(d.lease_id),
		.key = block + offsetof(struct disk_entry, key),
	};
	memcpy(ret->store_id, d.store_id, sizeof(d.store_id));
	fkv_entry_encode(again, ret);
	return memcmp(again, block, FKV_BLOCK) ? -EBADMSG : 0;
}
