# SPDX-License-Identifier: Apache-2.0
# what: what a life kept is seen again in the next one, though that has other memory (F1)
# file: daemon/core/master/members.c
# world: cluster
# breaks: (1) (4) (2) (10) (!)
# seeds: 800
s/bool same = reg->was \&\& reg->was == mb->incarnation \&\&/bool same = mb->incarnation \&\&/
