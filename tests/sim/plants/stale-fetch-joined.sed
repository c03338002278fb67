# SPDX-License-Identifier: Apache-2.0
# what: a get joins a fetch of a retired version
# file: daemon/core/owner/fetch.c
# breaks: (3)
# seeds: 1000
/^void fkv_fetch_retire/,/^}/s/unjoin(o, f);/;/
