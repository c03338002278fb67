# SPDX-License-Identifier: Apache-2.0
# what: a release leaves the pin
# file: daemon/core/owner/clients.c
# breaks: (4) (10)
# seeds: 100
/fkv_entry_unpin(o, e, out);/d
