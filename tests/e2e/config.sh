# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# C1, S1, S3, A9, A10, S11: every mistake in a file, a flag or a place is said
# with where it is and what was expected, and nothing of others is touched.
. "$(dirname "$0")/lib.sh.inc"

f=$work/c.yaml
bad=0

wrong() {
	echo "FAILED: $1" >&2
	sed 's/^/    /' "$work/err" >&2
	bad=$((bad + 1))
}

# refused NAME LINE PATTERN... : the file on stdin is refused at LINE
refused() {
	name=$1 line=$2
	shift 2
	cat >"$f"
	rc=0
	"$o/fluxonkvd" --config "$f" --check-config >"$work/err" 2>&1 || rc=$?
	[ $rc != 0 ] || wrong "$name: exit 0"
	[ $rc -lt 126 ] || wrong "$name: exit $rc"
	grep -q "c.yaml:$line: " "$work/err" || wrong "$name: not line $line"
	for p in "$@"; do
		grep -q -e "$p" "$work/err" || wrong "$name: no '$p'"
	done
}

# flags_refused NAME PATTERN FLAGS...
flags_refused() {
	name=$1 p=$2
	shift 2
	rc=0
	timeout 20 "$o/fluxonkvd" "$@" >"$work/err" 2>&1 || rc=$?
	if [ $rc = 0 ] || [ $rc -ge 124 ]; then
		wrong "$name: exit $rc"
	fi
	grep -q -e "$p" "$work/err" || wrong "$name: no '$p'"
}

refused 'unknown key' 2 "memroy" <<'END'
role: standalone
memroy: 1GiB
END
refused 'unknown nested key' 3 'limits.nosuch\|nosuch' <<'END'
role: standalone
limits:
  nosuch: 1
END
refused 'wrong type' 2 memory expected <<'END'
role: standalone
memory: [1GiB]
END
refused 'mapping for a string' 2 cluster_name expected <<'END'
role: standalone
cluster_name: {a: b}
END
refused 'string for a mapping' 2 limits expected <<'END'
role: standalone
limits: none
END
refused 'bad boolean' 2 strict_reads 'true or false' <<'END'
role: standalone
strict_reads: perhaps
END
refused 'bad number' 2 io_depth expected <<'END'
role: standalone
io_depth: many
END
refused 'number out of range' 2 io_depth expected <<'END'
role: standalone
io_depth: 0
END
refused 'empty number' 2 io_depth expected <<'END'
role: standalone
io_depth:
END
refused 'bad name' 2 io_engine 'auto, uring, uring_iovec or threads' <<'END'
role: standalone
io_engine: quick
END
refused 'duplicate' 3 memory twice <<'END'
role: standalone
memory: 1GiB
memory: 2GiB
END
refused 'bad size' 2 memory expected 1GXB <<'END'
role: standalone
memory: 1GXB
END
refused 'negative size' 2 memory expected <<'END'
role: standalone
memory: -1
END
refused 'huge size' 2 memory expected <<'END'
role: standalone
memory: 99999999999999999999
END
refused 'small memory' 2 memory 'expected 4194304' <<'END'
role: standalone
memory: 1MiB
END
refused 'lists of different length' 3 large_limit_size 'expected as many' <<'END'
role: standalone
large_file_paths: [/a, /b]
large_limit_size: [8GiB]
END
refused 'limits without paths' 2 large_limit_size expected <<'END'
role: standalone
large_limit_size: [8GiB]
END
refused 'relative path' 2 large_file_paths absolute <<'END'
role: standalone
large_file_paths: [a]
large_limit_size: [8GiB]
END
refused 'small limit' 4 large_limit_size 'expected at least' <<'END'
role: standalone
large_file_paths: [/a]
large_limit_size:
  - 40KB
END
refused 'bad limit' 3 large_limit_size expected <<'END'
role: standalone
large_file_paths: [/a]
large_limit_size: [lots]
END
refused 'limit for a scalar' 3 large_limit_size expected <<'END'
role: standalone
large_file_paths: [/a]
large_limit_size: 8GiB
END
refused 'bad listen' 3 metrics.listen expected <<'END'
role: standalone
metrics:
  listen: everywhere
