/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * call.h - one CALL that is carried out here
 *
 * Lives on its caller's stack, from the body's header to the results' copy out;
 * no lock: nobody else sees it.
 */
#ifndef FKV_KMOD_CALL_H
#define FKV_KMOD_CALL_H

#include "internal.h"

#define FKV_ASK		1	/* status of an item that the daemon is asked */

/* What belongs to an item besides its result. */
struct fkv_part {
	struct fkv_entry *entry;	/* a reference, and charged */
	struct fkv_release *release;
	struct fkv_put *put;
};

struct fkv_work {
	struct fkv_session *s;
	struct fluxonkv_call *arg;
	struct fluxonkv_call __user *user;	/* which it is a copy of */
	struct fluxonkv_req req;
	struct fkv_cursor items;	/* from the first */
	struct fluxonkv_rep *rep;	/* the results follow it */
	struct fluxonkv_result *res;
	struct fkv_part *parts;		/* NULL until they are needed */
	u64 deadline_ns;		/* CLOCK_MONOTONIC; 0: not asked yet */
	u32 nr_ask;
	struct fkv_request *asked;	/* the last one, for its text */
	u64 hit_bytes;
	u32 hits;
};

/* A choice of items for the daemon: edits @it, or leaves it out. */
typedef bool (*fkv_choose_fn)(struct fkv_work *w, u32 i,
			      struct fluxonkv_item *it);

/* Those whose status is FKV_ASK. */
bool fkv_choose_asked(struct fkv_work *w, u32 i, struct fluxonkv_item *it);
/* Bytes of the request, and its items. */
size_t fkv_ask_size(struct fkv_work *w, fkv_choose_fn choose, u32 *ret_nr);
/* NULL without memory. */
struct fkv_request *fkv_ask_create(struct fkv_work *w, u16 op,
				   fkv_choose_fn choose);
/* 0 when it was answered: w->asked has the answer. */
int fkv_ask_run(struct fkv_work *w, struct fkv_request *req);
int fkv_ask(struct fkv_work *w, u16 op, fkv_choose_fn choose);
void fkv_ask_done(struct fkv_work *w);
/* All items that were asked failed with @err. */
void fkv_ask_failed(struct fkv_work *w, int err);
/* The status of the daemon's answer to its @j-th item. */
int fkv_answered(const struct fkv_request *req, u32 j);

/* Have w->parts, for what belongs to items. 0 or -ENOMEM. */
int fkv_work_parts(struct fkv_work *w);
/* What was answered, to parts and results; what is over a cap is refused. */
void fkv_work_take(struct fkv_work *w, struct fkv_request *req);
/* Parts with an entry become holders. */
void fkv_work_install(struct fkv_work *w);
/* The results could not be copied out: nobody knows of these holders, puts. */
void fkv_work_uninstall(struct fkv_work *w);
/* Parts that nobody took over end. */
void fkv_work_drop(struct fkv_work *w);

/* All results of a GET are written. On an error some may be holders. */
int fkv_hits(struct fkv_work *w);
int fkv_call_get(struct fkv_work *w);
int fkv_call_put(struct fkv_work *w);
int fkv_call_put_begin(struct fkv_work *w);
void fkv_call_put_unbegin(struct fkv_work *w);
/* Commit or abort. */
int fkv_call_put_end(struct fkv_work *w);

#endif
