# SPDX-License-Identifier: Apache-2.0
# what: an exclusive put replaces what came meanwhile
# file: daemon/core/master/change.c
# breaks: (3)
# seeds: 500
s/return fkv_route_present(m, op->route) ? -EEXIST : 0;/return 0;/
