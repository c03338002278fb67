# SPDX-License-Identifier: Apache-2.0
# what: what another owner reads is given out (G3.1)
# file: daemon/core/master/ops.c
# world: cluster
# breaks: (1) (2) (!)
# seeds: 800
s/if (x->refs || x->pulls || x->cause/if (x->refs || x->cause/;s/fkv_assert(x->pulls);/if (!x->pulls) return;/
