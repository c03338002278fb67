# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# A24, K1, D4: keys with NUL, '/', bytes that are no UTF-8, of 1 and 512 bytes:
# another process and another program find exactly these, from memory and from
# SSD, exists as get; after a restart there is none, and the same keys again.
. "$(dirname "$0")/lib.sh.inc"
service=$o/tests/e2e/service

told() {
	"$service" "$@" >"$work/out" || { head "$work/out"; die "$*"; }
}

mkdir "$work/ssd"
for turn in 1 2; do
	# in 4 MiB there is no room for all of them: some come from SSD
	start_daemon --memory 4MiB --ssd "$work/ssd:64MiB" \
		--set limits.client_pinned_bytes=0
	told identity 0
	told identity-write
	wait_for status persist_pending 0
	told identity 1
	# by the tool, which writes them escaped
	for key in 'a\x00b' '/a' '\xff\xfe\x80' '\x00' '\\x00' 'a\x0a'; do
		"$ctl" get "$key" >"$work/value" || die "turn $turn: get $key"
		[ "$(wc -c <"$work/value")" = 20000 ] || die "length of $key"
	done
	"$ctl" get 'a\x00b' >"$work/value"
	"$ctl" get 'a\x00c' >"$work/other"
	! cmp -s "$work/value" "$work/other" || die "one value for two keys"
	! "$ctl" get 'a\x00d' >/dev/null 2>&1 || die "a key that nobody put"
	"$ctl" put 'tool\x00\xff' <"$work/value" || die "put by the tool"
	"$ctl" exists 'tool\x00\xff' >/dev/null || die "exists"
	! "$ctl" exists 'tool\x00' >/dev/null || die "exists of a prefix"
	assert_quiet
	stop_daemon
done
