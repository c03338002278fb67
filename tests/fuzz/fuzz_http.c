// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_http.c - our part of HTTP: the handler, the snapshot, the address
 *
 * libmicrohttpd and libuv are replaced by what records their calls, in one
 * thread: the loop answers inside of the wait for it. Input: a byte of what
 * goes wrong, then method, path and listen address, a line each.
 */
#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdarg.h>

#include "svc/admin.h"
#include "svc/http.h"

#include "fuzz/fuzz.h"

#define METRICS		"fluxonkv_up 1\n"
#define ERR_SIZE	160

enum {
	WRONG_DASHBOARD = 1,		/* nothing is wrong: it is on */
	WRONG_STUCK = 2,		/* the loop does not turn */
	WRONG_NO_TEXT = 4,
	WRONG_CLOSED = 8,
	WRONG_NO_RESPONSE = 16,
	WRONG_NO_DAEMON = 32,
};

struct MHD_Response {
	char *text;
	char type[64], allow[64];
};

static struct {
	uint8_t wrong;
	MHD_AccessHandlerCallback handler;
	void *cls;
	uv_async_t *async;
	bool asked;
	unsigned int responses, code, queued;
	char *text;
	char type[64], allow[64];
} world;

/* ---- libuv and the loop ---- */

int uv_async_init(uv_loop_t *loop, uv_async_t *a, uv_async_cb cb)
{
	(void)loop;
	a->async_cb = cb;
	world.async = a;
	return 0;
}

int uv_async_send(uv_async_t *a)
{
	fuzz_check(a == world.async);
	world.asked = true;
	return 0;
}

void uv_close(uv_handle_t *h, uv_close_cb cb)
{
	(void)cb;
	fuzz_check(h == (uv_handle_t *)world.async);
}

char *fkv_admin_metrics(struct fkv_engine *e)
{
	(void)e;
	return world.wrong & WRONG_NO_TEXT ? NULL : strdup(METRICS);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
				  const struct timespec *until)
	FKV_LOCKS(no_thread_safety_analysis);

int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
				  const struct timespec *until)
{
	(void)c;
	(void)until;
	if (world.wrong & WRONG_STUCK || !world.asked)
		return ETIMEDOUT;
	world.asked = false;
	pthread_mutex_unlock(m);
	world.async->async_cb(world.async);
	pthread_mutex_lock(m);
	return 0;
}

/* ---- libmicrohttpd ---- */

struct MHD_Daemon *MHD_start_daemon(unsigned int flags, uint16_t port,
				    MHD_AcceptPolicyCallback apc, void *apc_cls,
				    MHD_AccessHandlerCallback dh, void *dh_cls,
				    ...)
{
	(void)flags;
	(void)port;
	(void)apc;
	(void)apc_cls;
	world.handler = dh;
	world.cls = dh_cls;
	errno = EADDRINUSE;
	return world.wrong & WRONG_NO_DAEMON ? NULL :
	       (struct MHD_Daemon *)&world;
}

void MHD_stop_daemon(struct MHD_Daemon *d)
{
	fuzz_check(d == (struct MHD_Daemon *)&world);
}

const union MHD_DaemonInfo *MHD_get_daemon_info(struct MHD_Daemon *d,
						enum MHD_DaemonInfoType type,
						...)
{
	(void)d;
	(void)type;
	return NULL;
}

const union MHD_ConnectionInfo *
MHD_get_connection_info(struct MHD_Connection *c,
			enum MHD_ConnectionInfoType type, ...)
{
	(void)c;
	(void)type;
	return NULL;
}

struct MHD_Response *
MHD_create_response_from_buffer(size_t size, void *buf,
				enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *r;

	if (world.wrong & WRONG_NO_RESPONSE)
		return NULL;
	fuzz_check(mode == MHD_RESPMEM_MUST_COPY);
	r = calloc(1, sizeof(*r));
	fuzz_check(r);
	r->text = fuzz_string(buf, size);
	fuzz_check(strlen(r->text) == size);
	world.responses++;
	return r;
}

