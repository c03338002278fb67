# SPDX-License-Identifier: Apache-2.0
# what: a call may take 200 ms more than it may
# file: daemon/core/owner/calls.c
# breaks: (9)
# seeds: 100
s/\&call->timer, o->now_ns + t);/\&call->timer, o->now_ns + t + 200 * FKV_MS);/
