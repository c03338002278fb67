# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/disk.sh.inc
# A3, A8, G2, G3, K3: a disk that reads 1 MiB a second: of two that wait for one
# read one is killed and the other gets it; the only one is killed, and the
# value is in memory all the same; calls end by their deadline. On one of 1,000
# reads a second and depth 4, 100,000 requests in flight are all answered right.
. "$(dirname "$0")/disk.sh.inc"
[ -e /sys/fs/cgroup/blkio/blkio.throttle.read_bps_device ] ||
	[ -e /sys/fs/cgroup/cgroup.subtree_control ] ||
	missing "no cgroup that can slow a disk"

group=
slow_cleanup() {
	rc=$?
	set +e
	if [ -n "$daemon_pid" ]; then
		kill -KILL "$daemon_pid"
		wait "$daemon_pid"
		daemon_pid=
	fi 2>/dev/null
	i=0
	until [ -z "$group" ] || rmdir "$group" 2>/dev/null || [ $i -ge 50 ]; do
		i=$((i + 1))
		sleep 0.1
	done
	(exit $rc)
	disk_cleanup
}
trap slow_cleanup EXIT

make_disk slow 160M 512 mkfs.ext4 -q -m 0
number=$(lsblk -dno MAJ:MIN "$device" | tr -d ' ')
if [ -e /sys/fs/cgroup/blkio/blkio.throttle.read_bps_device ]; then
	group=/sys/fs/cgroup/blkio/fluxonkv-e2e.$$
	slow="blkio.throttle.read_bps_device $number 1048576"
	fewer="blkio.throttle.read_iops_device $number 1000"
else
	echo +io >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null ||
		missing "the io controller cannot be had"
	group=/sys/fs/cgroup/fluxonkv-e2e.$$
	slow="io.max $number rbps=1048576"
	fewer="io.max $number riops=1000"
fi
mkdir "$group" || { group=; missing "no cgroup can be made"; }

# slowed RULE; threads that are there already move with it
slowed() {
	echo "$daemon_pid" >"$group/cgroup.procs"
	echo "${1#* }" >"$group/${1%% *}"
}

for engine in uring threads; do
	start_daemon --memory 16MiB --ssd "$disk:128MiB" --io-engine $engine
	tell "$work/out" "$o/tests/e2e/story" load 0 64 1048576
	wait_for status persist_pending 0
	slowed "$slow"
	tell "$work/out" "$o/tests/e2e/field" refill
	# three asked for two values
	reads=$(counter 'fluxonkv_ssd_seconds_count{op="read"}')
	[ "$reads" = 2 ] || die "$engine: $reads reads"
	began=$(date +%s%N)
	rc=0
	"$ctl" --timeout 300 get load/5 >"$work/value" 2>"$work/err" || rc=$?
	took=$((($(date +%s%N) - began) / 1000000))
	if [ $rc = 0 ] || [ $took -ge 700 ]; then
		die "$engine: exit $rc after $took ms, 300 were allowed"
	fi
	assert_quiet
	stop_daemon
	echo "$number 0" >"$group/${slow%% *}" 2>/dev/null ||
		echo "$number rbps=max" >"$group/${slow%% *}"

	start_daemon --memory 20MiB --ssd "$disk:128MiB" --io-engine $engine \
		--set io_depth=4 --set limits.client_pinned_bytes=0 \
		--set limits.uid_pinned_bytes=0
	tell "$work/out" "$o/tests/e2e/field" flood-load 1
	slowed "$fewer"
	began=$(date +%s%N)
	tell "$work/out" "$o/tests/e2e/field" flood 200 500
	took=$((($(date +%s%N) - began) / 1000000))
	grep -q '^right 100000 ' "$work/out" || { cat "$work/out"; die flood; }
	[ $took -ge 3000 ] || die "$engine: the disk was not slow: $took ms"
	assert_quiet
	stop_daemon
	echo "$number 0" >"$group/${fewer%% *}" 2>/dev/null ||
		echo "$number riops=max" >"$group/${fewer%% *}"
done
