# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# K1 to K5, P1, P2, P5, D1, D4, H1, H2, H4, F4: the definition of the API, held
# against the unix socket: with and without an SSD tier, with and without caps,
# with a daemon that is killed and comes back. CONFORMANCE_SLOW=1: also what
# takes a minute.
. "$(dirname "$0")/lib.sh.inc"

# What the suite calls to kill its daemon and to start another.
cat >"$work/restart" <<EOF2
#!/bin/sh
set -eu
case \$1 in
stop)
	kill -KILL "\$(cat "$work/pid")"
	;;
start)
	rm -f "$work/kv.sock"
	"$o/fluxonkvd" --standalone --socket "$sock" --metrics none \
		--memory 64MiB 2>>"$work/log" >/dev/null </dev/null &
	echo \$! >"$work/pid"
	until "$ctl" status >/dev/null 2>&1; do
		kill -0 \$! || exit 1
		sleep 0.05
	done
	;;
esac
EOF2

# Of the daemon that lives now.
trap 'daemon_pid=$(cat "$work/pid"); exit 1' INT TERM

conform() {
	rc=0
	echo "$daemon_pid" >"$work/pid"
	"$o/tests/conformance/conformance" "unix:$sock" "$@" >"$work/out" ||
		rc=$?
	daemon_pid=$(cat "$work/pid")
	[ $rc = 0 ] || { cat "$work/out"; die "conformance $*"; }
	tail -n 1 "$work/out"
}

slow=
[ -z "${CONFORMANCE_SLOW:-}" ] || slow=--slow
start_daemon --memory 64MiB
first=$daemon_pid
# shellcheck disable=SC2086
conform $slow --stop "sh $work/restart stop" --start "sh $work/restart start"
assert_quiet
wait "$first" 2>/dev/null || true
kill -TERM "$daemon_pid"
while kill -0 "$daemon_pid" 2>/dev/null; do sleep 0.05; done
daemon_pid=

mkdir "$work/ssd"
start_daemon --memory 64MiB --ssd "$work/ssd:256MiB"
conform
assert_quiet
stop_daemon

start_daemon --memory 64MiB --set limits.client_pinned_bytes=0 \
	--set limits.uid_pinned_bytes=0
conform --uncapped full_memory_is_enospc_or_eagain_by_the_deadline \
	put_waits_until_there_is_room
assert_quiet
stop_daemon
