# SPDX-License-Identifier: Apache-2.0
# what: an extent is reused while the owner has it
# file: daemon/core/master/ops.c
# breaks: (2) (4) (!)
# seeds: 100
s/if (x->refs || x->pulls || x->cause/if (x->pulls || x->cause/
