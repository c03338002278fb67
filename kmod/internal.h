/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * internal.h - what the files of the module share
 *
 * An *instance* is one owner daemon with its segment and index, a *session*
 * one open file of a client. An *entry* is one version whose bytes somebody
 * may read; a *holder* is a session's reference to one; a *put* is an extent
 * that a session may still write to.
 *
 * Locks, outermost first: queue->recv_lock, session->attach, instances mutex,
 * instance->index_lock, instance->sessions_lock, mmap_lock, session->window,
 * segment->lock, queue->lock, holders->lock and the xarrays' locks, of which one
 * at a time, rhashtable's buckets. holders->lock is also taken inside
 * rcu_read_lock(), by hits; nothing is taken under it. Of all these only
 * recv_lock, which no fault handler takes, is held across a copy to user space.
 */
#ifndef FKV_KMOD_INTERNAL_H
#define FKV_KMOD_INTERNAL_H

#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/refcount.h>
#include <linux/rhashtable.h>
#include <linux/rwsem.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>
#include <linux/xarray.h>

#include "body.h"
#include "compat.h"
#include "extent.h"

#define FKV_CHUNK		FLUXONKV_SEGMENT_UNIT
#define FKV_CHUNK_PAGES		(FKV_CHUNK / PAGE_SIZE)
#define FKV_CHUNK_SINGLE	1UL	/* the low bit of segment->chunks[] */
#define FKV_GRACE_NS		(80 * NSEC_PER_MSEC)	/* past a deadline */
#define FKV_SESSION_REQUESTS	256
#define FKV_SESSION_GONE	1024	/* puts shut that it may ask for */
#define FKV_INSTANCE_REQUESTS	4096

/* Charged to the caller's cgroup; at its limit an error, nobody's death. */
#define FKV_GFP		(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* The same of any size, without trying hard for adjacent pages; kvfree(). */
static inline void *fkv_alloc(size_t size)
{
	gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN;
	void *p;

	if (size <= PAGE_SIZE)
		return kmalloc(size, FKV_GFP);
	p = kmalloc(size, gfp);
	return p ? p : __vmalloc(size, FKV_GFP);
}

static inline void *fkv_zalloc(size_t size)
{
	void *p = fkv_alloc(size);

	if (p)
		memset(p, 0, size);
	return p;
}

struct fkv_instance;
struct fkv_session;

/* ---- queue: what the daemon is told and asked ---- */

/*
 * Embedded in the object that it reports of, so that it can neither fail nor
 * be lost. @done frees that object, when the daemon has taken the message or
 * is gone.
 */
struct fkv_message {
	struct list_head link;
	u32 type;
	u32 uid, pid;
	u64 client;
	u64 cookie;
	void (*done)(struct fkv_message *msg);
};

/* What a reply gives to whoever waits: one for each item. */
struct fkv_given {
	struct fluxonkv_result res;
	struct fkv_entry *entry;	/* a reference */
	struct fkv_release *release;
	struct fkv_put *put;
	u64 want_len;			/* PUT_BEGIN: what was asked */
	bool hold;			/* PUT_COMMIT: with a holder */
};

/*
 * Born: fkv_request_create(), by the caller that waits. Held by: that caller;
 * the queue until it is answered or given up. Dies: with the last reference.
 * Only who takes it out of queue->sent may answer it.
 */
struct fkv_request {
	struct list_head link;		/* session->requests */
	struct fkv_session *session;
	refcount_t refs;
	u64 cookie;
	u64 queued_ns;
	u16 op;
	bool queued, sent;		/* queue->lock */
	bool done;			/* store-release by who answers */
	int status;			/* of the request as a whole */
	wait_queue_head_t wait;
	void *body;
	u32 body_size;
	struct fluxonkv_rep rep;	/* of the answer */
	void *reply;			/* its body: opaque ops; else text */
	u32 reply_size;
	u32 nr;
	struct fkv_given given[];
};