END
refused 'bad mode' 2 socket_mode octal <<'END'
role: standalone
socket_mode: 0999
END
refused 'bad group' 2 socket_group group <<'END'
role: standalone
socket_group: no-such-group-here
END
refused 'bad role' 1 role expected <<'END'
role: emperor
END
refused 'not YAML' '[0-9]*' YAML <<'END'
role: standalone
memory: [1GiB
END
refused 'tab in YAML' '[0-9]*' YAML <<'END'
role: standalone
limits:
	uid_pinned_bytes: 0
END
refused 'a list, not a mapping' 1 expected <<'END'
- role
END
printf 'role: standalone\nmemory: \001\377\n' | refused 'binary' '[0-9]*' YAML

cat >"$f" <<'END'
role: standalone
memory: 1.5GB
large_file_paths: [/mnt/a, /mnt/b]
large_limit_size: ["8GiB", 8589934592]
metrics: {listen: none}
limits: {uid_pinned_bytes: 0}
END
"$o/fluxonkvd" --config "$f" --check-config >"$work/err" 2>&1 ||
	wrong 'a good file'
printf 'role: standalone\nlarge_file_paths: [/a]\nlarge_limit_size: null\n' >"$f"
"$o/fluxonkvd" --config "$f" --check-config >"$work/err" 2>&1 ||
	wrong 'null limits: no SSD tier'

flags_refused 'missing file' 'nosuch.yaml' --config "$work/nosuch.yaml"
flags_refused 'a directory' "$work" --config "$work"
flags_refused 'unknown flag' 'frob' --standalone --frob
flags_refused 'flag without value' 'memory' --standalone --memory
flags_refused 'a word' 'word' --standalone word
flags_refused 'bad size' 'memory.*expected' --standalone --memory lots
flags_refused 'ssd without size' 'DIR:SIZE' --standalone --ssd "$work"
flags_refused 'ssd with bad size' 'DIR:SIZE' --standalone --ssd "$work:big"
flags_refused 'ssd too small' 'at least' --standalone --ssd "$work:4KiB"
flags_refused 'set of unknown' 'nosuch' --standalone --set nosuch=1
flags_refused 'set without =' 'KEY=VALUE' --standalone --set memory
flags_refused 'bad engine' 'uring' --standalone --io-engine best
flags_refused 'no role' 'standalone' --check-config

# places: each is refused, says why, and leaves no socket
at() {
	name=$1 p=$2
	shift 2
	flags_refused "$name" "$p" --standalone --socket "$sock" \
		--metrics none --memory 8MiB "$@"
	[ ! -S "$sock" ] || wrong "$name: a socket is left"
	rm -rf "$sock" "$work/none"
}
at 'a directory that cannot be made' '/proc/none' --ssd /proc/none:256MiB
: >"$work/file"
at 'a file for a directory' "$work/file" --ssd "$work/file:256MiB"
at 'not writable' '/proc' --ssd /proc:256MiB
at 'limit larger than the disk' "$work" --ssd "$work:4000TiB"
[ "$(du -sm "$work" | cut -f1)" -lt 100 ] || wrong 'too large: bytes are left'
at 'more memory than there is' 'memory' --set memory=4TiB
at 'address of nobody' 'metrics.listen' --metrics 203.0.113.1:1
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	mkdir -p "$work/own" "$work/denied"
	chmod 755 "$work"
	chown 65534 "$work/own"
	chmod 700 "$work/denied"
	rc=0
	timeout 20 setpriv --reuid 65534 --regid 65534 --clear-groups \
		"$o/fluxonkvd" --standalone --socket "$work/own/s" \
		--metrics none --memory 8MiB --ssd "$work/denied:256MiB" \
		>"$work/err" 2>&1 || rc=$?
	if [ $rc != 126 ] && [ $rc != 127 ]; then
		if [ $rc != 1 ] || ! grep -q 'denied' "$work/err"; then
			wrong "directory of another user: exit $rc"
		fi
	fi
fi

# a socket path that is a file is left alone
echo precious >"$work/kv.sock"
flags_refused 'a file for a socket' 'left alone' --standalone \
	--socket "$work/kv.sock" --metrics none --memory 8MiB
[ "$(cat "$work/kv.sock")" = precious ] || wrong 'the file was touched'
rm -f "$work/kv.sock"

# others: same socket, same directory, same port
port=$((20000 + $$ % 20000))
start_daemon --memory 32MiB --ssd "$work:256MiB" --metrics 127.0.0.1:$port
"$o/tests/e2e/story" load 0 64 1048576 || die load
flags_refused 'same socket' "$daemon_pid" --standalone --socket "$sock" \
	--metrics none --memory 8MiB
flags_refused 'same directory' 'lock' --standalone --socket "$work/2.sock" \
	--metrics none --memory 8MiB --ssd "$work:256MiB"
flags_refused 'same port' "$port" --standalone --socket "$work/3.sock" \
	--memory 8MiB --metrics 127.0.0.1:$port
[ ! -e "$work/2.sock" ] || wrong 'same directory: a socket is left'
[ ! -e "$work/3.sock" ] || wrong 'same port: a socket is left'
"$o/tests/e2e/story" look 0 64 1048576 >"$work/out" || die 'first: disturbed'
grep -q '^ok 64 ' "$work/out" || { cat "$work/out"; die 'first: disturbed'; }
assert_quiet
stop_daemon

# leftover shard files of another size are made anew, not trusted
start_daemon --memory 32MiB --ssd "$work:300MiB"
"$o/tests/e2e/story" look 0 64 1048576 >"$work/out" || die 'other size'
grep -q '^ok 0 ' "$work/out" || { cat "$work/out"; die 'old bytes'; }
"$o/tests/e2e/story" load 0 64 1048576 || die 'load, other size'
"$o/tests/e2e/story" look 0 64 1048576 >"$work/out" || die 'look, other size'
grep -q '^ok 64 ' "$work/out" || { cat "$work/out"; die 'lost, other size'; }
kb=$(du -sk "$work" | cut -f1)
[ "$kb" -le $((300 * 1024 + 1024)) ] || wrong "the disk use is $kb KiB"
assert_quiet
stop_daemon
[ $bad = 0 ] || die "$bad mistakes"
