#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""An ordinary program whose memory is worth compressing: parsed package
lists, kept as dictionaries.

    packages_app.py FILE TARGET_MIB

Parses FILE (the output of `apt-cache dumpavail`, or dpkg's status file) into
dictionaries until it uses TARGET_MIB, reading the file again where one pass
is not enough, and prints "loaded PACKAGES DIGEST". At each SIGUSR1 it walks
all of it again and prints "checked PACKAGES DIGEST": the digest covers every
name and value, so it changes with any byte that swap would get wrong. Ends
at SIGTERM.
"""
import hashlib
import signal
import sys


def used_mib():
    """Memory of this process, in RAM and in swap."""
    with open("/proc/self/status", encoding="ascii") as status:
        fields = dict(line.split(":", 1) for line in status)
    return sum(int(fields[name].split()[0])
               for name in ("RssAnon", "VmSwap")) / 1024


def parse(path):
    """Each package as a dictionary, lists where a field is one."""
    package, field = {}, None
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            line = line.rstrip("\n")
            if not line:
                if package:
                    yield package
                package, field = {}, None
            elif line[0] in " \t" and field:
                package[field] += "\n" + line[1:]
            else:
                field, _, value = line.partition(":")
                package[field] = value.strip()
    if package:
        yield package


def split_lists(package):
    for field in ("Depends", "Recommends", "Suggests", "Tag"):
        if field in package:
            package[field] = [item.strip()
                              for item in package[field].split(",")]
    return package


def load(path, target_mib):
    packages = []
    copy = 0
    while True:
        before = len(packages)
        for package in parse(path):
            packages.append(split_lists(package))
            package["Copy"] = f"{copy}/{len(packages)}"
            if len(packages) % 256 == 0 and used_mib() >= target_mib:
                return packages
        if len(packages) == before:
            sys.exit(f"packages_app: no package in {path}")
        copy += 1


def digest(packages):
    state = hashlib.sha256()
    for package in packages:
        for field, value in package.items():
            state.update(field.encode())
            state.update(repr(value).encode())
    return state.hexdigest()[:16]


def main():
    wanted = {signal.SIGUSR1, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
    packages = load(sys.argv[1], int(sys.argv[2]))
    print("loaded", len(packages), digest(packages), flush=True)
    while signal.sigwait(wanted) != signal.SIGTERM:
        print("checked", len(packages), digest(packages), flush=True)


if __name__ == "__main__":
    main()
