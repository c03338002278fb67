# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# K2 WARM: exists that starts to fetch; a get afterwards finds its value in memory
. "$(dirname "$0")/lib.sh.inc"
mkdir "$work/ssd"
start_daemon --memory 32MiB --ssd "$work/ssd:256MiB"
"$o/tests/e2e/story" load 0 100 1048576 || die "load"
wait_for status persist_pending 0
before=$(field status hits_local)
"$o/tests/e2e/story" warm 100 >"$work/out" || { cat "$work/out"; die warm; }
[ "$(field status hits_local)" = "$before" ] || die "warming counts as gets"
assert_quiet
stop_daemon
