# SPDX-License-Identifier: Apache-2.0
# what: an extended put is over as if it were not
# file: daemon/core/owner/put.c
# breaks: (P5)
# seeds: 1000
/^void fkv_put_extend/,/^}/s/^\telse$/\telse if (0)/
