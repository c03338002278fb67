# SPDX-License-Identifier: Apache-2.0
# what: a get joins a fetch of what another fetch found bad
# file: daemon/core/owner/persist.c
# breaks: (3)
# seeds: 10000
/^void fkv_read_ended/,/^}/s/fkv_fetch_retire(o, e->key, e->put_id);/;/
