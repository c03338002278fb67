/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.h - /metrics, /healthz and / over HTTP, in a thread of its own
 *
 * Read-only. What it shows is made on the loop thread: a snapshot is asked
 * for and waited for, at most a second, so that a stuck daemon shows as 503.
 */
#ifndef FKV_SVC_HTTP_H
#define FKV_SVC_HTTP_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct fkv_engine;
struct fkv_http;
struct fkv_snapshot;

/* Loop thread. close() before the loop ends, free() after. */
int fkv_snapshot_create(uv_loop_t *loop, struct fkv_engine *e,
			struct fkv_snapshot **ret);
void fkv_snapshot_close(struct fkv_snapshot *s);
void fkv_snapshot_free(struct fkv_snapshot *s);

/* Any other thread: the text of /metrics, to be freed, or NULL: no answer. */
char *fkv_snapshot_metrics(struct fkv_snapshot *s);

/* @host is a numeric address. @port 0: any. 0 or -errno with a sentence. */
int fkv_http_create(const char *host, uint16_t port, bool dashboard,
		    struct fkv_snapshot *snapshot, struct fkv_http **ret,
		    char *err, size_t err_size);
void fkv_http_free(struct fkv_http *h);
uint16_t fkv_http_port(const struct fkv_http *h);

#endif
