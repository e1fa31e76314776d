#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""thinswap estimate, against a process whose memory is known

A child maps pages of known kinds; a sample larger than its memory sees all of
them, so that shares are exact but for the interpreter's own pages, which are
counted in a first look, before the known pages are there. The ratio is
compared with what a store makes of the same pages.
Usage: test_estimate.py BUILD
"""

import json
import os
import pty
import random
import shutil
import subprocess
import sys
import time

from clitest import (PAGE, THINSWAP, check, finish, qemu_io, scratch, server,
                     wait_for)

N = 3000

CHILD = """
import mmap, os, random, sys
path, pages = sys.argv[1], int(sys.argv[2])
size = os.path.getsize(path)
area = mmap.mmap(-1, max(size, 4096), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
with open(path, "rb", buffering=0) as file:
    file.readinto(memoryview(area)[:size])
print("ready", flush=True)
sys.stdin.read()
"""


def estimate(*args, prefix=()):
    return subprocess.run([*prefix, THINSWAP, "estimate", *map(str, args)],
                          capture_output=True, text=True, timeout=120)


def text_pages(rng):
    words = [bytes(rng.choice(b"abcdefghijklmnop")
                   for _ in range(rng.randint(2, 9))) for _ in range(300)]
    return b"".join(b" ".join(rng.choice(words) for _ in range(1400))[:PAGE]
                    for _ in range(N))


class Child:
    def __init__(self, path):
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", CHILD, path, str(N)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"ready\n"
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(30)


def look(path):
    with Child(path) as child:
        done = estimate(child.pid, "--json", "--sample", 200000, "--rate",
                        10000000, "--levels", "1", "--budget", "1G")
        assert done.returncode == 0, done
        return json.loads(done.stdout)


def near(value, truth, slack):
    return abs(value - truth) <= slack


def stored_by_a_store(tmp, path):
    """stored_bytes of a real server, headers not included."""
    def store():
        out = subprocess.run([THINSWAP, "stats", "--json", "--file",
                              os.path.join(tmp, "stats")], check=True,
                             capture_output=True).stdout
        found = json.loads(out)["store"]
        return found["bytes_before"] == os.path.getsize(path) and found

    with server(tmp, "size=256M", "ram=128M", "dictionary=false",
                "write-behind=0"):
        done = qemu_io(os.path.join(tmp, "sock"),
                       f"write -q -s {path} 0 {os.path.getsize(path)}")
        check("written", done.returncode == 0, done)
        return wait_for(store, "all pages in the store")


def known_memory(tmp):
    rng = random.Random(3)
    path = os.path.join(tmp, "pages")
    noise = rng.randbytes(N * PAGE)
    text = text_pages(rng)
    open(path, "wb").close()
    bare = look(path)
    with open(path, "wb") as file:
        file.write(bytes(N * PAGE))            # N zero
        file.write(b"\x11" * (2 * N * PAGE))   # 2 N same-filled
        file.write(noise)                      # N that do not compress,
        file.write(noise[:N // 2 * PAGE])      # and N / 2 of them again
        file.write(text)                       # N that do
    full = look(path)
    # Its own pages: a few more or less from one run to the other.
    slack = 150
    for name, truth in (("resident_pages", N * 11 // 2),
                        ("zero_pages", N), ("fill_pages", 2 * N),
                        ("duplicate_pages", N // 2),
                        ("incompressible_pages", N * 3 // 2)):
        check(f"{name}: {truth}", near(full[name] - bare[name], truth, slack),
              full[name] - bare[name])
    check("all pages were looked at",
          full["sampled_pages"] == full["resident_pages"])
    with open(path, "wb") as file:
        file.write(text)
    only_text = look(path)
    trial = next(t for t in only_text["trials"] if not t["dictionary"])
    own = next(t for t in bare["trials"] if not t["dictionary"])
    stored = trial["stored_bytes"] - own["stored_bytes"] - 10 * N
    if shutil.which("nbdkit") and shutil.which("qemu-io"):
        store = stored_by_a_store(tmp, path)
        check("bytes as in a real store", near(
            stored, store["bytes_after"], store["bytes_after"] * 0.05),
            f'{stored} {store["bytes_after"]}')
    else:
        print("skipped in part: needs nbdkit and qemu-io to compare")
    with_dict = next(t for t in only_text["trials"] if t["dictionary"])
    check("a dictionary gains on text", with_dict["ratio"] > trial["ratio"],
          only_text["trials"])
    cost = (1 << 30) / (only_text["budget_holds_bytes"] / PAGE)
    check("what a budget holds follows from the cost of a page",
          PAGE / with_dict["ratio"] * 0.5 < cost < PAGE, cost)


def sampling(tmp):
    path = os.path.join(tmp, "pages")
    with open(path, "wb") as file:
        file.write(bytes(6 * N * PAGE) + b"\x22" * (6 * N * PAGE))
    with Child(path) as child:
        out = json.loads(estimate(child.pid, "--json", "--sample", 2000,
                                  "--levels", "1").stdout)
        check("a sample of the size asked for",
              out["sampled_pages"] == 2000 < out["resident_pages"])
        # Half of some 37,000 pages: 2000 draws are within 5 sigma of it.
        expected = 2000 * 6 * N / out["resident_pages"]
        check("and a fair one", near(out["zero_pages"], expected, 112) and
              near(out["fill_pages"], expected, 112), out)
        text = estimate(child.pid, "--levels", "1,3").stdout
        check("a table for people", all(part in text for part in (
            "zero", "same-filled", "duplicate", "incompressible",
            "with a 2 GiB budget this machine could swap about")), text)


def progress(tmp):
    """On a terminal a bar is shown, for reading at a rate and compressing."""
    path = os.path.join(tmp, "pages")
    with open(path, "wb") as file:
        file.write(random.Random(4).randbytes(2000 * PAGE))
    with Child(path) as child:
        ours, theirs = pty.openpty()
        begin = time.monotonic()
        done = subprocess.Popen(
            [THINSWAP, "estimate", str(child.pid), "--sample", "1500",
             "--rate", "1000", "--levels", "1"], stderr=theirs,
            stdout=subprocess.DEVNULL)
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 4096):
                shown += part
        except OSError:  # the other end is closed
            pass
        done.wait(60)
        os.close(ours)
        for what in (b"reading", b"compressing"):
            check(f"a bar while {what.decode()}",
                  what in shown and b"[#" in shown, shown[:200])
        # Sleeping may be longer than was asked for, never shorter.
        check("not read faster than the rate allows",
              time.monotonic() - begin > 1.2)
    quiet = estimate(os.getpid(), "--sample", 100, "--levels", "1")
    check("no bar without a terminal", quiet.returncode == 0 and
          "[" not in quiet.stderr, quiet)


def errors(tmp):
    path = os.path.join(tmp, "pages")
    open(path, "wb").close()
    done = estimate(2 ** 22 + 1)
    check("no such process", done.returncode == 1 and
          "no such process" in done.stderr, done)
    for args in (("--levels", "20"), ("--sample", "0"), ("--budget", "1GB")):
        check(f"{' '.join(args)} is refused",
              estimate(*args).returncode == 2)
    if os.geteuid() == 0 and shutil.which("setpriv"):
        with Child(path) as child:
            done = estimate(child.pid, prefix=(
                "setpriv", "--reuid=65534", "--regid=65534",
                "--clear-groups"))
            check("without root: says what is missing",
                  done.returncode in (126, 127) or
                  (done.returncode == 4 and "CAP_SYS_PTRACE" in done.stderr),
                  done)
    else:
        print("skipped in part: needs root to be another user")


def all_processes():
    if os.geteuid() != 0:
        print("skipped in part: all processes need root")
        return
    done = estimate("--sample", 1000, "--levels", "1", "--json")
    out = json.loads(done.stdout)
    check("all processes", done.returncode == 0 and out["processes"] > 0 and
          0 < out["sampled_pages"] <= 1000, out)


with scratch("estimate") as directory:
    known_memory(directory)
    sampling(directory)
    progress(directory)
    errors(directory)
all_processes()
finish()