struct fkv_queue {
	struct mutex recv_lock;
	spinlock_t lock;
	struct list_head messages;
	struct list_head active;	/* sessions with requests */
	struct xarray sent;		/* requests by cookie */
	wait_queue_head_t recv;		/* the owner's poll() */
	wait_queue_head_t room;
	u64 next_cookie;
	u32 nr;				/* requests not answered */
	bool closed;
};

void fkv_queue_init(struct fkv_queue *q);
void fkv_queue_message(struct fkv_instance *inst, struct fkv_message *msg);
/* No more requests: those that wait fail; messages are dropped from now. */
void fkv_queue_close(struct fkv_instance *inst);
struct fkv_request *fkv_request_create(struct fkv_session *s, u16 op, u32 nr);
void fkv_request_put(struct fkv_request *req);
/* By who waited: what it did not take over of given[] ends. */
void fkv_request_finish(struct fkv_request *req);
/*
 * Queue it and wait, for so long: 0 when it was answered (see req->rep), or
 * -errno. The daemon answers by the deadline; FKV_GRACE_NS is for its way.
 */
int fkv_request_run(struct fkv_request *req, u64 wait_ns);
/* Take it from the queue so as to answer it; NULL: somebody else did. */
struct fkv_request *fkv_request_claim(struct fkv_instance *inst, u64 cookie);
void fkv_request_done(struct fkv_request *req, int status);
long fkv_queue_recv(struct fkv_instance *inst, struct fluxonkv_recv *arg);

/* ---- segment ---- */

struct fkv_segment {
	u64 bytes;
	u64 reserved;			/* of them, against max_pinned_bytes */
	u64 nr_chunks;
	bool pinnable;
	bool ready;
	bool shrinking;			/* the owner is dead */
	/*
	 * A page of FKV_CHUNK bytes, or an array of FKV_CHUNK_PAGES single
	 * ones with FKV_CHUNK_SINGLE set, or 0. Written once, by populate; set
	 * to 0 under @lock when the owner is dead and no extent is there.
	 */
	unsigned long *chunks;
	atomic64_t populated;		/* chunks */
	atomic64_t huge;		/* of these, in one page */
	spinlock_t lock;		/* extents; chunks given back */
	struct rb_root extents;
};

static inline bool fkv_chunk_is_huge(unsigned long chunk)
{
	return !(chunk & FKV_CHUNK_SINGLE);
}

int fkv_segment_create(struct fkv_segment *seg, u64 bytes, bool pinnable);
int fkv_segment_populate(struct fkv_segment *seg, u64 offset, u64 len);
void fkv_segment_free(struct fkv_segment *seg);
/* The page at page @at, NULL: none; with a reference, or under an extent. */
struct page *fkv_segment_get_page(struct fkv_segment *seg, u64 at);
struct page *fkv_segment_page(const struct fkv_segment *seg, u64 at);
/* Is [offset, offset + len) a place for an extent? */
bool fkv_segment_covers(const struct fkv_segment *seg, u64 offset, u64 len);
void fkv_segment_add(struct fkv_segment *seg, u64 offset, u64 len,
		     struct fkv_extent *ext, int *ret_err);
void fkv_segment_del(struct fkv_instance *inst, struct fkv_extent *ext);
/* A dead owner's: give back chunks of these pages without an extent. */
void fkv_segment_shrink(struct fkv_instance *inst, u64 first, u64 last);
void fkv_segment_usage(u64 *ret_pinned, u64 *ret_max);

/* ---- instance ---- */

struct fkv_uid {
	struct list_head link;		/* instance->uids; sessions_lock */
	kuid_t uid;
	u32 sessions;
	atomic64_t pinned;
};

/*
 * Born: BIND. Held by: the owner's open file, each session. Dies: with the
 * last of them; from the owner's death on it has no index and serves only
 * what is held.
 */
