// SPDX-License-Identifier: GPL-2.0-only
/*
 * owner.c - the owner daemon's open file
 *
 * The daemon is trusted with its clients' bytes, and with nothing of the
 * kernel's: each number of its is checked, also against those it gave before.
 */
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched/mm.h>
#include <linux/uaccess.h>

#include "internal.h"

struct owner {
	struct fkv_instance *inst;	/* NULL until bound */
	struct mutex lock;		/* of binding and making the segment */
	struct inode *inode;
};

static int owner_open(struct inode *node, struct file *file)
{
	struct owner *o = kzalloc(sizeof(*o), FKV_GFP);

	if (!o)
		return -ENOMEM;
	o->inode = fkv_inode_create();
	if (IS_ERR(o->inode)) {
		int err = PTR_ERR(o->inode);

		kfree(o);
		return err;
	}
	mutex_init(&o->lock);
	file->f_mapping = o->inode->i_mapping;
	file->private_data = o;
	return 0;
}

static int owner_release(struct inode *node, struct file *file)
{
	struct owner *o = file->private_data;

	if (o->inst) {
		fkv_instance_die(o->inst);
		fkv_netlink_event(o->inst, FLUXONKV_EVENT_OWNER_GONE, NULL);
		fkv_instance_put(o->inst);
	}
	iput(o->inode);
	kfree(o);
	return 0;
}

static long ioctl_bind(struct owner *o, void __user *arg)
{
	struct fluxonkv_bind b;
	struct fkv_instance *inst;
	int err = fkv_struct_in(&b, sizeof(b), sizeof(b), arg);

	if (err)
		return err;
	mutex_lock(&o->lock);
	err = o->inst ? -EBADFD : fkv_instance_bind(&b, &inst);
	if (!err)
		smp_store_release(&o->inst, inst);
	mutex_unlock(&o->lock);
	return err;
}

/* ---- the segment ---- */

static long segment_create(struct owner *o, struct fluxonkv_segment *a)
{
	struct fkv_segment *seg = &o->inst->seg;
	long err = -EBADFD;

	if (a->flags & ~FLUXONKV_SEGMENT_PINNABLE || a->offset || !a->bytes ||
	    a->bytes % FKV_CHUNK || a->bytes >= FLUXONKV_SEGMENT_MAX)
		return -EINVAL;
	mutex_lock(&o->lock);
	if (!seg->chunks)
		err = fkv_segment_create(seg, a->bytes, a->flags);
	mutex_unlock(&o->lock);
	return err;
}

static long segment_populate(struct owner *o, struct fluxonkv_segment *a)
{
	struct fkv_segment *seg = &o->inst->seg;

	if (!smp_load_acquire(&seg->chunks))
		return -EBADFD;
	if (a->flags || !a->bytes || a->bytes > FLUXONKV_POPULATE_MAX ||
	    (a->bytes | a->offset) % FKV_CHUNK ||
	    !fkv_segment_covers(seg, a->offset, a->bytes))
		return -EINVAL;
	return fkv_segment_populate(seg, a->offset, a->bytes);
}

static long segment_ready(struct owner *o, struct fluxonkv_segment *a)
{
	struct fkv_segment *seg = &o->inst->seg;

	if (!smp_load_acquire(&seg->chunks))
		return -EBADFD;
	if (a->flags || a->bytes || a->offset)
		return -EINVAL;
	if (READ_ONCE(o->inst->stopped))
		return -EBADFD;
	if ((u64)atomic64_read(&seg->populated) != seg->nr_chunks)
		return -EAGAIN;
	/* pairs with the load of who attaches */
	smp_store_release(&seg->ready, true);
	fkv_netlink_event(o->inst, FLUXONKV_EVENT_SEGMENT_READY, NULL);
	return 0;
}

static long ioctl_segment(struct owner *o, unsigned int cmd, void __user *arg)
{
	struct fluxonkv_segment a;
	long ret = fkv_struct_in(&a, sizeof(a), sizeof(a), arg);
	long err;

	if (ret)
		return ret;
	if (cmd == FLUXONKV_IOC_SEGMENT_CREATE)
		ret = segment_create(o, &a);
	else if (cmd == FLUXONKV_IOC_SEGMENT_POPULATE)
		ret = segment_populate(o, &a);
	else
		ret = segment_ready(o, &a);
	fkv_segment_usage(&a.pinned, &a.pinned_max);
	a.huge = (u64)atomic64_read(&o->inst->seg.huge) * FKV_CHUNK;
	err = fkv_struct_out(arg, &a, sizeof(a));
	return ret ? ret : err;
}

