# SPDX-License-Identifier: Apache-2.0
# what: an entry is written with the checksum of another
# file: daemon/core/owner/persist.c
# breaks: (8)
# seeds: 500
/^static void hash_start/,/^}/s/job->put_id,/job->put_id + 1,/
