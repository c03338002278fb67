# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# What is others' stays theirs, few descriptors refuse clients and no more, and
# a start can be stopped
. "$(dirname "$0")/lib.sh.inc"

# refused WORDS FLAGS...: a start that ends with this sentence
refused() {
	words=$1
	shift
	rc=0
	timeout 60 "$o/fluxonkvd" --standalone --memory 64MiB --metrics none \
		"$@" 2>"$work/refused" || rc=$?
	[ $rc = 1 ] || die "exit $rc with $*"
	grep -q "$words" "$work/refused" || {
		cat "$work/refused" >&2
		die "expected: $words"
	}
}

# lock files: not through a link, not over what is no lock file
echo precious >"$work/victim"
ln -s "$work/victim" "$sock.lock"
refused 'symbolic link' --socket "$sock"
rm "$sock.lock"
cp "$work/victim" "$sock.lock"
refused 'is not the lock file' --socket "$sock"
cmp "$work/victim" "$sock.lock" || die "a foreign file was written to"
rm "$sock.lock"
mkdir "$sock.lock"
refused "$sock.lock" --socket "$sock"
rmdir "$sock.lock"

# a socket that somebody serves, with its lock file gone
start_daemon --memory 64MiB
mv "$sock.lock" "$work/kept.lock"
refused 'another process listens on' --socket "$sock"
mv "$work/kept.lock" "$sock.lock"
echo x | "$ctl" put k || die "the first daemon lost its socket"
stop_daemon

# a metrics port that is taken: nothing was allocated before
start_daemon --memory 64MiB --metrics 127.0.0.1:0
port=$(sed -n 's/.* ready: .*metrics=127.0.0.1:\([0-9]*\).*/\1/p' "$work/log" |
	tail -n 1)
[ -n "$port" ] || die "no port in the log"
mkdir "$work/ssd"
refused 'cannot listen on' --socket "$work/other.sock" \
	--ssd "$work/ssd:256MiB" --set "metrics.listen=127.0.0.1:$port"
[ -z "$(ls -A "$work/ssd")" ] || die "files were made for nothing"
stop_daemon

# few descriptors: as many clients as they are enough for, and an idle loop
before=$(prlimit --pid $$ --nofile --output SOFT,HARD --noheadings |
	tr -s ' ' ':')
prlimit --pid $$ --nofile=64:64
start_daemon --memory 64MiB --metrics 127.0.0.1:0
port=$(sed -n 's/.* ready: .*metrics=127.0.0.1:\([0-9]*\).*/\1/p' "$work/log" |
	tail -n 1)
prlimit --pid $$ --nofile="${before%:}" 2>/dev/null || true
grep -q 'descriptors .* are enough for 10 clients' "$work/log" ||
	die "no warning of few descriptors"
"$o/tests/e2e/stress" crowd 40 || die "clients beyond the limit were left hanging"
curl -sf "http://127.0.0.1:$port/healthz" >/dev/null || die "healthz"
i=0
until [ "$(field status clients)" = 1 ]; do
	i=$((i + 1))
	[ $i -lt 100 ] || die "clients that left are still counted"
	sleep 0.05
done
[ "$(curl -sf "http://127.0.0.1:$port/metrics" |
	sed -n 's/^fluxonkv_connections_refused_total //p')" -ge 30 ] ||
	die "refused clients are not counted"
assert_quiet
stop_daemon

# told to stop while it touches its memory
"$o/fluxonkvd" --standalone --socket "$sock" --metrics none --memory 1GiB \
	2>"$work/early" &
daemon_pid=$!
i=0
until grep -q 'touched' "$work/early"; do
	i=$((i + 1))
	[ $i -lt 100 ] || die "no progress line"
	sleep 0.05
done
kill -TERM "$daemon_pid"
wait "$daemon_pid" || {
	rc=$?
	cat "$work/early" >&2
	die "a start that was stopped ended with $rc"
}
daemon_pid=
grep -q 'before it served\|stopped$' "$work/early" || die "no word of stopping"
