# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# A23, U6, X1-X5: malformed frames and bodies, random bytes, nonsense in the
# pages that a client may write to: an errno or a close, counted, and no other
# client sees anything of it.
. "$(dirname "$0")/lib.sh.inc"

counter() {
	"$ctl" metrics | sed -n "s/^$1 //p"
}

start_daemon --memory 64MiB --ssd "$work:256MiB"
"$o/tests/e2e/badinput" >"$work/out" 2>&1 ||
	{ head -n 50 "$work/out"; die input; }
kill -0 "$daemon_pid" 2>/dev/null || die "the daemon is gone"
[ "$(counter fluxonkv_bad_requests_total)" -gt 1000 ] || die "bad requests"
[ "$(counter fluxonkv_broken_connections_total)" -gt 100 ] || die "broken"
wait_for 'debug refs' clients 1
assert_quiet
stop_daemon
