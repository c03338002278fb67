# SPDX-License-Identifier: Apache-2.0
# what: a write that failed is committed
# file: daemon/core/owner/persist.c
# breaks: (8)
# seeds: 500
s/if (!res \&\& !job->dropped/if (!job->dropped/
