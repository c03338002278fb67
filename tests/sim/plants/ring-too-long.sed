# SPDX-License-Identifier: Apache-2.0
# what: an entry wraps at the end of the file
# file: daemon/core/ssd/ring.c
# breaks: (7)
# seeds: 300
s/return need <= rest ? s->head : s->head + rest;/return rest ? s->head : need;/
