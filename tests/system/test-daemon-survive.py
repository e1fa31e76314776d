#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""thinswapd when its server, or itself, is killed: nothing stored is lost

With attach = "none" and clients that connect again, as the kernel does, and
on the FUSE route with swap that is on. Case 5. A seed is printed.
"""

import json
import os
import random
import re
import signal
import subprocess
import time

import daemontest
from daemontest import (BUILD, Instance, check, loops_below, need_root,
                        need_swap, start_time, swaps, wait_for)

JOURNAL = os.path.join(BUILD, "tests", "system", "ts-nbdjournal")
KILLS = int(os.environ.get("THINSWAP_KILLS", "40"))
FUSE = {"device.attach": '"fuse"', "device.size": '"64M"',
        "device.priority": "0"}


def segments():
    with open("/proc/sysvipc/shm") as file:
        return {int(line.split()[1]) for line in file.readlines()[1:]}


def segment(it):
    return it.status()["kept_memory"]["segment"]


def journal(it, seconds, *more):
    return subprocess.Popen(
        [JOURNAL, "--socket", it.socket_path(), "--seconds", str(seconds),
         *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def verdict(process):
    out, _ = process.communicate(timeout=280)
    check(process.returncode == 0, "every acknowledged page is there", out)
    report = json.loads(out.splitlines()[-1])
    check(report["wrong"] == 0 and report["pages_verified"] > 16000,
          "pages were verified", report)
    return report


def kill_server(it, old):
    """The pid of the successor, once it serves."""
    os.kill(old, signal.SIGKILL)

    def successor():
        status = it.status()
        check(status["state"] in ("running", "recovering"), "state", status)
        if status["state"] == "running" and status["server_pid"] != old:
            return status["server_pid"]
        return None

    return wait_for(successor, "a successor", 60)


def gone(it, number):
    check(it.left() == [], "nothing is left", it.left())
    check(number not in segments(), "the segment is gone")
    check(not os.path.exists(it.socket_path("memory")), "the file is gone")


def test_kills(tmp):
    """kill -9 of nbdkit under load, many times: no acknowledged page lost"""
    rng = random.Random(seed := int(time.time()))
    print(f"  seed {seed}")
    with Instance(tmp, {"ram.budget": '"48M"'}) as it:
        it.start()
        kept = segment(it)
        load = journal(it, 600, "--seed", str(seed))
        pid = it.server_pid()
        for i in range(KILLS):
            # Every third lives long enough to count as a life.
            time.sleep(1.2 if i % 3 == 2 else rng.uniform(0, 0.4))
            check(load.poll() is None, "the load is on")
            pid = kill_server(it, pid)
        load.terminate()
        report = verdict(load)
        print(f"  {KILLS} kills, {report}")
        check(report["connects"] >= KILLS, "connections were made anew",
              report)
        status = it.status()
        check(status["successors"]["taken_over"] == KILLS, "counted",
              status["successors"])
        check(status["successors"]["last_status"] == 137, "the signal",
              status["successors"])
        check(segment(it) == kept, "the same memory all the time")
        text = it.cli("status").stdout
        check(re.search(r"^successors +\d+ ", text, re.M) and
              "kept memory" in text, "shown", text)
        it.remember_servers()
        check(it.stop() == 0, "stop", it.log())
        gone(it, kept)


daemontest.main(globals())
