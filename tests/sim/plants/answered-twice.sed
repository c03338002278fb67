# SPDX-License-Identifier: Apache-2.0
# what: who left a fetch is answered by it, too
# file: daemon/core/owner/fetch.c
# breaks: (9) (!)
# seeds: 500
/^void fkv_fetch_leave/,/^}/s/TAILQ_REMOVE.*/;/
