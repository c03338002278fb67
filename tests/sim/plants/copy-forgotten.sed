# SPDX-License-Identifier: Apache-2.0
# what: a put ends with its client while it is being copied
# file: daemon/core/owner/put.c
# breaks: (2)
# seeds: 1000
/^void fkv_put_client_gone/,/^}/s/put->aborted = true;/revoke(put, false, out);/
