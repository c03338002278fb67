// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>

#include "wire/frame.h"

static const struct fkv_frame good[] = {
	{ .kind = FKV_FRAME_ATTACH, .slot = 15, .op = 1 },
	{ .kind = FKV_FRAME_ATTACHED, .status = -ESTALE, .op = 1 },
	{ .kind = FKV_FRAME_PULL, .op = 7, .offset = FKV_SEGMENT_MAX - 5,
	  .len = 5 },
	{ .kind = FKV_FRAME_TARGET, .op = 7, .len = FKV_VALUE_MAX },
	{ .kind = FKV_FRAME_DATA, .op = UINT64_MAX, .offset = 9,
	  .len = FKV_FRAME_DATA_MAX },
	{ .kind = FKV_FRAME_END, .op = 3, .status = -EIO, .len = 12 },
};

static bool by_dialer(const struct fkv_frame *f)
{
	return f->kind == FKV_FRAME_ATTACH || f->kind == FKV_FRAME_PULL ||
	       f->kind == FKV_FRAME_TARGET;
}

START_TEST(a_frame_is_what_was_made)
{
	uint8_t head[FKV_FRAME_HEAD];
	struct fkv_frame f;

	for (size_t i = 0; i < FKV_ARRAY_SIZE(good); i++) {
		fkv_frame_make(&good[i], head);
		ck_assert_int_eq(fkv_frame_parse(head, by_dialer(&good[i]), &f),
				 0);
		ck_assert_int_eq(f.kind, good[i].kind);
		ck_assert_uint_eq(f.slot, good[i].slot);
		ck_assert_int_eq(f.status, good[i].status);
		ck_assert_uint_eq(f.op, good[i].op);
		ck_assert_uint_eq(f.offset, good[i].offset);
		ck_assert_uint_eq(f.len, good[i].len);
		/* nobody says what the other end says */
		ck_assert_int_eq(fkv_frame_parse(head, !by_dialer(&good[i]),
						 &f), -EPROTO);
	}
}
END_TEST

static int parse(struct fkv_frame f)
{
	uint8_t head[FKV_FRAME_HEAD];
	struct fkv_frame ret;

	fkv_frame_make(&f, head);
	return fkv_frame_parse(head, by_dialer(&f), &ret);
}

static enum fkv_frame_kind no_kind(unsigned int n)
{
	return (enum fkv_frame_kind)n;
}

#define refuse(...) \
	ck_assert_int_eq(parse((struct fkv_frame){ __VA_ARGS__ }), -EPROTO)

START_TEST(a_frame_out_of_range_is_none)
{
	refuse(.kind = no_kind(0), .op = 1);
	refuse(.kind = no_kind(FKV_FRAME_END + 1), .op = 1);
	refuse(.kind = FKV_FRAME_ATTACH, .slot = FKV_FRAME_SLOTS, .op = 1);
	refuse(.kind = FKV_FRAME_ATTACH, .op = 0);
	refuse(.kind = FKV_FRAME_ATTACH, .op = 1, .len = 1);
	refuse(.kind = FKV_FRAME_ATTACHED, .op = 1, .status = -4096);
	refuse(.kind = FKV_FRAME_ATTACHED, .op = 1, .offset = 1);
	refuse(.kind = FKV_FRAME_PULL, .op = 1, .len = 0);
	refuse(.kind = FKV_FRAME_PULL, .op = 1, .len = FKV_VALUE_MAX + 1);
	refuse(.kind = FKV_FRAME_PULL, .op = 1, .len = 2,
	       .offset = FKV_SEGMENT_MAX - 1);
	refuse(.kind = FKV_FRAME_PULL, .op = 1, .len = 2, .offset = UINT64_MAX);
	refuse(.kind = FKV_FRAME_PULL, .op = 1, .len = 2, .status = -1);
	refuse(.kind = FKV_FRAME_TARGET, .op = 1, .len = 0);
	refuse(.kind = FKV_FRAME_TARGET, .op = 1, .len = 2, .offset = 1);
	refuse(.kind = FKV_FRAME_DATA, .op = 1, .len = 0);
	refuse(.kind = FKV_FRAME_DATA, .op = 1, .len = FKV_FRAME_DATA_MAX + 1);
	refuse(.kind = FKV_FRAME_DATA, .op = 1, .len = 2,
	       .offset = FKV_VALUE_MAX - 1);
	refuse(.kind = FKV_FRAME_DATA, .op = 0, .len = 2);
	refuse(.kind = FKV_FRAME_END, .op = 1, .len = FKV_VALUE_MAX + 1);
	refuse(.kind = FKV_FRAME_END, .op = 1, .offset = 1);
}
END_TEST

START_TEST(padding_is_zero)
{
	uint8_t head[FKV_FRAME_HEAD];
	struct fkv_frame f;

	for (int i = 1; i < 4; i++) {
		fkv_frame_make(&good[2], head);
		head[i] = 1;
		ck_assert_int_eq(fkv_frame_parse(head, true, &f), -EPROTO);
	}
}
END_TEST

#define UNITS	24u

/* Each unit is there or not: what spans say must agree with that. */
static void spans_agree(const struct fkv_spans *s, uint32_t have)
{
	uint32_t seen = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		ck_assert_uint_lt(s->at[i].from, s->at[i].to);
		if (i)
			ck_assert_uint_lt(s->at[i - 1].to, s->at[i].from);
		for (uint64_t u = s->at[i].from; u < s->at[i].to; u++)
			seen |= 1u << u;
	}
	ck_assert_uint_eq(seen, have);
	ck_assert_int_eq(fkv_spans_full(s, UNITS), have == (1u << UNITS) - 1);
}

START_TEST(spans_are_what_has_come)
{
	unsigned int full = 0;

	srand(1);
	for (int round = 0; round < 200; round++) {
		struct fkv_spans s = { 0 };
		uint32_t have = 0;

		for (int i = 0; i < 200; i++) {
			uint32_t from = (uint32_t)rand() % UNITS;
			uint32_t len = 1 + (uint32_t)rand() % 4;
			uint32_t to = from + len > UNITS ? UNITS : from + len;
			uint32_t bits = ((1u << to) - 1) & ~((1u << from) - 1);
			int err = fkv_spans_add(&s, from, to);

			ck_assert_int_eq(err, have & bits ? -EEXIST : 0);
			if (!err)
				have |= bits;
			spans_agree(&s, have);
		}
		full += fkv_spans_full(&s, UNITS);
	}
	ck_assert_uint_gt(full, 50);
}
END_TEST

START_TEST(holes_are_bounded)
{
	struct fkv_spans s = { 0 };
	uint64_t i;

	for (i = 0; i < FKV_SPANS_MAX; i++)
		ck_assert_int_eq(fkv_spans_add(&s, 2 * i, 2 * i + 1), 0);
	ck_assert_int_eq(fkv_spans_add(&s, 2 * i, 2 * i + 1), -E2BIG);
	/* what closes one has room */
	ck_assert_int_eq(fkv_spans_add(&s, 1, 2), 0);
	ck_assert_int_eq(fkv_spans_add(&s, 2 * i, 2 * i + 1), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("frame");
	TCase *tc = tcase_create("frame");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_frame_is_what_was_made);
	tcase_add_test(tc, a_frame_out_of_range_is_none);
	tcase_add_test(tc, padding_is_zero);
	tcase_add_test(tc, spans_are_what_has_come);
	tcase_add_test(tc, holes_are_bounded);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
