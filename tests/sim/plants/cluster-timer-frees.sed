# SPDX-License-Identifier: Apache-2.0
# what: a fetch without progress gives its target back while it is being filled (G3)
# file: daemon/core/owner/fetch.c
# world: cluster
# breaks: (2) (1) (10)
# seeds: 800
/^void fkv_fetch_stalled/,/^}/s/fkv_xfer_cancel(o, &f->op, out);/revoke(o, f, false, true, out);/
