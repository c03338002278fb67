# SPDX-License-Identifier: Apache-2.0
# what: a victim is written again each time that its turn comes
# file: daemon/core/master/reclaim.c
# breaks: (W)
# seeds: 1000
s/ \&\& !x->rebacked//