struct fkv_instance {
	struct list_head link;		/* instances, while alive */
	struct kref ref;
	char name[FLUXONKV_NAME_MAX];
	u64 incarnation;
	u64 client_cap, uid_cap;
	u32 clients_max;
	kuid_t owner_uid;
	pid_t owner_pid;
	bool strict;
	bool stopped;			/* no client may attach any more */
	bool dead;
	u64 lease_until_ns;
	struct fkv_segment seg;
	u64 hash_key[2 + FLUXONKV_KEY_MAX / 4];
	struct rhashtable index;
	struct llist_head hits;
	struct llist_node *hits_left;	/* taken off, not told yet; index_lock */
	struct mutex index_lock;	/* the owner's calls that change it */
	struct fkv_queue queue;
	struct mutex sessions_lock;
	struct list_head sessions;
	struct list_head uids;
	u32 nr_sessions;

	atomic64_t entries, retired, open_puts;
	atomic64_t held_bytes;		/* of published entries with readers */
	atomic64_t nr_hits, hit_bytes, misses, overlaps, stale_replies, quota;
};

extern struct mutex fkv_instances_lock;
extern struct list_head fkv_instances;	/* alive or held, see dead */

int fkv_instance_bind(const struct fluxonkv_bind *arg,
		      struct fkv_instance **ret);
/* A reference to the instance of that name, "": the only one. */
int fkv_instance_find(const char *name, struct fkv_instance **ret);
void fkv_instance_put(struct fkv_instance *inst);
/* Its owner is gone. */
void fkv_instance_die(struct fkv_instance *inst);

/* ---- session ---- */

struct fkv_holders {
	spinlock_t lock;
	struct fkv_holder **blocks;
	u32 nr_blocks, room;
	u32 free;			/* slot + 1 of the first free one */
	u32 nr;
};

/* Memory for a call: its request, behind it the results. */
struct fkv_spare {
	u64 size;			/* of data */
	u64 data[];
};

struct fkv_session {
	struct fkv_instance *inst;	/* NULL until attached */
	struct mutex attach;
	struct inode *inode;		/* its mappings hang off it */
	struct list_head link;		/* inst->sessions */
	u64 id;
	kuid_t kuid;
	pid_t pid;
	u64 since_ns;
	struct fkv_uid *uid;
	atomic64_t pinned;
	struct fkv_holders holders;
	struct fkv_spare *spare;	/* of a call that is over; or NULL */
	struct rw_semaphore window;
	struct rb_root windows;		/* open puts by offset; window */
	struct xarray puts;		/* by the daemon's id */
	u32 nr_gone;			/* marks among them; puts' lock */
	struct list_head requests;	/* queue->lock */
	struct list_head active;	/* queue->active; queue->lock */
	u32 nr_requests;		/* queue->lock */
	struct fkv_message up, gone;
	refcount_t told;		/* of these two, not done yet */
};

extern const struct file_operations fkv_session_fops;

void fkv_session_tell(struct fkv_session *s, struct fluxonkv_client *ret);
/* Whole pages, against the caps of client and user: false, over one. */
bool fkv_charge(struct fkv_session *s, u64 bytes);
void fkv_uncharge(struct fkv_session *s, u64 bytes);
struct inode *fkv_inode_create(void);

/* ---- index: entries ---- */

enum {
	FKV_ENTRY_HASHED,		/* in the index */
	FKV_ENTRY_LISTED,		/* in instance->hits */
	FKV_ENTRY_REPORT,		/* QUIET at the end */
};

/* What the index counts for in entry->refs; readers count 1 each. */
#define FKV_INDEX_REF	(1 << 30)

/*
 * Born: PUBLISH, or a reply for what is not published. @refs: the index (while
 * HASHED), each holder, each reply on its way: one number, so that a hit takes
 * one atomic operation, which also tells whether it is the first reader. At 0
 * its bytes are nobody's any more. Its memory goes when @uses is 0: @refs
 * together, the list of hits, a QUIET message on its way.
 */
struct fkv_entry {
	/* what a hit reads and writes: a cache line, and the key */
	struct rhash_head node;
	u32 hash;
	u32 key_len;
	u64 put_id;
	u64 offset;
	u64 len;
	atomic_t refs;
	u32 hits;			/* lossy: only a hint */
	unsigned long flags;
	struct fkv_instance *inst;
	refcount_t uses;
	struct fkv_extent extent;
	struct llist_node hit;
	struct fkv_message quiet;
	struct rcu_head rcu;
	u64 cookie;
	u64 key[];			/* padded with zeros */
};

