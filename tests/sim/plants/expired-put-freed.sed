# SPDX-License-Identifier: Apache-2.0
# what: an expired put gives room back that its client may write
# file: daemon/core/owner/put.c
# breaks: (2) (4)
# seeds: 1000
s/revoke(put, !put->client->arena_bytes, out);/revoke(put, false, out);/
