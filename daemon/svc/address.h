/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address.h - where daemons of a cluster are
 *
 * What owners tell of themselves is "HOST:PORT/PORT": of RPC, and of payload.
 */
#ifndef FKV_SVC_ADDRESS_H
#define FKV_SVC_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#define FKV_ADDRESS_MAX	80u

/* HOST:PORT, of which HOST may be a name. 0, or -errno with a sentence. */
int fkv_address_find(const char *text, struct sockaddr_storage *ret, char *err,
		     size_t err_size);

/* @at with another port; 0 stays 0. */
struct sockaddr_storage fkv_address_data(const struct sockaddr_storage *at);

/* @host NULL: that of @at. 0 or -EINVAL. */
int fkv_address_print(const struct sockaddr_storage *at, const char *host,
		      uint16_t rpc, uint16_t data, char buf[FKV_ADDRESS_MAX]);
/* What print() made: 0 or -EINVAL. */
int fkv_address_parse(const char *text, struct sockaddr_storage *ret_rpc,
		      struct sockaddr_storage *ret_data);

#endif
