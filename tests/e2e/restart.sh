# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# F4, K6, H1, U5, X5: the daemon is killed under a holder: held bytes stay, calls
# fail clearly by their deadline, the restarted daemon serves within 5 s, and
# the same client goes on.
. "$(dirname "$0")/lib.sh.inc"

said() {
	i=0
	until grep -q "$1" "$work/keep"; do
		i=$((i + 1))
		if ! kill -0 $client 2>/dev/null || [ $i -ge 200 ]; then
			cat "$work/keep"
			die "it never said $1"
		fi
		sleep 0.05
	done
}

start_daemon --memory 64MiB --ssd "$work:256MiB"
: >"$work/keep"
"$o/tests/e2e/story" keep >"$work/keep" &
client=$!
said holding
kill -KILL "$daemon_pid"
wait "$daemon_pid" 2>/dev/null || true
daemon_pid=
kill -USR1 $client
said gone

began=$(date +%s%N)
start_daemon --memory 64MiB --ssd "$work:256MiB"
took=$((($(date +%s%N) - began) / 1000000))
[ $took -lt 5000 ] || die "restart took $took ms"
kill -USR1 $client
rc=0
wait $client || rc=$?
if [ $rc != 0 ] || grep -q FAIL "$work/keep"; then
	cat "$work/keep"
	die "keep ended with $rc"
fi
assert_quiet
stop_daemon
