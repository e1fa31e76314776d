#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""thinswap fsck against a plugin that serves, is stopped, and is dead

Usage: test_fsck.py BUILD
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(sys.argv[1])
PLUGIN = os.path.join(BUILD, "plugin", "nbdkit-thinswap-plugin.so")
THINSWAP = os.path.join(BUILD, "daemon", "thinswap")
MIB = 1 << 20
PAGES, STORED = 6000, 4800  # nbdcopy leaves zero pages out
failed = 0


def check(what, ok, detail=""):
    global failed
    failed += not ok
    print(f"{'ok' if ok else 'FAILED'}: {what}" +
          (f": {detail}" if not ok else ""), flush=True)


def wait_for(condition, what, seconds=60):
    """A deadline against hanging, not a claim about speed."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.02)


def thinswap(*args, prefix=()):
    return subprocess.run([*prefix, THINSWAP, *args], capture_output=True,
                          text=True, timeout=100)


def segments():
    with open("/proc/sysvipc/shm") as f:
        return {int(line.split()[1]) for line in list(f)[1:]}


class Server:
    def __init__(self, tmp, keep):
        self.sock, self.stats, self.keep, self.spill, log = (
            os.path.join(tmp, name)
            for name in ("sock", "stats", "keep", "spill", "log"))
        self.argv = ["nbdkit", "--foreground", "--unix", self.sock, PLUGIN,
                     "size=64M", "ram=8M", "spill=" + self.spill,
                     "spill-size=32M", "dictionary=false",
                     "stats=" + self.stats]
        if keep:
            self.argv.append("keep=" + self.keep)
        self.log = log
        self.start()

    def start(self):
        if os.path.exists(self.sock):
            os.unlink(self.sock)
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(self.argv, stderr=log)
        wait_for(lambda: os.path.exists(self.sock) or
                 self.process.poll() is not None, "the server")
        with open(self.log) as log:
            check("the server starts", self.process.poll() is None,
                  log.read())

    def kill(self):
        self.process.kill()
        self.process.wait()

    def fill(self, source):
        subprocess.run(["nbdcopy", source, "nbd+unix:///?socket=" + self.sock],
                       check=True, timeout=100)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)


def make_pages(path):
    """Text, zeroes, patterns, and what does not compress."""
    rng = random.Random(1)
    with open(path, "wb") as f:
        for i in range(PAGES):
            kind = i % 5
            if kind == 0:
                page = rng.randbytes(4096)
            elif kind == 1:
                page = bytes(4096)
            elif kind == 2:
                page = rng.randbytes(4) * 1024
            else:
                page = b"".join(b"%08d" % rng.randrange(10 ** 6)
                                for _ in range(512))
            f.write(page)


def numbers(*args):
    done = thinswap("fsck", "--json", *args)
    return done.returncode, json.loads(done.stdout)


def look(what, *args):
    code, found = numbers(*args)
    check(f"{what}: all is sound", code == 0 and found["ok"] and
          found["errors"] == 0 and not any(found["faults"].values()) and
          found["slots"]["spill"] > 100 and found["slots"]["ram"] > 100 and
          found["not_looked_at"] == 0, found)
    return found


def test_kept(tmp):
    source = os.path.join(tmp, "pages")
    make_pages(source)
    server = Server(tmp, True)
    server.fill(source)
    there = look("served", "--keep", server.keep)
    check("its pages are counted", sum(there["slots"].values()) == STORED,
          there)
    check("it is served", there["served"] is True)
    text = thinswap("fsck", "--keep", server.keep)
    check("as text", text.returncode == 0 and "\nerrors        0\n" in
          text.stdout and server.spill in text.stdout, text)
    look("found by the statistics", "--file", server.stats)
    look("found by its number", "--segment", str(there["segment"]))
    server.process.send_signal(signal.SIGSTOP)
    look("a stopped server", "--file", server.stats)
    server.kill()
    gone = thinswap("fsck", "--file", server.stats)
    check("a dead server has no process", gone.returncode == 3, gone)
    dead = look("a dead server's memory", "--keep", server.keep)
    check("nobody serves it", dead["served"] is False)
    check("looking changes nothing", dead["slots"] == look(
        "once more", "--keep", server.keep)["slots"])
    test_damage(server)
    test_moved(server, tmp)
    # A successor is not kept from taking over by somebody who looks.
    lookers = [subprocess.Popen(["bash", "-c", 'for _ in {1..5}; do "$@"; '
                                 'done', "bash", THINSWAP, "fsck", "--keep",
                                 server.keep], stdout=subprocess.DEVNULL)
               for _ in range(2)]
    server.start()
    check("those who looked meanwhile found nothing",
          [p.wait() for p in lookers] == [0, 0])
    look("a successor's", "--keep", server.keep)
    server.stop()
    check("a clean stop leaves no memory", not os.path.exists(server.keep) and
          there["segment"] not in segments(), there["segment"])
    none = thinswap("fsck", "--keep", server.keep)
    check("nothing to look at", none.returncode == 3 and
          server.keep in none.stderr, none)


def test_damage(server):
    """Bytes of different segments of the spill file. How many of them are in
    records that live is chance; tests/fault/fsck.c counts exactly."""
    offsets = [MIB * (1 + i // 4) + 100 + 70000 * (i % 4)
               for i in range(8)]
    with open(server.spill, "r+b") as f:
        for offset in offsets:
            f.seek(offset)
            byte = f.read(1)[0]
            f.seek(offset)
            f.write(bytes([byte ^ 1]))
        f.flush()
        os.fsync(f.fileno())
        code, found = numbers("--keep", server.keep)
        n = found["errors"]
        check("flipped bytes are bad records",
              code == 6 and not found["ok"] and 1 <= n <= len(offsets) and
              found["faults"]["records"] == n and
              len(found["examples"]) == n, found)
        text = thinswap("fsck", "--keep", server.keep)
        check("as text", text.returncode == 6 and
              f"{n}           a spilled page fails its check" in text.stdout and
              f"at {found['examples'][0]['offset_bytes']}: " in text.stdout,
              text)
        for offset in offsets:
            f.seek(offset)
            byte = f.read(1)[0]
            f.seek(offset)
            f.write(bytes([byte ^ 1]))
        f.flush()
        os.fsync(f.fileno())
    look("mended", "--keep", server.keep)


def test_moved(server, tmp):
    moved = os.path.join(tmp, "moved")
    os.rename(server.spill, moved)
    code, found = numbers("--keep", server.keep)
    check("a spill file that is not there is not looked at", code == 1 and
          not found["ok"] and found["errors"] == 0 and
          found["not_looked_at"] == found["slots"]["spill"], found)
    look("found where it is", "--keep", server.keep, "--spill", moved)
    os.rename(moved, server.spill)


def test_not_kept(tmp):
    source = os.path.join(tmp, "pages")
    make_pages(source)
    server = Server(tmp, False)
    server.fill(source)
    found = look("memory that is not kept", "--file", server.stats)
    check("its pages are counted", sum(found["slots"].values()) == STORED,
          found)
    if os.geteuid() == 0:
        os.chmod(tmp, 0o755)
        done = thinswap("fsck", "--file", server.stats, prefix=(
            "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"))
        check("others may not", done.returncode == 4 and
              "sudo" in done.stderr, done)
    # The daemon's way: its runtime directory, by the statistics.
    look("by the runtime directory", "--file", os.path.join(tmp, "stats"))
    done = subprocess.run([THINSWAP, "--runtime-dir", tmp, "fsck", "--json"],
                          capture_output=True, text=True, timeout=100)
    check("by --runtime-dir", done.returncode == 0 and
          json.loads(done.stdout)["ok"], done)
    server.kill()
    done = thinswap("fsck", "--file", server.stats)
    check("dead and not kept", done.returncode == 3 and
          "went with it" in done.stderr, done)


for need in ("nbdkit", "nbdcopy"):
    if not shutil.which(need):
        print(f"SKIP: {need} is not installed")
        sys.exit(77)
for test in (test_kept, test_not_kept):
    with tempfile.TemporaryDirectory() as scratch:
        test(scratch)
sys.exit(1 if failed else 0)
