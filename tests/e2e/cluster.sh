# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# F1, F2, F3, G1, K6, P3: a master and three owners. What is put at one is got at
# the others, from memory and from SSD; overwrite and delete are seen everywhere;
# an owner that is killed or frozen costs a wait, not an answer; all come back.
. "$(dirname "$0")/lib.sh.inc"
# shellcheck source=tests/e2e/cluster.sh.inc
. "$(dirname "$0")/cluster.sh.inc"

for v in 1 2 3; do
	head -c $((v * 1000003)) /dev/urandom >"$work/v$v"
done

start_master --log-level info
mkdir "$work/ssd1" "$work/ssd2"
start_owner 1 --memory 16MiB --ssd "$work/ssd1:256MiB"
start_owner 2 --memory 64MiB --ssd "$work/ssd2:256MiB"
start_owner 3 --memory 64MiB
for n in 1 2 3; do registered o$n; done
[ "$(of m status members_live)" = 3 ] || cluster_die "members"

# G1: from memory elsewhere, then from here
at o1 put k "$work/v1"
get o1 k "$work/v1" local
get o2 k "$work/v1" memory-remote
get o2 k "$work/v1" local
get o3 k "$work/v1" memory-remote

# K6: all three have it in their index; not one may go on with it
at o2 put k "$work/v2"
for n in 1 2 3; do get o$n k "$work/v2"; done
at o3 put k "$work/v3"
for n in 1 2 3; do get o$n k "$work/v3"; done
at o1 del k
for n in 1 2 3; do misses o$n k; done

# G1, G5: from SSD elsewhere, when no memory has it any more
at o1 put old "$work/v3"
until_is o1 status persist_pending 0
for i in $(seq 30); do
	head -c 4000000 /dev/zero | at o1 put "fill/$i" || cluster_die fill
done
[ "$(of m 'routes old' memory)" = false ] || cluster_die "old is in memory"
get o2 old "$work/v3" ssd-remote
get o3 old "$work/v3"
for i in $(seq 30); do at o1 del "fill/$i"; done

# D4: one list of all
for i in $(seq 60); do
	echo "$i" | at o$((i % 3 + 1)) put "list/$i"
done
for n in 1 2 3; do
	[ "$(at o$n list list/ | grep -c '^list/')" = 60 ] ||
		cluster_die "list at o$n"
done
# the keys of a call are one message each way
frames() { at "$1" metrics | sed -n 's/^fluxonkv_cluster_frames_total //p'; }
FLUXONKV="unix:$work/o1.sock" "$o/tests/e2e/field" batch-load ||
	cluster_die "a batch is not loaded"
sleep 0.3
from=$(frames o1)
FLUXONKV="unix:$work/o1.sock" "$o/tests/e2e/field" asks 100 ||
	cluster_die "a batch of questions"
# a heartbeat may be between, and what readers pin
[ $(($(frames o1) - from)) -le 3 ] ||
	cluster_die "100 keys: $(($(frames o1) - from)) frames"
FLUXONKV="unix:$work/o2.sock" "$o/tests/e2e/field" batch 0 0 ||
	cluster_die "a batch from another owner"
all_quiet m o1 o2 o3

# P3: who has no SSD has its puts kept by one that has
pushes() { at o3 metrics | sed -n 's/^fluxonkv_transfers_total{kind="push"} //p'; }
[ "$(pushes)" -gt 20 ] || cluster_die "o3 pushed $(pushes)"
at o3 put far "$work/v3"
get o3 far "$work/v3"
get o1 far "$work/v3"

# F1: killed. Its only copies are gone with it; nothing hangs
at o2 put only "$work/v1"
at o2 put both "$work/v1"
get o3 both "$work/v1"
end o2 KILL
within 10 at o3 get only
within 5 at o1 put both "$work/v2"
get o1 both "$work/v2"
get o3 both "$work/v2"
until_is m status members_live 2
within 1 at o1 get only
misses o3 only
start_owner 2 --memory 64MiB --ssd "$work/ssd2:256MiB"
registered o2
get o2 both "$work/v2"
at o2 put only "$work/v2"
get o1 only "$work/v2" memory-remote
all_quiet m o1 o2 o3

# F1, F3: frozen for 5 s. Others go on; it comes back with what it had
at o2 put mine "$work/v3"
at o2 put ours "$work/v1"
get o1 ours "$work/v1"
kill -STOP "$(pid_of o2)"
within 10 at o1 get mine
within 5 at o1 put ours "$work/v2"
get o3 ours "$work/v2"
sleep 2
kill -CONT "$(pid_of o2)"
until_is m status members_live 3
registered o2
get o2 ours "$work/v2"
get o2 mine "$work/v3"
get o1 mine "$work/v3"
all_quiet m o1 o2 o3

# F2: a master that stands still for 5 s expires nobody
tombs=$(of m status tombs)
kill -STOP "$(pid_of m)"
sleep 5
kill -CONT "$(pid_of m)"
for n in 1 2 3; do registered o$n; done
[ "$(of m status tombs)" = "$tombs" ] || cluster_die "a mass expiry"
get o3 mine "$work/v3"

# F2: a master that restarts empty; what owners hold is told as busy
epoch=$(of m status epoch)
FLUXONKV="unix:$work/o1.sock" "$o/tests/e2e/story" hold 3 >"$work/held" &
holder=$!
i=0
until [ "$(of o1 'debug refs' holders)" = 3 ] ||
	[ "$(of o1 status holders)" = 3 ]; do
	i=$((i + 1))
	[ $i -lt 100 ] || cluster_die "nothing is held"
	sleep 0.05
done
end m KILL
within 10 at o1 put new "$work/v1"
start_master --log-level info
until_is m status members_live 3
for n in 1 2 3; do registered o$n; done
[ "$(of m status epoch)" -gt "$epoch" ] || cluster_die "the epoch did not rise"
grep -q 'owner o1 registered.* busy=3' "$work/m.log" ||
	cluster_die "what is held was not told"
misses o2 mine
at o1 put k "$work/v1"
get o2 k "$work/v1" memory-remote
kill "$holder"
wait "$holder" 2>/dev/null || true
all_quiet m o1 o2 o3

# O1: each name has a type, and is in the manual
pages=$(dirname "$0")/../../Documentation
for who in m o1 o3; do
	at $who metrics >"$work/page" || cluster_die "no metrics of $who"
	sed -n 's/^# TYPE \([^ ]*\) .*/\1/p' "$work/page" >"$work/types"
	sed '/^#/d; s/[{ ].*//' "$work/page" | sort -u >"$work/names"
	while read -r name; do
		grep -qx "$name" "$work/types" || name=${name%_*}
		grep -q "\`${name}[\`{]" "$pages/operations.md" ||
			cluster_die "$name is in no documentation"
	done <"$work/names"
done

for who in o1 o2 o3; do end $who TERM; done
until_is m status members_live 0
end m TERM
