// SPDX-License-Identifier: GPL-2.0-only
/*
 * put.c - open puts, and the windows through which they are written
 *
 * A window shows a page only while it lies in an open put of the same open
 * file. Its entries of the page table go in under session->window held for
 * read, across the check and the insertion; shutting takes it for write,
 * closes the put, and then unmaps. They hold no reference to the page and
 * nothing can pin it, so that after that nobody can write there any more.
 */
#include <linux/mman.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "internal.h"
#include "trace.h"

#define WINDOW_PAGES	(FLUXONKV_WINDOW_OFFSET / PAGE_SIZE)
#define GONE		xa_mk_value(1)	/* a put that was shut by the daemon */
#define GONE_MARK	XA_MARK_0	/* finds them */

static void shut_done(struct fkv_message *msg)
{
	kfree(container_of(msg, struct fkv_put, shut));
}

/* Named by the daemon from now on: it may end it before its client hears. */
static int list_put(struct fkv_put *put)
{
	struct fkv_session *s = put->session;
	int err;

	fkv_segment_add(&s->inst->seg, put->offset, put->len, &put->extent,
			&err);
	if (err) {
		atomic64_inc(&s->inst->overlaps);
		return err;
	}
	err = xa_insert(&s->puts, put->id, put, FKV_GFP);
	if (err)
		fkv_segment_del(s->inst, &put->extent);
	return err;
}

struct fkv_put *fkv_put_create(struct fkv_session *s,
			       const struct fluxonkv_result *res, int *ret_err)
{
	struct fkv_instance *inst = s->inst;
	struct fkv_put *put;

	*ret_err = -EINVAL;
	if (!fkv_segment_covers(&inst->seg, res->offset, res->len))
		return NULL;
	*ret_err = -ENOMEM;
	put = kzalloc(sizeof(*put), FKV_GFP);
	if (!put)
		return NULL;
	refcount_set(&put->refs, 2);	/* the table's, and the caller's */
	put->session = s;
	put->id = res->id;
	put->offset = res->offset;
	put->len = res->len;
	put->shut.type = FLUXONKV_MESSAGE_SHUT;
	put->shut.client = s->id;
	put->shut.cookie = res->id;
	put->shut.done = shut_done;
	*ret_err = list_put(put);
	if (*ret_err) {
		kfree(put);
		return NULL;
	}
	atomic64_inc(&inst->open_puts);
	return put;
}

void fkv_put_put(struct fkv_put *put)
{
	struct fkv_session *s = put->session;
	struct fkv_instance *inst = s->inst;

	if (!refcount_dec_and_test(&put->refs))
		return;
	atomic64_dec(&inst->open_puts);
	if (put->charged)
		fkv_uncharge(s, PAGE_ALIGN(put->len));
	fkv_segment_del(inst, &put->extent);
	if (put->report)
		fkv_queue_message(inst, &put->shut);
	else
		kfree(put);
}

/* ---- windows ---- */

static struct fkv_put *of(struct rb_node *node)
{
	return rb_entry(node, struct fkv_put, window);
}

static struct fkv_put *window_find(const struct fkv_session *s, u64 at)
{
	struct rb_node *node = s->windows.rb_node;

	while (node) {
		struct fkv_put *put = of(node);

		if (at < put->extent.first)
			node = node->rb_left;
		else if (at > put->extent.last)
			node = node->rb_right;
		else
			return put;
	}
	return NULL;
}

/* Under session->window. */
static void window_insert(struct fkv_put *put)
{
	struct rb_node **at = &put->session->windows.rb_node, *parent = NULL;

	while (*at) {
		parent = *at;
		at = put->extent.first < of(parent)->extent.first ?
			&parent->rb_left : &parent->rb_right;
	}
	rb_link_node(&put->window, parent, at);
	rb_insert_color(&put->window, &put->session->windows);
	put->open = true;
}

static void window_shut(struct fkv_put *put)
{
	struct fkv_session *s = put->session;
	bool was;

	down_write(&s->window);
	was = put->open;
	if (was)
		rb_erase(&put->window, &s->windows);
	put->open = false;
	up_write(&s->window);
	if (was)
		unmap_mapping_range(s->inode->i_mapping,
				    FLUXONKV_WINDOW_OFFSET + put->offset,
				    PAGE_ALIGN(put->len), 1);
}

static vm_fault_t insert(struct fkv_segment *seg, struct vm_area_struct *vma,
			 unsigned long addr, struct page *page)
{
	int err;

	if (!seg->pinnable)
		return vmf_insert_pfn(vma, addr, page_to_pfn(page));
	err = vm_insert_page(vma, addr, page);
	if (err == -ENOMEM)
		return VM_FAULT_OOM;
	return err && err != -EBUSY ? VM_FAULT_SIGBUS : VM_FAULT_NOPAGE;
}

