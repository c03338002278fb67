# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# A1, A3, H2, P5: a client is killed at each step of a put and of a get, by the
# shared index and by message, and while it waits for room: the key keeps its
# last committed value, all room and pins come back, the next put works.
. "$(dirname "$0")/lib.sh.inc"

mkdir "$work/ssd"
start_daemon --memory 32MiB --ssd "$work/ssd:300MiB" \
	--set limits.client_pinned_bytes=0 --set limits.uid_pinned_bytes=0
"$o/tests/e2e/story" load 0 128 1048576 || die load
wait_for status persist_pending 0
"$o/tests/e2e/field" steps 5 >"$work/out" || { cat "$work/out"; die steps; }
assert_quiet
stop_daemon
