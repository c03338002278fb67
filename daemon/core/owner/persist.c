// SPDX-License-Identifier: Apache-2.0
/*
 * persist.c - versions on their way to the SSD ring, and devices that fail
 *
 * A job: checksum, room in the ring, write, commit at the master (P6, P7).
 * Its extent is kept by the reference that came with PERSIST and goes back
 * with the message that ends it.
 */
#include "core/owner/internal.h"

#define DEVICE_ERRORS_MAX	3u
#define READ_ERRORS_MAX		128u
#define DEVICE_RETRY_NS		(5 * FKV_SEC)
#define DEVICE_RETRY_MAX_NS	(60 * FKV_SEC)

static struct fkv_job *job_of(const struct fkv_owner *o, uint64_t id,
			      enum fkv_job_state state)
{
	struct fkv_oop *op = fkv_oop_find(o, id);
	struct fkv_job *job;

	if (!op || op->type != FKV_OOP_JOB)
		return NULL;
	job = fkv_container_of(op, struct fkv_job, op);
	return job->state == state ? job : NULL;
}

static void job_free(struct fkv_owner *o, struct fkv_job *job)
{
	fkv_table_del(&o->jobs_by_key, &job->by_key);
	fkv_oop_del(o, &job->op);
	fkv_key_put(job->key);
	fkv_free(job);
}

static void failed(struct fkv_out *out, const struct fkv_msg *of, int res)
{
	struct fkv_msg *msg = fkv_out_send(out, FKV_MSG_PERSIST_FAILED);

	msg->op = of->op;
	msg->key = fkv_key_get(of->key);
	msg->put_id = of->put_id;
	msg->extent = of->extent;
	msg->res = res;
}

/* Before the master stops counting it as pending: never by nobody. */
static void job_ends(struct fkv_owner *o, struct fkv_job *job,
		     struct fkv_out *out)
{
	if (!job->first)
		return;
	fkv_entry_pending(o, job->key, job->extent, false);
	fkv_owner_tell_pins(o, out);
}

static void job_fail(struct fkv_owner *o, struct fkv_job *job, int res,
		     struct fkv_out *out)
{
	struct fkv_msg of = {
		.op = job->op.id,
		.key = job->key,
		.put_id = job->put_id,
		.extent = job->extent,
	};

	if (res != -ECANCELED)
		o->stats.persist_failed++;
	job_ends(o, job, out);
	failed(out, &of, res);
	job_free(o, job);
}

static void active_add(struct fkv_owner *o, const struct fkv_job *job)
{
	o->active++;
	o->active_bytes += job->len;
}

static void active_del(struct fkv_owner *o, const struct fkv_job *job)
{
	o->active--;
	o->active_bytes -= job->len;
}

void fkv_owner_persist(struct fkv_owner *o, struct fkv_msg *msg,
		       struct fkv_out *out)
{
	struct fkv_job *job = NULL;

	if (o->cfg.ring)
		job = fkv_zalloc(sizeof(*job));
	if (!job) {
		o->stats.persist_failed++;
		failed(out, msg, o->cfg.ring ? -ENOMEM : -ENODEV);
		return;
	}
	job->key = fkv_key_get(msg->key);
	job->put_id = msg->put_id;
	job->extent = msg->extent;
	job->offset = msg->offset;
	job->len = msg->len;
	job->first = msg->first;
	if (job->first)
		fkv_entry_pending(o, job->key, job->extent, true);
	job->state = FKV_JOB_QUEUED;
	job->op.timer.kind = FKV_TIMER_JOB;
	fkv_oop_add(o, &job->op, FKV_OOP_JOB);
	fkv_table_add(&o->jobs_by_key, &job->by_key, job->key->hash.low);
	TAILQ_INSERT_TAIL(&o->queued, job, link);
	o->stats.persist_queued++;
	fkv_persist_pump(o, out);
}

static void hash_start(struct fkv_owner *o, struct fkv_job *job,
		       struct fkv_out *out)
{
	struct fkv_cmd *cmd = fkv_out_add(out, FKV_CMD_HASH);

	job->state = FKV_JOB_HASHING;
	active_add(o, job);
	cmd->token = job->op.id;
	cmd->offset = job->offset;
	cmd->len = job->len;
	cmd->seed = fkv_sum_seed(job->key->data, job->key->len, job->put_id,
				 job->len);
}

