# SPDX-License-Identifier: Apache-2.0
# what: a persist holds no reference to its extent
# file: daemon/core/master/reclaim.c
# breaks: (4)
# seeds: 100
/^void fkv_master_persist(/,/^}/s/x->refs++;/;/
