# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# 8 threads of mixed calls over a memory and an SSD smaller than the values, with
# every byte checked; STRESS=SECONDS, 5 by default
. "$(dirname "$0")/lib.sh.inc"
mkdir "$work/ssd"
start_daemon --memory 64MiB --ssd "$work/ssd:200MiB"
"$o/tests/e2e/stress" load "${STRESS:-5}" 8 || die "stress"
assert_quiet
stop_daemon