static void write_start(struct fkv_job *job, struct fkv_out *out)
{
	struct fkv_cmd *cmd = fkv_out_add(out, FKV_CMD_WRITE);
	const struct fkv_ring_entry *e = job->entry;

	job->state = FKV_JOB_WRITING;
	cmd->token = job->op.id;
	cmd->offset = job->offset;
	cmd->len = job->len;
	cmd->key = fkv_key_get(job->key);
	cmd->io.shard = e->shard;
	cmd->io.vpos = e->vpos;
	cmd->io.entry_len = e->entry_len;
	cmd->io.skip_vpos = e->skip_vpos;
	cmd->io.skip_len = e->skip_len;
	cmd->io.seq = e->seq;
	cmd->io.put_id = job->put_id;
	cmd->io.sum = job->sum;
}

static void commit_send(struct fkv_owner *o, struct fkv_job *job,
			struct fkv_out *out)
{
	struct fkv_msg *msg;

	job_ends(o, job, out);
	msg = fkv_out_send(out, FKV_MSG_SSD_COMMIT);
	job->state = FKV_JOB_COMMITTING;
	o->stats.persist_committing++;
	msg->op = job->op.id;
	msg->key = fkv_key_get(job->key);
	msg->put_id = job->put_id;
	msg->extent = job->extent;
	msg->shard = job->entry->shard;
	msg->seq = job->entry->seq;
}

/* Room in the ring: true when the job went on, false when it must wait. */
static bool reserve(struct fkv_owner *o, struct fkv_job *job,
		    struct fkv_out *out)
{
	int err;

	err = fkv_ring_reserve(o->cfg.ring, job->key, job->put_id, job->len,
			       &job->entry);
	if (err == -EBUSY || err == -EINPROGRESS)
		return false;
	if (err == -EALREADY) {
		active_del(o, job);
		fkv_ring_commit_pin(job->entry);
		commit_send(o, job, out);
	} else if (err) {
		active_del(o, job);
		job_fail(o, job, err, out);
	} else {
		write_start(job, out);
	}
	return true;
}

static void block(struct fkv_owner *o, struct fkv_job *job)
{
	job->state = FKV_JOB_BLOCKED;
	job->blocked_ns = o->now_ns;
	TAILQ_INSERT_TAIL(&o->blocked, job, link);
	o->stats.persist_blocked++;
	o->stats.blocked_waits++;
	fkv_timer_set(&o->timers, &job->op.timer,
		      o->now_ns + FKV_PERSIST_STALL_MAX);
}

static void unblock(struct fkv_owner *o, struct fkv_job *job)
{
	TAILQ_REMOVE(&o->blocked, job, link);
	o->stats.persist_blocked--;
	o->stats.blocked_ns += o->now_ns - job->blocked_ns;
	fkv_timer_clear(&o->timers, &job->op.timer);
}

void fkv_job_hashed(struct fkv_owner *o, uint64_t token, uint64_t sum,
		    struct fkv_out *out)
{
	struct fkv_job *job = job_of(o, token, FKV_JOB_HASHING);

	if (!job) {
		o->stats.stale_tokens++;
		return;
	}
	job->sum = sum;
	if (job->dropped) {
		active_del(o, job);
		job_fail(o, job, -ECANCELED, out);
	} else if (!TAILQ_EMPTY(&o->blocked) || !reserve(o, job, out)) {
		block(o, job);
	}
	fkv_persist_pump(o, out);
}

static void pump_blocked(struct fkv_owner *o, struct fkv_out *out)
{
	struct fkv_job *job;

	while ((job = TAILQ_FIRST(&o->blocked))) {
		unblock(o, job);
		if (reserve(o, job, out))
			continue;
		TAILQ_INSERT_HEAD(&o->blocked, job, link);
		o->stats.persist_blocked++;
		fkv_timer_set(&o->timers, &job->op.timer,
			      job->blocked_ns + FKV_PERSIST_STALL_MAX);
		o->stats.blocked_ns -= o->now_ns - job->blocked_ns;
		return;
	}
}

void fkv_persist_pump(struct fkv_owner *o, struct fkv_out *out)
{
	struct fkv_job *job;

	if (!o->cfg.ring)
		return;
	pump_blocked(o, out);
	while ((job = TAILQ_FIRST(&o->queued))) {
		if (o->active && (o->active >= FKV_WRITES_MAX ||
		    o->active_bytes + job->len > FKV_WRITE_BYTES_MAX))
			return;
		TAILQ_REMOVE(&o->queued, job, link);
		o->stats.persist_queued--;
		hash_start(o, job, out);
	}
}

