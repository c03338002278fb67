// SPDX-License-Identifier: Apache-2.0
#include "fake.h"
#include "index.h"

/* ---- what kmod's other files do ---- */

static struct fake *fake_of(struct fkv_instance *inst)
{
	return container_of(inst, struct fake, inst);
}

void fkv_queue_message(struct fkv_instance *inst, struct fkv_message *msg)
{
	struct fake *f = fake_of(inst);
	struct list_head *end = &f->messages;

	spin_lock(&inst->queue.lock);
	if (inst->queue.closed) {
		spin_unlock(&inst->queue.lock);
		msg->done(msg);
		return;
	}
	msg->link = (struct list_head){ end, end->prev };
	end->prev->next = &msg->link;
	end->prev = &msg->link;
	f->nr_messages++;
	spin_unlock(&inst->queue.lock);
}

bool fake_take(struct fake *f, struct fluxonkv_message *ret)
{
	struct fkv_message *msg;

	spin_lock(&f->inst.queue.lock);
	if (!f->nr_messages) {
		spin_unlock(&f->inst.queue.lock);
		return false;
	}
	f->nr_messages--;
	msg = container_of(f->messages.next, struct fkv_message, link);
	f->messages.next = msg->link.next;
	msg->link.next->prev = &f->messages;
	spin_unlock(&f->inst.queue.lock);
	*ret = (struct fluxonkv_message){
		.type = msg->type,
		.client = msg->client,
		.cookie = msg->cookie,
	};
	msg->done(msg);
	return true;
}

bool fkv_segment_covers(const struct fkv_segment *seg, u64 offset, u64 len)
{
	return !len || (PAGE_ALIGNED(offset) && offset < seg->bytes &&
			len <= seg->bytes - offset);
}

void fkv_segment_add(struct fkv_segment *seg, u64 offset, u64 len,
		     struct fkv_extent *ext, int *ret_err)
{
	*ret_err = 0;
	if (!len)
		return;
	ext->first = offset / PAGE_SIZE;
	ext->last = (offset + len - 1) / PAGE_SIZE;
	spin_lock(&seg->lock);
	*ret_err = fkv_extent_add(&seg->extents, ext);
	spin_unlock(&seg->lock);
}

void fkv_segment_del(struct fkv_instance *inst, struct fkv_extent *ext)
{
	spin_lock(&inst->seg.lock);
	fkv_extent_del(&inst->seg.extents, ext);
	spin_unlock(&inst->seg.lock);
}

/* ---- the world ---- */

int fake_up(struct fake *f)
{
	int err;

	*f = (struct fake){ .inst.seg.bytes = FAKE_PAGES * PAGE_SIZE };
	spin_lock_init(&f->inst.queue.lock);
	spin_lock_init(&f->inst.seg.lock);
	f->messages = (struct list_head){ &f->messages, &f->messages };
	err = fkv_index_init(&f->inst);
	for (u32 i = 0; !err && i < FAKE_SESSIONS; i++) {
		f->sessions[i].inst = &f->inst;
		f->sessions[i].uid = &f->uid;
		f->sessions[i].id = 100 + i;
		fkv_holders_init(&f->sessions[i].holders);
	}
	return err;
}

void fake_down(struct fake *f)
{
	struct fluxonkv_message m;

	for (u32 i = 0; i < FAKE_SESSIONS; i++) {
		fkv_holder_del_all(&f->sessions[i]);
		fkv_holders_done(&f->sessions[i].holders);
		shim_assert(!atomic64_read(&f->sessions[i].pinned));
	}
	shim_assert(!atomic64_read(&f->uid.pinned));
	fkv_index_empty(&f->inst);
	while (fake_take(f, &m))
		;
	fkv_index_done(&f->inst);
	shim_rcu_flush();
	shim_assert(!f->inst.seg.extents.rb_node);
	shim_assert(!atomic64_read(&f->inst.entries));
	shim_assert(!atomic64_read(&f->inst.retired));
	shim_assert(!atomic64_read(&f->inst.held_bytes));
	shim_assert(!shim_live());
}

/* As the module has it: padded with zeros to a multiple of 8. */
struct padded {
	u64 key[FLUXONKV_KEY_MAX / 8];
	u32 len;
};

static struct padded pad(const char *key)
{
	struct padded p = { .len = (u32)strlen(key) };

	shim_assert(p.len <= FLUXONKV_KEY_MAX);
	memcpy(p.key, key, p.len);
	return p;
}

int fake_publish(struct fake *f, const char *key, u64 put_id, u64 page,
		 u64 pages)
{
	struct padded p = pad(key);
	struct fluxonkv_entry arg = {
		.key_len = p.len,
		.put_id = put_id,
		.offset = page * PAGE_SIZE,
		.len = pages * PAGE_SIZE,
		.cookie = put_id,
	};

	return fkv_index_publish(&f->inst, &arg, p.key);
}

struct fkv_entry *fake_get(struct fake *f, const char *key)
{
	struct padded p = pad(key);
	struct fkv_probe probe = { .key = p.key, .len = p.len };
	struct fkv_entry *e;
	u64 held = 0;

	rcu_read_lock();
	e = fkv_index_get(&f->inst, &probe, &held);
	rcu_read_unlock();
	atomic64_add((s64)held, &f->inst.held_bytes);
	return e;
}

int fake_retire(struct fake *f, const char *key, u64 put_id)
{
	struct padded p = pad(key);

	return fkv_index_retire(&f->inst, p.key, p.len, put_id);
}

int fake_evict(struct fake *f, const char *key, u64 put_id)
{
	struct padded p = pad(key);

	return fkv_index_evict(&f->inst, p.key, p.len, put_id);
}

struct fkv_entry *fake_given(struct fake *f, u64 put_id, u64 page, u64 pages,
			     int *ret_err)
{
	struct fluxonkv_result res = {
		.version = put_id,
		.offset = page * PAGE_SIZE,
		.len = pages * PAGE_SIZE,
		.id = 1,
	};

	return fkv_entry_given(&f->inst, &res, ret_err);
}

bool fake_live(struct fake *f, u64 page)
{
	bool live;

	spin_lock(&f->inst.seg.lock);
	live = fkv_extent_find(&f->inst.seg.extents, page, page);
	spin_unlock(&f->inst.seg.lock);
	return live;
}

u64 fake_add(struct fake *f, u32 i, struct fkv_entry *e,
	     struct fkv_release *release)
{
	u64 id = 1;
	struct fkv_new_holder new = {
		.entry = e, .release = release, .ret_id = &id,
	};

	fkv_holder_add(&f->sessions[i], &new, 1);
	return id;
}

u64 fake_hold(struct fake *f, u32 i, const char *key,
	      struct fkv_release *release)
{
	struct fkv_entry *e = fake_get(f, key);

	shim_assert(e);
	shim_assert(fkv_charge(&f->sessions[i], PAGE_ALIGN(e->len)));
	return fake_add(f, i, e, release);
}

/* ---- failing allocations ---- */

static u32 fail_in;

static bool fail_nth(void)
{
	return fail_in && !--fail_in;
}

void fake_fail_nth(u32 n)
{
	fail_in = n;
	shim_alloc_fail = fail_nth;
}

bool fake_failed(void)
{
	bool failed = !fail_in;

	shim_alloc_fail = NULL;
	return failed;
}
