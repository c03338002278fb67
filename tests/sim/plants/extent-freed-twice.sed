# SPDX-License-Identifier: Apache-2.0
# what: an extent is given back twice
# file: daemon/core/master/space.c
# breaks: (4) (!)
# seeds: 100
/^void fkv_extent_free/,/^}/s/fkv_extents_free(\&s->extents, x->offset, x->bytes);/{ & & }/
