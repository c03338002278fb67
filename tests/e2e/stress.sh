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

# the same near the cap of the client: no honest client is taken for another
start_daemon --memory 48MiB --ssd "$work/ssd:200MiB" \
	--set limits.client_pinned_bytes=8388608
"$o/tests/e2e/stress" load "${STRESS:-5}" 8 || die "stress near the cap"
"$ctl" metrics | grep -q '^fluxonkv_over_cap_total 0$' || die "an honest client"
assert_quiet
stop_daemon
