// SPDX-License-Identifier: GPL-2.0-only
/*
 * segment.c - the memory of an instance: chunks of 2 MiB, pinned, zeroed once
 *
 * A chunk is one compound page where there is one, so that the core maps it by
 * PMD out of a plain fault handler, else 512 single pages.
 */
#include <linux/atomic.h>
#include <linux/moduleparam.h>
#include <linux/sched/signal.h>

#include "internal.h"

#define CHUNK_ORDER	get_order(FKV_CHUNK)
#define RUN		64	/* chunks looked at, or given back, at once */

static unsigned long max_pinned_bytes;
module_param(max_pinned_bytes, ulong, 0644);
MODULE_PARM_DESC(max_pinned_bytes,
		 "bytes that all segments together may pin (0: half of the memory)");

static atomic64_t pinned;

static u64 pinned_max(void)
{
	unsigned long max = READ_ONCE(max_pinned_bytes);

	return max ? max : (u64)totalram_pages() / 2 * PAGE_SIZE;
}

void fkv_segment_usage(u64 *ret_pinned, u64 *ret_max)
{
	*ret_pinned = atomic64_read(&pinned);
	*ret_max = pinned_max();
}

int fkv_segment_create(struct fkv_segment *seg, u64 bytes, bool pinnable)
{
	u64 n = bytes / FKV_CHUNK;
	unsigned long *chunks;

	chunks = kvcalloc(n, sizeof(*chunks), GFP_KERNEL_ACCOUNT);
	if (!chunks)
		return -ENOMEM;
	if ((u64)atomic64_add_return(bytes, &pinned) > pinned_max()) {
		atomic64_sub(bytes, &pinned);
		kvfree(chunks);
		return -ENOSPC;
	}
	seg->bytes = bytes;
	seg->reserved = bytes;
	seg->nr_chunks = n;
	seg->pinnable = pinnable;
	/* pairs with the loads of the owner's other calls */
	smp_store_release(&seg->chunks, chunks);
	return 0;
}

static void singles_free(struct page **pages)
{
	for (unsigned int i = 0; i < FKV_CHUNK_PAGES && pages[i]; i++)
		put_page(pages[i]);
	kvfree(pages);
}

/* A page that somebody still pins is freed by the last unpin. */
static void chunk_free(unsigned long chunk)
{
	if (!chunk)
		return;
	if (chunk & FKV_CHUNK_SINGLE)
		singles_free((struct page **)(chunk & ~FKV_CHUNK_SINGLE));
	else
		put_page((struct page *)chunk);
}

static unsigned long singles_alloc(void)
{
	gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN |
		    __GFP_RETRY_MAYFAIL;
	struct page **pages;

	/* of one page: at the cgroup's limit it, too, must not kill */
	pages = kvcalloc(FKV_CHUNK_PAGES, sizeof(*pages), gfp);
	if (!pages)
		return 0;
	for (unsigned int i = 0; i < FKV_CHUNK_PAGES; i++) {
		pages[i] = fatal_signal_pending(current) ? NULL :
			alloc_page(gfp);
		if (!pages[i]) {
			singles_free(pages);
			return 0;
		}
	}
	return (unsigned long)pages | FKV_CHUNK_SINGLE;
}

static unsigned long chunk_alloc(void)
{
	gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN |
		    __GFP_COMP | __GFP_NORETRY;
	struct page *page = alloc_pages(gfp, CHUNK_ORDER);

	if (!page)
		return singles_alloc();
	/*
	 * The allocator leaves what the page's last user had there, and later
	 * kernels map nothing at once that seems to lie across the file's end.
	 */
	fkv_page_clear_index(page);
	return (unsigned long)page;
}

static int chunk_populate(struct fkv_segment *seg, u64 i)
{
	unsigned long chunk;

	if (READ_ONCE(seg->chunks[i]))
		return 0;
	chunk = chunk_alloc();
	if (!chunk)
		return -ENOMEM;
	/* somebody else may be at the same chunk; pairs with READ_ONCE()s */
	if (cmpxchg(&seg->chunks[i], 0, chunk)) {
		chunk_free(chunk);
		return 0;
	}
	if (fkv_chunk_is_huge(chunk))
		atomic64_inc(&seg->huge);
	atomic64_inc(&seg->populated);
	return 0;
}

int fkv_segment_populate(struct fkv_segment *seg, u64 offset, u64 len)
{
	u64 first = offset / FKV_CHUNK, n = len / FKV_CHUNK;

	for (u64 i = first; i < first + n; i++) {
		int err;

		if (fatal_signal_pending(current))
			return -EINTR;
		err = chunk_populate(seg, i);
		if (err)
			return fatal_signal_pending(current) ? -EINTR : err;
		cond_resched();
	}
	return 0;
}

