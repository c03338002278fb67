# SPDX-License-Identifier: Apache-2.0
# what: a pinned entry that is to be evicted is given back
# file: daemon/core/owner/entries.c
# breaks: (2) (6)
# seeds: 300
s/if (res == FKV_EVICT_BUSY)/if (0)/
