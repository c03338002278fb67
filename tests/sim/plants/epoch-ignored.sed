# SPDX-License-Identifier: Apache-2.0
# what: versions are counted from 1 again after a restart
# file: daemon/core/master/master.c
# breaks: (1) (3) (4) (6)
# seeds: 300
s/(cfg->epoch << EPOCH_SHIFT) + 1/(1ULL << EPOCH_SHIFT) + 1/