void fkv_segment_free(struct fkv_segment *seg)
{
	if (!seg->chunks)
		return;
	for (u64 i = 0; i < seg->nr_chunks; i++) {
		unsigned long chunk = seg->chunks[i];

		chunk_free(chunk);
		cond_resched();
	}
	/* what was never populated was reserved all the same */
	atomic64_sub(seg->reserved, &pinned);
	kvfree(seg->chunks);
	seg->chunks = NULL;
}

static struct page *chunk_page(unsigned long chunk, u64 at)
{
	unsigned int i = at % FKV_CHUNK_PAGES;

	if (!chunk)
		return NULL;
	if (chunk & FKV_CHUNK_SINGLE)
		return ((struct page **)(chunk & ~FKV_CHUNK_SINGLE))[i];
	return (struct page *)chunk + i;
}

struct page *fkv_segment_page(const struct fkv_segment *seg, u64 at)
{
	return chunk_page(READ_ONCE(seg->chunks[at / FKV_CHUNK_PAGES]), at);
}

struct page *fkv_segment_get_page(struct fkv_segment *seg, u64 at)
{
	struct page *page;

	if (at / FKV_CHUNK_PAGES >= seg->nr_chunks)
		return NULL;
	spin_lock(&seg->lock);
	page = chunk_page(seg->chunks[at / FKV_CHUNK_PAGES], at);
	if (page)
		get_page(page);
	spin_unlock(&seg->lock);
	return page;
}

bool fkv_segment_covers(const struct fkv_segment *seg, u64 offset, u64 len)
{
	if (!len)
		return true;
	return PAGE_ALIGNED(offset) && offset < seg->bytes &&
	       len <= seg->bytes - offset;
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
	struct fkv_segment *seg = &inst->seg;
	bool was;

	spin_lock(&seg->lock);
	was = ext->added;
	fkv_extent_del(&seg->extents, ext);
	spin_unlock(&seg->lock);
	/* set before the lock is taken to look for what is not held */
	if (was && READ_ONCE(seg->shrinking))
		fkv_segment_shrink(inst, ext->first, ext->last);
}

/* No client maps these chunks from now on. */
static void unmap(struct fkv_instance *inst, u64 chunk, u64 n)
{
	struct fkv_session *s;

	list_for_each_entry(s, &inst->sessions, link)
		unmap_mapping_range(s->inode->i_mapping, chunk * FKV_CHUNK,
				    n * FKV_CHUNK, 1);
}

/*
 * Take the run of chunks from *@at on, before @end, that no extent needs; ends
 * before one that is needed. *@at is where it ended.
 */
static u64 take_run(struct fkv_segment *seg, u64 *at, u64 end,
		    unsigned long *ret)
{
	u64 stop = min(end, *at + RUN), n = 0;

	spin_lock(&seg->lock);
	for (; *at < stop; ++*at) {
		u64 page = *at * FKV_CHUNK_PAGES;

		if (!seg->chunks[*at] ||
		    fkv_extent_find(&seg->extents, page,
				    page + FKV_CHUNK_PAGES - 1)) {
			if (n)
				break;
			continue;
		}
		ret[n++] = seg->chunks[*at];
		WRITE_ONCE(seg->chunks[*at], 0);
	}
	spin_unlock(&seg->lock);
	return n;
}

static void give_back(struct fkv_segment *seg, const unsigned long *run, u64 n)
{
	for (u64 i = 0; i < n; i++) {
		if (fkv_chunk_is_huge(run[i]))
			atomic64_dec(&seg->huge);
		chunk_free(run[i]);
	}
	seg->reserved -= n * FKV_CHUNK;
	atomic64_sub(n * FKV_CHUNK, &pinned);
}

void fkv_segment_shrink(struct fkv_instance *inst, u64 first, u64 last)
{
	struct fkv_segment *seg = &inst->seg;
	u64 at = first / FKV_CHUNK_PAGES;
	u64 end = last / FKV_CHUNK_PAGES + 1;
	unsigned long run[RUN];

	mutex_lock(&inst->sessions_lock);
	while (at < end) {
		u64 n = take_run(seg, &at, end, run);

		if (n) {
			unmap(inst, at - n, n);
			give_back(seg, run, n);
		}
		cond_resched();
	}
	mutex_unlock(&inst->sessions_lock);
}

vm_fault_t fkv_segment_fault(struct fkv_segment *seg, struct vm_fault *vmf)
{
	struct page *page = fkv_segment_get_page(seg, vmf->pgoff);

	if (!page)
		return VM_FAULT_SIGBUS;
	vmf->page = page;
	return 0;
}
