# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# F4, K3, K6, H1, S7, A1: the daemon is killed three times under load, and
# started again on the same disk: what is served was put, and to this daemon;
# calls end by their deadline; held bytes stay; clients go on by themselves.
. "$(dirname "$0")/lib.sh.inc"

mkdir "$work/ssd"
start() {
	# the load's stdin must end with this shell's end of it
	start_daemon --memory 32MiB --ssd "$work/ssd:256MiB" 3>&-
}

kill_daemon() {
	kill -KILL "$daemon_pid"
	wait "$daemon_pid" 2>/dev/null || true
	daemon_pid=
}

start
mkfifo "$work/go"
: >"$work/out"
"$o/tests/e2e/service" survive 3 <"$work/go" >"$work/out" &
client=$!
exec 3>"$work/go"
i=0
until grep -q running "$work/out"; do
	i=$((i + 1))
	kill -0 $client 2>/dev/null || die "no load"
	[ $i -lt 200 ] || die "no load"
	sleep 0.05
done
n=0
while [ $n -lt 3 ]; do
	sleep 1
	kill_daemon
	echo x >&3
	sleep 0.5
	start
	n=$((n + 1))
done
sleep 1
exec 3>&-
rc=0
wait $client || rc=$?
[ $rc = 0 ] || { head -n 30 "$work/out"; die "the load ended with $rc"; }
assert_quiet

# what was on disk is not served: the cache is empty
"$o/tests/e2e/story" load 0 96 1048576 || die load
wait_for status persist_pending 0
kill_daemon
start
[ "$(field status keys)" = 0 ] || die "$(field status keys) keys"
[ "$(field status used_bytes)" = 0 ] || die "used bytes"
"$o/tests/e2e/story" look 0 96 1048576 >"$work/out" || die look
grep -q '^ok 0 .* miss 96 ' "$work/out" || { cat "$work/out"; die "served"; }
"$o/tests/e2e/story" load 0 96 1048576 || die "load again"
"$o/tests/e2e/story" look 0 96 1048576 >"$work/out" || die look
grep -q '^ok 96 ' "$work/out" || { cat "$work/out"; die "lost"; }
assert_quiet
stop_daemon
