# SPDX-License-Identifier: Apache-2.0
# what: an evicted entry counts as quiet though readers pin it
# file: daemon/core/owner/entries.c
# breaks: (2)
# seeds: 300
s/e->scanned = res == FKV_EVICT_OK;/e->scanned = true;/
