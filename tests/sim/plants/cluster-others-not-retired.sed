# SPDX-License-Identifier: Apache-2.0
# what: only one owner is told of a version'\''s end (K6c)
# file: daemon/core/master/change.c
# world: cluster
# breaks: (3)
# seeds: 300
s/if (!fkv_member_live(mb) ||/if (op->nr_asked || !fkv_member_live(mb) ||/
