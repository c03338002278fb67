# SPDX-License-Identifier: Apache-2.0
# what: any request may use all of the segment
# file: daemon/core/master/space.c
# breaks: (5)
# seeds: 300
s/bytes > fkv_space_limit(s, class)/bytes > fkv_space_limit(s, FKV_CLASS_INTO)/
