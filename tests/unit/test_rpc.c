// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rpc_driver.h"

START_TEST(messages_and_requests_go_both_ways)
{
	struct asked c;

	meet();
	ck_assert_uint_eq(fkv_rpc_peer_incarnation(a.peer), 11);
	for (int i = 0; i < 1000; i++) {
		ck_assert_int_eq(say(&d), 0);
		ck_assert_int_eq(say(&a), 0);
	}
	wait_for(a.got == 1000 && d.got == 1000);
	served();
	ck_assert_int_eq(ask(&c, FKV_RPC_BODY_MAX, 10 * FKV_SEC), 0);
	wait_for(c.done);
	ck_assert_uint_eq(c.len, FKV_RPC_BODY_MAX);
	ck_assert_int_eq(ask(&c, 0, 10 * FKV_SEC), 0);
	wait_for(c.done);
	ck_assert_int_eq(c.status, -ENOENT);
	ck_assert_uint_eq(stats(&a).strangers, 0);
	ck_assert_uint_eq(stats(&a).connections, 1);
}
END_TEST

/* F0: a session outlives its connections */
START_TEST(a_session_goes_on_over_connections_that_break)
{
	unsigned int breaks = 0;

	meet();
	while (breaks < 50) {
		for (int i = 0; i < 20; i++) {
			say(&d);
			say(&a);
			spin();
		}
		if (!fkv_rpc_peer_is_up(d.peer) || !fkv_rpc_peer_is_up(a.peer))
			continue;
		fkv_rpc_conn_close(breaks % 2 ? d.peer->conn : a.peer->conn,
				   "broken by a test");
		breaks++;
	}
	wait_for(a.got == d.sent && d.got == a.sent);
	ck_assert_uint_gt(d.sent, 100);
	ck_assert_uint_eq(d.ends + a.ends, 0);
	ck_assert_uint_ge(d.downs, 50);
	served();
}
END_TEST

/* K3: none outlives its deadline by more than 100 ms */
START_TEST(a_call_ends_at_its_deadline)
{
	static struct asked c[200];

	meet();
	a.hold = true;
	for (int i = 0; i < 200; i++)
		ck_assert_int_eq(ask(&c[i], 1,
				     (uint64_t)(i * 7 % 200 + 1) * FKV_MS), 0);
	for (int i = 0; i < 200; i++)
		wait_for(c[i].done);
	for (int i = 0; i < 200; i++) {
		ck_assert_int_eq(c[i].status, -ETIMEDOUT);
		ck_assert_uint_ge(c[i].ended_ns, c[i].deadline_ns);
		ck_assert_uint_lt(c[i].ended_ns,
				  c[i].deadline_ns + 100 * FKV_MS);
	}
	/* late answers are nobody's */
	wait_for(a.nr_held == 200);
	for (int i = 0; i < 200; i++)
		fkv_rpc_reply(a.rpc, &a.held[i], 0, NULL, 0);
	a.hold = false;
	served();
	ck_assert_uint_eq(stats(&d).late, 200);
	ck_assert_int_eq(ask(&c[0], 1, 0), -ETIMEDOUT);
}
END_TEST

START_TEST(calls_are_bounded_and_end_with_their_connection)
{
	static struct asked c[FKV_RPC_CALLS_MAX + 1];
	uint32_t i;

	dial();
	ck_assert_int_eq(fkv_rpc_dial(d.rpc, (struct sockaddr *)&at, &d.peer),
			 0);
	ck_assert_int_eq(ask(&c[0], 1, FKV_SEC), -ENOTCONN);
	ck_assert_int_eq(fkv_rpc_send(d.peer, "x", 1, 0), -ENOTCONN);
	stop(&d);
	memset(&d, 0, sizeof(d));
	start(&d, "owner", 12);
	meet();
	a.hold = true;
	ck_assert_int_eq(ask(&c[0], FKV_RPC_BODY_MAX + 1, FKV_SEC),
			 -EMSGSIZE);
	for (i = 0; i < FKV_RPC_CALLS_MAX; i++)
		ck_assert_int_eq(ask(&c[i], 1, 10 * FKV_SEC), 0);
	ck_assert_int_eq(ask(&c[i], 1, 10 * FKV_SEC), -EAGAIN);
	wait_for(a.nr_held == FKV_RPC_CALLS_MAX);
	fkv_rpc_conn_close(a.peer->conn, "broken by a test");
	wait_for(d.downs);
	for (i = 0; i < FKV_RPC_CALLS_MAX; i++)
		ck_assert_int_eq(c[i].status, -ECONNRESET);
	/* to a connection that is gone */
	fkv_rpc_reply(a.rpc, &a.held[0], 0, NULL, 0);
}
END_TEST

