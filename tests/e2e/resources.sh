# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/disk.sh.inc
# A10, M1, S9: too little memory in a cgroup, too little memlock, no huge pages:
# refused before anything is served, with what was wanted and what is allowed;
# with enough it runs; /dev/shm does not matter; two daemons of one user live
# side by side.
. "$(dirname "$0")/disk.sh.inc"
needs setpriv prlimit

# a memory cgroup of our own, of either version
group=
for base in "/sys/fs/cgroup/memory$(sed -n \
	's/^[0-9]*:\([^:]*,\)\{0,1\}memory\(,[^:]*\)\{0,1\}:\(.*\)/\3/p' \
	/proc/self/cgroup)" \
	"/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)"; do
	[ -z "$group" ] || break
	mkdir "$base/fluxonkv-e2e.$$" 2>/dev/null || continue
	for limit in memory.limit_in_bytes memory.max; do
		[ ! -e "$base/fluxonkv-e2e.$$/$limit" ] ||
			group=$base/fluxonkv-e2e.$$
	done
	[ -n "$group" ] || rmdir "$base/fluxonkv-e2e.$$"
done
[ -n "$group" ] || missing "no memory cgroup can be made"
limit=memory.limit_in_bytes
[ -e "$group/memory.max" ] && limit=memory.max
# one hierarchy has the memory controller: the other version is played by
# test_preflight only
case $limit in
memory.max) echo "not run: cgroup v1: the memory controller is in v2" ;;
*) echo "not run: cgroup v2: the memory controller is in v1" ;;
esac
pages_before=$(cat /proc/sys/vm/nr_hugepages)

give_back() {
	rc=$?
	set +e
	echo "$pages_before" >/proc/sys/vm/nr_hugepages
	if [ -n "$daemon_pid" ]; then
		kill -KILL "$daemon_pid"
		wait "$daemon_pid"
		daemon_pid=
	fi 2>/dev/null
	i=0
	until rmdir "$group" 2>/dev/null || [ $i -ge 50 ]; do
		i=$((i + 1))
		sleep 0.1
	done
	(exit $rc)
	disk_cleanup
}
trap give_back EXIT

# start_daemon starts $o/fluxonkvd: behind what $before says
real=$o
mkdir "$work/bin"
cp "$real/fluxonkvd" "$work/bin/daemon"
cat >"$work/bin/fluxonkvd" <<'EOF'
#!/bin/sh
eval "$BEFORE"
exec $WRAP "${0%/*}/daemon" "$@"
EOF
chmod 755 "$work" "$work/bin" "$work/bin/fluxonkvd"
o=$work/bin
export BEFORE='' WRAP=''

sanitizer() {
	grep -q '__[at]san_init' "$o/daemon"
}

# refused WORDS FLAGS...: exit 1 with this sentence, and no socket
refused() {
	words=$1
	shift
	rc=0
	timeout 30 "$o/fluxonkvd" --standalone --socket "$sock" \
		--metrics none "$@" 2>"$work/refused" || rc=$?
	if [ $rc != 1 ] || ! grep -q "$words" "$work/refused"; then
		cat "$work/refused"
		die "exit $rc, expected: $words"
	fi
	[ ! -S "$sock" ] || die "a socket is left after: $words"
}

serves() {
	start_daemon "$@"
	tell "$work/out" "$real/tests/e2e/story" load 0 24 1048576
	tell "$work/out" "$real/tests/e2e/story" look 0 24 1048576
	grep -q '^ok 24 ' "$work/out" || { cat "$work/out"; die "lost"; }
	assert_quiet
}

# cgroup: less than the segment is refused; enough serves under full use
mkdir "$work/ssd"
BEFORE="echo \$\$ >'$group/cgroup.procs'"
echo $((48 << 20)) >"$group/$limit"
refused "memory: [0-9]* bytes wanted, but the cgroup '.*' allows 50331648 and" \
	--memory 64MiB --ssd "$work/ssd:64MiB"
[ -z "$(ls -A "$work/ssd")" ] || die "files were made for nothing"
enough=128
sanitizer && enough=1024
echo $((enough << 20)) >"$group/$limit"
serves --memory 64MiB --ssd "$work/ssd:64MiB"
grep -q "^$daemon_pid\$" "$group/cgroup.procs" || die "not in the group"
tell "$work/out" "$real/tests/e2e/story" load 0 400 1048576
assert_quiet
stop_daemon
BEFORE=

# memlock: auto warns once and serves, required is refused
memlock_limits() {
	for who in root user; do
		case $who in
		root) WRAP="setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock" ;;
		user) WRAP="setpriv --reuid 65534 --regid 65534 --clear-groups"
			mkdir "$work/nobody"
			chown 65534 "$work/nobody" ;;
		esac
		WRAP="prlimit --memlock=65536:65536 $WRAP"
		[ $who = root ] || sock=$work/nobody/kv.sock
		FLUXONKV="unix:$sock"
		refused 'lock_memory.*67108864.*memlock limit is 65536' \
			--memory 64MiB --set lock_memory=required
		: >"$work/log"
		case $who in
		root) serves --memory 64MiB --ssd "$work/ssd:64MiB" ;;
		user) serves --memory 64MiB ;;
		esac
		[ "$(grep -c 'warning.*memlock' "$work/log")" = 1 ] ||
			die "$who: not one warning of memlock"
		[ "$("$ctl" --json segments | grep -c '"locked":false')" = 1 ] ||
			die "$who: it claims to be locked"
		stop_daemon
	done
	WRAP="prlimit --memlock=6291456:6291456 \
	setpriv --reuid 65534 --regid 65534 --clear-groups"
	start_daemon --memory 4MiB --set lock_memory=required
	[ "$("$ctl" --json segments | grep -c '"locked":true')" = 1 ] ||
		die "memlock is enough and it is not locked"
	stop_daemon
}

# a sanitizer makes mlock do nothing
sanitizer || memlock_limits
WRAP=
sock=$work/kv.sock
FLUXONKV="unix:$sock"

# huge pages: required and not there; there; there and too few
echo 0 >/proc/sys/vm/nr_hugepages
refused 'huge_pages: required, but 67108864 .* have room for' --memory 64MiB \
	--set huge_pages=required
echo 34 >/proc/sys/vm/nr_hugepages
if [ "$(cat /proc/sys/vm/nr_hugepages)" = 34 ]; then
	serves --memory 64MiB --set huge_pages=required
	rc=0
	"$o/daemon" --standalone --socket "$work/2.sock" --metrics none \
		--memory 64MiB --set huge_pages=required 2>"$work/refused" ||
		rc=$?
	[ $rc = 1 ] || die "a second one got huge pages: exit $rc"
	grep -q 'huge_pages: required' "$work/refused" || die "it says no why"
	stop_daemon
fi
echo "$pages_before" >/proc/sys/vm/nr_hugepages

# a full and tiny /dev/shm is nobody's business
mount -t tmpfs -o size=64k none /dev/shm
mounted="/dev/shm $mounted"
dd if=/dev/zero of=/dev/shm/full bs=4k 2>/dev/null || true
serves --memory 64MiB

# a second daemon of the same user
first=$daemon_pid
sock=$work/2.sock
FLUXONKV="unix:$sock"
serves --memory 32MiB --ssd "$work/ssd:64MiB"
stop_daemon
sock=$work/kv.sock
FLUXONKV="unix:$sock"
daemon_pid=$first
tell "$work/out" "$real/tests/e2e/story" look 0 24 1048576
grep -q '^ok 24 ' "$work/out" || { cat "$work/out"; die "first: disturbed"; }
assert_quiet
stop_daemon
