// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_session.c - frames of a session from a peer that says anything
 *
 * Input: a byte of choice, then steps: a frame with its length in front (2
 * bytes), or with length 0xffff what the side itself does. The lives in a hello
 * are made right, or all would end there. Whatever comes, numbers fit together
 * and messages are taken no more often than they came.
 */
#include "wire/bytes.h"
#include "wire/session.h"

#include "fuzz/fuzz.h"

static void check(const struct fkv_session *s)
{
	fuzz_check(s->acked <= s->sent && s->sent <= s->ever &&
		   s->ever <= s->last);
	fuzz_check(s->taken <= s->got && s->told <= s->taken);
	if (s->state == FKV_SESSION_ENDED) {
		fuzz_check(!s->tx.n && !s->rx.n && !s->tx.bytes);
		return;
	}
	fuzz_check(s->tx.n == s->last - s->acked);
	fuzz_check(s->rx.n == s->got - s->taken);
	fuzz_check(!s->next == (s->sent == s->last));
}

static void act(struct fkv_session *s, uint8_t what)
{
	static uint8_t out[FKV_SESSION_FRAME_MAX];

	switch (what % 6) {
	case 0:
		fkv_session_send(s, &what, 1, FKV_SESSION_REQUEST);
		break;
	case 1:
		fkv_free(fkv_session_take(s));
		break;
	case 2:
		fkv_session_disconnected(s);
		break;
	case 3:
		fkv_session_disconnected(s);
		fkv_session_connected(s);
		break;
	case 4:
		if (what == 4)
			fkv_session_end(s, -ETIMEDOUT);
		break;
	default:
		fuzz_check(fkv_session_output(s, out) <= sizeof(out));
	}
}

static void frame(struct fkv_session *s, struct fuzz_in *in, size_t n)
{
	uint8_t *p = fuzz_alloc(n + 1);
	const char *why = NULL;
	int err;

	fuzz_take(in, p, n);
	if (n >= 24 && (p[0] == 1 || p[0] == 4)) {
		fkv_put64(p + 8, s->id.incarnation);
		fkv_put64(p + 16, s->id.epoch);
	}
	err = fkv_session_input(s, p, n, &why);
	fuzz_check(!err || why);
	fuzz_check(!err || err == -EPROTO ||
		   (err == -ESTALE && s->state == FKV_SESSION_ENDED));
	free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct fkv_session_id id = { 1, 2 };
	struct fuzz_in in = { data, size };
	struct fkv_session s;

	fkv_session_init(&s, fuzz_u8(&in) & 1, id);
	while (in.left) {
		uint16_t n = fuzz_u16(&in);

		if (n == UINT16_MAX)
			act(&s, fuzz_u8(&in));
		else
			frame(&s, &in, n % 1024);
		check(&s);
	}
	fkv_session_done(&s);
	return 0;
}
