# SPDX-License-Identifier: Apache-2.0
# what: an owner counts its lease from the answer (K6f)
# file: daemon/core/owner/home.c
# world: cluster
# breaks: (3)
# seeds: 1000
s/^			reply(h, msg->heartbeat_reply.seq,$/			h->lease_ns = o->now_ns + FKV_LEASE_NS;\
		reply(h, msg->heartbeat_reply.seq,/
