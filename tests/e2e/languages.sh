# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# A24, K1, H1: Python, by the shared library alone, finds what C put and C finds
# what Python put, byte for byte; errors are those of the header; held bytes are
# seen where they are and stay.
. "$(dirname "$0")/lib.sh.inc"

missing() {
	echo "not run: $*"
	exit 77
}

python3 -c 'import ctypes' 2>/dev/null || missing "no python3 with ctypes"
! grep -q __asan_init "$o/libfluxonkv.so" ||
	missing "python3 cannot load a library with a sanitizer"

told() {
	"$@" >"$work/out" 2>&1 || { head -n 40 "$work/out"; die "$*"; }
}

start_daemon --memory 32MiB --ssd "$work:256MiB" \
	--set limits.client_pinned_bytes=0
told "$o/tests/e2e/service" identity-write
told python3 "$(dirname "$0")/languages.py" "$o/libfluxonkv.so" \
	memfd:fluxonkv-segment
told "$o/tests/e2e/service" identity 1
assert_quiet
stop_daemon
