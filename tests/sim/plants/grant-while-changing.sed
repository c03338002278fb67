# SPDX-License-Identifier: Apache-2.0
# what: a get is granted what a put is about to replace
# file: daemon/core/master/get.c
# breaks: (3) (6)
# seeds: 1000
s/msg->grant = !r->changing;/msg->grant = true;/
