// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "session.h"
#include "bytes.h"

enum kind { HELLO = 1, DATA, ACK, END };

#define HELLO_SIZE	32u
#define DATA_SIZE	24u
#define ACK_SIZE	16u
#define END_SIZE	24u
#define FLAG_NEW	1u

/* Enough for a frame: more would only make the peer wait for its end. */
#define DATA_ENOUGH	(64u * 1024)

static_assert(DATA_SIZE + 4 + FKV_SESSION_MSG_MAX <= FKV_SESSION_FRAME_MAX,
	      "the largest message fits into a frame");

static void queue_init(struct fkv_session_queue *q)
{
	TAILQ_INIT(&q->msgs);
	q->n = 0;
	q->bytes = 0;
}

static void queue_add(struct fkv_session_queue *q, struct fkv_session_msg *m)
{
	TAILQ_INSERT_TAIL(&q->msgs, m, link);
	q->n++;
	q->bytes += m->len;
}

static struct fkv_session_msg *queue_pop(struct fkv_session_queue *q)
{
	struct fkv_session_msg *m = TAILQ_FIRST(&q->msgs);

	if (!m)
		return NULL;
	TAILQ_REMOVE(&q->msgs, m, link);
	q->n--;
	q->bytes -= m->len;
	return m;
}

static void queue_clear(struct fkv_session_queue *q)
{
	struct fkv_session_msg *m;

	while ((m = queue_pop(q)))
		fkv_free(m);
}

static bool queue_full(const struct fkv_session_queue *q, uint32_t times)
{
	return q->n >= FKV_SESSION_MSGS * times ||
	       q->bytes >= FKV_SESSION_BYTES * times;
}

static struct fkv_session_msg *msg_create(const void *data, size_t len)
{
	struct fkv_session_msg *m = fkv_zalloc(sizeof(*m) + len);

	if (!m)
		return NULL;
	m->len = (uint32_t)len;
	memcpy(m->data, data, len);
	return m;
}

void fkv_session_init(struct fkv_session *s, bool dialer,
		      struct fkv_session_id id)
{
	memset(s, 0, sizeof(*s));
	s->id = id;
	s->dialer = dialer;
	queue_init(&s->tx);
	queue_init(&s->rx);
}

void fkv_session_done(struct fkv_session *s)
{
	queue_clear(&s->tx);
	queue_clear(&s->rx);
}

int fkv_session_send(struct fkv_session *s, const void *data, size_t len,
		     enum fkv_session_class class)
{
	struct fkv_session_msg *m;

	if (s->state == FKV_SESSION_ENDED)
		return -ESHUTDOWN;
	if (!len || len > FKV_SESSION_MSG_MAX)
		return -EMSGSIZE;
	if (class == FKV_SESSION_REQUEST && queue_full(&s->tx, 1))
		return -EAGAIN;
	if (queue_full(&s->tx, FKV_SESSION_HARD))
		return -ENOBUFS;
	m = msg_create(data, len);
	if (!m)
		return -ENOMEM;
	queue_add(&s->tx, m);
	s->last++;
	if (!s->next)
		s->next = m;
	return 0;
}

/* All that is kept is to be sent, as nothing was on this connection. */
static void rewind_tx(struct fkv_session *s)
{
	s->sent = s->acked;
	s->next = TAILQ_FIRST(&s->tx.msgs);
}

void fkv_session_connected(struct fkv_session *s)
{
	if (s->state == FKV_SESSION_ENDED) {
		s->end_due = true;
		return;
	}
	s->state = FKV_SESSION_OPENING;
	s->hello_due = s->dialer;
	rewind_tx(s);
	s->told = 0;
}

void fkv_session_disconnected(struct fkv_session *s)
{
	s->hello_due = false;
	s->end_due = false;
	if (s->state != FKV_SESSION_ENDED)
		s->state = FKV_SESSION_IDLE;
}

