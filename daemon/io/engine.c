// SPDX-License-Identifier: Apache-2.0
#include "base/base.h"
#include "io/engine.h"

int fkv_piece_begin(const struct fkv_engine_config_io *cfg,
		    struct fkv_piece *p, uint64_t *len)
{
	*len = p->len - p->done;
	p->cap = *len;
	return cfg->shim ? cfg->shim(cfg->shim_arg, p, &p->cap) : 0;
}

static bool complete(struct fkv_piece *p, int res)
{
	p->res = res;
	return true;
}

static bool again(struct fkv_piece *p)
{
	/* -EIO: the caller knows what to do about a range that does not move */
	return p->tries++ < FKV_IO_RETRIES ? false : complete(p, -EIO);
}

/*
 * What the block layer (blk_errors[] in the kernel's blk-core.c) and
 * filesystems have for this range, and no other, being no good.
 */
static bool bad_range(int res)
{
	switch (-res) {
	case ENODATA:		/* medium error */
	case EILSEQ:		/* protection information */
	case EREMOTEIO:		/* target error */
	case ENOLINK:		/* transport */
	case EBADE:		/* reservation conflict */
	case ETIMEDOUT:
	case EBADMSG:		/* checksum of the filesystem's */
	case EUCLEAN:		/* corrupted */
		return true;
	default:
		return false;
	}
}

bool fkv_piece_advance(struct fkv_piece *p, int res, uint64_t alignment,
		       struct fkv_io_engine_stats *stats)
{
	uint64_t done;

	if (res == -EINTR || res == -EAGAIN || res == -EBUSY) {
		stats->retries++;
		return again(p);
	}
	if (res < 0)
		return complete(p, bad_range(res) ? -EIO : res);
	if (!res)
		return complete(p, -EIO);
	done = p->done + (uint64_t)res;
	fkv_assert(done <= p->len);
	if (done == p->len) {
		p->done = done;
		return complete(p, 0);
	}
	stats->short_ios++;
	done = fkv_align_down(done, alignment);
	if (done == p->done)
		return again(p);
	p->done = done;
	p->tries = 0;
	return false;
}
