# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# P4, K3, K4, A3: memory full of open puts, then of holders: who may not wait
# is told at once, who may is told by the deadline, puts cannot starve gets nor
# holders get_into, and all room comes back. No caps per client: classes only.
. "$(dirname "$0")/lib.sh.inc"

start_daemon --memory 64MiB --ssd "$work:512MiB" \
	--set limits.client_pinned_bytes=0 --set limits.uid_pinned_bytes=0
"$o/tests/e2e/story" load 0 160 1048576 || die load
wait_for status persist_pending 0
"$o/tests/e2e/story" space 160 >"$work/out" || { cat "$work/out"; die space; }
wait_for status waiting 0
assert_quiet
stop_daemon
