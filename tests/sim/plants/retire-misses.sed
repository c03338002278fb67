# SPDX-License-Identifier: Apache-2.0
# what: the version that is current is not retired
# file: daemon/core/owner/entries.c
# breaks: (3) (6)
# seeds: 100
s/e->put_id <= msg->put_id/e->put_id < msg->put_id/
