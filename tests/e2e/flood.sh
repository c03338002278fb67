# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# A8, A9, S10: 200 clients have 100,000 requests for 4,000 values on SSD in
# flight on a device of depth 4: each is answered once and right, each value is
# read once, memory is bounded, one ring serves all. Then on the smallest ring
# that there is and with too little memory, where most of them are overtaken.
. "$(dirname "$0")/lib.sh.inc"

rings() {
	find "/proc/$daemon_pid/fd" -lname '*io_uring*' 2>/dev/null | wc -l
}

kib() {
	sed -n "s/^$1:[^0-9]*\([0-9]*\) kB/\1/p" "/proc/$daemon_pid/status"
}

counter() {
	"$ctl" metrics >"$work/metrics"
	sed -n "s/^$1 //p" "$work/metrics"
}

told() {
	sed -n "s/.*$1 \([0-9]*\).*/\1/p" "$work/out"
}

# flooded CLIENTS KEYS: sets $right and $most, rings at a time
flooded() {
	"$o/tests/e2e/field" flood "$1" "$2" >"$work/out" 2>&1 &
	client=$!
	most=0
	while kill -0 $client 2>/dev/null; do
		n=$(rings)
		[ "$n" -le "$most" ] || most=$n
		sleep 0.05
	done
	wait $client || { tail -n 20 "$work/out"; die flood; }
	right=$(told right)
}

loaded() {
	"$o/tests/e2e/field" flood-load "$1" >"$work/out" 2>&1 ||
		{ tail -n 20 "$work/out"; die "flood-load $1"; }
}

mkdir "$work/ssd"
for engine in uring threads; do
	# room for all 4,000, a page each
	start_daemon --memory 20MiB --ssd "$work/ssd:128MiB" \
		--io-engine $engine --set io_depth=4 \
		--set limits.client_pinned_bytes=0 \
		--set limits.uid_pinned_bytes=0
	loaded 1
	before=$(kib VmHWM)
	flooded 200 500
	case $engine$most in
	uring1 | threads0) ;;
	*) die "$engine: $most rings" ;;
	esac
	[ "$right" = 100000 ] || { cat "$work/out"; die "$right are right"; }
	# many of those who asked for a value waited for its one read
	[ "$(told read)" -ge 12000 ] || { cat "$work/out"; die "no flood"; }
	n=$(counter 'fluxonkv_ssd_seconds_count{op="read"}')
	if [ "$n" -lt 4000 ] || [ "$n" -gt 4400 ]; then
		die "$engine: $n reads for 4,000 values"
	fi
	n=$(counter fluxonkv_gets_total)
	[ "$n" = 100000 ] || die "$engine: $n gets were counted"
	# 100,000 calls of some hundred bytes, and frames of 200 clients
	grep -q '__[at]san_init' "$o/fluxonkvd" ||
		[ "$(kib VmHWM)" -le $((before + 64 * 1024)) ] ||
		die "$before KiB became $(kib VmHWM)"
	[ "$(counter fluxonkv_ssd_read_errors_total)" = 0 ] || die "read errors"
	assert_quiet
	stop_daemon

	start_daemon --memory 4MiB --ssd "$work/ssd:48KiB" \
		--io-engine $engine --set io_depth=1 \
		--set limits.client_pinned_bytes=0 \
		--set limits.uid_pinned_bytes=0
	loaded 0
	flooded 20 500
	[ "$right" -ge 500 ] || { cat "$work/out"; die "$right are right"; }
	assert_quiet
	stop_daemon
done
