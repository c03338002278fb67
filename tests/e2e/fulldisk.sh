# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/disk.sh.inc
# A12, S11, S14: a disk of 64 MiB gets ten times what it holds, others fill it
# meanwhile, and at last what is below it has no room: files never pass their
# limit, memory goes on, the tier is off with one line and comes back.
. "$(dirname "$0")/disk.sh.inc"
story=$o/tests/e2e/story

# a limit that is not to be had leaves nothing behind
make_disk small 64M 512 mkfs.ext4 -q -m 0
free_before=$(df --output=avail -k "$disk" | tail -n 1)
rc=0
"$o/fluxonkvd" --standalone --socket "$sock" --metrics none --memory 16MiB \
	--ssd "$disk:64MiB" 2>"$work/refused" || rc=$?
[ $rc = 1 ] || die "64 MiB of a disk of 64 MiB: exit $rc"
grep -q 'wanted .* available .*: lower large_limit_size' "$work/refused" ||
	{ cat "$work/refused"; die "it does not say how much there is"; }
free=$(df --output=avail -k "$disk" | tail -n 1)
[ "$free" -ge $((free_before - 16)) ] || die "$free_before KiB became $free"

# ten times over, in turns; somebody else takes all the rest of the disk
mib=$((free / 1024 - 2))
start_daemon --memory 16MiB --ssd "$disk:${mib}MiB"
limit=$((mib * 1024))
turn=0
while [ $turn -lt 10 ]; do
	from=$((turn * 64)) to=$((turn * 64 + 64))
	tell "$work/out" "$story" load $from $to 1048576
	wait_for status persist_pending 0
	[ $turn != 4 ] ||
		dd if=/dev/zero of="$disk/others" bs=64k 2>/dev/null || true
	kb=$(find "$disk" -name 'shard-*' -exec du -ck {} + | tail -n 1 |
		cut -f 1)
	# a block of the filesystem's for each file's list of blocks
	[ "$kb" -le $((limit + 16)) ] || die "turn $turn: $kb KiB of $limit are used"
	turn=$((turn + 1))
done
[ "$(df --output=avail -k "$disk" | tail -n 1)" -lt 64 ] ||
	die "the disk was not full"
tell "$work/out" "$story" look 0 640 1048576
ok=$(sed 's/^ok \([0-9]*\) ssd \([0-9]*\) .*/\1/' "$work/out")
if [ "$ok" -lt 45 ] || [ "$ok" -gt 80 ]; then
	cat "$work/out"
	die "$ok are left"
fi
[ "$(counter 'kv_ssd_used_bytes{device="0"}')" -le $((limit * 1024)) ] ||
	die "the metric is over the limit"
[ "$(counter fluxonkv_ssd_devices_on) \
$(counter fluxonkv_ssd_write_errors_total)" = '1 0' ] || die "a full disk hurt"
assert_quiet
stop_daemon

# thin: the disk has blocks that what is below it cannot give
thin=$work/thin
mkdir "$thin"
mount -t tmpfs -o size=40m none "$thin"
IMAGES=$thin
make_disk above 64M 512 mkfs.ext4 -q -m 0 -E lazy_itable_init=1 -O ^has_journal
mounted="$mounted $thin"
lines=$(wc -l <"$work/log")
start_daemon --memory 24MiB --ssd "$disk:48MiB" --io-engine threads
tell "$work/out" "$story" load 0 80 1048576
i=0
until [ "$(counter fluxonkv_ssd_devices_on)" = 0 ]; do
	i=$((i + 1))
	[ $i -lt 100 ] || die "the tier is not off"
	sleep 0.1
done
[ "$(counter fluxonkv_ssd_write_errors_total)" -ge 1 ] || die "no write errors"
[ "$(field ssd state)" = off ] || die "ctl ssd says $(field ssd state)"
# each time that it is off one line says so: it may have been tried again by now
said() {
	tail -n +$((lines + 1)) "$work/log" | grep -c "$1 of 1 devices work"
}
[ $(($(said 0) - $(said 1))) = 1 ] ||
	die "not one line of the log says that it is off"
# what is being written cannot go: then newer values would
wait_for status persist_pending 0
tell "$work/out" "$story" load 80 96 1048576
tell "$work/out" "$story" look 80 96 1048576
grep -q '^ok 16 ' "$work/out" || { cat "$work/out"; die "memory is hurt"; }

# room below: it is tried again, empty, and used
mount -o remount,size=90m "$thin"
i=0
until [ "$(counter fluxonkv_ssd_devices_on)" = 1 ]; do
	i=$((i + 1))
	[ $i -lt 150 ] || die "the tier did not come back"
	sleep 0.1
done
tell "$work/out" "$story" load 100 140 1048576
wait_for status persist_pending 0
tell "$work/out" "$story" look 100 140 1048576
grep -q '^ok 40 ' "$work/out" || { cat "$work/out"; die "not back in use"; }
assert_quiet
stop_daemon