START_TEST(what_waits_to_be_written_is_bounded)
{
	struct asked c[16];
	int err = 0, n;

	meet();
	for (n = 0; n < 16 && !err; n++)
		err = ask(&c[n], FKV_RPC_BODY_MAX, 10 * FKV_SEC);
	ck_assert_int_eq(err, -EAGAIN);
	ck_assert_uint_le(d.peer->conn->tx_bytes, FKV_RPC_TX_MAX + 100);
	for (int i = 0; i < n - 1; i++)
		wait_for(c[i].done);
	served();
	/* a session's wait in the session */
	for (n = 0; n < 2048 && !say(&d); n++)
		ck_assert_uint_lt(d.peer->conn->tx_bytes, FKV_MIB);
	ck_assert_int_eq(say(&d), -EAGAIN);
	/* taken, and that was heard of: what is not counts as waiting */
	wait_for(a.got == d.sent && !d.peer->session.tx.n);
	/* nor are many large ones all on their way at once */
	while (!say_long(&d, FKV_SESSION_MSG_MAX))
		ck_assert_uint_lt(d.peer->conn->tx_bytes, 3 * FKV_MIB / 2);
	ck_assert_uint_gt(d.peer->session.tx.bytes, 7 * FKV_MIB);
	wait_for(a.got == d.sent && !d.peer->session.tx.n);
	ck_assert_int_eq(say(&d), 0);
}
END_TEST

START_TEST(a_peer_may_be_asked_as_soon_as_it_is_up)
{
	struct asked by_a, by_d;

	memset(&by_a, 0, sizeof(by_a));
	memset(&by_d, 0, sizeof(by_d));
	a.eager = &by_a;
	d.eager = &by_d;
	meet();
	wait_for(by_a.done && by_d.done);
	ck_assert_int_eq(by_a.status, -ENOENT);
	ck_assert_int_eq(by_d.status, -ENOENT);
	ck_assert_uint_eq(d.downs + a.downs, 0);
}
END_TEST

/* ---- peers that are frozen or gone ---- */

static pid_t child;

/* A process of its own that dials us, and answers. */
static void fork_dialer(void)
{
	static uv_loop_t own;

	child = fork();
	ck_assert_int_ge(child, 0);
	if (child)
		return;
	/* a loop of its own: in ours there is the listener */
	loop = &own;
	uv_loop_init(loop);
	memset(&d, 0, sizeof(d));
	start(&d, "frozen", 50);
	dial();
	uv_run(loop, UV_RUN_DEFAULT);
	_exit(0);
}

static void reap(void)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* F3, A21 */
START_TEST(a_frozen_peer_is_given_up_and_comes_back_to_its_session)
{
	struct asked c;
	struct node *was = &a;

	stop(&d);
	fork_dialer();
	wait_for(a.ups == 1);
	say(&a);
	/* asked by us this time */
	d.peer = a.peer;
	kill(child, SIGSTOP);
	ck_assert_int_eq(ask(&c, 1, 150 * FKV_MS), 0);
	wait_for(c.done);
	ck_assert_int_eq(c.status, -ETIMEDOUT);
	ck_assert_uint_lt(c.ended_ns, c.deadline_ns + 100 * FKV_MS);
	/* and one with all the time ends when the peer is given up */
	ck_assert_int_eq(ask(&c, 1, 60 * FKV_SEC), 0);
	wait_for(a.downs == 1);
	ck_assert(c.done);
	ck_assert_int_eq(c.status, -ECONNRESET);
	ck_assert_uint_eq(stats(was).silent, 1);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(say(&a), 0);
	kill(child, SIGCONT);
	wait_for(a.ups == 2 && a.peer->session.tx.n == 0);
	ck_assert_uint_eq(a.ends, 0);
	reap();
	/* it does not come back: its session ends */
	wait_for(a.ends == 1);
	ck_assert_int_eq(a.end_err, -ETIMEDOUT);
	ck_assert_uint_eq(stats(&a).peers, 0);
}
END_TEST

