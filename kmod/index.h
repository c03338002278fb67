/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * index.h - the look-up, inline where hits are many
 *
 * Who includes it looks up in one place only, so that all of it is inlined
 * there.
 */
#ifndef FKV_KMOD_INDEX_H
#define FKV_KMOD_INDEX_H

#include "internal.h"

#define FKV_READERS_MAX	(FKV_INDEX_REF / 2)

/* A key that is looked up: @key is padded with zeros to a multiple of 8. */
struct fkv_probe {
	const u64 *key;
	u32 len;
	u32 hash;
};

/*
 * Multilinear hashing by half the multiplications (Lemire and Kaser, "Strongly
 * universal string hashing is fast", 2014): with secret random numbers any two
 * keys have the same hash with a probability of 2^-32, whoever chose them, at a
 * tenth of the instructions of a keyed pseudo-random function. Only those may
 * see hashes who may trace, or who are the owner.
 */
static __always_inline u32 fkv_hash(const struct fkv_instance *inst,
				    const u64 *key, u32 len)
{
	const u64 *m = inst->hash_key;
	u64 h = m[0] + m[1] * len;
	u32 ret;

	for (u32 i = 0; i < (len + 7) / 8; i++) {
		m += 2;
		h += (m[0] + (u32)key[i]) * (m[1] + (key[i] >> 32));
	}
	/*
	 * Keys that count have hashes in steps, many of which may be a multiple
	 * of the table's size. x(2x + 1) (Rivest et al., RC6, 1998) and x ^
	 * x >> 16 are permutations: what was not equal is not, nor a step.
	 */
	ret = h >> 32;
	ret *= 2 * ret + 1;
	return ret ^ ret >> 16;
}

static __always_inline u32 fkv_hash_probe(const void *data, u32 len, u32 seed)
{
	return ((const struct fkv_probe *)data)->hash ^ seed;
}

static __always_inline u32 fkv_hash_entry(const void *data, u32 len, u32 seed)
{
	return ((const struct fkv_entry *)data)->hash ^ seed;
}

static __always_inline int fkv_compare(struct rhashtable_compare_arg *arg,
				       const void *obj)
{
	const struct fkv_probe *p = arg->key;
	const struct fkv_entry *e = obj;

	if (e->hash != p->hash || e->key_len != p->len)
		return 1;
	for (u32 i = 0; i < (p->len + 7) / 8; i++)
		if (e->key[i] != p->key[i])
			return 1;
	return 0;
}

static const struct rhashtable_params fkv_index_params = {
	.head_offset = offsetof(struct fkv_entry, node),
	.key_len = sizeof(struct fkv_probe),
	.hashfn = fkv_hash_probe,
	.obj_hashfn = fkv_hash_entry,
	.obj_cmpfn = fkv_compare,
	.automatic_shrinking = true,
};

/*
 * One reader more; false when it has ended. The first one's bytes are added to
 * *@held, which the caller adds to instance->held_bytes.
 */
static __always_inline bool fkv_entry_get(struct fkv_entry *e, u64 *held)
{
	int old = atomic_fetch_add_unless(&e->refs, 1, 0);

	if (old == FKV_INDEX_REF)
		*held += PAGE_ALIGN(e->len);
	/* far from what would look like the index's reference */
	if (unlikely((old & (FKV_INDEX_REF - 1)) >= FKV_READERS_MAX)) {
		atomic_dec(&e->refs);
		return false;
	}
	return old;
}

/*
 * Under rcu_read_lock(): the version that is published for a key, with a
 * reference (*@held as above), or NULL. Sets the probe's hash.
 */
static __always_inline struct fkv_entry *
fkv_index_get(struct fkv_instance *inst, struct fkv_probe *p, u64 *held)
{
	struct fkv_entry *e;

	p->hash = fkv_hash(inst, p->key, p->len);
	e = rhashtable_lookup(&inst->index, p, fkv_index_params);
	return e && fkv_entry_get(e, held) ? e : NULL;
}

#endif
