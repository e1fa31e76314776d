#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""thinswapd when its server, or itself, is killed: nothing stored is lost

With attach = "none" and clients that connect again, as the kernel does, and
on the FUSE route with swap that is on. Case 5. A seed is printed.
"""

import os
import random
import re
import signal
import subprocess
import time

import daemontest
from daemontest import (Instance, check, journal, loops_below, need_swap,
                        segments, start_time, swaps, verdict, wait_for)

KILLS = int(os.environ.get("THINSWAP_KILLS", "40"))
FUSE = {"device.attach": '"fuse"', "device.size": '"64M"',
        "device.priority": "0"}


def segment(it):
    return it.status()["kept_memory"]["segment"]


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
        load = journal(it, "--seed", str(seed))
        pid = it.server_pid()
        for i in range(KILLS):
            # Every third lives long enough to count as a life.
            time.sleep(1.2 if i % 3 == 2 else rng.uniform(0, 0.4))
            check(load.poll() is None, "the load is on")
            pid = it.kill_server()
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


def test_daemon_killed(tmp):
    """kill -9 of thinswapd: its successor goes on with the live nbdkit"""
    with Instance(tmp, {"ram.budget": '"48M"'}) as it:
        it.start()
        kept, old = segment(it), it.server_pid()
        load = journal(it)
        time.sleep(1)
        it.kill()
        time.sleep(1)
        it.start()
        check(it.server_pid() == old, "the same server")
        check(f"taking over nbdkit (pid {old})" in it.log(), "said", it.log())
        # That it has no listening socket of its own must not matter.
        new = it.kill_server()
        time.sleep(1)
        # The successor's successor: the socket is the daemon's again.
        it.kill_server()
        time.sleep(0.5)
        report = verdict(load)
        check(report["connects"] == 12, "only when nbdkit died", report)
        it.remember_servers()
        check(it.stop() == 0, "stop", it.log())
        gone(it, kept)


def test_both_killed(tmp):
    """kill -9 of both: what was stored is taken over from the memory"""
    with Instance(tmp, {"ram.budget": '"48M"'}) as it:
        it.start()
        kept = segment(it)
        load = journal(it)
        time.sleep(1.5)
        it.kill_both()
        time.sleep(0.5)
        check(kept in segments(), "the memory is kept")
        it.start()
        check(segment(it) == kept, "taken over")
        time.sleep(1)
        report = verdict(load)
        check(report["connects"] == 8, "connected again", report)
        it.remember_servers()
        check(it.stop() == 0, "stop", it.log())
        gone(it, kept)


def test_other_sizes(tmp):
    """kept memory of another size is not served, and not given up"""
    with Instance(tmp) as it:
        it.start()
        kept = segment(it)
        it.kill_both()
        it.write_config({"device.size": '"128M"'})
        it.launch()
        check(it.process.wait(240) == 1, "refused")
        check("use the same sizes" in it.log(), "said", it.log())
        check(kept in segments(), "kept")
        it.write_config({})
        it.start()
        check(segment(it) == kept, "taken over")
        it.remember_servers()
        check(it.stop() == 0, "stop")
        gone(it, kept)


def test_memory_lost(tmp):
    """kept memory that is gone: no empty server in its place"""
    with Instance(tmp) as it:
        it.start()
        kept = segment(it)
        it.kill_both()
        subprocess.run(["ipcrm", "-m", str(kept)], check=True)
        it.launch()
        check(it.process.wait(240) == 1, "refused")
        check("is gone, and the pages in it" in it.log(), "said", it.log())


def test_reclaimed(tmp):
    """memory of a dead instance that no swap is on is given back"""
    need_swap()
    with Instance(tmp) as it:
        it.start()
        kept = segment(it)
        it.kill_both()
        it.write_config(FUSE)
        it.start()
        check("gave back" in it.log() and f"segment {kept}" in it.log(),
              "said", it.log())
        check(kept not in segments(), "given back")
        it.remember_servers()
        check(it.stop() == 0, "stop")
        gone(it, kept)


def test_gives_up(tmp):
    """a successor that cannot start: limited tries, memory kept, SIGHUP"""
    broken = os.path.join(tmp, "broken")
    program = daemontest.fake(
        tmp, "nbdkit", f'[ -e {broken} ] && exit 3\nexec nbdkit "$@"')
    with Instance(tmp, {"tuning.nbdkit": f'"{program}"'}) as it:
        it.start()
        kept = segment(it)
        load = journal(it)
        time.sleep(1.2)
        open(broken, "w").close()
        os.kill(it.server_pid(), signal.SIGKILL)
        wait_for(lambda: it.status()["state"] == "failed", "giving up")
        check(it.log().count("to start a successor failed") == 12, "12 tries",
              it.log())
        check("SIGHUP" in it.log() and f"segment {kept}" in it.log(),
              "what to do", it.log())
        wait_for(lambda: it.heard("STATUS=FAILED: no server stays up"),
                 "systemd to know")
        check(load.poll() is None and segment(it) == kept, "clients wait")
        os.unlink(broken)
        it.process.send_signal(signal.SIGHUP)
        wait_for(lambda: it.status()["state"] == "running", "a successor")
        time.sleep(0.5)
        verdict(load)
        it.remember_servers()
        check(it.stop() == 0, "stop")
        gone(it, kept)


def swap_on(it):
    return [dev for dev in loops_below(it.dir) if dev in swaps()]


def test_swap_taken_over(tmp):
    """kill -9 of thinswapd with swap on: its successor takes both over"""
    need_swap()
    with Instance(tmp, FUSE) as it:
        it.start()
        device, server = swap_on(it)[0], it.server_pid()
        it.kill()
        it.start()
        status = it.status()
        check(status["server_pid"] == server, "the same server")
        check(status["device"]["path"] == device and
              status["device"]["swap"] is not None, "swap stays on", status)
        check(swap_on(it) == [device], "one device")
        # What it took over, it can also end.
        it.process.send_signal(signal.SIGHUP)
        done = it.cli("detach")
        check(done.returncode == 0 and swap_on(it) == [], "detach", done)
        done = it.cli("attach")
        check(done.returncode == 0 and len(swap_on(it)) == 1, "attach", done)
        it.kill()
        it.start()
        check(it.stop() == 0, "stop", it.log())
        check(it.left() == [], "nothing is left", it.left())


def test_takeover_fails(tmp):
    """a takeover that fails leaves swap and its server as they were"""
    need_swap()
    with Instance(tmp, FUSE) as it:
        it.start()
        device, server = swap_on(it)[0], it.server_pid()
        it.kill()
        control = it.socket_path("control")
        os.unlink(control)
        os.mkdir(control)
        it.launch()
        check(it.process.wait(240) == 1, "refused")
        check("left as it is" in it.log() and device in it.log(), "said",
              it.log())
        check(start_time(server) is not None, "the server lives")
        check(swap_on(it) == [device], "swap is on")
        os.rmdir(control)
        it.start()
        check(it.server_pid() == server, "taken over")
        check(it.stop() == 0 and it.left() == [], "clean", it.left())


daemontest.main(globals())