int fkv_index_init(struct fkv_instance *inst);
void fkv_index_done(struct fkv_instance *inst);
void fkv_index_list(struct fkv_entry *e);

/* Popularity: lossy, and told to the daemon when it asks. */
static inline void fkv_index_hit(struct fkv_entry *e)
{
	WRITE_ONCE(e->hits, READ_ONCE(e->hits) + 1);
	if (!test_bit(FKV_ENTRY_LISTED, &e->flags))
		fkv_index_list(e);
}

int fkv_index_publish(struct fkv_instance *inst,
		      const struct fluxonkv_entry *arg, const void *key);
int fkv_index_retire(struct fkv_instance *inst, const void *key, u32 len,
		     u64 put_id);
int fkv_index_evict(struct fkv_instance *inst, const void *key, u32 len,
		    u64 put_id);
/* Is that version held? */
int fkv_index_held(struct fkv_instance *inst, const void *key, u32 len,
		   u64 put_id);
void fkv_index_empty(struct fkv_instance *inst);
/* Up to @max of what was hit since the last call. */
u32 fkv_index_hits(struct fkv_instance *inst, struct fluxonkv_hit *ret,
		   u32 max);
/* A reference to the version that a reply names, published or not. */
struct fkv_entry *fkv_entry_given(struct fkv_instance *inst,
				  const struct fluxonkv_result *res,
				  int *ret_err);
/* The last reference is gone. */
void fkv_entry_end(struct fkv_entry *e);

/* A hit's bytes are added a little after its entry may have been retired. */
static inline u64 fkv_held_bytes(const struct fkv_instance *inst)
{
	return max_t(s64, 0, atomic64_read(&inst->held_bytes));
}

static inline void fkv_entry_put(struct fkv_entry *e)
{
	/* afterwards it may be evicted and gone */
	struct fkv_instance *inst = e->inst;
	u64 bytes = PAGE_ALIGN(e->len);
	int left = atomic_dec_return(&e->refs);

	if (left == FKV_INDEX_REF)
		atomic64_sub(bytes, &inst->held_bytes);
	else if (!left)
		fkv_entry_end(e);
}

/* ---- holders ---- */

/* What tells the daemon that its own holder is released. */
struct fkv_release {
	struct fkv_message msg;
};

/* A slot: free when it has no entry. */
struct fkv_holder {
	struct fkv_entry *entry;
	struct fkv_release *release;	/* NULL: the daemon keeps none */
	u64 since_ns;
	u32 uses;
	u32 next;			/* free ones: slot + 1 */
};

#define FKV_HOLDER_BLOCK	128	/* slots: a page of them */

static inline struct fkv_holder *fkv_holder_slot(const struct fkv_holders *t,
						 u32 at)
{
	return &t->blocks[at / FKV_HOLDER_BLOCK][at % FKV_HOLDER_BLOCK];
}

/*
 * Under the lock, where t->free tells of a slot: its id. The reference to @e
 * is the holder's now.
 */
static __always_inline u64 fkv_holder_take(struct fkv_holders *t,
					   struct fkv_entry *e,
					   struct fkv_release *release,
					   u64 now_ns)
{
	u32 at = t->free;
	struct fkv_holder *h = fkv_holder_slot(t, at - 1);

	t->free = h->next;
	t->nr++;
	h->entry = e;
	h->release = release;
	h->since_ns = now_ns;
	h->uses++;
	return (u64)h->uses << 32 | at;
}

/* Under the lock: what was in it; false: @id is no holder. */
bool fkv_holder_give_back(struct fkv_holders *t, u64 id,
			  struct fkv_holder *ret);
/* One block of free slots more, unless there are some: 0 or -ENOMEM. */
int fkv_holders_grow(struct fkv_holders *t);

/* What is told of one by a dump. */
struct fkv_told {
	u64 id, len, put_id, since_ns;
	u32 hash;
};