static vm_fault_t owner_fault(struct vm_fault *vmf)
{
	struct owner *o = vmf->vma->vm_file->private_data;

	return fkv_segment_fault(&o->inst->seg, vmf);
}

static const struct vm_operations_struct owner_vm_ops = {
	.fault = owner_fault,
};

static int owner_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct owner *o = file->private_data;
	struct fkv_instance *inst = smp_load_acquire(&o->inst);
	u64 pages, at = vma->vm_pgoff;

	if (!inst || !smp_load_acquire(&inst->seg.chunks))
		return -EBADFD;
	pages = inst->seg.bytes / PAGE_SIZE;
	if (!(vma->vm_flags & VM_MAYSHARE) || vma->vm_flags & VM_EXEC ||
	    at > pages || vma_pages(vma) > pages - at)
		return -EINVAL;
	fkv_vm_flags_set(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	fkv_vm_flags_clear(vma, VM_MAYEXEC);
	vma->vm_ops = &owner_vm_ops;
	return 0;
}

/* ---- arrays ---- */

typedef int (*element_fn)(struct fkv_instance *inst, void *element);

static int array_in(struct fluxonkv_array *a, size_t element,
		    void __user *arg)
{
	int err = fkv_struct_in(a, sizeof(*a), sizeof(*a), arg);

	if (err)
		return err;
	if (a->flags || a->zero || a->nr > FLUXONKV_OWNER_BATCH ||
	    a->stride < element || a->stride > PAGE_SIZE)
		return -EINVAL;
	a->done = 0;
	return 0;
}

/*
 * Each element in, worked on, and out again. Ends at the first that cannot be
 * read or written: done says how many were.
 */
static long for_each_element(struct fkv_instance *inst, void __user *arg,
			     void *element, size_t size, element_fn fn)
{
	struct fluxonkv_array a;
	long err = array_in(&a, size, arg);

	if (err)
		return err;
	while (a.done < a.nr) {
		u8 __user *at = u64_to_user_ptr(a.at) +
				(size_t)a.done * a.stride;

		err = -EFAULT;
		if (copy_from_user(element, at, size))
			break;
		err = fn(inst, element);
		if (!err && copy_to_user(at, element, size))
			err = -EFAULT;
		if (err)
			break;
		a.done++;
		cond_resched();
	}
	if (fkv_struct_out(arg, &a, sizeof(a)))
		return -EFAULT;
	return a.done == a.nr ? 0 : err;
}

/* A key, padded with zeros. */
static int key_in(const struct fluxonkv_entry *e, u64 *key)
{
	if (!e->key_len || e->key_len > FLUXONKV_KEY_MAX)
		return -EINVAL;
	key[(e->key_len - 1) / 8] = 0;
	return copy_from_user(key, u64_to_user_ptr(e->key), e->key_len) ?
		-EFAULT : 0;
}

static int publish(struct fkv_instance *inst, void *element)
{
	struct fluxonkv_entry *e = element;
	u64 key[FLUXONKV_KEY_MAX / 8];

	e->status = key_in(e, key);
	if (!e->status)
		e->status = fkv_index_publish(inst, e, key);
	return e->status == -EFAULT ? -EFAULT : 0;
}

typedef int (*version_fn)(struct fkv_instance *inst, const void *key, u32 len,
			  u64 put_id);

static int on_version(struct fkv_instance *inst, struct fluxonkv_entry *e,
		      version_fn fn)
{
	u64 key[FLUXONKV_KEY_MAX / 8];

	e->status = key_in(e, key);
	if (!e->status)
		e->status = fn(inst, key, e->key_len, e->put_id);
	return e->status == -EFAULT ? -EFAULT : 0;
}

static int retire(struct fkv_instance *inst, void *element)
{
	return on_version(inst, element, fkv_index_retire);
}

static int evict(struct fkv_instance *inst, void *element)
{
	return on_version(inst, element, fkv_index_evict);
}

static int held(struct fkv_instance *inst, void *element)
{
	return on_version(inst, element, fkv_index_held);
}

static int answer(struct fkv_instance *inst, void *element)
{
	struct fluxonkv_answer *a = element;

	a->status = fkv_reply(inst, a);
	return a->status == -EFAULT ? -EFAULT : 0;
}