/* A listener that accepts, in the kernel, and says nothing. */
START_TEST(a_black_hole_is_dialled_again_and_suspected)
{
	struct sockaddr_in hole = { .sin_family = AF_INET };
	socklen_t n = sizeof(hole);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	hole.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&hole, n), 0);
	ck_assert_int_eq(listen(fd, 64), 0);
	getsockname(fd, (struct sockaddr *)&hole, &n);
	ck_assert_int_eq(fkv_rpc_dial(d.rpc, (struct sockaddr *)&hole,
				      &d.peer), 0);
	wait_for(fkv_rpc_peer_is_suspect(d.peer));
	ck_assert_uint_ge(stats(&d).dials, FKV_RPC_SUSPECT);
	ck_assert(!fkv_rpc_peer_is_up(d.peer));
	/* somebody serves there at last */
	close(fd);
	stop(&a);
	start(&a, "master", 3);
	listen_on(ntohs(hole.sin_port));
	wait_for(a.ups);
	wait_for(!fkv_rpc_peer_is_suspect(d.peer));
}
END_TEST

START_TEST(a_loop_that_stood_still_accuses_nobody)
{
	uint64_t until;

	meet();
	/* longer than a peer may be silent, and than a late timer is normal */
	until = fkv_clock_ns() + times.silent_ns + 600 * FKV_MS;
	while (fkv_clock_ns() < until)
		;
	served();
	ck_assert_uint_eq(stats(&d).silent + stats(&a).silent, 0);
	ck_assert_uint_eq(d.downs, 0);
}
END_TEST

/* ---- lives ---- */

/* A20, A22: a master that starts again is another life */
START_TEST(a_peer_that_restarts_ends_the_session)
{
	uint16_t port = fkv_rpc_port(a.rpc);

	meet();
	d.resume = true;
	for (unsigned int life = 4; life < 24; life++) {
		say(&d);
		stop(&a);
		memset(&a, 0, sizeof(a));
		start(&a, "master", life);
		listen_on(port);
		wait_for(a.ups);
		wait_for(d.ends == life - 3 && d.peer &&
			 fkv_rpc_peer_is_up(d.peer));
		ck_assert_int_eq(d.end_err, -ESTALE);
		served();
	}
	ck_assert_uint_eq(stats(&d).connections, 1);
}
END_TEST

START_TEST(a_parked_peer_waits_for_its_caller)
{
	uint16_t port = fkv_rpc_port(a.rpc);
	struct fkv_rpc_peer *p = dial();
	uint64_t dials;

	wait_for(d.ups);
	stop(&a);
	start(&a, "master", 4);
	listen_on(port);
	wait_for(d.ends == 1);
	dials = stats(&d).dials;
	for (int i = 0; i < 20; i++)
		spin();
	ck_assert_uint_eq(stats(&d).dials, dials);
	/* forgotten there meanwhile: they never met, so it is not over */
	wait_for(!stats(&a).peers);
	fkv_rpc_peer_resume(p);
	wait_for(d.ups == 2);
	ck_assert_uint_eq(fkv_rpc_peer_incarnation(p), 4);
}
END_TEST

