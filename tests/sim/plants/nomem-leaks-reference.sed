# SPDX-License-Identifier: Apache-2.0
# what: a reference stays when there is no memory for its entry
# file: daemon/core/owner/put.c
# breaks: (10)
# seeds: 1000
/^void fkv_put_done/,/^}/s/quiet(put, out);/;/
