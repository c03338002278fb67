# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# K3, K6, H1: a daemon that is frozen for 2 s: hits without it end within 1.2 s,
# every call ends by its deadline, held bytes stay; then all goes on. With and
# without strict_reads.
. "$(dirname "$0")/lib.sh.inc"

for strict in true false; do
	start_daemon --memory 32MiB --set strict_reads=$strict
	"$o/tests/tools/cheat" lease >"$work/lease" || die "no index"
	case $strict,$(cat "$work/lease") in
	true,strict=1\ lease=[1-9]*) ;;
	false,strict=0) ;;
	*) die "strict_reads: $strict gives $(cat "$work/lease")" ;;
	esac
	"$o/tests/e2e/service" frozen "$daemon_pid" 2000 >"$work/out" ||
		{ kill -CONT "$daemon_pid"; head -n 30 "$work/out"
		die "strict_reads: $strict"; }
	kill -CONT "$daemon_pid"
	assert_quiet
	stop_daemon
done
