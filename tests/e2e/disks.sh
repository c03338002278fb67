# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/disk.sh.inc
# A6, A12 (no fallocate), S4, S8, S9: disks with blocks of 4096 bytes under ext4
# and XFS, tmpfs, ext4 where direct I/O or fallocate do not work: values of odd
# lengths come back from SSD right, with each engine; direct is claimed only
# where the descriptor has it.
. "$(dirname "$0")/disk.sh.inc"
needs mkfs.xfs

# flags of the first shard file, in octal, from the kernel
really_direct() {
	for fd in "/proc/$daemon_pid/fd/"*; do
		case $(readlink "$fd") in
		*/shard-000) break ;;
		esac
	done
	flags=$(sed -n 's/^flags:[^0-9]*//p' \
		"/proc/$daemon_pid/fdinfo/${fd##*/}")
	# O_DIRECT is 040000 in octal
	[ $((flags & 040000)) != 0 ] && echo true || echo false
}

# tried NAME DIRECT ALIGNMENT: DIRECT or ALIGNMENT may be any
tried() {
	for engine in uring threads; do
		: >"$work/log"
		start_daemon --memory 16MiB --ssd "$disk:120MiB" \
			--io-engine $engine
		tell "$work/out" "$o/tests/e2e/field" sizes
		claimed=$(field ssd direct)
		[ "$claimed" = "$(really_direct)" ] ||
			die "$1: claims direct $claimed, and it is not so"
		case $2 in
		any | "$claimed") ;;
		*) die "$1: direct is $claimed" ;;
		esac
		case $3 in
		any) ;;
		*) [ "$(field ssd alignment)" = "$3" ] ||
			die "$1: alignment $(field ssd alignment), not $3" ;;
		esac
		warnings=$(grep -c 'warning.*direct' "$work/log" || true)
		case $claimed in
		true) want='0 0' ;;
		false) want='1 1' ;;
		esac
		[ "$(counter 'fluxonkv_ssd_buffered{device="0"}') $warnings" = \
			"$want" ] || die "$1: metric and warnings of buffered"
		[ "$(counter fluxonkv_ssd_checksum_failures_total)" = 0 ] ||
			die "$1: checksum failures"
		# the filesystem's own blocks of a file are not the daemon's
		kb=$(du -sk "$disk" | cut -f 1)
		[ "$kb" -le $((120 * 1024 + 256)) ] || die "$1: uses $kb KiB"
		assert_quiet
		stop_daemon
	done
}

make_disk ext4-4k 180M 4096 mkfs.ext4 -q -m 0
tried ext4-4k true 4096
make_disk xfs-4k 320M 4096 mkfs.xfs -q
tried xfs-4k true 4096
make_disk ext4-512 180M 512 mkfs.ext4 -q -m 0
tried ext4-512 true 512
MOUNT=noatime,data=journal
make_disk journal 220M 4096 mkfs.ext4 -q -m 0
tried journal false any
MOUNT=
make_disk no-extents 180M 4096 mkfs.ext4 -q -m 0 -O ^extent,^64bit
! fallocate -l 8192 "$disk/probe" 2>/dev/null ||
	missing "fallocate works without extents"
rm -f "$disk/probe"
tried no-extents any any

disk=$work/tmpfs
mkdir "$disk"
mount -t tmpfs -o size=140m none "$disk"
mounted="$disk $mounted"
tried tmpfs any any
