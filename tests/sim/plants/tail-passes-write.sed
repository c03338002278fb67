# SPDX-License-Identifier: Apache-2.0
# what: the tail passes an entry that is being written
# file: daemon/core/ssd/ring.c
# breaks: (7) (!)
# seeds: 500
s/if (e->state == FKV_RING_WRITING)$/if (0)/