static uint32_t device_of(const struct fkv_owner *o, uint32_t shard)
{
	return shard / (o->cfg.ring_shards / o->cfg.ring_devices);
}

static void report_devices(struct fkv_owner *o, struct fkv_out *out)
{
	uint64_t n = 0;

	for (uint32_t d = 0; d < o->cfg.ring_devices; d++)
		n += !o->device[d].off;
	o->stats.devices_on = n;
	fkv_out_send(out, FKV_MSG_SSD_STATE)->n = n;
}

/* One that fails soon after each return is tried ever more rarely. */
static void device_wait(struct fkv_owner *o, uint32_t d)
{
	uint64_t wait = 2 * o->device[d].wait_ns;

	if (!wait || o->now_ns - o->device[d].on_ns >= DEVICE_RETRY_MAX_NS)
		wait = DEVICE_RETRY_NS;
	o->device[d].wait_ns = fkv_min_u64(wait, DEVICE_RETRY_MAX_NS);
	o->device[d].retry_ns = o->now_ns + o->device[d].wait_ns;
}

static void device_off(struct fkv_owner *o, uint32_t d, struct fkv_out *out)
{
	if (o->device[d].off)
		return;
	o->device[d].off = true;
	o->device[d].read_errors = 0;
	device_wait(o, d);
	fkv_ring_device_off(o->cfg.ring, d);
	report_devices(o, out);
}

/* S11, S14: a dying or full device turns its part of the tier off. */
static void device_failed(struct fkv_owner *o, uint32_t d, int res,
			  struct fkv_out *out)
{
	if (res == -ENOMEM)
		return;		/* ours, not the device's */
	o->device[d].errors++;
	if (res != -EIO || o->device[d].errors >= DEVICE_ERRORS_MAX)
		device_off(o, d, out);
}

uint64_t fkv_persist_deadline(const struct fkv_owner *o)
{
	uint64_t t = FKV_NEVER;

	for (uint32_t d = 0; d < o->cfg.ring_devices; d++)
		if (o->device[d].off)
			t = fkv_min_u64(t, o->device[d].retry_ns);
	return t;
}

/* A device that was off is tried again: the next write is the probe. */
void fkv_persist_tick(struct fkv_owner *o, struct fkv_out *out)
{
	bool on = false;

	for (uint32_t d = 0; d < o->cfg.ring_devices; d++) {
		if (!o->device[d].off || o->now_ns < o->device[d].retry_ns)
			continue;
		if (fkv_ring_device_on(o->cfg.ring, d)) {
			o->device[d].retry_ns = o->now_ns + DEVICE_RETRY_NS;
			continue;
		}
		o->device[d].off = false;
		o->device[d].on_ns = o->now_ns;
		o->device[d].errors = DEVICE_ERRORS_MAX - 1;
		on = true;
	}
	if (on)
		report_devices(o, out);
}

void fkv_job_written(struct fkv_owner *o, struct fkv_job *job, int res,
		     struct fkv_out *out)
{
	uint32_t d = device_of(o, job->entry->shard);

	fkv_assert(job->state == FKV_JOB_WRITING);
	active_del(o, job);
	if (!res) {
		o->device[d].errors = 0;
		o->stats.bytes_persisted += job->len;
	} else {
		o->stats.write_errors++;
	}
	if (!res && !job->dropped && !o->device[d].off) {
		fkv_ring_commit(o->cfg.ring, job->entry, job->sum);
		commit_send(o, job, out);
	} else {
		fkv_ring_abort(o->cfg.ring, job->entry);
		job->entry = NULL;
		if (res && res != -ECANCELED)
			device_failed(o, d, res, out);
		job_fail(o, job, job->dropped ? -ECANCELED :
			 res ? res : -ENODEV, out);
	}
	fkv_persist_pump(o, out);
}

bool fkv_job_expects(const struct fkv_owner *o, const struct fkv_msg *msg)
{
	return job_of(o, msg->op, FKV_JOB_COMMITTING);
}

void fkv_job_committed(struct fkv_owner *o, struct fkv_msg *msg)
{
	struct fkv_job *job = job_of(o, msg->op, FKV_JOB_COMMITTING);

	fkv_assert(job);
	o->stats.persist_committing--;
	fkv_ring_commit_unpin(o->cfg.ring, job->entry);
	job_free(o, job);
}

