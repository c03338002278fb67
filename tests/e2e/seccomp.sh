# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# A7, S12: without io_uring the daemon serves by threads and says the likely
# cause; an engine that was asked for and is not there is an error at start.
. "$(dirname "$0")/lib.sh.inc"

launch=$o/tests/e2e/launch
[ -x "$launch" ] || { echo "no launch program (libseccomp)"; exit 77; }
"$launch" EPERM /bin/true || { echo "seccomp is not available"; exit 77; }

# start_daemon starts $o/fluxonkvd: give it one behind the launcher
real=$o
for err in EPERM ENOSYS; do
	mkdir -p "$work/o" "$work/$err"
	cat >"$work/o/fluxonkvd" <<-END
	#!/bin/sh
	exec "$launch" $err "$real/fluxonkvd" "\$@"
	END
	chmod +x "$work/o/fluxonkvd"
	o=$work/o
	: >"$work/log"
	start_daemon --memory 32MiB --ssd "$work/$err:256MiB"
	[ "$(field status engine)" = threads ] ||
		die "engine: $(field status engine)"
	grep -qi 'io_uring' "$work/log" || die "$err: nothing about io_uring"
	case $err in
	EPERM) grep -qi 'seccomp\|sysctl\|io_uring_disabled' "$work/log" ||
		die "$err: no likely cause" ;;
	ENOSYS) grep -qi 'kernel' "$work/log" || die "$err: no likely cause" ;;
	esac
	"$ctl" metrics | grep -q '^fluxonkv_io_engine{.*threads.*} 1' ||
		die "no io_engine metric"
	"$real/tests/e2e/story" load 0 96 1048576 || die load
	"$real/tests/e2e/story" look 0 96 1048576 >"$work/out" ||
		{ cat "$work/out"; die look; }
	grep -q '^ok 96 ' "$work/out" || { cat "$work/out"; die "lost"; }
	assert_quiet
	stop_daemon

	rc=0
	"$o/fluxonkvd" --standalone --socket "$sock" --metrics none \
		--memory 32MiB --ssd "$work/$err:256MiB" --io-engine uring \
		2>"$work/forced" || rc=$?
	[ $rc = 1 ] || die "$err: forced uring ended with $rc"
	grep -qi 'io_uring' "$work/forced" ||
		{ cat "$work/forced"; die "$err: forced uring does not say why"; }
	[ ! -e "$sock" ] || die "$err: a socket is left"
done
