# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# M4, eviction.new_values: 300 values that nobody reads pass through memory:
# with "first" those that are in use stay, with "recent" the new ones push them out;
# with both the newest is there.
. "$(dirname "$0")/lib.sh.inc"

for how in first recent; do
	start_daemon --memory 32MiB --set eviction.new_values=$how
	"$o/tests/e2e/service" scan 300 >"$work/$how" ||
		{ cat "$work/$how"; die "$how"; }
	assert_quiet
	stop_daemon
done
first=$(sed -n 's/^left //p' "$work/first")
recent=$(sed -n 's/^left //p' "$work/recent")
[ "$first" -ge 19 ] || die "first: $first of 20 are left"
[ "$recent" -le 5 ] || die "recent: $recent of 20 are left"
