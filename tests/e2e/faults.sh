# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# A5, S7, G6: bytes of the shard files change behind the daemon: a get gives
# right bytes, a miss or EIO, never wrong ones; it is counted, the bad copies
# go, and the keys can be put again.
. "$(dirname "$0")/lib.sh.inc"

counter() {
	"$ctl" metrics | sed -n "s/^$1 //p"
}

for engine in uring threads; do
	dir=$work/$engine
	mkdir -p "$dir"
	start_daemon --memory 32MiB --ssd "$dir:256MiB" --io-engine $engine
	"$o/tests/e2e/story" load 0 128 1048576 || die load
	wait_for status persist_pending 0
	shards=$(find "$dir" -type f -size +4096k)
	[ -n "$shards" ] || die "no shard files"

	# a block in every MiB of one shard: every entry of it is broken
	shard=$(echo "$shards" | head -n 1)
	mib=$(($(stat -c %s "$shard") / 1048576))
	n=1
	while [ $n -lt $mib ]; do
		dd if=/dev/urandom of="$shard" bs=4096 count=1 \
			seek=$((n * 256 + 100)) conv=notrunc,fsync 2>/dev/null
		n=$((n + 1))
	done
	"$o/tests/e2e/story" look 0 128 1048576 >"$work/out" ||
		{ cat "$work/out"; die "$engine: wrong bytes"; }
	bad=$(counter fluxonkv_ssd_checksum_failures_total)
	[ "$bad" -gt 0 ] || { cat "$work/out"; die "no checksum failures"; }
	lost=$((128 - $(sed 's/^ok \([0-9]*\) .*/\1/' "$work/out")))
	if [ $lost = 0 ] || [ $lost -ge 64 ]; then
		cat "$work/out"
		die "lost $lost"
	fi

	# what was bad is not there any more: it is not read again
	"$o/tests/e2e/story" look 0 128 1048576 >"$work/out" ||
		{ cat "$work/out"; die "$engine: wrong bytes, again"; }
	grep -q ' eio 0 ' "$work/out" || { cat "$work/out"; die "EIO again"; }
	[ "$(counter fluxonkv_ssd_checksum_failures_total)" = "$bad" ] ||
		die "bad copies were read again"
	"$o/tests/e2e/story" load 0 128 1048576 || die "put again"
	"$o/tests/e2e/story" look 0 128 1048576 >"$work/out" ||
		{ cat "$work/out"; die "$engine: wrong bytes after"; }
	grep -q '^ok 128 ' "$work/out" || { cat "$work/out"; die "lost after"; }
	assert_quiet

	# cut short: what is gone is a miss or EIO, and the daemon goes on
	wait_for status persist_pending 0
	for shard in $shards; do
		truncate -s 1M "$shard"
	done
	"$o/tests/e2e/story" look 0 128 1048576 >"$work/out" ||
		{ cat "$work/out"; die "$engine: wrong bytes of a cut file"; }
	kill -0 "$daemon_pid" || die "the daemon is gone"
	"$o/tests/e2e/story" load 0 16 1048576 || die "put after a cut"
	"$o/tests/e2e/story" look 0 16 1048576 >"$work/out" ||
		{ cat "$work/out"; die "$engine: after a cut"; }
	grep -q '^ok 16 ' "$work/out" || { cat "$work/out"; die "lost"; }
	assert_quiet
	stop_daemon
	rm -rf "$dir"
done