static long ioctl_hits(struct fkv_instance *inst, void __user *arg)
{
	struct fluxonkv_array a;
	struct fluxonkv_hit *hits;
	long err = array_in(&a, sizeof(*hits), arg);

	if (err)
		return err;
	if (a.stride != sizeof(*hits) || !a.nr)
		return -EINVAL;
	hits = kvcalloc(a.nr, sizeof(*hits), FKV_GFP);
	if (!hits)
		return -ENOMEM;
	a.done = fkv_index_hits(inst, hits, a.nr);
	if (copy_to_user(u64_to_user_ptr(a.at), hits,
			 a.done * sizeof(*hits)))
		err = -EFAULT;
	kvfree(hits);
	return err ? err : fkv_struct_out(arg, &a, sizeof(a));
}

/* ---- the rest ---- */

static long ioctl_recv(struct fkv_instance *inst, void __user *arg)
{
	struct fluxonkv_recv r;
	long ret = fkv_struct_in(&r, sizeof(r), sizeof(r), arg);
	long err;

	if (ret)
		return ret;
	if (r.flags || r.zero)
		return -EINVAL;
	ret = fkv_queue_recv(inst, &r);
	err = fkv_struct_out(arg, &r, sizeof(r));
	return ret ? ret : err;
}

static long shut(struct fkv_instance *inst, u64 client, u64 put)
{
	struct fkv_session *s;
	long err = -ENOENT;

	mutex_lock(&inst->sessions_lock);
	list_for_each_entry(s, &inst->sessions, link) {
		if (s->id == client) {
			err = fkv_put_shut(s, put);
			break;
		}
	}
	mutex_unlock(&inst->sessions_lock);
	return err;
}

static long ioctl_shut(struct fkv_instance *inst, void __user *arg)
{
	struct fluxonkv_shut a;
	int err = fkv_struct_in(&a, sizeof(a), sizeof(a), arg);

	if (err)
		return err;
	return a.flags ? -EINVAL : shut(inst, a.client, a.put);
}

static long ioctl_lease(struct fkv_instance *inst, void __user *arg)
{
	struct fluxonkv_lease a;
	int err = fkv_struct_in(&a, sizeof(a), sizeof(a), arg);

	if (err)
		return err;
	if (a.flags)
		return -EINVAL;
	WRITE_ONCE(inst->lease_until_ns, a.until_ns);
	return 0;
}

static u64 nr_holders(struct fkv_instance *inst)
{
	struct fkv_session *s;
	u64 n = 0;

	mutex_lock(&inst->sessions_lock);
	list_for_each_entry(s, &inst->sessions, link)
		n += READ_ONCE(s->holders.nr);
	mutex_unlock(&inst->sessions_lock);
	return n;
}

static long ioctl_counts(struct fkv_instance *inst, void __user *arg)
{
	struct fluxonkv_counts c;
	int err = fkv_struct_in(&c, sizeof(c), sizeof(c), arg);

	if (err)
		return err;
	c.clients = READ_ONCE(inst->nr_sessions);
	c.entries = atomic64_read(&inst->entries);
	c.retired = atomic64_read(&inst->retired);
	c.holders = nr_holders(inst);
	c.open_puts = atomic64_read(&inst->open_puts);
	c.held_bytes = fkv_held_bytes(inst);
	c.requests = READ_ONCE(inst->queue.nr);
	c.hits = atomic64_read(&inst->nr_hits);
	c.hit_bytes = atomic64_read(&inst->hit_bytes);
	c.misses = atomic64_read(&inst->misses);
	c.overlaps = atomic64_read(&inst->overlaps);
	c.stale_replies = atomic64_read(&inst->stale_replies);
	c.quota = atomic64_read(&inst->quota);
	return fkv_struct_out(arg, &c, sizeof(c));
}

static long clients_out(struct fkv_instance *inst, struct fluxonkv_array *a)
{
	struct fluxonkv_client *all;
	struct fkv_session *s;
	long err = 0;

	all = kvcalloc(a->nr, sizeof(*all), FKV_GFP);
	if (!all)
		return -ENOMEM;
	mutex_lock(&inst->sessions_lock);
	list_for_each_entry(s, &inst->sessions, link) {
		if (a->done == a->nr)
			break;
		fkv_session_tell(s, &all[a->done++]);
	}
	mutex_unlock(&inst->sessions_lock);
	if (copy_to_user(u64_to_user_ptr(a->at), all,
			 a->done * sizeof(*all)))
		err = -EFAULT;
	kvfree(all);
	return err;
}

