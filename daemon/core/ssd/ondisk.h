/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ondisk.h - bytes of the shard files: superblock and entry header
 *
 * Little endian, fixed offsets, each block with a checksum of itself; see
 * Documentation/ondisk.md. Pure: blocks are buffers of 4096 bytes.
 */
#ifndef FKV_CORE_SSD_ONDISK_H
#define FKV_CORE_SSD_ONDISK_H

#include "base/base.h"

#define FKV_SHARD_MAGIC		0x3144524853564b46ULL	/* "FKVSHRD1" */
#define FKV_ENTRY_MAGIC		0x3152544e45564b46ULL	/* "FKVENTR1" */
#define FKV_ONDISK_VERSION	1u
#define FKV_SUM_CHUNK_LOG2	20u

enum fkv_entry_type { FKV_ENTRY_VALUE = 1, FKV_ENTRY_SKIP = 3 };

struct fkv_superblock {
	uint8_t store_id[16];
	uint64_t instance_hash;		/* XXH3-64 of the instance key */
	uint32_t shard;
	uint32_t nr_shards;
	uint64_t ring_size;
};

struct fkv_entry_info {
	uint16_t type;
	uint8_t store_id[16];
	uint64_t incarnation;
	uint32_t shard;
	uint32_t key_len;
	uint64_t vpos;
	uint64_t put_id;
	uint64_t len;
	uint64_t entry_len;
	uint64_t sum;
	uint64_t seq;
	uint64_t lease_id;
	const uint8_t *key;		/* decode: into the block */
};

void fkv_superblock_encode(uint8_t block[FKV_BLOCK],
			   const struct fkv_superblock *sb);
/* 0, -ENOMSG: no superblock, -EPROTONOSUPPORT: other version, -EBADMSG */
int fkv_superblock_decode(const uint8_t block[FKV_BLOCK],
			  struct fkv_superblock *ret);

void fkv_entry_encode(uint8_t block[FKV_BLOCK],
		      const struct fkv_entry_info *info);
int fkv_entry_decode(const uint8_t block[FKV_BLOCK],
		     struct fkv_entry_info *ret);

#endif
