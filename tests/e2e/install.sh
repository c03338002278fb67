# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh source=tests/e2e/lib.sh.inc
# C3: what make install puts somewhere works from there, and make uninstall
# takes all of it away; units, rules, completions and pkg-config are sound
. "$(dirname "$0")/lib.sh.inc"

top=$(cd "$(dirname "$0")/../.." && pwd)
d=$work/d
san=
case $o in
*/build-address-undefined) san=address,undefined ;;
*/build-thread) san=thread ;;
esac
unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR PREFIX KDIR

in_tree() {
	make -C "$top" --no-print-directory O="$o" SAN=$san PREFIX=/usr "$@"
}

# need FILE: it is there, and not empty
need() {
	[ -s "$d/$1" ] || die "make install did not install $1"
}

in_tree install DESTDIR="$d" >"$work/log" 2>&1 || die "make install"
for f in sbin/fluxonkvd sbin/fluxonkvctl bin/fluxonkv-bench include/fluxonkv.h \
	include/linux/fluxonkv.h lib/libfluxonkv.so lib/libfluxonkv.so.0 \
	lib/libfluxonkv.a lib/pkgconfig/fluxonkv.pc \
	lib/systemd/system/fluxonkvd.service \
	lib/systemd/system/fluxonkvd@.service lib/sysusers.d/fluxonkv.conf \
	lib/udev/rules.d/60-fluxonkv.rules \
	share/bash-completion/completions/fluxonkvctl \
	share/bash-completion/completions/fluxonkvd \
	share/bash-completion/completions/fluxonkv-bench \
	share/zsh/site-functions/_fluxonkv share/man/man8/fluxonkvd.8 \
	share/man/man3/fluxonkv_get.3 share/man/man3/fluxonkv_get_many.3; do
	need usr/$f
done
! grep -rn '@[A-Z]*@' "$d/usr/lib/systemd" "$d/usr/lib/pkgconfig" ||
	die "something was not filled in"

# one version everywhere
version=$("$d/usr/sbin/fluxonkvd" --version | sed 's/.* //')
[ "$(sed -n 's/^Version: //p' "$d/usr/lib/pkgconfig/fluxonkv.pc")" = \
	"$version" ] || die "pkg-config has another version than $version"
[ "$("$d/usr/bin/fluxonkv-bench" --version)" = "fluxonkv-bench $version" ] ||
	die "fluxonkv-bench has another version than $version"
[ "$(sed -n '1s/.*(\([^-)]*\).*/\1/p' "$top/debian/changelog")" = "$version" ] ||
	die "debian/changelog has another version than $version"

# a client, compiled against what was installed, and the daemon from there
cat >"$work/client.c" <<'END'
#include <fluxonkv.h>
#include <linux/fluxonkv.h>
#include <string.h>

int main(void)
{
	struct fluxonkv_holder h;
	struct fluxonkv *kv;
	int wrong;

	if (fluxonkv_open(NULL, &kv) || fluxonkv_get(kv, "k", 1, &h))
		return 1;
	wrong = h.len != 6 || memcmp(h.data, "hello\n", 6);
	fluxonkv_release(kv, &h);
	fluxonkv_close(kv);
	return wrong;
}
END
flags=$(PKG_CONFIG_SYSROOT_DIR="$d" PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 \
	PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 \
	PKG_CONFIG_LIBDIR="$d/usr/lib/pkgconfig" \
	pkg-config --cflags --libs fluxonkv)
# shellcheck disable=SC2086
gcc -Wall -Werror ${san:+-fsanitize=$san} "$work/client.c" -o "$work/client" \
	$flags || die "a client does not compile with: $flags"
# in the place of systemd: what the daemon tells it, a message a line
cat >"$work/manager.c" <<'END'
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	char text[256];
	ssize_t n;

	alarm(120);
	strncpy(a.sun_path, argv[argc - 1], sizeof(a.sun_path) - 1);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)))
		return 1;
	while ((n = recv(fd, text, sizeof(text), 0)) > 0) {
		printf("%.*s\n", (int)n, text);
		fflush(stdout);
	}
	return 1;
}
END
gcc "$work/manager.c" -o "$work/manager"
"$work/manager" "$work/notify" >"$work/told" &
manager=$!

# told TIMES MESSAGE
told() {
	i=0
	until [ "$(grep -c "^$2\$" "$work/told")" -ge "$1" ]; do
		i=$((i + 1))
		[ $i -lt 200 ] || die "systemd is not told $2"
		sleep 0.05
	done
}

