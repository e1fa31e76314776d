#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What counting and timing cost a page

Usage: statscost.py [--test] WITH WITHOUT

Runs the two builds of statscost.c, with statistics and without, and prints for
each kind of request the instructions a page (callgrind; they repeat exactly)
and the time a page (the least of interleaved rounds). Over a socket a page of
4 KiB costs some 10,000 ns more in either case.

With --test it counts instructions only, and fails where statistics are more
than a hundredth of a compressed page or read, or 300 instructions of a page of
zeroes.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile

KINDS = [("zero", 1), ("zero", 16), ("write", 1), ("write", 16), ("read", 1),
         ("read", 16)]
ROUNDS = 5


def instructions(program, kind, n, pages):
    with tempfile.NamedTemporaryFile() as out:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out.name}",
             "--toggle-collect=requests", program, kind, str(pages), str(n)],
            capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", done.stderr)[1]) / pages


def time_of(program, kind, n):
    done = subprocess.run([program, kind, "4000", str(n)],
                          capture_output=True, text=True, check=True)
    return float(done.stdout)


def main():
    test = "--test" in sys.argv
    programs = [a for a in sys.argv[1:] if a != "--test"]
    if not shutil.which("valgrind"):
        print("SKIP: needs valgrind")
        return 77
    failed = False
    table = []
    for kind, n in KINDS:
        row = {"kind": kind, "request_pages": n}
        row["instructions"], row["without"] = (
            instructions(p, kind, n, 640 if test else 3200) for p in programs)
        more = row["instructions"] - row["without"]
        good = (0 < more <= 300 if kind == "zero" else
                0 < more <= row["without"] / 100)
        failed = failed or not good
        if not test:
            times = [[time_of(p, kind, n) for p in programs]
                     for _ in range(ROUNDS)]
            row["ns"], row["ns_without"] = map(min, zip(*times))
        table.append(row)
        print(f"{'ok' if good else 'FAILED'}: {kind}, {n} pages a request: "
              f"{row['instructions']:.0f} instructions a page, "
              f"{row['without']:.0f} without statistics" +
              ("" if test else f"; {row['ns']:.0f} and "
               f"{row['ns_without']:.0f} ns"))
    if not test:
        print(json.dumps(table))
    return 1 if test and failed else 0


sys.exit(main())