/* The page that is wanted, and what follows it up to the page table's end. */
static vm_fault_t insert_around(struct fkv_put *put, struct vm_fault *vmf,
				u64 at)
{
	struct fkv_segment *seg = &put->session->inst->seg;
	struct vm_area_struct *vma = vmf->vma;
	unsigned long addr = vmf->address & PAGE_MASK;
	unsigned long end = min(ALIGN(addr + 1, PMD_SIZE), vma->vm_end);
	vm_fault_t ret = VM_FAULT_NOPAGE;

	for (u64 i = at; i <= put->extent.last && addr < end; i++) {
		vm_fault_t more;

		more = insert(seg, vma, addr, fkv_segment_page(seg, i));
		if (i == at)
			ret = more;
		if (more != VM_FAULT_NOPAGE)
			break;
		addr += PAGE_SIZE;
	}
	return ret;
}

static vm_fault_t window_fault(struct vm_fault *vmf)
{
	struct fkv_session *s = vmf->vma->vm_file->private_data;
	u64 at = vmf->pgoff - WINDOW_PAGES;
	vm_fault_t ret = VM_FAULT_SIGBUS;
	struct fkv_put *put;

	down_read(&s->window);
	put = window_find(s, at);
	if (put)
		ret = insert_around(put, vmf, at);
	up_read(&s->window);
	return ret;
}

static const struct vm_operations_struct window_vm_ops = {
	.fault = window_fault,
};

static vm_fault_t segment_fault(struct vm_fault *vmf)
{
	struct fkv_session *s = vmf->vma->vm_file->private_data;

	return fkv_segment_fault(&s->inst->seg, vmf);
}

static const struct vm_operations_struct segment_vm_ops = {
	.fault = segment_fault,
};

static int map_window(struct fkv_session *s, struct vm_area_struct *vma)
{
	unsigned long flags = VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP;

	flags |= s->inst->seg.pinnable ? VM_MIXEDMAP : VM_PFNMAP | VM_IO;
	fkv_vm_flags_set(vma, flags);
	fkv_vm_flags_clear(vma, VM_MAYEXEC);
	vma->vm_ops = &window_vm_ops;
	return 0;
}

static int map_segment(struct vm_area_struct *vma)
{
	if (vma->vm_flags & VM_WRITE)
		return -EACCES;
	fkv_vm_flags_set(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	fkv_vm_flags_clear(vma, VM_MAYWRITE | VM_MAYEXEC);
	vma->vm_ops = &segment_vm_ops;
	return 0;
}

int fkv_session_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct fkv_session *s = file->private_data;
	struct fkv_instance *inst = smp_load_acquire(&s->inst);
	u64 pages = vma_pages(vma), at = vma->vm_pgoff;
	bool window = at >= WINDOW_PAGES;

	if (!inst)
		return -EBADFD;
	if (!(vma->vm_flags & VM_MAYSHARE) || vma->vm_flags & VM_EXEC)
		return -EINVAL;
	if (window)
		at -= WINDOW_PAGES;
	if (at > inst->seg.bytes / PAGE_SIZE ||
	    pages > inst->seg.bytes / PAGE_SIZE - at)
		return -EINVAL;
	if (!window)
		return map_segment(vma);
	/* an O_RDONLY descriptor cannot have one */
	return vma->vm_flags & VM_MAYWRITE ? map_window(s, vma) : -EACCES;
}

/* ---- the session's table ---- */

static int ended(const struct fkv_put *put)
{
	return READ_ONCE(put->session->inst->dead) ? -ENOTCONN : -ETIMEDOUT;
}

/* Takes over the reference. Who ends it sets dead first, then shuts. */
int fkv_put_install(struct fkv_put *put)
{
	struct fkv_session *s = put->session;
	int err = 0;

	down_write(&s->window);
	if (READ_ONCE(put->dead))
		err = ended(put);
	else if (put->len)
		window_insert(put);
	if (!err)
		WRITE_ONCE(put->installed, true);
	up_write(&s->window);
	fkv_put_put(put);
	return err;
}

/* Under puts' lock: nobody needs to hear of it any more. */
static void forget(struct fkv_session *s, u64 id)
{
	__xa_erase(&s->puts, id);
	s->nr_gone--;
}

/*
 * Under puts' lock: in place of what is there, which needs no memory. Who never
 * asks for its puts keeps the marks of the last ones only.
 */
static void mark_gone(struct fkv_session *s, u64 id)
{
	unsigned long oldest = 0;

	__xa_store(&s->puts, id, GONE, 0);
	__xa_set_mark(&s->puts, id, GONE_MARK);
	if (++s->nr_gone > FKV_SESSION_GONE &&
	    xa_find(&s->puts, &oldest, ULONG_MAX, GONE_MARK))
		forget(s, oldest);
}