START_TEST(a_new_life_of_our_own_begins_new_sessions)
{
	meet();
	say(&d);
	fkv_rpc_renew(d.rpc, 12);
	d.sent = 0;
	wait_for(a.ends == 1 && a.peer && fkv_rpc_peer_is_up(a.peer) &&
		 fkv_rpc_peer_is_up(d.peer));
	ck_assert_uint_eq(d.ends, 0);
	ck_assert_uint_eq(fkv_rpc_peer_incarnation(a.peer), 12);
	say(&d);
	wait_for(a.got == 1);
	ck_assert_uint_eq(stats(&a).peers, 1);
}
END_TEST

START_TEST(a_life_that_was_ended_does_not_come_back)
{
	meet();
	say(&d);
	wait_for(a.got == 1);
	fkv_rpc_peer_end(a.peer, -ETIMEDOUT);
	ck_assert_uint_eq(stats(&a).peers, 0);
	wait_for(d.ends == 1);
	ck_assert_int_eq(d.end_err, -ESTALE);
	/* the same, with another connection */
	fkv_rpc_peer_resume(TAILQ_FIRST(&d.rpc->peers));
	wait_for(d.ends == 2);
	ck_assert_uint_eq(a.ups, 1);
	ck_assert_uint_eq(stats(&a).peers, 0);
	/* a new one may */
	fkv_rpc_renew(d.rpc, 12);
	wait_for(a.ups == 2);
}
END_TEST

START_TEST(who_is_not_admitted_is_told_and_tries_again)
{
	a.admit = -EPERM;
	dial();
	wait_for(stats(&a).refused >= 2);
	ck_assert_uint_eq(a.ups + d.ups, 0);
	a.admit = 0;
	wait_for(a.ups && d.ups);
}
END_TEST

START_TEST(two_connections_of_one_life_are_one_session)
{
	struct fkv_rpc_peer *second;

	meet();
	say(&a);
	wait_for(d.got == 1);
	/* what a half-open connection looks like: the old one is not closed */
	second = dial();
	wait_for(a.downs == 1 && a.ends == 1);
	(void)second;
}
END_TEST

START_TEST(closing_ends_calls)
{
	struct asked c;

	meet();
	a.hold = true;
	ck_assert_int_eq(ask(&c, 1, 10 * FKV_SEC), 0);
	fkv_rpc_close_all(d.rpc);
	ck_assert(c.done);
	ck_assert_int_eq(c.status, -ECANCELED);
	ck_assert_int_eq(ask(&c, 1, 10 * FKV_SEC), -ENOTCONN);
}
END_TEST

static void add_tests(TCase *tc)
{
	tcase_add_test(tc, messages_and_requests_go_both_ways);
	tcase_add_test(tc, a_session_goes_on_over_connections_that_break);
	tcase_add_test(tc, a_call_ends_at_its_deadline);
	tcase_add_test(tc, calls_are_bounded_and_end_with_their_connection);
	tcase_add_test(tc, what_waits_to_be_written_is_bounded);
	tcase_add_test(tc, a_peer_may_be_asked_as_soon_as_it_is_up);
	tcase_add_test(tc,
		a_frozen_peer_is_given_up_and_comes_back_to_its_session);
	tcase_add_test(tc, a_black_hole_is_dialled_again_and_suspected);
	tcase_add_test(tc, a_loop_that_stood_still_accuses_nobody);
	tcase_add_test(tc, a_peer_that_restarts_ends_the_session);
	tcase_add_test(tc, a_parked_peer_waits_for_its_caller);
	tcase_add_test(tc, a_new_life_of_our_own_begins_new_sessions);
	tcase_add_test(tc, a_life_that_was_ended_does_not_come_back);
	tcase_add_test(tc, who_is_not_admitted_is_told_and_tries_again);
	tcase_add_test(tc, two_connections_of_one_life_are_one_session);
	tcase_add_test(tc, closing_ends_calls);
}

int main(void)
{
	Suite *s = suite_create("rpc");
	TCase *tc = tcase_create("rpc");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, rpc_setup, rpc_teardown);
	tcase_set_timeout(tc, 120);
	add_tests(tc);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
