# SPDX-License-Identifier: Apache-2.0
# what: a target is freed while its writer may still push (G3.4)
# file: daemon/core/master/change.c
# world: cluster
# breaks: (2)
# seeds: 800
s/^	x->fencing = true;$/	fkv_master_detach(m, x);/;s/^	msg->extent = x->handle;\n}$//