/* Claim what a commit or abort may name; a mark of one that ended goes. */
static struct fkv_put *claim(struct fkv_session *s, u64 id, int *ret_err)
{
	struct fkv_put *put;

	*ret_err = -EINVAL;
	xa_lock(&s->puts);
	put = xa_load(&s->puts, id);
	if (xa_is_value(put)) {
		forget(s, id);
		put = NULL;
		*ret_err = -ETIMEDOUT;
	} else if (put && READ_ONCE(put->installed) && !put->taken) {
		put->taken = true;
		*ret_err = 0;
	} else {
		put = NULL;
	}
	xa_unlock(&s->puts);
	return put;
}

/*
 * Nobody writes to it any more: its extent is the daemon's, and only then it
 * is not in the table any more, where the daemon looks for it. An error, when
 * the daemon found it there after it was taken: SHUT follows, and nothing else
 * may be asked of it.
 */
static int unlist(struct fkv_put *put)
{
	struct fkv_session *s = put->session;

	fkv_segment_del(s->inst, &put->extent);
	xa_erase(&s->puts, put->id);
	return READ_ONCE(put->dead) ? ended(put) : 0;
}

struct fkv_put *fkv_put_take(struct fkv_session *s, u64 id, int *ret_err)
{
	struct fkv_put *put = claim(s, id, ret_err);

	if (!put)
		return NULL;
	window_shut(put);
	*ret_err = unlist(put);
	if (!*ret_err)
		return put;
	fkv_put_put(put);
	return NULL;
}

void fkv_put_cancel(struct fkv_session *s, u64 id)
{
	int err;
	struct fkv_put *put = claim(s, id, &err);

	if (!put)
		return;
	window_shut(put);
	xa_lock(&s->puts);
	put->report = true;
	xa_unlock(&s->puts);
	unlist(put);
	fkv_put_put(put);
}

int fkv_put_filled(struct fkv_put *put)
{
	struct fkv_session *s = put->session;
	void *now;
	bool ours;
	int err;

	xa_lock(&s->puts);
	now = xa_load(&s->puts, put->id);
	ours = now == put;
	if (ours)
		put->taken = true;
	else if (xa_is_value(now))
		forget(s, put->id);
	xa_unlock(&s->puts);
	if (!ours)
		return ended(put);
	err = unlist(put);
	fkv_put_put(put);
	return err;
}

/* Where @from is copied to, a piece at a time; returns bytes or -EFAULT. */
static long fill_piece(struct fkv_put *put, const void __user *from, u64 done)
{
	const struct fkv_segment *seg = &put->session->inst->seg;
	u64 at = put->offset + done;
	unsigned long chunk = seg->chunks[at / FKV_CHUNK];
	u64 room = fkv_chunk_is_huge(chunk) ? FKV_CHUNK - at % FKV_CHUNK :
		PAGE_SIZE - at % PAGE_SIZE;
	u64 n = min_t(u64, room, put->len - done);
	struct page *page = fkv_segment_page(seg, at / PAGE_SIZE);

	if (copy_from_user(page_address(page) + at % PAGE_SIZE, from + done, n))
		return -EFAULT;
	return n;
}

int fkv_put_fill(struct fkv_put *put, const void __user *from)
{
	u64 done = 0;

	while (done < put->len) {
		long n;

		if (READ_ONCE(put->dead))
			return ended(put);
		if (fatal_signal_pending(current))
			return -EINTR;
		n = fill_piece(put, from, done);
		if (n < 0)
			return n;
		done += n;
		cond_resched();
	}
	return 0;
}

/*
 * End one that is not at its end already: a mark stays, so that the client
 * hears of it. The last one who may still write @report's it.
 */
static int end(struct fkv_session *s, u64 id, bool report)
{
	struct fkv_put *put;
	bool taken = false;

	xa_lock(&s->puts);
	put = xa_load(&s->puts, id);
	if (xa_is_value(put))
		put = NULL;
	if (put) {
		taken = put->taken;
		put->report |= report;
		WRITE_ONCE(put->dead, true);
		if (!taken)
			mark_gone(s, id);
	}
	xa_unlock(&s->puts);
	if (!put)
		return -ENOENT;
	if (taken)
		return 0;
	window_shut(put);
	fkv_put_put(put);
	return 0;
}

int fkv_put_shut(struct fkv_session *s, u64 id)
{
	return end(s, id, true);
}

void fkv_put_shut_all(struct fkv_session *s)
{
	struct fkv_put *put;
	unsigned long id;

	xa_for_each(&s->puts, id, put) {
		end(s, id, false);
		cond_resched();
	}
}