built=$o
o=$d/usr/sbin ctl=$d/usr/sbin/fluxonkvctl
export NOTIFY_SOCKET="$work/notify" WATCHDOG_USEC=200000
start_daemon --memory 64MiB
told 1 READY=1
told 3 WATCHDOG=1
echo hello | "$ctl" put k || die put
LD_LIBRARY_PATH=$d/usr/lib "$work/client" || die "the client failed"
assert_quiet
stop_daemon
told 1 STOPPING=1
unset NOTIFY_SOCKET WATCHDOG_USEC
kill "$manager"
o=$built

# units: their program is where the copy says
if command -v systemd-analyze >/dev/null; then
	mkdir "$work/units"
	for unit in fluxonkvd fluxonkvd@; do
		sed "s|=/usr/sbin/|=$d/usr/sbin/|" \
			"$d/usr/lib/systemd/system/$unit.service" \
			>"$work/units/$unit.service"
	done
	cp "$work/units/fluxonkvd@.service" "$work/units/fluxonkvd@a.service"
	for unit in fluxonkvd fluxonkvd@a; do
		systemd-analyze verify --man=no "$work/units/$unit.service" \
			>"$work/said" 2>&1 || die "$unit: $(cat "$work/said")"
		! grep "$work/units" "$work/said" || die "$unit has a warning"
	done
fi
grep -q '^Type=notify$' "$d/usr/lib/systemd/system/fluxonkvd.service" ||
	die "the unit does not wait for readiness"
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers --dry-run "$d/usr/lib/sysusers.d/fluxonkv.conf" \
		>"$work/said" 2>&1 || die "sysusers: $(cat "$work/said")"
fi
if udevadm verify --help >/dev/null 2>&1; then
	udevadm verify --no-summary --resolve-names=never \
		"$d/usr/lib/udev/rules.d/60-fluxonkv.rules" || die "udev rule"
fi

# completions know every command and flag that the programs tell of
complete="$d/usr/share/bash-completion/completions"
cat >"$work/words.bash" <<'END'
set -eu
. "$1"
PATH=$2/usr/sbin:$2/usr/bin:$PATH
shift 2
function=_fluxonkv_command
[ "$1" != fluxonkvd ] || function=_fluxonkvd
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
$function "$1"
echo " ${COMPREPLY[*]-} "
END
if command -v bash >/dev/null; then
	bash -n "$complete/fluxonkvctl" || die "bash completion"
	# offers WORD COMMAND-LINE...
	offers() {
		word=$1
		shift
		bash "$work/words.bash" "$complete/$1" "$d" "$@" \
			>"$work/said" || die "completion of '$*' fails"
		grep -q -e " $word " "$work/said" ||
			die "'$*' offers $(cat "$work/said"), not $word"
	}
	"$ctl" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' >"$work/commands"
	[ -s "$work/commands" ] || die "no commands in fluxonkvctl --help"
	while read -r c; do
		offers "$c" fluxonkvctl ''
	done <"$work/commands"
	offers --excl fluxonkvctl --json put --
	offers check fluxonkvctl debug ''
	offers --check-config fluxonkvd --standalone --
	offers threads fluxonkvd --io-engine ''
	offers pressure fluxonkv-bench ''
	offers bytes fluxonkv-bench pressure --output ''
fi
if command -v zsh >/dev/null; then
	zsh -n "$d/usr/share/zsh/site-functions/_fluxonkv" ||
		die "zsh completion"
fi

in_tree uninstall DESTDIR="$d" >"$work/log" 2>&1 || die "make uninstall"
left=$(find "$d" ! -type d)
[ -z "$left" ] || die "make uninstall left $left"
[ ! -e "$d/usr/share/doc/fluxonkv" ] || die "make uninstall left its folder"

# the module: a word of help instead of the compiler's
refused() {
	words=$1
	shift
	if in_tree "$@" >"$work/said" 2>&1; then
		die "make $* worked"
	fi
	grep -q "$words" "$work/said" || die "make $*: $(cat "$work/said")"
}
mkdir "$work/none"
refused 'holds no kernel headers' modules KDIR="$work/none"
[ -e "/lib/modules/$(uname -r)/build" ] ||
	refused "linux-headers-$(uname -r)" modules
[ -e "$top/kmod/Kbuild" ] || exit 0
in_tree install-module-source DESTDIR="$d" || die "the module's source"
conf=$d/usr/src/fluxonkv-$version/dkms.conf
grep -q "^PACKAGE_VERSION=\"$version\"$" "$conf" || die "dkms.conf's version"
grep -q '^AUTOINSTALL="yes"$' "$conf" || die "dkms.conf: AUTOINSTALL"
