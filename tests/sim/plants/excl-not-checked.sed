# SPDX-License-Identifier: Apache-2.0
# what: an exclusive put replaces what came meanwhile
# file: daemon/core/master/change.c
# breaks: (3)
# seeds: 500
s/return op->route->put_id ? -EEXIST : 0;/return 0;/
