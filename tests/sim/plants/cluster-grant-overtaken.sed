# SPDX-License-Identifier: Apache-2.0
# what: an answer with a grant comes by another way than what retires it (K6e)
# file: tests/sim/cluster/host.c
# world: cluster
# breaks: (3) (1) (!)
# seeds: 400
s/^	p = take(\&o->to_owner);$/	p = o->to_owner.head;\
	if (!p->cluster \&\& p->msg.type == FKV_MSG_GET_DONE_R \&\& p->next) {\
		struct cs_post *q = p->next;\
\
		p->next = q->next;\
		if (!p->next)\
			o->to_owner.tail = \&p->next;\
		p = q;\
	} else {\
		p = take(\&o->to_owner);\
	}/
