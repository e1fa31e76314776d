#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""thinswapd with real swap: a verifying program in a small memory cgroup

Start, swap, status, reload, drain, stop on the FUSE route. Only the cgroup is
ever short of memory. Cases 1 and 2 are looked at on the serving process while
it works.
"""

import fcntl
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import time

import daemontest
from daemontest import Instance, Skip, check, need_swap, swaps, wait_for
from swaptest import (DATA, LIMIT, MIB, Cgroup, Turn, end, in_swap, long_load,
                      page_file, pager, result, used)

KEYS = {"device.attach": '"fuse"', "device.size": '"1G"',
        "device.priority": "32010", "ram.budget": '"256M"',
        "device.connections": "2", "tuning.threads": "16"}
WINDOWS = 3


def stats(it):
    return json.loads(it.cli("stats", "--json").stdout)


def test_swap(tmp):
    """start, swap, status, reload, drain, stop; every byte verified"""
    need_swap()
    pages = page_file()
    with Turn(), Instance(tmp, KEYS) as it, Cgroup(LIMIT) as group:
        it.start()
        it.remember_servers()
        work = long_load(group, pages)
        in_swap(it, work)
        status = it.status()
        swap = status["device"]["swap"]
        check(swap["used_bytes"] > DATA // 4, "status: used", swap)
        check(status["store"]["pages_stored"] * 4096 > DATA // 8,
              "status: stored", status["store"])
        it.process.send_signal(signal.SIGHUP)
        check(it.listen("RELOADING=1"), "reload under load", it.log())
        wait_for(lambda: stats(it)["counters"]["read_pages"] > 500 or
                 work.poll() is not None, "pages to come from the device", 240)
        end(work)
        rows = {(row["process"], row["step"]): row
                for row in it.status()["hardening"]}
        check(rows["thinswap-fuse", "own pages in swap"]["had"], "VmSwap 0")
        check(it.stop() == 0, "stop", it.log())
        check(it.left() == [], "nothing is left", it.left())
        check(any(line.startswith("STATUS=draining") for line in it.told),
              "the drain was shown")


def own_swap(pid):
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(r"VmSwap:\s+(\d+)", file.read())[1])


def all_traced(pid):
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status") as file:
            if re.search(r"TracerPid:\s+0$", file.read(), re.MULTILINE):
                return False
    return True


def faults(pid):
    """(thread, name) -> page faults, minor and major."""
    out = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat") as file:
            head, _, tail = file.read().rpartition(")")
        fields = tail.split()
        out[int(task), head.partition("(")[2]] = int(fields[7]) + int(fields[9])
    return out


def steady_window(server, trace):
    """One look of some seconds: page faults by thread, and memory calls."""
    tracer = subprocess.Popen(
        ["strace", "-f", "-q", "-o", trace, "-p", str(server), "-e",
         "trace=mmap,munmap,mremap,brk,madvise"], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: all_traced(server), "strace", 60)
        before = faults(server)
        time.sleep(4)
        after = faults(server)
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait()
    with open(trace) as file:
        calls = [line for line in file if "(" in line]
    return {thread: n - before.get(thread, 0) for thread, n in after.items()
            if n != before.get(thread, 0)}, calls


def test_steady(tmp):
    """case 2: steady overwrites through real swap: no mmap, brk, fault"""
    need_swap()
    if not shutil.which("strace"):
        raise Skip("strace is not installed")
    pages = page_file()
    # The keeper maps a sample for each dictionary: not in the path of a request.
    keys = dict(KEYS, **{"codec.dictionary": "false"})
    with Turn(), Instance(tmp, keys) as it, Cgroup(LIMIT) as group:
        it.start()
        server = it.server_pid()
        work = long_load(group, pages, "--rewrite", "90")
        # The fill grows the pool; after it the load only overwrites.
        wait_for(lambda: used(it) > (DATA - LIMIT) * 3 // 4 or
                 work.poll() is not None, "the fill", 240)
        steady = stats(it)["counters"]["written_pages"] + 4000
        wait_for(lambda: stats(it)["counters"]["written_pages"] > steady or
                 work.poll() is not None, "overwrites", 240)
        # A kernel that compacts the machine's memory moves pages, locked ones
        # too, and who uses them next faults. A path that faults of itself
        # does so in every window.
        for i in range(WINDOWS):
            new, calls = steady_window(server, os.path.join(tmp, f"trace{i}"))
            serving = sum(n for (_, name), n in new.items()
                          if name != "ts-keeper")
            print(f"  page faults by thread: {new}; {len(calls)} memory calls "
                  "in 4 s under strace")
            if not serving:
                break
        swapped = own_swap(server)
        end(work)
        check(serving == 0, "no fault in a thread that serves", new)
        grown = [line for line in calls if "madvise" not in line]
        check(grown == [], "no mmap, munmap, mremap or brk", grown[:5])
        check(swapped == 0, "VmSwap 0", swapped)
        check(it.stop() == 0 and it.left() == [], "clean", it.left())


def spill_start(it, encrypted):
    """Start, and see that the spill tier is shown as it is."""
    it.start()
    it.remember_servers()
    shown = it.status()["spill"]
    check(shown["encrypted"] == encrypted and not shown["degraded"],
          "status: spill", shown)
    check(("not encrypted" in it.cli("status").stdout) != encrypted,
          "status for people", it.cli("status").stdout)


def in_memory(it):
    slots = stats(it)["slots"]
    # Staged pages are on their way, and under load there are always some.
    return slots["ram"] + slots["raw"]


def test_spill(tmp):
    """[spill] with real swap: data three times RAM and budget, verified; in
    plaintext it says so; ram-admission=off empties memory; stop lets the file
    go"""
    need_swap()
    pages = page_file()
    path = os.path.join(tmp, "spill")
    keys = dict(KEYS, **{"ram.budget": '"16M"', "spill.path": f'"{path}"',
                         "spill.size": '"512M"', "spill.encrypt": "false"})
    with Turn(), Instance(tmp, keys) as it, Cgroup(LIMIT) as group:
        spill_start(it, False)
        check("can read" in it.log(), "plaintext is logged", it.log())
        check(stat.S_IMODE(os.stat(path).st_mode) == 0o600, "mode 0600")
        work = pager(group, pages, "--touches", "20000")
        wait_for(lambda: it.status()["spill"]["pages"] or
                 work.poll() is not None, "pages in the file", 120)
        result(work)
        shown = it.status()["spill"]
        # Compressed, they are more than twice the budget.
        check(shown["written_bytes"] > 32 * MIB, "most went through the file",
              shown)
        counted = stats(it)["counters"]
        print(f"  {counted['spilled_pages']} pages went out, "
              f"{counted['spill_read_pages']} were read there, "
              f"{counted['promoted_pages']} came back")

        work = long_load(group, pages)
        in_swap(it, work)
        done = it.cli("tune", "ram-admission=off")
        check(done.returncode == 0, "tune", done)
        check(not it.status()["settings"]["ram_admission"], "off in status")
        few = 16 * MIB // 4096 // 16
        wait_for(lambda: in_memory(it) < few or work.poll() is not None,
                 "memory to be empty", 240)
        check(it.status()["spill"]["pages"] > 0, "they are in the file",
              it.status()["spill"])
        end(work)
        check(it.cli("tune", "ram-admission=on").returncode == 0, "on again")
        it.remember_servers()
        check(it.stop() == 0, "stop", it.log())
        check(it.left() == [], "nothing is left", it.left())
    # The kernel ends a killed server's io_uring, and with it the lock, later.
    with open(path, "rb") as file:
        wait_for(lambda: lock_is_free(file), "the file's lock", 240)
    # What is in it is nobody's any more, so a next start may have it.
    keys["spill.encrypt"] = "true"
    with Instance(tmp, keys, name="again") as it:
        spill_start(it, True)
        check(it.status()["spill"]["pages"] == 0, "empty")
        check(it.stop() == 0, "stop", it.log())


def lock_is_free(file):
    """whether nobody else holds the lock of the open file"""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def test_drain_refused(tmp):
    """a drain that does not fit: refused with the amount; --force works"""
    need_swap()
    if not shutil.which("unshare"):
        raise Skip("unshare is not installed")
    pages = page_file()
    meminfo = os.path.join(tmp, "meminfo")
    with open("/proc/meminfo") as file:
        text = file.read()
    with open(meminfo, "w") as file:
        file.write(re.sub(r"(MemAvailable:\s+)\d+", r"\g<1>1024", text))
    # The daemon alone sees a machine without memory, in its own namespace.
    prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
              f'mount --bind {meminfo} /proc/meminfo && exec "$@"', "sh"]
    with Turn(), Instance(tmp, KEYS, prefix=prefix) as it, \
            Cgroup(LIMIT) as group:
        it.start()
        if len(swaps()) > 1:
            raise Skip("another swap area has room, which counts")
        work = long_load(group, pages)
        in_swap(it, work)
        done = it.cli("detach")
        check(done.returncode == 5, "exit code 5", done)
        check("missing" in done.stderr and "MiB" in done.stderr,
              "how much is missing", done.stderr)
        it.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "not stopping" in it.log(), "the refusal", 120)
        check(it.process.poll() is None, "the daemon goes on")
        check(it.status()["state"] == "running", "running")
        # The pages have room in truth; only the daemon does not see it.
        group.set_limit(2 * DATA)
        done = it.cli("detach", "--force")
        check(done.returncode == 0, "detach --force", done)
        check("left" in done.stderr, "progress", done.stderr)
        end(work)
        check(it.status()["device"] is None, "detached")
        check(it.stop() == 0, "stop")


daemontest.main(globals())
