# SPDX-License-Identifier: Apache-2.0
"""runner.py - what guest and uml-run have in common

A guest is a process that writes its console to a file, and a control folder
that both sides see: "command" and guest-run go in, "output", "dmesg" and
"status" come out (see guest-run). Here are its start, the watch over it, and
the judgement of what it left.
"""
import argparse
import ctypes
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import signatures

HERE = os.path.dirname(os.path.realpath(__file__))
COVERED = ("/tmp", "/run", "/var/tmp", "/dev/shm")
INIT_SECONDS = 60
POWER_OFF_SECONDS = 30
BUG, HUNG, NOT_STARTED = 125, 124, 126
PR_SET_PDEATHSIG = 1


def fail(message, status=NOT_STARTED):
    print(f"{os.path.basename(sys.argv[0])}: {message}", file=sys.stderr)
    sys.exit(status)


def parser(doc, mem, timeout):
    p = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawTextHelpFormatter,
        usage=doc.split("\n\n")[1])
    p.add_argument("--mem", type=int, default=mem, help=f"in MiB: {mem}")
    p.add_argument("--timeout", type=float, default=timeout, metavar="SEC",
                   help=f"limit for all: {timeout}")
    p.add_argument("--share", metavar="DIR",
                   help="of the host, writable, at the same path")
    p.add_argument("--keep", action="append", default=[], metavar="DIR",
                   help="of the host's /tmp and the like, read-only; the\n"
                        "build and the working directory are there anyway")
    p.add_argument("--append", default="", metavar="ARGS",
                   help="to the kernel's command line")
    p.add_argument("--dmesg", metavar="FILE",
                   help="where to save the kernel's log")
    p.add_argument("--times", action="store_true",
                   help="tell how long it took, on standard error")
    return p


def kept_folders(a):
    """Those folders of the host that the guest's tmpfs would hide."""
    wanted = {os.path.realpath(w)
              for w in [HERE, a.build, os.getcwd()] + a.keep}
    kept = []
    for w in sorted(wanted):
        covered = any(w.startswith(c + "/") for c in COVERED)
        if covered and not any(w.startswith(k + "/") for k in kept):
            kept.append(w)
    return kept


def check_paths(a):
    """The kernel's command line carries paths, and splits at blanks."""
    if a.share:
        a.share = os.path.realpath(a.share)
        if not os.path.isdir(a.share):
            fail(f"{a.share}: no such folder")
    for path in [a.build, a.share or ""] + kept_folders(a):
        if set(path) & set(" ,:\""):
            fail(f"{path}: blanks, commas, colons are not understood")


def kernel_arguments(a, base):
    words = [base]
    kept = kept_folders(a)
    if kept:
        words.append("vm.keep=" + ":".join(kept))
    if a.share:
        words.append("vm.share=" + a.share)
    return words + shlex.split(a.append)


def write_command(control, command):
    shutil.copy(os.path.join(HERE, "guest-run"), control)
    with open(os.path.join(control, "command"), "w") as f:
        f.write(f"cd {shlex.quote(os.getcwd())} || exit {NOT_STARTED}\n"
                f"exec {shlex.join(command)}\n")


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Guest:
    """One start of a guest: its process, and what it has said so far."""

    def __init__(self, control, arguments, stdout, environment=None):
        self.control = control
        self.started = time.monotonic()
        self.printed = 0
        self.shell_after = None
        with open(os.path.join(control, stdout), "wb") as log:
            self.process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, preexec_fn=die_with_parent,
                env={**os.environ, "TMPDIR": control, **(environment or {})})

    def read(self, name):
        try:
            with open(os.path.join(self.control, name), "rb") as f:
                return f.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def print_new(self):
        try:
            with open(os.path.join(self.control, "output"), "rb") as f:
                f.seek(self.printed)
                data = f.read()
        except FileNotFoundError:
            return
        self.printed += len(data)
        sys.stdout.buffer.write(data)
        sys.stdout.flush()

    def said(self, mark):
        return mark in self.read("console")

    def wait(self, seconds, until):
        """True if until() came true or the guest ended before the time."""
        end = time.monotonic() + seconds
        while True:
            if until():
                return True
            if time.monotonic() >= end:
                return False
            try:
                self.process.wait(0.1)
                return True
            except subprocess.TimeoutExpired:
                self.print_new()

    def kill(self):
        # the group: User Mode Linux has a process for each of its own
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def boot(start, end):
    """A guest that reached its init; start(attempt) gives one to look at."""
    for attempt in (1, 2):
        guest = start(attempt)
        seconds = min(INIT_SECONDS, end - time.monotonic())
        guest.wait(seconds, lambda: guest.said("vm: init"))
        if guest.said("vm: init"):
            return guest
        ended = guest.process.poll() is not None
        guest.kill()
        said = guest.read("process") + guest.read("console")[-4000:]
        if ended:
            fail("the guest ended at once\n" + said)
        print(f"no sign of life at boot, attempt {attempt}\n" + said,
              file=sys.stderr)
    return fail("the guest does not boot", HUNG)


def see_through(guest, end):
    """Follows a guest to its end; what went wrong, or None."""
    def left():
        return end - time.monotonic()

    if not guest.wait(left(), lambda: guest.said("vm: shell")):
        return "the guest came to no shell"
    guest.shell_after = time.monotonic() - guest.started
    if not guest.wait(left(), lambda: guest.read("status")):
        return "the time is over"
    if not guest.read("status"):
        return "the guest died"
    if not guest.wait(POWER_OFF_SECONDS, lambda: False):
        return "the guest does not power off"
    return None


def judge(guest, dmesg, wrong, uml):
    """Prints what is wrong, and returns the exit status."""
    log = guest.read("dmesg") if guest.read("status") else ""
    log = log or guest.read("console").replace("\r", "")
    if dmesg:
        with open(dmesg, "w") as f:
            f.write(log)
    found = signatures.find(log, uml)
    if wrong:
        print(f"{wrong}; the end of the log:\n" + log[-3000:]
              + guest.read("process"), file=sys.stderr)
    if found:
        print("the kernel's log tells of a bug:", *found, sep="\n",
              file=sys.stderr)
        return BUG
    return HUNG if wrong else int(guest.read("status"))


def run(a, folder, start, uml=False):
    """One guest from start to judgement; start(control, attempt) boots it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    end = time.monotonic() + a.timeout
    control = tempfile.mkdtemp(prefix="guest.", dir=folder)
    started = []

    def start_one(attempt):
        started.append(start(control, attempt))
        return started[-1]

    try:
        write_command(control, a.command)
        guest = boot(start_one, end)
        wrong = see_through(guest, end)
        took = time.monotonic() - guest.started
        guest.kill()
        guest.print_new()
        if a.times:
            print(f"shell after {guest.shell_after or 0:.1f} s, off after "
                  f"{took:.1f} s", file=sys.stderr)
        return judge(guest, a.dmesg, wrong, uml)
    finally:
        for guest in started:
            guest.kill()
        shutil.rmtree(control, ignore_errors=True)
