#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""thinswapd: settings at run time, statistics and warnings

Needs no device and no privilege.
"""

import json
import os
import signal
import subprocess
import tempfile
import time

import daemontest
from daemontest import Instance, check, need_tools, quoted, wait_for


def settings(it):
    return it.status()["settings"]


def holds(it, path):
    size = os.path.getsize(path)
    with tempfile.NamedTemporaryFile() as back:
        done = subprocess.run(
            ["nbdcopy", f"nbd+unix:///?socket={it.socket_path()}",
             back.name], capture_output=True, text=True, timeout=240)
        check(done.returncode == 0, "read all", done)
        with open(path, "rb") as file:
            return back.read(size) == file.read()


def tune(it, *what):
    return it.cli("tune", *what)


def test_stats_of_the_daemon(tmp):
    """stats by the runtime directory, text and JSON, and none after the end"""
    with Instance(tmp) as it:
        it.start()
        done = it.cli("stats", "--json")
        stats = json.loads(done.stdout)
        check(stats["server"]["pid"] == it.server_pid(), "of its server")
        check(stats["gauges"]["budget_bytes"] == 32 << 20, "budget", stats)
        check("pages in use" in it.cli("stats").stdout, "text")
        it.stop()
        check(not os.path.exists(it.socket_path("stats")), "removed")
        done = it.cli("stats")
        check(done.returncode == 3 and "does not run" in done.stderr, "says "
              "that nothing runs", done)


def test_tune(tmp):
    """tune through the daemon: in force, in the log, in status"""
    with Instance(tmp) as it:
        it.start()
        done = tune(it, "ram=64M", "level=3")
        check(done.returncode == 0, "tune", done)
        now = settings(it)
        check(now["ram_bytes"] == 64 << 20 and now["level"] == 3, "settings",
              now)
        check(it.status()["store"]["ram_budget_bytes"] == 64 << 20,
              "status says what is in force")
        check("tune: ram is now 64 MiB" in it.log() and
              "tune: level is now 3" in it.log(), "logged", it.log())
        done = tune(it, "ram=1024G")
        check(done.returncode == 1 and "ram-max" in done.stderr, "too much",
              done)
        done = tune(it, "high-water=50")
        check(done.returncode == 1 and "no spill file" in done.stderr,
              "no spill", done)
        done = tune(it, "level=3", "levle=4")
        check(done.returncode == 2, "wrong usage", done)
        done = tune(it, "level=4", "--json")
        check(json.loads(done.stdout) == {"ok": True}, "JSON", done)
        check(settings(it)["level"] == 4, "last level")


def test_tuned_successor(tmp):
    """what was tuned holds for a server that takes over from a killed one"""
    keys = {"spill.path": quoted(os.path.join(tmp, "spill")),
            "spill.size": '"32M"'}
    with Instance(tmp, keys) as it:
        it.start()
        # high-water takes low-water along.
        done = tune(it, "ram=64M", "level=3", "high-water=60",
                    "ram-admission=false", "write-budget=2G")
        check(done.returncode == 0, "tune", done)
        before = settings(it)
        check(before == {"tuned": ["ram", "level", "high-water",
                                   "ram-admission", "write-budget"],
                         "ram_bytes": 64 << 20, "level": 3,
                         "high_water_percent": 60, "low_water_percent": 59,
                         "ram_admission": False,
                         "write_budget_bytes": 2 << 30}, "in force", before)
        for _ in range(2):
            it.kill_server()
            wait_for(lambda: settings(it) == before, "the same settings")
        check("tuned: ram, level" in it.cli("status").stdout, "for people",
              it.cli("status").stdout)
        reload(it, {**keys, "codec.level": "2"})
        it.kill_server()
        now = settings(it)
        check(now["level"] == 2 and now["ram_bytes"] == 32 << 20 and
              "level" not in now["tuned"], "as reloaded", now)


def test_kept_memory_other_budget(tmp):
    """kept memory is served with another budget, as far as it reaches"""
    need_tools("qemu-io", "nbdcopy")
    with Instance(tmp) as it:
        it.start()
        pages = it.write_noise(5000)
        for budget, left in (("8M", 0), ("64M", 1)):
            it.kill_both()
            it.write_config({"ram.budget": quoted(budget)})
            it.start()
            check(holds(it, pages), f"all there with {budget}")
            check(bool(it.write_noise(1000, 40 << 20)) == bool(left),
                  f"room with {budget}: {left}")
        it.kill_both()
        it.write_config({"ram.budget": '"256M"'})
        it.launch()
        check(it.process.wait(240) == 1 and "ram up to that" in it.log(),
              "more than it was made for", it.log())
        it.write_config({})
        it.start()
        check(holds(it, pages), "still all there")


def reload(it, keys):
    before = len(it.told)
    it.write_config(keys)
    it.process.send_signal(signal.SIGHUP)
    check(it.listen("READY=1", before), "reloaded", it.log())


def test_reload(tmp):
    """a reload takes over budget, level, water marks and write budget"""
    spill = os.path.join(tmp, "spill")
    keys = {"spill.path": f'"{spill}"', "spill.size": '"32M"'}
    with Instance(tmp, keys) as it:
        it.start()
        reload(it, {**keys, "ram.budget": '"48M"', "codec.level": "2",
                    "tuning.high-water": "60", "tuning.low-water": "50",
                    "spill.write-budget": '"1G"', "device.priority": "7"})
        now = settings(it)
        check(now == {"tuned": [], "ram_bytes": 48 << 20, "level": 2,
                      "high_water_percent": 60, "low_water_percent": 50,
                      "ram_admission": True, "write_budget_bytes": 1 << 30},
              "in force", (now, it.log()))
        log = it.log()
        check("reload: ram is now 48 MiB" in log, "logged", log)
        check("device.priority stays" in log, "what cannot change", log)
        reload(it, {**keys, "device.priority": "7"})
        now = settings(it)
        check(now["ram_bytes"] == 32 << 20 and
              now["high_water_percent"] == 95 and
              now["low_water_percent"] == 90 and
              now["write_budget_bytes"] == 0, "and back", now)
        check(tune(it, "ram-admission=false").returncode == 0 and
              settings(it)["ram_admission"] is False, "admission closed")
        done = tune(it, "low-water=97")
        check(done.returncode == 1 and "below" in done.stderr,
              "marks in the wrong order", done)


def test_warnings(tmp):
    """a stopped server is warned of once, in the log and in status"""
    with Instance(tmp) as it:
        it.start()
        pid = it.server_pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            wait_for(lambda: "server-stopped" in it.log(), "the warning")
            begin = time.monotonic()
            done = it.cli("stats", "--json")
            names = [w["name"] for w in json.loads(done.stdout)["warnings"]]
            check("server-stopped" in names, "in stats", names)
            print(f"  stats took {time.monotonic() - begin:.3f} s")
            # Some more looks of the daemon, which come every two seconds.
            time.sleep(5)
            check(it.log().count("server-stopped") == 1, "once", it.log())
            names = [w["name"] for w in it.status()["warnings"]]
            check("server-stopped" in names, "in status", names)
            check("warning: server-stopped" in it.cli("status").stdout,
                  "in status for people")
        finally:
            os.kill(pid, signal.SIGCONT)
        wait_for(lambda: not [w for w in it.status()["warnings"]
                              if w["name"] == "server-stopped"], "its end")


def test_stalled_tune(tmp):
    """a server that does not answer changes nothing, now or later"""
    with Instance(tmp) as it:
        it.start()
        pid = it.server_pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            done = tune(it, "level=9")
        finally:
            os.kill(pid, signal.SIGCONT)
        check(done.returncode == 1 and "does not answer" in done.stderr,
              "says so", done)
        check(tune(it, "ram=40M").returncode == 0, "the next one works")
        check(settings(it)["level"] == 1, "the first was taken back")


if __name__ == "__main__":
    daemontest.main(globals())
