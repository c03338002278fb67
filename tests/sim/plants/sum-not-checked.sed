# SPDX-License-Identifier: Apache-2.0
# what: bytes from SSD are taken whatever their checksum
# file: daemon/core/owner/fetch.c
# breaks: (1)
# seeds: 1000
s/if (!err \&\& sum != want)/if (0 \&\& sum != want)/
