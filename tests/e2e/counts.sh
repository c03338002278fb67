# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# A25, G8, O1: 1,000 gets, single, in batches and as copies (600 from memory,
# 200 from SSD, 200 misses): each counts once and where it belongs, those that
# fail too; at the end nothing is in progress and no number is negative.
. "$(dirname "$0")/lib.sh.inc"

is() {
	v=$("$ctl" metrics | grep -v '^#' | grep -F "$1 " | sed 's/.* //')
	[ "$v" = "$2" ] || die "$1 is $v, not $2"
}

mkdir "$work/ssd"
for engine in uring threads; do
	start_daemon --memory 64MiB --ssd "$work/ssd:512MiB" --io-engine $engine
	"$o/tests/e2e/story" load 0 600 262144 || die load
	wait_for status persist_pending 0
	"$o/tests/e2e/service" counts 600 >"$work/out" ||
		{ cat "$work/out"; die counts; }
	wait_for 'debug refs' clients 1
	is 'fluxonkv_hits_total{source="local"}' 600
	is 'fluxonkv_hits_total{source="ssd-local"}' 200
	is fluxonkv_misses_total 200
	is fluxonkv_get_errors_total 0
	is fluxonkv_gets_total 1000
	is fluxonkv_promotions_total 200
	is fluxonkv_puts_total 600
	is fluxonkv_put_bytes_total $((600 * 262144))
	is fluxonkv_persist_commits_total 600
	is 'fluxonkv_ssd_seconds_count{op="write"}' 600
	is 'fluxonkv_ssd_seconds_count{op="read"}' 200
	is 'fluxonkv_keys{tier="any"}' 600
	is 'fluxonkv_keys{tier="ssd"}' 600
	assert_quiet
	for g in holders open_puts fetches calls persist_queued \
		persist_active persist_blocked 'ssd_inflight{device="0"}' \
		'ssd_queued{device="0"}'; do
		is "fluxonkv_$g" 0
	done
	for cause in open_put get_target first_persist held pinned; do
		is "fluxonkv_segment_unevictable_bytes{cause=\"$cause\"}" 0
	done
	"$ctl" metrics >"$work/metrics"
	! grep -v '^#' "$work/metrics" | grep -- ' -' || die "a negative number"
	[ "$(grep -v '^#' "$work/metrics" | sed 's/ [^ ]*$//' | sort |
		uniq -d | wc -l)" = 0 ] || die "a metric is there twice"
	stop_daemon
done