/* Superseded (K6d): what is not at the device yet ends here. */
void fkv_job_retire(struct fkv_owner *o, const struct fkv_key *key,
		    uint64_t put_id, struct fkv_out *out)
{
	struct fkv_node *n, *next;

	for (n = fkv_table_first(&o->jobs_by_key, key->hash.low); n; n = next) {
		struct fkv_job *job;

		next = fkv_table_next(n);
		job = fkv_container_of(n, struct fkv_job, by_key);
		if (!fkv_key_equal(job->key, key) || job->put_id > put_id)
			continue;
		job->dropped = true;
		if (job->state == FKV_JOB_QUEUED) {
			TAILQ_REMOVE(&o->queued, job, link);
			o->stats.persist_queued--;
			job_fail(o, job, -ECANCELED, out);
		} else if (job->state == FKV_JOB_BLOCKED) {
			unblock(o, job);
			active_del(o, job);
			job_fail(o, job, -ECANCELED, out);
		}
	}
}

/* P7: the wait for a commit's answer ends with the session. */
void fkv_job_lost(struct fkv_owner *o, struct fkv_job *job,
		  struct fkv_out *out)
{
	job->dropped = true;
	switch (job->state) {
	case FKV_JOB_QUEUED:
		TAILQ_REMOVE(&o->queued, job, link);
		o->stats.persist_queued--;
		job_fail(o, job, -ECANCELED, out);
		break;
	case FKV_JOB_BLOCKED:
		unblock(o, job);
		active_del(o, job);
		job_fail(o, job, -ECANCELED, out);
		break;
	case FKV_JOB_HASHING:
	case FKV_JOB_WRITING:
		break;
	case FKV_JOB_COMMITTING:
		o->stats.persist_committing--;
		fkv_ring_commit_unpin(o->cfg.ring, job->entry);
		job_free(o, job);
		break;
	}
}

/* 30 s with all shards blocked. */
void fkv_job_expired(struct fkv_owner *o, struct fkv_job *job,
		     struct fkv_out *out)
{
	if (job->state != FKV_JOB_BLOCKED)
		return;
	unblock(o, job);
	active_del(o, job);
	job_fail(o, job, -ETIMEDOUT, out);
}

static bool read_failed(int res)
{
	return res == -EIO || res == -EBADMSG || fkv_device_departed(res);
}

/* Bad ranges lose their entries; nothing but errors is a bad device. */
static bool device_is_bad(struct fkv_owner *o, uint32_t d, int res)
{
	return fkv_device_departed(res) ||
	       (res == -EIO && ++o->device[d].read_errors >= READ_ERRORS_MAX);
}

void fkv_read_ended(struct fkv_owner *o, struct fkv_ring_entry *e, int res,
		    struct fkv_out *out)
{
	uint32_t d = device_of(o, e->shard);
	struct fkv_msg *msg;

	if (!res)
		o->device[d].read_errors = 0;
	if (!res || res == -ECANCELED)
		return;
	o->stats.read_errors++;
	if (!read_failed(res))
		return;
	/*
	 * No good: out of the index, and the master is told. It will not say
	 * when this version ends, so no get may join what still reads it.
	 */
	fkv_fetch_retire(o, e->key, e->put_id);
	msg = fkv_out_send(out, FKV_MSG_SSD_LOST);
	msg->key = fkv_key_get(e->key);
	msg->put_id = e->put_id;
	fkv_ring_drop(o->cfg.ring, e);
	if (device_is_bad(o, d, res))
		device_off(o, d, out);
}

static void report_tail(uint32_t shard, uint64_t seq, struct fkv_out *out)
{
	struct fkv_msg *msg = fkv_out_send(out, FKV_MSG_SSD_TAIL);

	msg->shard = shard;
	msg->seq = seq;
}

void fkv_persist_report(struct fkv_owner *o, struct fkv_out *out)
{
	uint64_t seq;

	for (uint32_t s = 0; o->cfg.ring && s < o->cfg.ring_shards; s++)
		if (fkv_ring_tail_moved(o->cfg.ring, s, &seq))
			report_tail(s, seq, out);
}

void fkv_persist_report_all(struct fkv_owner *o, struct fkv_out *out)
{
	for (uint32_t s = 0; o->cfg.ring && s < o->cfg.ring_shards; s++)
		report_tail(s, fkv_ring_tail(o->cfg.ring, s), out);
}
