// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "svc/admin.h"
#include "svc/http.h"

static uv_loop_t loop;
static uv_async_t stop;
static pthread_t thread;
static struct fkv_snapshot *snapshot;
static struct fkv_http *http;
static char err[600], answer[64 * 1024];
static bool no_text;

/* What the loop thread answers; the real one reads the engine. */
char *fkv_admin_metrics(struct fkv_engine *e)
{
	(void)e;
	return no_text ? NULL : strdup("fluxonkv_up 1\n");
}

static void on_stop(uv_async_t *a)
{
	fkv_snapshot_close(snapshot);
	uv_close((uv_handle_t *)a, NULL);
}

static void *run_loop(void *arg)
{
	(void)arg;
	uv_run(&loop, UV_RUN_DEFAULT);
	return NULL;
}

static void start(const char *host, bool dashboard)
{
	ck_assert_msg(!fkv_http_create(host, 0, dashboard, snapshot, &http,
				       err, sizeof(err)), "%s", err);
}

static void setup(void)
{
	no_text = false;
	uv_loop_init(&loop);
	uv_async_init(&loop, &stop, on_stop);
	ck_assert_int_eq(fkv_snapshot_create(&loop, NULL, &snapshot), 0);
	pthread_create(&thread, NULL, run_loop, NULL);
	http = NULL;
}

