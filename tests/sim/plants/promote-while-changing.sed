# SPDX-License-Identifier: Apache-2.0
# what: so is a get that came from SSD
# file: daemon/core/master/get.c
# breaks: (3) (6)
# seeds: 2000
s/ans->grant = !r->changing;/ans->grant = true;/
