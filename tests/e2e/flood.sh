# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# A8, A9, S10: 200 clients have 100,000 requests in flight on a device of depth
# 4: each is answered once and right, memory is bounded, one ring serves all.
# Then on the smallest ring that there is, where most of them are overtaken.
. "$(dirname "$0")/lib.sh.inc"

rings() {
	find "/proc/$daemon_pid/fd" -lname '*io_uring*' 2>/dev/null | wc -l
}

kib() {
	sed -n "s/^$1:[^0-9]*\([0-9]*\) kB/\1/p" "/proc/$daemon_pid/status"
}

# flooded CLIENTS KEYS: sets $right, $noroom and $most, rings at a time
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
	right=$(sed -n 's/^right \([0-9]*\) .*/\1/p' "$work/out")
	noroom=$(sed -n 's/.* noroom \([0-9]*\)$/\1/p' "$work/out")
}

mkdir "$work/ssd"
for engine in uring threads; do
	start_daemon --memory 4MiB --ssd "$work/ssd:64MiB" \
		--io-engine $engine --set io_depth=4 \
		--set limits.client_pinned_bytes=0 \
		--set limits.uid_pinned_bytes=0
	before=$(kib VmHWM)
	flooded 200 500
	case $engine$most in
	uring1 | threads0) ;;
	*) die "$engine: $most rings" ;;
	esac
	grep -q 'misses 0 ' "$work/out" || { cat "$work/out"; die misses; }
	# for those that get no room within 5 s it is ENOSPC (P4)
	if [ "$right" -lt 5000 ] || [ $((right + noroom)) != 100000 ]; then
		cat "$work/out"
		die "$right are right"
	fi
	# 100,000 calls of some hundred bytes, and frames of 200 clients
	grep -q __asan_init "$o/fluxonkvd" ||
		[ "$(kib VmHWM)" -le $((before + 160 * 1024)) ] ||
		die "$before KiB became $(kib VmHWM)"
	"$ctl" metrics | grep -q '^fluxonkv_ssd_read_errors_total 0$' ||
		die "read errors"
	assert_quiet
	stop_daemon

	start_daemon --memory 4MiB --ssd "$work/ssd:48KiB" \
		--io-engine $engine --set io_depth=1 \
		--set limits.client_pinned_bytes=0 \
		--set limits.uid_pinned_bytes=0
	flooded 20 500
	[ "$right" -ge 500 ] || { cat "$work/out"; die "$right are right"; }
	assert_quiet
	stop_daemon
done