static void teardown(void)
{
	fkv_http_free(http);
	uv_async_send(&stop);
	pthread_join(thread, NULL);
	fkv_snapshot_free(snapshot);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static int dial(int family)
{
	struct sockaddr_in v4 = {
		.sin_family = AF_INET,
		.sin_port = htons(fkv_http_port(http)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(fkv_http_port(http)),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT,
	};
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int res;

	ck_assert_int_ge(fd, 0);
	if (family == AF_INET)
		res = connect(fd, (struct sockaddr *)&v4, sizeof(v4));
	else
		res = connect(fd, (struct sockaddr *)&v6, sizeof(v6));
	ck_assert_msg(!res, "connect: %s", strerror(errno));
	return fd;
}

/* Read until the server closes; the status, 0 without any. */
static int status(int fd)
{
	size_t len = 0;
	ssize_t got;

	while ((got = recv(fd, answer + len, sizeof(answer) - 1 - len, 0)) > 0)
		len += (size_t)got;
	answer[len] = '\0';
	close(fd);
	return len > 12 ? atoi(answer + 9) : 0;
}

static int talk(int family, const char *request)
{
	int fd = dial(family);

	ck_assert_int_eq(send(fd, request, strlen(request), MSG_NOSIGNAL),
			 (ssize_t)strlen(request));
	return status(fd);
}

static int ask(const char *method, const char *url)
{
	char req[512];

	snprintf(req, sizeof(req), "%s %s HTTP/1.1\r\nHost: x\r\n"
		 "Connection: close\r\n\r\n", method, url);
	return talk(AF_INET, req);
}

static void has(const char *part)
{
	ck_assert_msg(strstr(answer, part) != NULL, "no '%s' in: %s", part,
		      answer);
}

/* O1 */
START_TEST(metrics_are_the_snapshot_as_prometheus_text)
{
	start("127.0.0.1", true);
	ck_assert_uint_gt(fkv_http_port(http), 0);
	ck_assert_int_eq(ask("GET", "/metrics"), 200);
	has("text/plain; version=0.0.4");
	has("\r\n\r\nfluxonkv_up 1\n");
}
END_TEST

START_TEST(healthz_says_ok_while_the_loop_turns)
{
	start("127.0.0.1", false);
	ck_assert_int_eq(ask("GET", "/healthz"), 200);
	has("ok\n");
}
END_TEST

START_TEST(the_dashboard_is_there_only_when_on)
{
	start("127.0.0.1", true);
	ck_assert_int_eq(ask("GET", "/"), 200);
	has("text/html");
	has("/metrics");
	fkv_http_free(http);
	start("127.0.0.1", false);
	ck_assert_int_eq(ask("GET", "/"), 404);
}
END_TEST

START_TEST(the_dashboard_needs_nothing_from_elsewhere)
{
	start("127.0.0.1", true);
	ck_assert_int_eq(ask("GET", "/"), 200);
	ck_assert_ptr_null(strstr(answer, "http:"));
	ck_assert_ptr_null(strstr(answer, "https:"));
}
END_TEST

START_TEST(an_unknown_page_is_not_found)
{
	start("127.0.0.1", true);
	ck_assert_int_eq(ask("GET", "/etc/passwd"), 404);
	ck_assert_int_eq(ask("GET", "/metrics/x"), 404);
}
END_TEST

START_TEST(head_has_no_body)
{
	start("127.0.0.1", true);
	ck_assert_int_eq(ask("HEAD", "/metrics"), 200);
	ck_assert_ptr_null(strstr(answer, "fluxonkv_up"));
}
END_TEST

START_TEST(other_methods_are_405_and_name_those_allowed)
{
	static const char *const method[] = {
		"POST", "PUT", "DELETE", "OPTIONS", "PATCH",
	};

	start("127.0.0.1", true);
	for (size_t i = 0; i < FKV_ARRAY_SIZE(method); i++) {
		ck_assert_int_eq(ask(method[i], "/metrics"), 405);
		has("Allow: GET, HEAD");
	}
}
END_TEST

START_TEST(a_post_with_a_body_is_405_and_the_server_lives)
{
	start("127.0.0.1", true);
	ck_assert_int_eq(talk(AF_INET, "POST / HTTP/1.1\r\nHost: x\r\n"
			      "Content-Length: 5\r\nConnection: close\r\n\r\n"
			      "hello"), 405);
	ck_assert_int_eq(ask("GET", "/healthz"), 200);
}
END_TEST

START_TEST(without_a_snapshot_the_answer_is_503)
{
	no_text = true;
	start("127.0.0.1", true);
	ck_assert_int_eq(ask("GET", "/metrics"), 503);
	ck_assert_int_eq(ask("GET", "/healthz"), 503);
}
END_TEST

static uv_sem_t stuck, unstick;

static void on_block(uv_async_t *a)
{
	uv_close((uv_handle_t *)a, NULL);
	uv_sem_post(&stuck);
	uv_sem_wait(&unstick);
}

/* The loop is held in a callback: the answer must not wait for its end. */
START_TEST(a_stuck_loop_shows_as_503)
{
	uv_async_t block;
	int code;

	uv_sem_init(&stuck, 0);
	uv_sem_init(&unstick, 0);
	teardown();
	uv_loop_init(&loop);
	uv_async_init(&loop, &stop, on_stop);
	uv_async_init(&loop, &block, on_block);
	ck_assert_int_eq(fkv_snapshot_create(&loop, NULL, &snapshot), 0);
	pthread_create(&thread, NULL, run_loop, NULL);
	start("127.0.0.1", true);
	uv_async_send(&block);
	uv_sem_wait(&stuck);
	code = ask("GET", "/healthz");
	uv_sem_post(&unstick);
	ck_assert_int_eq(code, 503);
	ck_assert_int_eq(ask("GET", "/healthz"), 200);
	uv_sem_destroy(&stuck);
	uv_sem_destroy(&unstick);
}
END_TEST

/* A23 */
START_TEST(random_bytes_do_not_stop_it)
{
	char junk[2048];

	start("127.0.0.1", true);
	srand(7);
	for (int i = 0; i < 200; i++) {
		int fd = dial(AF_INET);

		for (size_t k = 0; k < sizeof(junk); k++)
			junk[k] = (char)rand();
		if (send(fd, junk, sizeof(junk), MSG_NOSIGNAL) > 0)
			shutdown(fd, SHUT_WR);
		close(fd);
	}
	ck_assert_int_eq(ask("GET", "/healthz"), 200);
}
END_TEST

START_TEST(a_header_without_end_is_refused_and_the_server_lives)
{
	static char req[256 * 1024];
	size_t sent = 0;
	ssize_t n;
	int fd;

	memset(req, 'a', sizeof(req));
	memcpy(req, "GET / HTTP/1.1\r\nX: ", 19);
	start("127.0.0.1", true);
	fd = dial(AF_INET);
	while (sent < sizeof(req) &&
	       (n = send(fd, req + sent, sizeof(req) - sent,
			 MSG_NOSIGNAL)) > 0)
		sent += (size_t)n;
	ck_assert_int_ne(status(fd), 200);
	ck_assert_int_eq(ask("GET", "/healthz"), 200);
}
END_TEST

static int ask_within(const char *url, time_t seconds)
{
	struct timeval wait = { .tv_sec = seconds };
	char req[128];
	int fd = dial(AF_INET);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	snprintf(req, sizeof(req), "GET %s HTTP/1.0\r\n\r\n", url);
	send(fd, req, strlen(req), MSG_NOSIGNAL);
	return status(fd);
}

/*
 * More clients than there are connections, none of which ends its request: a
 * scraper is served before their time is over, and again when they come back.
 */
START_TEST(silent_clients_do_not_keep_a_scraper_out)
{
	int fd[96];

	start("127.0.0.1", true);
	for (int i = 0; i < 96; i++) {
		fd[i] = dial(AF_INET);
		send(fd[i], "GET /me", 7, MSG_NOSIGNAL);
	}
	for (int i = 0; i < 96; i++) {
		if (i % 16 == 0)
			ck_assert_int_eq(ask_within("/metrics", 2), 200);
		close(fd[i]);
		fd[i] = dial(AF_INET);
		send(fd[i], "GET /me", 7, MSG_NOSIGNAL);
	}
	for (int i = 0; i < 96; i++)
		close(fd[i]);
	ck_assert_int_eq(ask("GET", "/healthz"), 200);
}
END_TEST

/* A23 */
START_TEST(an_ipv6_address_is_served)
{
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6,
				   .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool have = fd >= 0 &&
		    !bind(fd, (struct sockaddr *)&sa, sizeof(sa));

	if (fd >= 0)
		close(fd);
	if (!have) {
		fprintf(stderr, "SKIP an_ipv6_address_is_served: no ::1\n");
		return;
	}
	start("::1", true);
	ck_assert_int_eq(talk(AF_INET6, "GET /healthz HTTP/1.0\r\n\r\n"),
			 200);
}
END_TEST

START_TEST(a_taken_port_is_an_error_with_address_and_reason)
{
	struct fkv_http *second = NULL;

	start("127.0.0.1", true);
	errno = EISDIR;		/* of something before */
	ck_assert_int_eq(fkv_http_create("127.0.0.1", fkv_http_port(http),
					 true, snapshot, &second, err,
					 sizeof(err)), -EADDRINUSE);
	ck_assert_ptr_null(second);
	ck_assert_msg(strstr(err, "127.0.0.1") && strstr(err, "in use"),
		      "%s", err);
}
END_TEST

START_TEST(a_name_that_is_no_address_is_an_error)
{
	ck_assert_int_eq(fkv_http_create("nohost.invalid", 0, true, snapshot,
					 &http, err, sizeof(err)), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "nohost.invalid"));
}
END_TEST

START_TEST(stopping_closes_open_connections)
{
	char c;
	int fd;

	start("127.0.0.1", true);
	fd = dial(AF_INET);
	ck_assert_int_eq(ask("GET", "/healthz"), 200);
	fkv_http_free(http);
	http = NULL;
	ck_assert_int_le(recv(fd, &c, 1, 0), 0);
	close(fd);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("http");
	TCase *tc = tcase_create("http");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, metrics_are_the_snapshot_as_prometheus_text);
	tcase_add_test(tc, healthz_says_ok_while_the_loop_turns);
	tcase_add_test(tc, the_dashboard_is_there_only_when_on);
	tcase_add_test(tc, the_dashboard_needs_nothing_from_elsewhere);
	tcase_add_test(tc, an_unknown_page_is_not_found);
	tcase_add_test(tc, head_has_no_body);
	tcase_add_test(tc, other_methods_are_405_and_name_those_allowed);
	tcase_add_test(tc, a_post_with_a_body_is_405_and_the_server_lives);
	tcase_add_test(tc, without_a_snapshot_the_answer_is_503);
	tcase_add_test(tc, a_stuck_loop_shows_as_503);
	tcase_add_test(tc, random_bytes_do_not_stop_it);
	tcase_add_test(tc,
		a_header_without_end_is_refused_and_the_server_lives);
	tcase_add_test(tc, silent_clients_do_not_keep_a_scraper_out);
	tcase_add_test(tc, an_ipv6_address_is_served);
	tcase_add_test(tc, a_taken_port_is_an_error_with_address_and_reason);
	tcase_add_test(tc, a_name_that_is_no_address_is_an_error);
	tcase_add_test(tc, stopping_closes_open_connections);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
