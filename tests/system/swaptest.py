# SPDX-License-Identifier: BSD-3-Clause
"""swaptest.py - a verifying program in a small memory cgroup, for the tests of
thinswapd with real swap. Only the cgroup is ever short of memory.
"""

import fcntl
import json
import os
import signal
import subprocess
import time

from daemontest import (BUILD, Skip, check, loops_below, start_time, swaps,
                        wait_for)

MIB = 1 << 20
HERE = os.path.dirname(os.path.abspath(__file__))
PAGER = os.path.join(BUILD, "tests", "system", "ts-pager")
LIMIT, DATA = 96 * MIB, 256 * MIB


class Turn:
    """Swap of one test at a time, by the rule of swaprig.sh: the kernel would
    spread pages over all areas, or fill the one with the highest priority.
    """

    BASE = "/run/thinswap-rig"
    SECONDS = 240

    def __enter__(self):
        os.makedirs(self.BASE, mode=0o700, exist_ok=True)
        end = time.monotonic() + self.SECONDS
        while not self.try_turn():
            if time.monotonic() > end:
                raise Skip("another test has its swap on")
            time.sleep(0.5)

    def try_turn(self):
        with open(self.BASE + "/.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                with open(self.BASE + "/.turn") as file:
                    pid, started = map(int, file.read().split())
                if pid != os.getpid() and start_time(pid) == started:
                    return False
            except (OSError, ValueError):
                pass
            with open(self.BASE + "/.turn", "w") as file:
                file.write(f"{os.getpid()} {start_time(os.getpid())}\n")
        return True

    def __exit__(self, *_):
        with open(self.BASE + "/.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.unlink(self.BASE + "/.turn")


class Cgroup:
    """A memory cgroup of version 1 or 2 with a limit."""

    def __init__(self, limit):
        with open("/proc/mounts") as file:
            mounts = [line.split() for line in file]
        v1 = [m[1] for m in mounts
              if m[2] == "cgroup" and "memory" in m[3].split(",")]
        v2 = [m[1] for m in mounts if m[2] == "cgroup2"]
        if not v1 and not v2:
            raise Skip("no memory cgroup controller")
        self.path = os.path.join((v1 or v2)[0], f"thinswapd-test-{os.getpid()}")
        if not v1:
            with open(os.path.join(v2[0], "cgroup.subtree_control"), "w") as f:
                f.write("+memory")
        os.mkdir(self.path)
        self.limit_file = os.path.join(
            self.path, "memory.limit_in_bytes" if v1 else "memory.max")
        self.set_limit(limit)

    def set_limit(self, limit):
        with open(self.limit_file, "w") as file:
            file.write(str(limit))

    def run(self, *argv):
        procs = os.path.join(self.path, "cgroup.procs")

        def enter():
            with open(procs, "w") as file:
                file.write(str(os.getpid()))

        return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True,
                                preexec_fn=enter)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with open(os.path.join(self.path, "cgroup.procs")) as file:
            for pid in file.read().split():
                os.kill(int(pid), signal.SIGKILL)
        wait_for(self.remove, "the cgroup to be empty")

    def remove(self):
        try:
            os.rmdir(self.path)
        except OSError:
            return False
        return True


def page_file():
    done = subprocess.run(
        ["bash", "-c", '. "$1" && ts_pages data', "-",
         os.path.join(HERE, "pages.sh")],
        capture_output=True, text=True, timeout=280)
    check(done.returncode == 0, "page file", done.stderr)
    return done.stdout.strip()


def pager(group, pages, *more):
    return group.run(PAGER, "--pages", pages, "--size", str(DATA), "--json",
                     *more)


def long_load(group, pages, *more):
    """A pager that touches until end() ends it, however slow the machine."""
    return pager(group, pages, "--seconds", "3600", *more)


def end(process):
    """Have it verify all that it holds; its report."""
    check(process.poll() is None, "the load was on all the time",
          process.returncode)
    process.send_signal(signal.SIGUSR1)
    return result(process)


def in_swap(it, process, share=4):
    """Wait until that part of its data is there, or it has ended."""
    wait_for(lambda: used(it) > DATA // share or process.poll() is not None,
             "pages in swap", 240)


def result(process):
    out, _ = process.communicate(timeout=280)
    check(process.returncode == 0, "the pager found nothing wrong", out)
    report = json.loads(out)
    check(report["wrong_pages"] == 0, "0 pages wrong", report)
    return report


def used(it):
    return sum(swaps()[dev][1] * 1024 for dev in loops_below(it.dir)
               if dev in swaps())
