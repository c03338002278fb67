# SPDX-License-Identifier: Apache-2.0
# what: the tail passes an entry that is being read
# file: daemon/core/ssd/ring.c
# breaks: (7)
# seeds: 3000
s/else if (e->read_pins)/else if (0)/
