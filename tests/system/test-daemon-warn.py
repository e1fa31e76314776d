#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""thinswapd: each warning, by what it warns of

Every condition is brought about for real: noise fills memory, a spill device
loses its ground, bytes of the spill file change, a lock is taken away. Each
warning must stand in the log exactly once however long it lasts, in `thinswap
status` and in `thinswap stats`, and go away with its cause. Needs qemu-io; a
device that the kernel lets go of is in tests/vm.
"""

import ctypes
import os
import shutil
import subprocess

import daemontest
from daemontest import (Instance, check, need_root, need_tools, quoted,
                        wait_for)

PAGE = 4096
SEGMENT = 1 << 20
SHM_UNLOCK, SHM_LOCK = 12, 11


def warnings(it):
    return {w["name"]: w["text"] for w in it.status()["warnings"]}


def looks(it):
    """How often the daemon has read through the store, once in two seconds,
    which is also how often it looks for something to warn of."""
    return it.status()["probe"]["reads"]


def is_warned_of(it, name, *words):
    """A warning is there: in status, in stats, and in the log once."""
    wait_for(lambda: name in warnings(it), f"{name} in status")
    wait_for(lambda: f"{name}: " in it.log(), f"{name} in the log")
    text = warnings(it)[name]
    check(all(word in text for word in words), f"{name} is explained", text)
    for command in ("status", "stats"):
        check(f"warning: {name}: " in it.cli(command).stdout,
              f"{name} in {command} for people", it.cli(command).stdout)
    until = looks(it) + 3
    wait_for(lambda: looks(it) >= until, "more looks of the daemon")
    check(it.log().count(f"{name}: ") == 1, f"{name} is logged once",
          it.log())


def is_over(it, name):
    wait_for(lambda: name not in warnings(it), f"the end of {name}")


def spill_line(it, command):
    return next(line for line in it.cli(command).stdout.splitlines()
                if line.startswith("spill "))


def test_full(tmp):
    """overcommitted and low-ratio (case 38): memory filled with noise"""
    with Instance(tmp, {"ram.budget": '"20M"'}) as it:
        it.start()
        check(not warnings(it), "none at first", warnings(it))
        check(not it.write_noise(6000), "more than fits")
        is_warned_of(it, "low-ratio", "ratio 1.0", "below 1.5")
        is_warned_of(it, "overcommitted", "SwapFree")
        room = it.stats()["store"]["room_bytes"]
        check(room < 1 << 20, "next to no room in real terms", room)
        it.qemu_io(f"discard 0 {256 << 20}")
        is_over(it, "overcommitted")
        is_over(it, "low-ratio")


def test_write_budget(tmp):
    """write-budget-spent, and what stats and status say of a spill file"""
    keys = {"ram.budget": '"8M"', "spill.path": quoted(f"{tmp}/spill"),
            "spill.size": '"64M"', "spill.write-budget": '"24M"'}
    with Instance(tmp, keys) as it:
        it.start()
        # An hour's share is one segment; a write is never cut.
        it.write_noise(4000)
        is_warned_of(it, "write-budget-spent", "24 MiB a day")
        stats, status = it.stats(), it.status()["spill"]
        written = stats["counters"]["spill_written_bytes"]
        check(SEGMENT <= written < 10 * SEGMENT, "some was written", written)
        check(status["written_bytes"] == written and
              status["pages"] == stats["slots"]["spill"] > 200 and
              status["used_bytes"] >= written and status["encrypted"],
              "status agrees", (status, stats["slots"]))
        check(stats["store"]["spill_room_bytes"] == 0 and
              stats["store"]["room_bytes"] < 1 << 20, "no room for now",
              stats["store"])
        check("of 63 MiB used" in spill_line(it, "stats") and
              "SPENT" in it.cli("stats").stdout, "stats",
              it.cli("stats").stdout)
        check("of 63 MiB used in" in spill_line(it, "status") and
              f"{tmp}/spill" in spill_line(it, "status"), "status",
              it.cli("status").stdout)
        check(it.cli("tune", "write-budget=0").returncode == 0, "tune")
        is_over(it, "write-budget-spent")
        # Now the rest has room in the spill file.
        check(it.write_noise(4000), "all is accepted")
        check(it.stats()["slots"]["spill"] > 1000, "and on to spill",
              it.stats()["slots"])


def test_damaged(tmp):
    """damaged-pages (case 25): bytes of the spill file are not what they were
    """
    path = f"{tmp}/spill"
    keys = {"ram.budget": '"8M"', "spill.path": quoted(path),
            "spill.size": '"32M"'}
    with Instance(tmp, keys) as it:
        it.start()
        check(it.write_noise(4000), "stored")
        check("damaged-pages" not in warnings(it), "good at first")
        check(it.stats()["slots"]["spill"] > 500, "some in spill")
        with open(path, "r+b") as file:
            file.write(os.urandom(32 << 20))
            file.flush()
            os.fsync(file.fileno())
        bad = 0
        for at in range(0, 4000, 500):
            bad += it.qemu_io(f"read {at * PAGE} {500 * PAGE}"
                           ).returncode != 0
        check(bad > 0, "reads fail, and say so")
        is_warned_of(it, "damaged-pages", "not reliable")
        check(it.server_pid(), "the server lives")


def loop_on_tmpfs(tmp, size, room):
    """A block device that says it has more than the tmpfs under it."""
    mount = os.path.join(tmp, "mnt")
    os.mkdir(mount)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={room}", "ts-test",
                    mount], check=True)
    back = os.path.join(mount, "back")
    with open(back, "wb") as file:
        file.truncate(size)
    device = subprocess.run(["losetup", "-f", "--show", back], check=True,
                            capture_output=True, text=True).stdout.strip()
    return mount, device


def test_spill_degraded(tmp):
    """spill-degraded (case 31): the spill device fails, and works again"""
    need_root()
    need_tools("losetup", "mount", "umount")
    try:
        mount, device = loop_on_tmpfs(tmp, 64 << 20, "2m")
    except subprocess.CalledProcessError as error:
        raise daemontest.Skip(f"no loop device on a tmpfs: {error}")
    try:
        keys = {"ram.budget": '"8M"', "spill.path": quoted(device),
                "spill.size": '"64M"'}
        with Instance(tmp, keys) as it:
            it.start()
            it.write_noise(6000)
            is_warned_of(it, "spill-degraded", "errors")
            check("DEGRADED" in spill_line(it, "stats") and
                  "DEGRADED" in spill_line(it, "status") and
                  it.status()["spill"]["degraded"], "named")
            subprocess.run(["mount", "-o", "remount,size=70m", mount],
                           check=True)
            is_over(it, "spill-degraded")
            check(it.write_noise(6000), "what did not fit does now")
    finally:
        subprocess.run(["losetup", "-d", device])
        subprocess.run(["umount", mount])


def test_lock_lost(tmp):
    """memory-not-locked: the lock is taken away, and given back"""
    need_root()
    libc = ctypes.CDLL(None, use_errno=True)
    with Instance(tmp) as it:
        it.start()
        if "memory-not-locked" in warnings(it):
            raise daemontest.Skip("memory cannot be locked here")
        segment = it.status()["kept_memory"]["segment"]
        if libc.shmctl(segment, SHM_UNLOCK, None) < 0:
            raise daemontest.Skip("the lock cannot be taken away: " +
                                  os.strerror(ctypes.get_errno()))
        is_warned_of(it, "memory-not-locked", "RLIMIT_MEMLOCK", "unlocked")
        check(libc.shmctl(segment, SHM_LOCK, None) == 0, "locked again")
        is_over(it, "memory-not-locked")


def test_never_locked(tmp):
    """memory-not-locked: without capability and limit from the start"""
    need_root()
    need_tools("setpriv", "prlimit")
    prefix = ["prlimit", "--memlock=0:0",
              *daemontest.without_capability("ipc_lock")]
    with Instance(tmp, prefix=prefix) as it:
        it.launch()
        if not it.listen("READY=1"):
            raise daemontest.Skip("does not start without the lock")
        is_warned_of(it, "memory-not-locked", "CAP_IPC_LOCK")


if __name__ == "__main__":
    if not shutil.which("qemu-io"):
        print("SKIP: needs qemu-io")
        raise SystemExit(77)
    daemontest.main(globals())