void fkv_session_end(struct fkv_session *s, int reason)
{
	if (s->state == FKV_SESSION_ENDED)
		return;
	s->end_due = s->state != FKV_SESSION_IDLE;
	s->hello_due = false;
	s->state = FKV_SESSION_ENDED;
	s->reason = reason;
	s->next = NULL;
	queue_clear(&s->tx);
	queue_clear(&s->rx);
}

static int over(struct fkv_session *s, const char **why, const char *text)
{
	*why = text;
	fkv_session_end(s, -ESTALE);
	return -ESTALE;
}

static int broken(const char **why, const char *text)
{
	*why = text;
	return -EPROTO;
}

/*
 * The peer has taken all up to @ack; perhaps from an earlier connection, and
 * then they need not be sent again.
 */
static int acknowledged(struct fkv_session *s, uint64_t ack, const char **why)
{
	if (ack > s->ever)
		return broken(why, "what was not sent is acknowledged");
	for (; s->acked < ack; s->acked++)
		fkv_free(queue_pop(&s->tx));
	if (s->sent < s->acked) {
		s->sent = s->acked;
		s->next = TAILQ_FIRST(&s->tx.msgs);
	}
	return 0;
}

/* ---- frames in ---- */

/*
 * Numbers that cannot be of the same two lives: one of them has lost its
 * memory and kept its name.
 */
static bool hello_fits(const struct fkv_session *s, bool fresh, uint64_t ack)
{
	if (!s->dialer && fresh && (s->got || s->acked))
		return false;
	if (!s->dialer && !fresh && !s->met)
		return false;
	return ack >= s->acked && ack <= s->ever;
}

static int hello_in(struct fkv_session *s, const uint8_t *p, size_t len,
		    const char **why)
{
	uint64_t ack;

	if (len != HELLO_SIZE || p[1] > FLAG_NEW)
		return broken(why, "a hello that is none");
	if (fkv_get64(p + 8) != s->id.incarnation ||
	    fkv_get64(p + 16) != s->id.epoch)
		return over(s, why, "the peer speaks of another session");
	if (s->state != FKV_SESSION_OPENING)
		return 0;
	ack = fkv_get64(p + 24);
	if (!hello_fits(s, p[1] & FLAG_NEW, ack))
		return over(s, why, "the session is not known any more");
	s->state = FKV_SESSION_UP;
	s->met = true;
	s->hello_due = !s->dialer;
	return acknowledged(s, ack, why);
}

/* Do the lengths of @count messages add up to what is there? */
static bool data_fits(const uint8_t *p, size_t len, uint32_t count)
{
	for (; count; count--) {
		uint32_t n;

		if (len < 4)
			return false;
		n = fkv_get32(p);
		if (!n || n > FKV_SESSION_MSG_MAX || n > len - 4)
			return false;
		p += 4 + n;
		len -= 4 + n;
	}
	return !len;
}

static int message_in(struct fkv_session *s, const uint8_t *p, uint32_t n,
		      const char **why)
{
	struct fkv_session_msg *m;

	if (queue_full(&s->rx, FKV_SESSION_HARD + 1))
		return broken(why, "more than may be sent without being "
				   "acknowledged");
	m = msg_create(p, n);
	/* it is as if it had been lost on its way */
	if (!m)
		return broken(why, "out of memory for a message");
	queue_add(&s->rx, m);
	s->got++;
	return 0;
}

static int data_in(struct fkv_session *s, const uint8_t *p, size_t len,
		   const char **why)
{
	uint64_t seq;
	uint32_t count;
	int err = 0;

	if (len < DATA_SIZE || p[1] || fkv_get32(p + 4))
		return broken(why, "a frame of messages that is none");
	count = fkv_get16(p + 2);
	seq = fkv_get64(p + 8);
	if (!count || !seq || seq > UINT64_MAX - count ||
	    !data_fits(p + DATA_SIZE, len - DATA_SIZE, count))
		return broken(why, "messages whose lengths do not add up");
	if (seq > s->got + 1)
		return broken(why, "a message is missing");
	err = acknowledged(s, fkv_get64(p + 16), why);
	p += DATA_SIZE;
	for (; count && !err; count--, seq++) {
		uint32_t n = fkv_get32(p);

		if (seq <= s->got)
			s->repeated++;
		else
			err = message_in(s, p + 4, n, why);
		p += 4 + n;
	}
	return err;
}

