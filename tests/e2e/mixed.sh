# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# A13, M2, M3, P4: 1 MiB right after memory was full of 64 KiB values; then
# 100,000 puts of 4 KiB to 4 MiB into full memory, each at once, each value
# right; what can never fit is refused and evicts nothing.
. "$(dirname "$0")/lib.sh.inc"

start_daemon --memory 64MiB --set limits.client_pinned_bytes=0 \
	--set limits.uid_pinned_bytes=0
"$o/tests/e2e/field" mixed "${MIXED:-100000}" >"$work/out" ||
	{ cat "$work/out"; die mixed; }
cat "$work/out"
for m in largest_hole_bytes holes; do
	"$ctl" metrics | grep -q "^fluxonkv_segment_$m [0-9]" || die "no $m"
done
assert_quiet
stop_daemon
