# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# A5, S7, K2: of 100 keys in one call, 7 whose bytes on SSD were changed are a
# miss each with a reason, the other 93 are right, and the 7 are gone for good.
. "$(dirname "$0")/lib.sh.inc"

counter() {
	"$ctl" metrics | sed -n "s/^$1 //p"
}

mkdir "$work/ssd"
for engine in uring threads; do
	start_daemon --memory 16MiB --ssd "$work/ssd:128MiB" --io-engine $engine
	"$o/tests/e2e/field" batch-load >"$work/out" ||
		{ cat "$work/out"; die load; }
	n=0
	while [ $n -lt 7 ]; do
		key=$(printf 'batch/%03u;' $((n * 7)))
		at=$(find "$work/ssd" -name 'shard-*' -exec \
			grep -abo -H "$key" {} + | head -n 1)
		[ -n "$at" ] || die "$key is not on disk"
		offset=${at#*:}
		offset=${offset%%:*}
		# its header's block, then payload
		dd if=/dev/urandom of="${at%%:*}" bs=1 count=8 conv=notrunc \
			seek=$((offset / 4096 * 4096 + 4096 + 1000 + n)) \
			2>/dev/null
		n=$((n + 1))
	done
	"$o/tests/e2e/field" batch 7 0 >"$work/out" ||
		{ cat "$work/out"; die "$engine: a batch"; }
	bad=$(counter fluxonkv_ssd_checksum_failures_total)
	if [ "$bad" -lt 7 ] || [ "$bad" -gt 21 ]; then
		die "$bad checksum failures"
	fi
	"$o/tests/e2e/field" batch 7 1 >"$work/out" ||
		{ cat "$work/out"; die "$engine: the batch again"; }
	[ "$(counter fluxonkv_ssd_checksum_failures_total)" = "$bad" ] ||
		die "what was bad was read again"
	"$ctl" --json routes >"$work/routes"
	! grep -q 'batch/007' "$work/routes" || die "batch/007 has a route"
	grep -q 'batch/008' "$work/routes" || die "batch/008 has no route"
	assert_quiet
	stop_daemon
done
