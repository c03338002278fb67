# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# A1, P5, H2: a client dies in the middle of a put, 1,000 times, four at a time:
# a miss throughout, the next put works, and every byte of room comes back.
. "$(dirname "$0")/lib.sh.inc"

start_daemon --memory 64MiB --ssd "$work:256MiB"
"$o/tests/e2e/story" orphan 1000 >"$work/out" ||
	{ cat "$work/out"; die orphan; }
assert_quiet
[ "$(field status keys)" = 0 ] || die "keys: $(field status keys)"
[ "$(field status used_bytes)" = 0 ] || die "used: $(field status used_bytes)"
stop_daemon
