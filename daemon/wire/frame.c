// SPDX-License-Identifier: Apache-2.0
#include "bytes.h"
#include "frame.h"

#define ERRNO_MAX	4095u

void fkv_frame_make(const struct fkv_frame *f, uint8_t head[FKV_FRAME_HEAD])
{
	uint32_t word = f->kind == FKV_FRAME_ATTACH ? f->slot :
						      (uint32_t)-f->status;

	memset(head, 0, 4);
	head[0] = (uint8_t)f->kind;
	fkv_put32(head + 4, word);
	fkv_put64(head + 8, f->op);
	fkv_put64(head + 16, f->offset);
	fkv_put64(head + 24, f->len);
}

static bool in_range(uint64_t offset, uint64_t len, uint64_t len_max,
		     uint64_t end_max)
{
	return len >= 1 && len <= len_max && offset <= end_max - len;
}

/* Are the numbers such that this kind may have them? */
static bool may_be(const struct fkv_frame *f, uint32_t word, bool by_dialer)
{
	switch (f->kind) {
	case FKV_FRAME_ATTACH:
		return by_dialer && word < FKV_FRAME_SLOTS && !f->offset &&
		       !f->len;
	case FKV_FRAME_ATTACHED:
		return !by_dialer && word <= ERRNO_MAX && !f->offset && !f->len;
	case FKV_FRAME_PULL:
		return by_dialer && !word &&
		       in_range(f->offset, f->len, FKV_VALUE_MAX,
				FKV_SEGMENT_MAX);
	case FKV_FRAME_TARGET:
		return by_dialer && !word &&
		       in_range(f->offset, f->len, FKV_VALUE_MAX,
				FKV_VALUE_MAX) && !f->offset;
	case FKV_FRAME_DATA:
		return !by_dialer && !word &&
		       in_range(f->offset, f->len, FKV_FRAME_DATA_MAX,
				FKV_VALUE_MAX);
	case FKV_FRAME_END:
		return !by_dialer && word <= ERRNO_MAX && !f->offset &&
		       f->len <= FKV_VALUE_MAX;
	}
	return false;
}

int fkv_frame_parse(const uint8_t head[FKV_FRAME_HEAD], bool by_dialer,
		    struct fkv_frame *ret)
{
	uint32_t word = fkv_get32(head + 4);
	struct fkv_frame f = {
		.kind = head[0],
		.op = fkv_get64(head + 8),
		.offset = fkv_get64(head + 16),
		.len = fkv_get64(head + 24),
	};

	if (head[1] || head[2] || head[3] || !f.op ||
	    !may_be(&f, word, by_dialer))
		return -EPROTO;
	if (f.kind == FKV_FRAME_ATTACH)
		f.slot = word;
	else
		f.status = -(int)word;
	*ret = f;
	return 0;
}

/* The first that ends at @from or later. */
static uint32_t spans_find(const struct fkv_spans *s, uint64_t from)
{
	uint32_t i = 0;

	while (i < s->n && s->at[i].to < from)
		i++;
	return i;
}

static int spans_insert(struct fkv_spans *s, uint32_t i, uint64_t from,
			uint64_t to)
{
	if (s->n == FKV_SPANS_MAX)
		return -E2BIG;
	memmove(&s->at[i + 1], &s->at[i], (s->n - i) * sizeof(s->at[0]));
	s->at[i] = (struct fkv_span){ from, to };
	s->n++;
	return 0;
}

static void spans_remove(struct fkv_spans *s, uint32_t i)
{
	s->n--;
	memmove(&s->at[i], &s->at[i + 1], (s->n - i) * sizeof(s->at[0]));
}

int fkv_spans_add(struct fkv_spans *s, uint64_t from, uint64_t to)
{
	uint32_t i = spans_find(s, from);
	bool left = i < s->n && s->at[i].to == from;
	uint32_t after = i + left;
	bool right;

	fkv_assert(from < to);
	if (after < s->n && s->at[after].from < to)
		return -EEXIST;
	right = after < s->n && s->at[after].from == to;
	if (!left && !right)
		return spans_insert(s, i, from, to);
	if (left && right) {
		s->at[i].to = s->at[after].to;
		spans_remove(s, after);
	} else if (left) {
		s->at[i].to = to;
	} else {
		s->at[after].from = from;
	}
	return 0;
}

bool fkv_spans_full(const struct fkv_spans *s, uint64_t len)
{
	return s->n == 1 && !s->at[0].from && s->at[0].to == len;
}
