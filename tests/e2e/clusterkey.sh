# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# A23, T3: who has the cluster's key is let in, and nobody else; a key that others
# can read is none; without one a daemon speaks to its own host only.
. "$(dirname "$0")/lib.sh.inc"
# shellcheck source=tests/e2e/cluster.sh.inc
. "$(dirname "$0")/cluster.sh.inc"

# refuses WORDS FLAGS...: it does not start, and says why
refuses() {
	words=$1
	shift
	if timeout 20 "$o/fluxonkvd" --socket "$work/x.sock" --metrics none \
		"$@" >"$work/said" 2>&1; then
		cluster_die "started with $*"
	fi
	grep -q "$words" "$work/said" ||
		cluster_die "with $* it says: $(cat "$work/said")"
}

umask 077
printf '%064d\n' 1 >"$work/key"
printf '%064d\n' 2 >"$work/other"
printf '%064d\n' 3 >"$work/open"
chmod 0644 "$work/open"
echo short >"$work/short"
state="--state-dir $work/state"

# shellcheck disable=SC2086
{
	refuses 'beyond this host' --role master --listen 0.0.0.0:$base $state
	refuses '0600' --role master --listen 127.0.0.1:$base $state \
		--cluster-key "$work/open"
	refuses 'hexadecimal' --role master --listen 127.0.0.1:$base $state \
		--cluster-key "$work/short"
	refuses 'No such file' --role master --listen 127.0.0.1:$base $state \
		--cluster-key "$work/none"
}
refuses 'it is beyond this host' --role owner --listen 127.0.0.1:$((base + 2)) \
	--master 192.0.2.1:1 --memory 8MiB
refuses 'is not found' --role owner --listen 127.0.0.1:$((base + 2)) \
	--master no.such.host.invalid:1 --memory 8MiB
# as it does for any role
refuses 'does not fit role master' --role master --memory 8MiB

start_master --cluster-key "$work/key"
start_owner 1 --cluster-key "$work/key" --memory 16MiB
start_owner 2 --cluster-key "$work/other" --memory 16MiB
start_owner 3 --memory 16MiB
run stranger --role owner --master 127.0.0.1:$base --cluster elsewhere \
	--listen 127.0.0.1:0 --cluster-key "$work/key" --memory 16MiB
registered o1
head -c 100000 /dev/urandom >"$work/v"
at o1 put k "$work/v"
get o1 k "$work/v"
i=0
until [ "$(at m metrics | sed -n 's/^fluxonkv_cluster_refused_total //p')" -gt 2 ]
do
	i=$((i + 1))
	[ $i -lt 100 ] || cluster_die "nobody is refused"
	sleep 0.05
done
for who in o2 o3 stranger; do
	[ "$(of $who status master_state)" = 'not connected' ] ||
		cluster_die "$who is in"
	# what cannot be asked of the master ends by its deadline
	within 1 at $who --timeout 500 get k
	if at $who --timeout 500 put k "$work/v" 2>/dev/null; then
		cluster_die "$who keeps a put to itself"
	fi
done
[ "$(of m status members)" = 1 ] || cluster_die "a stranger is a member"
# one that restarts with the right one is let in, the key being all there is
end o2 KILL
start_owner 2 --cluster-key "$work/key" --memory 16MiB
registered o2
get o2 k "$work/v" memory-remote
# a second daemon by the name of one that is there waits
run twin --role owner --master 127.0.0.1:$base --listen 127.0.0.1:0 \
	--cluster-key "$work/key" --memory 16MiB --instance o2
sleep 0.5
[ "$(of twin status master_state)" != registered ] || cluster_die "two o2"
get o2 k "$work/v"
end o2 TERM
registered twin
get twin k "$work/v"