void fkv_holders_init(struct fkv_holders *t);
void fkv_holders_done(struct fkv_holders *t);
/* One to be made: of @entry, whose reference and charge it takes over. */
struct fkv_new_holder {
	struct fkv_entry *entry;
	struct fkv_release *release;
	u64 *ret_id;			/* 0 without memory: not taken over */
};

/* Returns how many were made. */
u32 fkv_holder_add(struct fkv_session *s, const struct fkv_new_holder *new,
		   u32 n);
/* Those of @ids that are holders end; how many. */
u32 fkv_holder_del(struct fkv_session *s, const u64 *ids, u32 n);
void fkv_holder_del_all(struct fkv_session *s);
/* The next one from slot *@at on, which moves on; false: none. May sleep. */
bool fkv_holder_next(struct fkv_session *s, u32 *at, struct fkv_told *ret);
/* A holder of the daemon's that no holder of ours took over ends here. */
void fkv_release_send(struct fkv_instance *inst, struct fkv_release *r);
struct fkv_release *fkv_release_create(u64 client, u64 id);

/* ---- puts and windows ---- */

/*
 * Born: the reply to a PUT_BEGIN. @refs: the session's table; that reply, until
 * its client has it; a copy in progress. At the last one nobody of us can write
 * to its extent any more.
 */
struct fkv_put {
	refcount_t refs;
	struct fkv_extent extent;
	struct rb_node window;		/* session->windows, if open */
	struct fkv_session *session;
	u64 id;
	u64 offset;
	u64 len;
	bool open;			/* session->window */
	bool installed;			/* its client may name it */
	bool taken;			/* by commit, abort, end; puts' lock */
	bool report;			/* SHUT at the end; puts' lock */
	bool dead;			/* ended by others: stop writing */
	bool charged;
	struct fkv_message shut;
};

/* In the session's table, where SHUT finds it, and a reference for the caller. */
struct fkv_put *fkv_put_create(struct fkv_session *s,
			       const struct fluxonkv_result *res, int *ret_err);
/* With a window, and to be named by its client; takes over the reference. */
int fkv_put_install(struct fkv_put *put);
/* Out of the table, its window shut: the table's reference, or NULL. */
struct fkv_put *fkv_put_take(struct fkv_session *s, u64 id, int *ret_err);
/* Its client was not told of it: it ends, and SHUT follows. */
void fkv_put_cancel(struct fkv_session *s, u64 id);
void fkv_put_put(struct fkv_put *put);
/* Copy to one that was not installed. */
int fkv_put_fill(struct fkv_put *put, const void __user *from);
/* And out of the table; -ETIMEDOUT, -ENOTCONN: it was ended meanwhile. */
int fkv_put_filled(struct fkv_put *put);
/* The daemon ends one: 0, and SHUT follows, or -ENOENT. */
int fkv_put_shut(struct fkv_session *s, u64 id);
void fkv_put_shut_all(struct fkv_session *s);
int fkv_session_mmap(struct file *file, struct vm_area_struct *vma);

/* ---- calls ---- */

/* @arg is a copy of @user, which is told what came of it. */
long fkv_call(struct fkv_session *s, struct fluxonkv_call *arg,
	      struct fluxonkv_call __user *user);
long fkv_reply(struct fkv_instance *inst, struct fluxonkv_answer *answer);

extern const struct file_operations fkv_owner_fops;
extern const struct vm_operations_struct fkv_segment_vm_ops;
vm_fault_t fkv_segment_fault(struct fkv_segment *seg, struct vm_fault *vmf);

/* Copy a struct versioned by its size from user space, and what it knew back. */
int fkv_struct_in(void *dst, size_t size, size_t min, const void __user *arg);
int fkv_struct_out(void __user *arg, const void *src, size_t size);
long fkv_features(void __user *arg);

/* ---- netlink ---- */

int fkv_netlink_init(void);
void fkv_netlink_exit(void);
/* enum fluxonkv_genl_event, of a session or (NULL) the instance. */
void fkv_netlink_event(struct fkv_instance *inst, u32 event,
		       struct fkv_session *s);

#endif
