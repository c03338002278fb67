# SPDX-License-Identifier: Apache-2.0
# what: puts that wait for room are not tried again
# file: daemon/core/master/reclaim.c
# breaks: (11)
# seeds: 1000
s/c < FKV_CLASS_NR; c++/c < FKV_CLASS_PUT; c++/