static long ioctl_clients(struct fkv_instance *inst, void __user *arg)
{
	struct fluxonkv_array a;
	long err = fkv_struct_in(&a, sizeof(a), sizeof(a), arg);

	if (err)
		return err;
	if (a.flags || a.zero || !a.nr || a.nr > 1 << 16 ||
	    a.stride != sizeof(struct fluxonkv_client))
		return -EINVAL;
	a.done = 0;
	err = clients_out(inst, &a);
	return err ? err : fkv_struct_out(arg, &a, sizeof(a));
}

static long stop(struct fkv_instance *inst)
{
	WRITE_ONCE(inst->stopped, true);
	smp_store_release(&inst->seg.ready, false);
	return 0;
}

static long ioctl_entries(struct fkv_instance *inst, unsigned int cmd,
			  void __user *arg)
{
	struct fluxonkv_entry e;
	element_fn fn = cmd == FLUXONKV_IOC_PUBLISH ? publish :
			cmd == FLUXONKV_IOC_RETIRE ? retire :
			cmd == FLUXONKV_IOC_EVICT ? evict : held;

	return for_each_element(inst, arg, &e, sizeof(e), fn);
}

static long ioctl_reply(struct fkv_instance *inst, void __user *arg)
{
	struct fluxonkv_answer a;

	return for_each_element(inst, arg, &a, sizeof(a), answer);
}

static long bound_ioctl(struct owner *o, unsigned int cmd, void __user *arg)
{
	struct fkv_instance *inst = smp_load_acquire(&o->inst);

	if (!inst)
		return -EBADFD;
	switch (cmd) {
	case FLUXONKV_IOC_RECV:
		return ioctl_recv(inst, arg);
	case FLUXONKV_IOC_REPLY:
		return ioctl_reply(inst, arg);
	case FLUXONKV_IOC_HITS:
		return ioctl_hits(inst, arg);
	case FLUXONKV_IOC_SHUT:
		return ioctl_shut(inst, arg);
	case FLUXONKV_IOC_LEASE:
		return ioctl_lease(inst, arg);
	case FLUXONKV_IOC_COUNTS:
		return ioctl_counts(inst, arg);
	case FLUXONKV_IOC_CLIENTS:
		return ioctl_clients(inst, arg);
	case FLUXONKV_IOC_STOP:
		return stop(inst);
	case FLUXONKV_IOC_SEGMENT_CREATE:
	case FLUXONKV_IOC_SEGMENT_POPULATE:
	case FLUXONKV_IOC_SEGMENT_READY:
		return ioctl_segment(o, cmd, arg);
	default:
		return ioctl_entries(inst, cmd, arg);
	}
}

static long owner_ioctl(struct file *file, unsigned int cmd,
			unsigned long arg)
{
	struct owner *o = file->private_data;
	void __user *at = (void __user *)arg;

	if (cmd == FLUXONKV_IOC_FEATURES)
		return fkv_features(at);
	if (cmd == FLUXONKV_IOC_BIND)
		return ioctl_bind(o, at);
	if (cmd < FLUXONKV_IOC_SEGMENT_CREATE || cmd > FLUXONKV_IOC_HELD)
		return -ENOTTY;
	return bound_ioctl(o, cmd, at);
}

static __poll_t owner_poll(struct file *file, poll_table *wait)
{
	struct owner *o = file->private_data;
	struct fkv_instance *inst = smp_load_acquire(&o->inst);
	struct fkv_queue *q;
	__poll_t ret = 0;

	if (!inst)
		return EPOLLERR;
	q = &inst->queue;
	poll_wait(file, &q->recv, wait);
	spin_lock(&q->lock);
	if (!list_empty(&q->messages) || !list_empty(&q->active))
		ret = EPOLLIN | EPOLLRDNORM;
	spin_unlock(&q->lock);
	return ret;
}

const struct file_operations fkv_owner_fops = {
	.owner = THIS_MODULE,
	.open = owner_open,
	.release = owner_release,
	.unlocked_ioctl = owner_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.poll = owner_poll,
	.mmap = owner_mmap,
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	.get_unmapped_area = thp_get_unmapped_area,
#endif
	.llseek = noop_llseek,
};
