# SPDX-License-Identifier: Apache-2.0
# what: the wait for room counts from when the clock began
# file: daemon/core/master/ops.c
# breaks: (9)
# seeds: 100
s/now_ns + FKV_SPACE_WAIT_MAX/FKV_SPACE_WAIT_MAX/
