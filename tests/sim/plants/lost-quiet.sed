# SPDX-License-Identifier: Apache-2.0
# what: the end of an expired put is not told
# file: daemon/core/owner/put.c
# breaks: (10)
# seeds: 1000
/^static void end_expired/,/^}/s/quiet(put, out);/;/
