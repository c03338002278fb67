# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# A25, G8, O1: 300 gets by every path count once each; every name on the page has
# a type and is documented; /healthz; no writing.
. "$(dirname "$0")/lib.sh.inc"

command -v curl >/dev/null || { echo "no curl"; exit 77; }
port=$((20000 + $$ % 20000))
url=http://127.0.0.1:$port

counter() {
	curl -sf "$url/metrics" | grep -F "$1 " | grep -v '^#' |
		sed 's/.* //' | head -n 1
}

# the last flag counts
start_daemon --memory 32MiB --ssd "$work:256MiB" --metrics 127.0.0.1:$port
"$o/tests/e2e/story" load 0 320 262144 || die load
wait_for status persist_pending 0
"$o/tests/e2e/story" gets 320 >"$work/out" || { cat "$work/out"; die gets; }
sleep 0.3
wait_for 'debug refs' clients 1

is() {
	[ "$(counter "$1")" = "$2" ] || die "$1 is $(counter "$1"), not $2"
}
is 'fluxonkv_hits_total{source="local"}' 200
is 'fluxonkv_hits_total{source="ssd-local"}' 50
is fluxonkv_misses_total 50
is fluxonkv_get_errors_total 0
is fluxonkv_gets_total 300
is fluxonkv_puts_total 320
is fluxonkv_put_errors_total 0
is fluxonkv_put_bytes_total $((320 * 262144))
is fluxonkv_ssd_checksum_failures_total 0
for g in holders open_puts fetches calls persist_queued persist_active; do
	i=0
	until [ "$(counter fluxonkv_$g)" = 0 ]; do
		i=$((i + 1))
		[ $i -lt 100 ] || die "fluxonkv_$g is $(counter fluxonkv_$g)"
		sleep 0.05
	done
done
! curl -sf "$url/metrics" | grep -v '^#' | grep -- ' -' ||
	die "a negative number"
for n in kvcache_segment_capacity_bytes kvcache_segment_used_bytes \
	kv_ssd_capacity_bytes kv_ssd_used_bytes; do
	curl -sf "$url/metrics" | grep -q "^$n" || die "no $n"
done
# each name, a histogram's by what it began as
pages=$(dirname "$0")/../../Documentation
curl -sf "$url/metrics" >"$work/page" || die "no page"
sed -n 's/^# TYPE \([^ ]*\) .*/\1/p' "$work/page" >"$work/types"
sed '/^#/d; s/[{ ].*//' "$work/page" | sort -u >"$work/names"
[ "$(wc -l <"$work/names")" -gt 50 ] || die "few names"
while read -r name; do
	grep -qx "$name" "$work/types" || name=${name%_*}
	grep -qx "$name" "$work/types" || die "$name has no type"
	grep -q "\`${name}[\`{]" "$pages/operations.md" ||
		die "$name is in no documentation"
done <"$work/names"
# the same page by socket
"$ctl" metrics | grep -q '^fluxonkv_misses_total 50$' || die "ctl metrics"

[ "$(curl -s "$url/healthz")" = ok ] || die healthz
code() { curl -s -o /dev/null -w '%{http_code}' "$@"; }
[ "$(code "$url/")" = 200 ] || die "/ is $(code "$url/")"
[ "$(code "$url/nosuch")" = 404 ] || die 404
for path in / /metrics /healthz; do
	[ "$(code -X POST -d x=1 "$url$path")" = 405 ] || die "POST $path"
	[ "$(code -X DELETE "$url$path")" = 405 ] || die "DELETE $path"
done
assert_quiet
stop_daemon
