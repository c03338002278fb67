# SPDX-License-Identifier: Apache-2.0
# what: a registration lists nothing as busy (F1)
# file: daemon/core/owner/home.c
# world: cluster
# breaks: (2) (1)
# seeds: 2000
s/^	return n;$/	return 0;/
