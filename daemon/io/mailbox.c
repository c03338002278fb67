// SPDX-License-Identifier: Apache-2.0
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/base.h"
#include "io/mailbox.h"

_Static_assert((FKV_MAILBOX_MAX & (FKV_MAILBOX_MAX - 1)) == 0,
	       "head and tail wrap on a power of two");

int fkv_mailbox_init(struct fkv_mailbox *m)
{
	m->head = 0;
	m->tail = 0;
	m->asleep = false;
	m->closed = false;
	/* blocking: io_uring then waits by poll instead of failing EAGAIN */
	m->fd = eventfd(0, EFD_CLOEXEC);
	if (m->fd < 0)
		return -errno;
	pthread_mutex_init(&m->lock, NULL);
	return 0;
}

void fkv_mailbox_done(struct fkv_mailbox *m)
{
	pthread_mutex_destroy(&m->lock);
	close(m->fd);
	m->fd = -1;
}

static void wake(struct fkv_mailbox *m)
{
	uint64_t one = 1;
	ssize_t n;

	do
		n = write(m->fd, &one, sizeof(one));
	while (n < 0 && errno == EINTR);
	fkv_assert(n == sizeof(one));
}

int fkv_mailbox_post(struct fkv_mailbox *m, void *p)
{
	bool wanted = false;
	int err = 0;

	pthread_mutex_lock(&m->lock);
	if (m->closed) {
		err = -ESHUTDOWN;
	} else if (m->head - m->tail == FKV_MAILBOX_MAX) {
		err = -EAGAIN;
	} else {
		m->at[m->head++ % FKV_MAILBOX_MAX] = p;
		wanted = m->asleep;
		m->asleep = false;
	}
	pthread_mutex_unlock(&m->lock);
	if (wanted)
		wake(m);
	return err;
}

size_t fkv_mailbox_take(struct fkv_mailbox *m, void **ret, size_t n)
{
	size_t got = 0;

	pthread_mutex_lock(&m->lock);
	m->asleep = false;
	while (got < n && m->tail != m->head)
		ret[got++] = m->at[m->tail++ % FKV_MAILBOX_MAX];
	pthread_mutex_unlock(&m->lock);
	return got;
}

bool fkv_mailbox_sleep(struct fkv_mailbox *m)
{
	bool may;

	pthread_mutex_lock(&m->lock);
	may = m->head == m->tail && !m->closed;
	m->asleep = may;
	pthread_mutex_unlock(&m->lock);
	return may;
}

void fkv_mailbox_close(struct fkv_mailbox *m)
{
	pthread_mutex_lock(&m->lock);
	m->closed = true;
	m->asleep = false;
	pthread_mutex_unlock(&m->lock);
	wake(m);
}

bool fkv_mailbox_closed(struct fkv_mailbox *m)
{
	bool closed;

	pthread_mutex_lock(&m->lock);
	closed = m->closed;
	pthread_mutex_unlock(&m->lock);
	return closed;
}

uint32_t fkv_mailbox_count(struct fkv_mailbox *m)
{
	uint32_t n;

	pthread_mutex_lock(&m->lock);
	n = m->head - m->tail;
	pthread_mutex_unlock(&m->lock);
	return n;
}
