// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/rpc.h"
#include "svc/address.h"

static in_port_t *port_of(struct sockaddr_storage *at)
{
	return at->ss_family == AF_INET6 ?
		&((struct sockaddr_in6 *)at)->sin6_port :
		&((struct sockaddr_in *)at)->sin_port;
}

int fkv_address_find(const char *text, struct sockaddr_storage *ret, char *err,
		     size_t err_size)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	const char *colon = strrchr(text, ':');
	struct addrinfo *ai = NULL;
	char *host;
	int res;

	if (!fkv_rpc_address(text, ret))
		return 0;
	host = colon ? strndup(text, (size_t)(colon - text)) : NULL;
	res = host ? getaddrinfo(host, colon + 1, &hints, &ai) : EAI_NONAME;
	free(host);
	if (res) {
		snprintf(err, err_size, "%s is not found: %s", text,
			 gai_strerror(res));
		return -EHOSTUNREACH;
	}
	memset(ret, 0, sizeof(*ret));
	memcpy(ret, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
	return 0;
}

struct sockaddr_storage fkv_address_data(const struct sockaddr_storage *at)
{
	struct sockaddr_storage data = *at;
	in_port_t *port = port_of(&data);

	if (*port)
		*port = htons((uint16_t)(ntohs(*port) + 1));
	return data;
}

int fkv_address_print(const struct sockaddr_storage *at, const char *host,
		      uint16_t rpc, uint16_t data, char buf[FKV_ADDRESS_MAX])
{
	char text[INET6_ADDRSTRLEN];
	int n;

	if (!host) {
		if (uv_ip_name((const struct sockaddr *)at, text, sizeof(text)))
			return -EINVAL;
		host = text;
	}
	n = snprintf(buf, FKV_ADDRESS_MAX, strchr(host, ':') ? "[%s]:%u/%u" :
		     "%s:%u/%u", host, rpc, data);
	return n > 0 && (size_t)n < FKV_ADDRESS_MAX ? 0 : -EINVAL;
}

int fkv_address_parse(const char *text, struct sockaddr_storage *ret_rpc,
		      struct sockaddr_storage *ret_data)
{
	const char *slash = text ? strchr(text, '/') : NULL;
	char rpc[FKV_ADDRESS_MAX];
	unsigned long port;
	char *end;

	if (!slash || (size_t)(slash - text) >= sizeof(rpc) || slash[1] < '0' ||
	    slash[1] > '9')
		return -EINVAL;
	port = strtoul(slash + 1, &end, 10);
	if (*end || !port || port > UINT16_MAX)
		return -EINVAL;
	memcpy(rpc, text, (size_t)(slash - text));
	rpc[slash - text] = '\0';
	if (fkv_rpc_address(rpc, ret_rpc))
		return -EINVAL;
	*ret_data = *ret_rpc;
	*port_of(ret_data) = htons((uint16_t)port);
	return 0;
}
