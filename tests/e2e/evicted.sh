# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# A5, K2: what exists said yes to is evicted before it is asked for: from memory
# and SSD it is a miss, by each way to get, from memory alone it comes from SSD;
# then the same while another puts without a pause.
. "$(dirname "$0")/lib.sh.inc"

told() {
	"$o/tests/e2e/field" "$@" >"$work/out" 2>&1 ||
		{ head -n 20 "$work/out"; die "$ssd: $*"; }
}

mkdir "$work/ssd"
for ssd in none 8MiB 128MiB; do
	case $ssd in
	none) start_daemon --memory 16MiB ;;
	*) start_daemon --memory 16MiB --ssd "$work/ssd:$ssd" ;;
	esac
	case $ssd in
	128MiB) told evicted 0 ;;
	*) told evicted 100 ;;
	esac
	assert_quiet
	stop_daemon

	case $ssd in
	none) start_daemon --memory 4MiB ;;
	8MiB) start_daemon --memory 4MiB --ssd "$work/ssd:8MiB" ;;
	*) continue ;;
	esac
	told race 40
	assert_quiet
	stop_daemon
done
