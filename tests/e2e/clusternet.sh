# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# F1, F3, G6, A3, A20, A21, A22: hosts that are cut off, both ways, one way, from
# one other, and in the middle of a transfer. Calls end in time, no byte is wrong,
# and who comes back has kept what it had.
. "$(dirname "$0")/lib.sh.inc"
# shellcheck source=tests/e2e/cluster.sh.inc
. "$(dirname "$0")/cluster.sh.inc"
# shellcheck source=tests/e2e/netns.sh.inc
. "$(dirname "$0")/netns.sh.inc"

for v in 1 2 3; do
	head -c $((v * 3000017)) /dev/urandom >"$work/v$v"
done
netns_hosts 3
start_master --log-level info
owner() {
	mkdir -p "$work/ssd$1"
	start_owner "$1" --memory 128MiB --ssd "$work/ssd$1:256MiB"
}

for n in 1 2 3; do owner $n; done
for n in 1 2 3; do registered o$n; done
at o2 put k "$work/v1"
get o1 k "$work/v1" memory-remote
get o3 k "$work/v1" memory-remote

# F1: a host that is cut off. What it shares is had elsewhere, what it has alone
# is missed once its lease is over; it comes back with its memory
at o2 put mine "$work/v2"
at o2 put ours "$work/v1"
get o3 ours "$work/v1"
cut o2
within 11 at o1 get mine
within 11 at o1 get ours
until_is m status members_live 2
within 1 at o1 get mine
misses o1 mine
get o1 ours "$work/v1"
# F4: nobody is served, and nobody hangs, at the host that is alone
within 11 at o2 put alone "$work/v1"
mend o2
until_is m status members_live 3
registered o2
get o2 mine "$work/v2"
get o1 mine "$work/v2" memory-remote
all_quiet m o1 o2 o3

# K6: overwritten while it was away, and it must not know the old one
cut o3
until_is m status members_live 2
within 5 at o1 put ours "$work/v3"
get o1 ours "$work/v3"
mend o3
until_is m status members_live 3
registered o3
get o3 ours "$work/v3"
all_quiet m o1 o2 o3

# one way: the master hears nothing of o2, which hears the master
deafen o2 1
until_is m status members_live 2
within 11 at o2 put alone "$work/v1"
get o1 ours "$work/v3"
undeafen o2 1
until_is m status members_live 3
registered o2
all_quiet m o1 o2 o3

# F3, G6: o1 and o2 do not reach each other, the master and o3 reach both
at o2 put apart "$work/v2"
get o3 apart "$work/v2"
deafen o1 3
deafen o2 2
get o1 apart "$work/v2" memory-remote
at o2 put lone "$work/v1"
within 11 at o1 get lone
get o3 lone "$work/v1" memory-remote
[ "$(of m status members_live)" = 3 ] || cluster_die "a member is gone"
undeafen o1 3
undeafen o2 2
sleep 5
get o1 lone "$work/v1"
all_quiet m o1 o2 o3

# A21: a transfer whose packets vanish in its middle ends by itself
head -c 60000000 /dev/urandom >"$work/large"
for i in 1 2 3 4; do
	at o2 put large "$work/large"
	within 15 at o1 get -o "$work/part" large &
	waiting=$!
	sleep 0.0$((i * 2))
	cut o2
	wait "$waiting" || cluster_die "round $i"
	[ ! -s "$work/part" ] || [ "$(stat -c %s "$work/part")" != 60000000 ] ||
		cmp "$work/part" "$work/large" || cluster_die "wrong bytes"
	rm -f "$work/part"
	mend o2
	until_is m status members_live 3
	registered o2
done
# who is suspect is tried again a while later
sleep 5
get o1 large "$work/large"
all_quiet m o1 o2 o3

# A20: it dies while it is cut off, and another life is at its address
at o2 put large "$work/large"
cut o2
end o2 KILL
mend o2
owner 2
registered o2
until_is m status members_live 3
at o2 put k "$work/v2"
get o1 k "$work/v2"
get o3 k "$work/v2"
all_quiet m o1 o2 o3

for who in o1 o2 o3; do end $who TERM; done
until_is m status members_live 0
end m TERM
