#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""signatures.py - what a kernel's log must not hold

signatures.py FILE
    prints the lines of FILE that tell of a bug, exits 1 if there is one

guest and uml-run look at the log of each guest with it. A line before the mark
"vm: shell" is the kernel's own, said while booting, and is looked at in a
guest only: User Mode Linux has an RCU warning of its own there (--uml).
"""
import re
import sys

PATTERNS = (
    r"\bBUG: ", r"\bBUG [\w-]+ \(", r"kernel BUG at", r"\bWARNING: ",
    r"\bOops\b", r"Kernel panic", r"general protection", r"Call Trace",
    # lockdep
    r"possible (circular|recursive|irq lock)", r"inconsistent lock state",
    r"DEBUG_LOCKS_WARN_ON", r"suspicious RCU usage", r"held lock freed",
    r"lock held when returning", r"bad unlock balance",
    r"possible irq lock inversion",
    # memory
    r"unreferenced object", r"KFENCE:", r"KASAN:", r"Bad page state",
    r"refcount_t:", r"list_(add|del) corruption", r"ODEBUG:", r"UBSAN:",
    r"page allocation failure", r"Objects remaining in",
    # scheduling
    r"scheduling while atomic", r"sleeping function called",
    r"blocked for more than \d+ seconds", r"soft lockup", r"hard LOCKUP",
    r"detected( expedited)? stall",
    # KUnit
    r"^(\[[ \d.]+\] )?\s*not ok \d",
)
SIGNATURES = re.compile("|".join(PATTERNS))
MARK = "vm: shell"
# kmemleak on the sections of a module in User Mode Linux, no fault of ours
UML_OWN = re.compile(r"kmemleak: Trying to color unknown object")
UML_OWN_END = re.compile(r"kmemleak: (  )?(Call Trace|.*pointer)")
LIMIT = 60


def after_mark(lines):
    for i, line in enumerate(lines):
        if MARK in line:
            return lines[i:]
    return lines


def without_uml_own(lines):
    """Drops a report of UML_OWN with the trace behind it."""
    kept, dropping = [], False
    for line in lines:
        text = re.sub(r"^\[[ \d.]+\] ", "", line)
        if UML_OWN.search(line):
            dropping = True
        elif dropping and not re.match(r"CPU: |Stack:|Call Trace:|\s|kmemleak:",
                                       text):
            dropping = False
        if not dropping:
            kept.append(line)
    return kept


def find(text, uml=False):
    """The lines of the log that tell of a bug, each with a few behind it."""
    lines = text.splitlines()
    if uml:
        lines = without_uml_own(after_mark(lines))
    found, until = [], -1
    for i, line in enumerate(lines):
        if SIGNATURES.search(line):
            until = i + 12
        if i <= until:
            found.append(line)
    return found[:LIMIT]


def main():
    arguments = [a for a in sys.argv[1:] if a != "--uml"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    with open(arguments[0], errors="replace") as f:
        found = find(f.read(), uml="--uml" in sys.argv)
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
