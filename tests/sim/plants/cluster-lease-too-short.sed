# SPDX-License-Identifier: Apache-2.0
# what: the master takes an owner for dead before the owner does
# file: daemon/core/master/members.c
# world: cluster
# breaks: (3)
# seeds: 2000
s/FKV_LEASE_MASTER_NS/(2 * FKV_SEC)/
