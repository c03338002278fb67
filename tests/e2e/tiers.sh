# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# P6, G7, M4, S5: more than memory holds goes to SSD, comes back right, and
# everything balances at the end, with each engine.
. "$(dirname "$0")/lib.sh.inc"

for engine in uring uring_iovec threads; do
	mkdir -p "$work/$engine"
	start_daemon --memory 64MiB --ssd "$work/$engine:512MiB" \
		--io-engine $engine
	"$o/tests/e2e/demo" 160 >"$work/out" || { cat "$work/out"; die demo; }
	assert_quiet
	[ "$(field status keys)" = 159 ] || die "keys: $(field status keys)"
	stop_daemon
done
