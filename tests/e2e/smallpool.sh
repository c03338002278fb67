# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# A2, H1, D1: in a pool of 4 MiB values are held that came from SSD, while
# 10,000 others are put, and their keys deleted and put again: held bytes stay,
# new readers see the new ones.
. "$(dirname "$0")/lib.sh.inc"

mkdir "$work/ssd"
for engine in uring threads; do
	start_daemon --memory 4MiB --ssd "$work/ssd:256MiB" --io-engine $engine
	"$o/tests/e2e/field" small-pool 10000 >"$work/out" ||
		{ head -n 30 "$work/out"; die "$engine"; }
	assert_quiet
	stop_daemon
done
