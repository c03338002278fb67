# SPDX-License-Identifier: Apache-2.0
# what: a completion for an earlier life is taken for one of today's
# file: daemon/core/owner/owner.c
# breaks: (1) (2) (8) (10) (!)
# seeds: 2000
/^struct fkv_oop \*fkv_oop_find/,/^}/s/(&o->ops, id)/(\&o->ops, (uint32_t)id)/
