# SPDX-License-Identifier: Apache-2.0
# what: a put that ended with its session is not reported busy (P5, F1)
# file: daemon/core/owner/home.c
# world: cluster
# breaks: (2)
# seeds: 2000
s/put->state == FKV_PUT_EXPIRED \&\&$/0 \&\&/
