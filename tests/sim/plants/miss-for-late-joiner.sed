# SPDX-License-Identifier: Apache-2.0
# what: ENOENT goes to a get that began after the question
# file: daemon/core/owner/fetch.c
# breaks: (3)
# seeds: 1000
s/^		if (asks_again(f, it))$/		if (0)/
