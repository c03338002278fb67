# SPDX-License-Identifier: Apache-2.0
# what: what a ring has dropped is committed after that, and taken (S13)
# file: daemon/core/master/reclaim.c daemon/core/owner/persist.c
# world: cluster
# breaks: (!)
# seeds: 300
s/msg->seq < mb->shards\[msg->shard\].tail/0/;s/^		if (fkv_ring_tail_moved(o->cfg.ring, s, \&seq))$/		if (fkv_ring_tail_moved(o->cfg.ring, s, \&seq) \&\& (seq += 2))/
