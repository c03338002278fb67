# SPDX-License-Identifier: Apache-2.0
# what: a session hands the owner's time to the master as its own
# file: tests/sim/cores.c
# breaks: (9) (11)
# seeds: 300
s/^\tif (msg->deadline_ns)$/\tif (0)/;s/^\tif (p->msg.type == FKV_MSG_PUT_START ||$/\tif (0 \&\&/;s/^\t    p->msg.type == FKV_MSG_GET_START)$/\t    1)/
