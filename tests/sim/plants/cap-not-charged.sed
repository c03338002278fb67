# SPDX-License-Identifier: Apache-2.0
# what: holders do not count against the caps
# file: daemon/core/owner/clients.c
# breaks: (H4)
# seeds: 300
s/return cap \&\& (/return 0 \&\& (/