enum MHD_Result MHD_add_response_header(struct MHD_Response *r,
					const char *header, const char *content)
{
	if (!strcmp(header, "Content-Type"))
		snprintf(r->type, sizeof(r->type), "%s", content);
	if (!strcmp(header, "Allow"))
		snprintf(r->allow, sizeof(r->allow), "%s", content);
	return MHD_YES;
}

enum MHD_Result MHD_queue_response(struct MHD_Connection *c, unsigned int code,
				   struct MHD_Response *r)
{
	(void)c;
	world.queued++;
	world.code = code;
	free(world.text);
	world.text = strdup(r->text);
	memcpy(world.type, r->type, sizeof(world.type));
	memcpy(world.allow, r->allow, sizeof(world.allow));
	return MHD_YES;
}

void MHD_destroy_response(struct MHD_Response *r)
{
	world.responses--;
	free(r->text);
	free(r);
}

/* ---- the target ---- */

static unsigned int expected(const char *method, const char *path)
{
	bool alive = !(world.wrong & (WRONG_STUCK | WRONG_NO_TEXT |
				      WRONG_CLOSED));

	if (strcmp(method, "GET") && strcmp(method, "HEAD"))
		return 405;
	if (!strcmp(path, "/metrics") || !strcmp(path, "/healthz"))
		return alive ? 200 : 503;
	return !strcmp(path, "/") && world.wrong & WRONG_DASHBOARD ? 200 : 404;
}

static void check_request(const char *method, const char *path)
{
	unsigned int code = expected(method, path);
	size_t upload = 0;
	void *ctx = NULL;
	enum MHD_Result res;

	world.queued = 0;
	res = world.handler(world.cls, NULL, path, method, "HTTP/1.1", NULL,
			    &upload, &ctx);
	fuzz_check(!world.responses);
	if (world.wrong & WRONG_NO_RESPONSE) {
		fuzz_check(res == MHD_NO && !world.queued);
		return;
	}
	fuzz_check(res == MHD_YES && world.queued == 1);
	fuzz_check(world.code == code);
	fuzz_check(world.text && *world.text && *world.type);
	fuzz_check(!strcmp(world.allow, code == 405 ? "GET, HEAD" : ""));
	if (code == 200 && !strcmp(path, "/metrics"))
		fuzz_check(!strcmp(world.text, METRICS));
}

static char *line(struct fuzz_in *in)
{
	const uint8_t *nl = in->left ? memchr(in->p, '\n', in->left) : NULL;
	size_t n = nl ? (size_t)(nl - in->p) : in->left;
	char *text = fuzz_string(in->p, n);

	n += nl ? 1 : 0;
	in->p += n;
	in->left -= n;
	return text;
}

static void serve(struct fkv_snapshot *s, struct fuzz_in *in)
{
	char *method = line(in), *path = line(in), *host = line(in);
	char *err = fuzz_alloc(ERR_SIZE);
	struct fkv_http *h = NULL;
	int res;

	memset(err, 'x', ERR_SIZE);
	res = fkv_http_create(host, 31997, world.wrong & WRONG_DASHBOARD, s, &h,
			      err, ERR_SIZE);
	if (res) {
		fuzz_check(!h && (res == -EINVAL || res == -EADDRINUSE));
		fuzz_check(memchr(err, 0, ERR_SIZE));
		fuzz_check(!strncmp(err, "metrics.listen: ", 16));
	} else {
		fuzz_check(!(world.wrong & WRONG_NO_DAEMON));
		check_request(method, path);
		/* the next one is served like the first */
		check_request(method, path);
		fkv_http_free(h);
	}
	free(err);
	free(host);
	free(path);
	free(method);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	struct fkv_snapshot *s;

	memset(&world, 0, sizeof(world));
	world.wrong = fuzz_u8(&in);
	fuzz_check(!fkv_snapshot_create(NULL, NULL, &s));
	if (world.wrong & WRONG_CLOSED)
		fkv_snapshot_close(s);
	serve(s, &in);
	if (!(world.wrong & WRONG_CLOSED))
		fkv_snapshot_close(s);
	fkv_snapshot_free(s);
	free(world.text);
	return 0;
}
