# SPDX-License-Identifier: Apache-2.0
# what: more references come back than were given
# file: daemon/core/owner/entries.c
# breaks: (4)
# seeds: 100
s/msg->n = e->given;/msg->n = e->given + 1;/
