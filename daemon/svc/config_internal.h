/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_internal.h - between config.c and config_role.c
 */
#ifndef FKV_SVC_CONFIG_INTERNAL_H
#define FKV_SVC_CONFIG_INTERNAL_H

#include "svc/config.h"

/* The key of setting @i and the roles it fits (0: all), NULL behind the last. */
const char *fkv_config_setting(size_t i, unsigned int *ret_roles);

/* Of host:port or [v6]:port the host, to be freed, and the port; or NULL. */
char *fkv_config_host_port(const char *v, uint64_t *ret_port);

#endif
