# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# A4, K6, P1: 8 writers that dawdle between copy and commit, and give up some,
# 8 readers, 1,000,000 gets: no torn, old, or given-up value; in place and, by
# another user, through put areas whose room is used again and again. Batches
# of which some fail leave nothing behind.
. "$(dirname "$0")/lib.sh.inc"
gets=${PUBLISH:-1000000}

kib() {
	sed -n "s/^$1:[^0-9]*\([0-9]*\) kB/\1/p" "/proc/$daemon_pid/status"
}

start_daemon --memory 64MiB --set socket_mode=0666
"$o/tests/e2e/service" publish "$gets" >"$work/out" ||
	{ head -n 30 "$work/out"; die publish; }
wait_for 'debug refs' clients 1
assert_quiet

"$o/tests/e2e/service" partial 300 >"$work/out" ||
	{ head -n 30 "$work/out"; die partial; }
before=$(kib VmRSS)
"$o/tests/e2e/service" partial 5000 >"$work/out" ||
	{ head -n 30 "$work/out"; die partial; }
grep -q '__[at]san_init' "$o/fluxonkvd" ||
	[ "$(kib VmRSS)" -le $((before + 4096)) ] ||
	die "failing batches: $before KiB became $(kib VmRSS)"
assert_quiet

# the program where another user may run it
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	chmod 755 "$work"
	cp "$o/tests/e2e/service" "$work/service"
	setpriv --reuid 65534 --regid 65534 --clear-groups \
		"$work/service" publish $((gets / 4)) >"$work/out" ||
		{ head -n 30 "$work/out"; die "publish by another user"; }
	assert_quiet
	other=1
fi
stop_daemon
[ -n "${other-}" ] || {
	echo "not run: put areas: another user needs root and setpriv"
	exit 77
}