static int end_in(struct fkv_session *s, const uint8_t *p, size_t len,
		  const char **why)
{
	if (len != END_SIZE || fkv_get64(p + 8) != s->id.incarnation ||
	    fkv_get64(p + 16) != s->id.epoch)
		return broken(why, "the end of another session");
	*why = "the peer has ended the session";
	fkv_session_end(s, -ESTALE);
	s->end_due = false;
	return -ESTALE;
}

int fkv_session_input(struct fkv_session *s, const void *data, size_t len,
		      const char **why)
{
	const uint8_t *p = data;
	int kind = len ? p[0] : 0;

	/* what was on its way when it ended */
	if (s->state == FKV_SESSION_ENDED)
		return 0;
	if (kind == HELLO)
		return hello_in(s, p, len, why);
	if (kind == END)
		return end_in(s, p, len, why);
	if (s->state != FKV_SESSION_UP)
		return broken(why, "a hello was expected");
	if (kind == DATA)
		return data_in(s, p, len, why);
	if (kind == ACK && len == ACK_SIZE)
		return acknowledged(s, fkv_get64(p + 8), why);
	return broken(why, "a frame of a session that is none");
}

struct fkv_session_msg *fkv_session_take(struct fkv_session *s)
{
	struct fkv_session_msg *m = queue_pop(&s->rx);

	if (m)
		s->taken++;
	return m;
}

/* ---- frames out ---- */

static size_t id_out(const struct fkv_session *s, int kind, uint8_t *p)
{
	memset(p, 0, HELLO_SIZE);
	p[0] = (uint8_t)kind;
	fkv_put64(p + 8, s->id.incarnation);
	fkv_put64(p + 16, s->id.epoch);
	return END_SIZE;
}

static size_t hello_out(struct fkv_session *s, uint8_t *p)
{
	id_out(s, HELLO, p);
	p[1] = s->dialer && !s->met ? FLAG_NEW : 0;
	fkv_put64(p + 24, s->taken);
	s->told = s->taken;
	s->hello_due = false;
	return HELLO_SIZE;
}

static size_t end_out(struct fkv_session *s, uint8_t *p)
{
	size_t n = id_out(s, END, p);

	fkv_put32(p + 4, (uint32_t)-s->reason);
	s->end_due = false;
	return n;
}

static size_t data_out(struct fkv_session *s, uint8_t *buf)
{
	uint8_t *p = buf + DATA_SIZE;
	uint16_t count = 0;

	memset(buf, 0, DATA_SIZE);
	buf[0] = DATA;
	fkv_put64(buf + 8, s->sent + 1);
	fkv_put64(buf + 16, s->taken);
	while (s->next && count < UINT16_MAX) {
		struct fkv_session_msg *m = s->next;

		if (count && (size_t)(p - buf) + 4 + m->len > DATA_ENOUGH)
			break;
		fkv_put32(p, m->len);
		memcpy(p + 4, m->data, m->len);
		p += 4 + m->len;
		count++;
		if (s->sent++ < s->ever)
			s->resent++;
		s->next = TAILQ_NEXT(m, link);
	}
	if (s->ever < s->sent)
		s->ever = s->sent;
	fkv_put16(buf + 2, count);
	s->told = s->taken;
	return (size_t)(p - buf);
}

size_t fkv_session_output(struct fkv_session *s, uint8_t *buf)
{
	if (s->end_due)
		return end_out(s, buf);
	if (s->hello_due)
		return hello_out(s, buf);
	if (s->state != FKV_SESSION_UP)
		return 0;
	if (s->next)
		return data_out(s, buf);
	if (s->told == s->taken)
		return 0;
	memset(buf, 0, ACK_SIZE);
	buf[0] = ACK;
	fkv_put64(buf + 8, s->taken);
	s->told = s->taken;
	return ACK_SIZE;
}
