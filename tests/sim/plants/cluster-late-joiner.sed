# SPDX-License-Identifier: Apache-2.0
# what: who joined a fetch late gets what it brings, whatever that is
# file: daemon/core/owner/fetch.c
# world: cluster
# breaks: (3)
# seeds: 800
s/if (given->drop \&\& asks_again(f, it))/if (0)/
