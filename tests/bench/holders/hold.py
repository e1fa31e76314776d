# SPDX-License-Identifier: BSD-3-Clause
"""hold.py - a python3 program with real data in memory, for dump-pages

hold.py app|data TARGET_MIB VARIANT [AVAIL_FILE]

Loads until its own anonymous memory reaches the target or the data ends,
prints "ready" and sleeps until standard input closes. `app` holds parsed
Python sources (text, syntax trees, file metadata); `data` holds the package
records of AVAIL_FILE as dictionaries. VARIANT changes where loading starts
and how records are kept, so that several instances do not hold the same.
"""

import ast
import os
import sys
import warnings


def anon_mib():
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) / 1024
    return 0


def files(roots, suffix):
    for root in roots:
        for folder, dirs, names in os.walk(root):
            dirs.sort()
            for name in sorted(names):
                if name.endswith(suffix):
                    yield os.path.join(folder, name)


def rotate(items, variant):
    start = len(items) * (variant * 5 % 13) // 13
    return items[start:] + items[:start]


def hold_sources(target, variant):
    kept = []
    for path in rotate(list(files(["/usr/lib", "/usr/share"], ".py")),
                       variant):
        try:
            info = os.stat(path)
            if info.st_size > 1 << 18:
                continue
            with open(path, encoding="utf-8") as source:
                text = source.read()
            tree = ast.parse(text, path)
        except (OSError, ValueError, SyntaxError, RecursionError):
            continue
        kept.append((path, info, text.splitlines(), tree))
        if anon_mib() >= target:
            break
    return kept


def records(path, variant):
    """Yield one package record after the other as a list of (field, text)."""
    fields = []
    with open(path, encoding="utf-8", errors="replace") as avail:
        avail.seek(os.path.getsize(path) * (variant * 5 % 13) // 13)
        for line in avail:
            line = line.rstrip("\n")
            if not line:
                if fields:
                    yield fields
                fields = []
            elif line[0] in " \t" and fields:
                fields[-1] = (fields[-1][0], fields[-1][1] + "\n" + line)
            else:
                name, _, text = line.partition(":")
                fields.append((name, text.strip()))
    if fields:
        yield fields


def relations(text):
    return [[alternative.split(None, 1) for alternative in group.split("|")]
            for group in text.split(",")]


def hold_records(target, variant, path):
    kept = {}
    for number, fields in enumerate(records(path, variant)):
        record = dict(fields)
        if variant % 2 == 0:
            for name in ("Depends", "Recommends", "Suggests", "Tag"):
                if name in record:
                    record[name] = relations(record[name])
        else:
            record["Words"] = record.get("Description", "").split()
        kept[(record.get("Package", ""), number)] = record
        if number % 64 == 0 and anon_mib() >= target:
            break
    return kept


def main():
    warnings.simplefilter("ignore")
    kind, target, variant = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if kind == "app":
        kept = hold_sources(target, variant)
    else:
        kept = hold_records(target, variant, sys.argv[4])
    print("ready", len(kept), flush=True)
    sys.stdin.read()


main()
