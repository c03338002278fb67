// SPDX-License-Identifier: GPL-2.0-only
/*
 * instance.c - owners by name, from BIND to the last one who holds something
 */
#include <linux/ctype.h>

#include "internal.h"

DEFINE_MUTEX(fkv_instances_lock);
LIST_HEAD(fkv_instances);

static bool name_ok(const char *name)
{
	size_t n = strnlen(name, FLUXONKV_NAME_MAX);

	if (!n || n == FLUXONKV_NAME_MAX)
		return false;
	if (memchr_inv(name + n, 0, FLUXONKV_NAME_MAX - n))
		return false;
	for (size_t i = 0; i < n; i++)
		/* isalnum() alone takes letters of Latin-1 */
		if (!isascii(name[i]) ||
		    (!isalnum(name[i]) && !strchr("._-", name[i])))
			return false;
	return true;
}

static struct fkv_instance *find_alive(const char *name)
{
	struct fkv_instance *inst;

	list_for_each_entry(inst, &fkv_instances, link)
		if (!inst->dead && !strcmp(inst->name, name))
			return inst;
	return NULL;
}

static struct fkv_instance *create(const struct fluxonkv_bind *arg)
{
	struct fkv_instance *inst = kzalloc(sizeof(*inst), FKV_GFP);

	if (!inst)
		return NULL;
	if (fkv_index_init(inst)) {
		kfree(inst);
		return NULL;
	}
	kref_init(&inst->ref);
	strscpy(inst->name, arg->name, sizeof(inst->name));
	inst->incarnation = arg->incarnation;
	inst->client_cap = arg->client_cap_bytes;
	inst->uid_cap = arg->uid_cap_bytes;
	inst->clients_max = arg->clients_max;
	inst->strict = arg->flags & FLUXONKV_BIND_STRICT;
	inst->owner_uid = current_euid();
	inst->owner_pid = task_tgid_nr(current);
	spin_lock_init(&inst->seg.lock);
	inst->seg.extents = RB_ROOT;
	fkv_queue_init(&inst->queue);
	mutex_init(&inst->sessions_lock);
	INIT_LIST_HEAD(&inst->sessions);
	INIT_LIST_HEAD(&inst->uids);
	return inst;
}

static void destroy(struct kref *ref)
{
	struct fkv_instance *inst;

	inst = container_of(ref, struct fkv_instance, ref);
	mutex_lock(&fkv_instances_lock);
	list_del(&inst->link);
	mutex_unlock(&fkv_instances_lock);
	fkv_index_done(inst);
	fkv_segment_free(&inst->seg);
	xa_destroy(&inst->queue.sent);
	kfree(inst);
}

void fkv_instance_put(struct fkv_instance *inst)
{
	kref_put(&inst->ref, destroy);
}

int fkv_instance_bind(const struct fluxonkv_bind *arg,
		      struct fkv_instance **ret)
{
	struct fkv_instance *inst;
	int err = 0;

	if (!name_ok(arg->name) || arg->zero || !arg->clients_max ||
	    arg->flags & ~FLUXONKV_BIND_STRICT)
		return -EINVAL;
	inst = create(arg);
	if (!inst)
		return -ENOMEM;
	mutex_lock(&fkv_instances_lock);
	if (find_alive(inst->name))
		err = -EADDRINUSE;
	else
		list_add_tail(&inst->link, &fkv_instances);
	mutex_unlock(&fkv_instances_lock);
	if (err) {
		fkv_index_done(inst);
		kfree(inst);
		return err;
	}
	*ret = inst;
	return 0;
}

static bool serves(const struct fkv_instance *inst)
{
	return !inst->dead && smp_load_acquire(&inst->seg.ready);
}

static struct fkv_instance *find(const char *name)
{
	struct fkv_instance *inst, *found = NULL;

	list_for_each_entry(inst, &fkv_instances, link) {
		if (!serves(inst) || (*name && strcmp(inst->name, name)))
			continue;
		if (found)
			return NULL;
		found = inst;
	}
	return found;
}

int fkv_instance_find(const char *name, struct fkv_instance **ret)
{
	mutex_lock(&fkv_instances_lock);
	*ret = find(name);
	if (*ret && !kref_get_unless_zero(&(*ret)->ref))
		*ret = NULL;
	mutex_unlock(&fkv_instances_lock);
	return *ret ? 0 : -EADDRNOTAVAIL;
}

/*
 * In this order: no new client and no new request; nobody writes any more;
 * nothing can be hit any more; then what is not held is given back. A hit that
 * was looked up before and pinned after sees that the owner is dead.
 */
void fkv_instance_die(struct fkv_instance *inst)
{
	struct fkv_session *s;

	mutex_lock(&fkv_instances_lock);
	WRITE_ONCE(inst->dead, true);
	mutex_unlock(&fkv_instances_lock);
	fkv_queue_close(inst);
	mutex_lock(&inst->sessions_lock);
	list_for_each_entry(s, &inst->sessions, link)
		fkv_put_shut_all(s);
	mutex_unlock(&inst->sessions_lock);
	fkv_index_empty(inst);
	if (!inst->seg.chunks)
		return;
	/* from now on the last one of a chunk gives it back */
	WRITE_ONCE(inst->seg.shrinking, true);
	fkv_segment_shrink(inst, 0, inst->seg.bytes / PAGE_SIZE - 1);
}
