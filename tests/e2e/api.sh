# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# K1, K2, K3, K4, K5 (fork), D1, D4, H1: every call of the library, what it
# gives back and what it refuses, with and without an SSD tier.
. "$(dirname "$0")/lib.sh.inc"

for tier in memory ssd; do
	case $tier in
	memory) start_daemon --memory 64MiB ;;
	ssd) start_daemon --memory 64MiB --ssd "$work:256MiB" ;;
	esac
	"$o/tests/e2e/api" >"$work/out" ||
		{ cat "$work/out"; die "api ($tier)"; }
	assert_quiet
	stop_daemon
done
