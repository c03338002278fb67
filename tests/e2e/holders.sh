# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# A2, A3, H1, H2, H4: held bytes never change, pins end with their process,
# a client has its cap, and a daemon that stops names who holds.
. "$(dirname "$0")/lib.sh.inc"

client=
hold() {
	: >"$work/hold"
	"$o/tests/e2e/story" hold "$1" >"$work/hold" &
	client=$!
	i=0
	until grep -q holding "$work/hold"; do
		i=$((i + 1))
		if ! kill -0 $client 2>/dev/null || [ $i -ge 200 ]; then
			cat "$work/hold"
			die "no holders"
		fi
		sleep 0.05
	done
}

start_daemon --memory 64MiB --ssd "$work:256MiB"
"$o/tests/e2e/story" churn >"$work/out" || { cat "$work/out"; die churn; }
assert_quiet

# A3: 500 holders die with their process
hold 500
n=$(field holders holders)
[ "$n" = 500 ] || die "holders: $n"
wait_for status holders 500
kill -KILL $client
wait $client 2>/dev/null || true
wait_for status pinned_bytes 0
wait_for status holders 0
wait_for 'debug refs' clients 1
assert_quiet
"$o/tests/e2e/story" load 0 40 1048576 || die "puts after a death"

# A daemon told to stop waits for holders; told twice, it names them
hold 3
kill -TERM "$daemon_pid"
sleep 1
kill -0 "$daemon_pid" 2>/dev/null || die "it did not wait for holders"
kill -TERM "$daemon_pid"
wait "$daemon_pid" || die "daemon ended with $?"
daemon_pid=
grep -q "holders: pid=$client .*holders=3" "$work/log" ||
	die "pid $client is not named"
kill -KILL $client
wait $client 2>/dev/null || true

# H4: half of the segment for one client, and not a byte more
start_daemon --memory 64MiB
"$o/tests/e2e/story" quota >"$work/out" || { cat "$work/out"; die quota; }
assert_quiet
stop_daemon

# H4: the cap, kept and not kept
start_daemon --memory 128MiB --set limits.client_pinned_bytes=16777216
"$o/tests/tools/cheat" 48 || die "the cap of a client"
"$ctl" metrics | grep "^fluxonkv_over_cap_total 1$" >/dev/null ||
	die "who went round its cap is not counted"
assert_quiet
stop_daemon
