# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# H4, A3 (alive and idle for ever): caps of a client and of a user, for holders
# and open puts; EDQUOT with a sentence and a count; one that sits on its cap
# does not stop others; 0 lifts them.
. "$(dirname "$0")/lib.sh.inc"

start_daemon --memory 64MiB --set limits.client_pinned_bytes=8MiB \
	--set limits.uid_pinned_bytes=12MiB
"$o/tests/e2e/service" caps >"$work/out" || { cat "$work/out"; die caps; }
[ "$("$ctl" metrics | sed -n 's/^fluxonkv_quota_refused_total //p')" -ge 4 ] ||
	die "refusals are not counted"
wait_for status pinned_bytes 0
assert_quiet
stop_daemon

start_daemon --memory 64MiB --set limits.client_pinned_bytes=0 \
	--set limits.uid_pinned_bytes=0
"$o/tests/e2e/service" uncapped >"$work/out" ||
	{ cat "$work/out"; die uncapped; }
assert_quiet
stop_daemon
