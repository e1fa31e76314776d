#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""thinswapd on the FUSE route when thinswap-fuse is killed: no page is lost

The daemon holds the connection, a successor takes it over and has the kernel
send again what was open (Linux 6.9). Case 5. Older kernels are played by
`setarch --uname-2.6`. A seed is printed.
"""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import daemontest
from daemontest import (Instance, Skip, check, fake, fake_systemctl,
                        flip_fingerprint, loops_below, need_swap, quoted,
                        replace, start_time, swaps, wait_for)
from swaptest import (DATA, LIMIT, MIB, Cgroup, Turn, end, in_swap, long_load,
                      page_file, pager, result, used)

FUSE = {"device.attach": '"fuse"', "device.size": '"64M"',
        "device.priority": "0"}
KILLS = int(os.environ.get("THINSWAP_KILLS", "12"))
UPGRADES = 3
LACKS = "Linux 6.9 (FUSE_NOTIFY_RESEND)"


def need_resend():
    need_swap()
    version = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if tuple(map(int, version.groups())) < (6, 9):
        raise Skip("the kernel is older than 6.9 and cannot send again")


def swap_of(it):
    return [dev for dev in loops_below(it.dir) if dev in swaps()]


def segments():
    with open("/proc/sysvipc/shm") as file:
        return {int(line.split()[1]) for line in file.readlines()[1:]}


def successor_of(it, old):
    def look():
        status = it.status()
        check(status["state"] in ("running", "recovering"), "state", status)
        if status["state"] == "running" and status["server_pid"] != old:
            return status["server_pid"]
        return None

    pid = wait_for(look, "a successor")
    it.remember_servers()
    return pid


def complaints(device, since):
    """What the kernel says of the device that nobody wants to read."""
    done = subprocess.run(["dmesg"], capture_output=True, text=True)
    name = os.path.basename(device)
    return [line for line in done.stdout.splitlines()[since:]
            if name in line and "rror" in line]


def kernel_lines():
    done = subprocess.run(["dmesg"], capture_output=True, text=True)
    return len(done.stdout.splitlines())


def gone(it, kept):
    check(it.left() == [], "nothing is left", it.left())
    check(kept not in segments(), "the segment is gone")
    check(not os.path.exists(it.socket_path("memory")), "the file is gone")


@contextlib.contextmanager
def on_swap(tmp):
    """A started instance whose swap a small cgroup is to use, and the cgroup.
    At the end: no error in the kernel log, one segment of memory throughout,
    and nothing left after a stop."""
    need_resend()
    keys = dict(FUSE, **{"device.size": '"1G"', "device.priority": "32011",
                         "ram.budget": '"256M"'})
    since = kernel_lines()
    with Turn(), Instance(tmp, keys) as it, Cgroup(LIMIT) as group:
        it.start()
        device, kept = swap_of(it)[0], it.status()["kept_memory"]["segment"]
        yield it, group, kept
        check(complaints(device, since) == [], "no error in the kernel log",
              complaints(device, since))
        check(it.status()["kept_memory"]["segment"] == kept, "one segment")
        it.remember_servers()
        check(it.stop() == 0, "stop", it.log())
        gone(it, kept)


def test_swap(tmp):
    """kill -9 of thinswap-fuse under swap in use: no page wrong, no error"""
    pages = page_file()
    rng = random.Random(seed := int(time.time()))
    print(f"  seed {seed}")
    with on_swap(tmp) as (it, group, _):
        pid = it.server_pid()
        work, reports, most = None, [], 0
        for i in range(KILLS):
            if work and work.poll() is not None:
                reports.append(result(work))
                work = None
            if not work:
                work = pager(group, pages, "--touches", "40000")
                in_swap(it, work, 8)
            # Every third lives long enough to count as a life.
            time.sleep(1.2 if i % 3 == 2 else rng.uniform(0, 0.3))
            most = max(most, used(it))
            os.kill(pid, signal.SIGKILL)
            pid = successor_of(it, pid)
        reports.append(result(work))
        print(f"  {KILLS} kills, {most // MIB} MiB in swap, "
              f"{len(reports)} data sets of {DATA // MIB} MiB verified")
        check(most > DATA // 8, "pages were in swap", most)
        successors = it.status()["successors"]
        check(successors["taken_over"] == KILLS, "counted", successors)


def test_upgrade(tmp):
    """thinswap upgrade under swap in use: the server replaced, no page wrong;
    one that cannot read what is kept is refused, and the old one goes on"""
    pages = page_file()
    with on_swap(tmp) as (it, group, kept):
        daemon = it.status()["pid"]
        work = long_load(group, pages)
        in_swap(it, work, 8)
        for i in range(1, UPGRADES + 1):
            time.sleep(0.3)
            old = it.remember_servers()[0]
            done = it.cli("upgrade", "--json")
            check(done.returncode == 0, "upgrade", done.stderr + it.log())
            status = it.status()
            check(json.loads(done.stdout)["server_replaced"] and
                  status["server_pid"] != old and start_time(old) is None,
                  "replaced", done.stdout)
            check(status["pid"] == daemon and
                  status["successors"]["replaced"] == i, "counted", status)
        server = it.server_pid()
        flip_fingerprint(kept)
        done = it.cli("upgrade")
        check(done.returncode == 1 and "another version" in done.stderr and
              "goes on" in done.stderr, "refused", done)
        check(it.server_pid() == server, "the old one serves")
        flip_fingerprint(kept)
        check(used(it) > DATA // 8, "still in use", used(it))
        end(work)


def test_restart_replaces(tmp):
    """a package upgrade restarts: a thinswap-fuse that was replaced on disk
    is replaced in memory, and no other"""
    need_resend()
    place = os.path.join(tmp, "daemon")
    os.mkdir(place)
    for program in (daemontest.THINSWAPD, daemontest.THINSWAP_FUSE):
        replace(program, os.path.join(place, os.path.basename(program)))
    with Instance(tmp, FUSE, env=fake_systemctl(tmp, "restart")) as it:
        it.program = os.path.join(place, "thinswapd")
        it.start()
        device, kept = swap_of(it)[0], it.status()["kept_memory"]["segment"]
        server = it.remember_servers()[0]
        check(it.stop() == 0, "restart")
        it.start()
        time.sleep(0.5)
        check(it.server_pid() == server, "nothing new: the same server")
        replace(daemontest.THINSWAP_FUSE, os.path.join(place, "thinswap-fuse"))
        check(it.stop() == 0, "restart")
        it.start()
        wait_for(lambda: it.server_pid() not in (None, server), "a new one")
        check(swap_of(it) == [device], "swap stays on")
        check(it.status()["kept_memory"]["segment"] == kept, "the memory")
        it.remember_servers()
        fake_systemctl(tmp, "stop")
        check(it.stop() == 0, "stop", it.log())
        gone(it, kept)


def flaky_fuse(tmp, mark):
    """thinswap-fuse that does not start while a file is there."""
    return fake(tmp, "flaky", f"[ -e {mark} ] && exit 3\n"
                f'exec {daemontest.THINSWAP_FUSE} "$@"')


def test_nobody_serves(tmp):
    """no server for a while: the daemon answers, readers wait and are served"""
    need_resend()
    mark = os.path.join(tmp, "broken")
    keys = dict(FUSE, **{"tuning.fuse": quoted(flaky_fuse(tmp, mark))})
    with Instance(tmp, keys) as it:
        it.start()
        device, old = swap_of(it)[0], it.server_pid()
        open(mark, "w").close()
        os.kill(old, signal.SIGKILL)
        wait_for(lambda: it.status()["successors"]["tries_in_a_row"] > 2,
                 "tries")
        reader = subprocess.Popen(["dd", f"if={device}", "of=/dev/null",
                                   "bs=64K", "count=4", "iflag=direct"],
                                  stderr=subprocess.DEVNULL)
        check(it.status()["state"] == "recovering", "recovering")
        check(it.status()["store"]["pages_stored"] is None, "not known")
        check(reader.poll() is None, "the reader waits")
        os.unlink(mark)
        successor_of(it, old)
        check(reader.wait(240) == 0, "the reader is served")
        kept = it.status()["kept_memory"]["segment"]
        check(it.stop() == 0, "stop", it.log())
        gone(it, kept)


def test_daemon_killed(tmp):
    """kill -9 of thinswapd: the next one holds the connection as well"""
    need_resend()
    with Instance(tmp, FUSE) as it:
        it.start()
        device, old = swap_of(it)[0], it.server_pid()
        it.kill()
        it.start()
        check(it.server_pid() == old, "the same server", it.log())
        check("what has changed" not in it.log(), "as configured", it.log())
        check("cannot be held" not in it.log(), "held", it.log())
        os.kill(old, signal.SIGKILL)
        new = successor_of(it, old)
        check(swap_of(it) == [device], "the same device")
        # And its successor's connection is the one that we hold.
        os.kill(new, signal.SIGKILL)
        successor_of(it, new)
        kept = it.status()["kept_memory"]["segment"]
        check(it.stop() == 0, "stop", it.log())
        gone(it, kept)


def test_both_killed_under_systemd(tmp):
    """daemon and server killed: systemd's store has kept the connection"""
    need_resend()
    with Instance(tmp, FUSE) as it:
        it.has_store = True
        it.start()
        device = swap_of(it)[0]
        kept = it.status()["kept_memory"]["segment"]
        server = it.server_pid()
        wait_for(lambda: "socket" in it.store, "the connection in the store")
        it.kill()
        os.kill(server, signal.SIGKILL)
        wait_for(lambda: start_time(server) is None, "its end")
        reader = subprocess.Popen(["dd", f"if={device}", "of=/dev/null",
                                   "bs=64K", "count=4", "iflag=direct"],
                                  stderr=subprocess.DEVNULL)
        it.start()
        check(swap_of(it) == [device], "swap is still on")
        check(reader.wait(240) == 0, "the reader is served")
        check(it.status()["kept_memory"]["segment"] == kept, "one segment")
        new = it.server_pid()
        os.kill(new, signal.SIGKILL)
        successor_of(it, new)
        check(it.stop() == 0, "stop", it.log())
        gone(it, kept)


def test_dies_while_attaching(tmp):
    """the server is killed at each step of an attach: refused, nothing left"""
    need_resend()
    for name, key in (("mkswap", "tuning.mkswap"),
                      ("swapon", "tuning.swapon-program")):
        mark = os.path.join(tmp, name + ".reached")
        slow = fake(tmp, "slow-" + name, f"touch {mark}; sleep 1\n"
                    f'exec {name} "$@"')
        with Instance(tmp, dict(FUSE, **{key: quoted(slow)}),
                      name=name) as it:
            it.launch()
            wait_for(lambda: os.path.exists(mark), name)
            os.kill(it.remember_servers()[0], signal.SIGKILL)
            check(it.process.wait(240) == 1, f"{name}: refused", it.log())
            check("died while its device was being attached" in it.log(),
                  f"{name}: said", it.log())
            check(it.left() == [], f"{name}: nothing is left", it.left())


def test_dies_without_device(tmp):
    """killed while no device is attached: a successor, and attach works"""
    need_resend()
    with Instance(tmp, dict(FUSE, **{"tuning.swapon": "true"})) as it:
        it.start()
        check(it.cli("detach").returncode == 0, "detach")
        old = it.server_pid()
        os.kill(old, signal.SIGKILL)
        successor_of(it, old)
        done = it.cli("attach")
        check(done.returncode == 0 and len(swap_of(it)) == 1, "attach", done)
        check(it.stop() == 0 and it.left() == [], "clean", it.left())


def test_old_kernel(tmp):
    """before Linux 6.9: the limit is told, and nothing is kept"""
    need_swap()
    if not shutil.which("setarch"):
        raise Skip("setarch is not installed")
    with Instance(tmp, FUSE, prefix=["setarch", "--uname-2.6"]) as it:
        it.start()
        rows = [row for row in it.status()["hardening"]
                if row["step"] == "death of the server"]
        check(len(rows) == 1 and rows[0]["missing"] == LACKS and
              "lost" in rows[0]["at_risk"], "status", rows)
        check(LACKS in it.log(), "log", it.log())
        check(it.status()["kept_memory"] is None, "nothing kept")
        os.kill(it.remember_servers()[0], signal.SIGKILL)
        wait_for(lambda: it.status()["state"] == "failed", "state failed")
        check("No empty server" in it.log(), "the loss is told", it.log())
        check(it.cli("detach", "--force").returncode == 0, "detach --force")
        it.process.send_signal(signal.SIGTERM)
        it.process.wait(240)
        check(it.left() == [], "clean", it.left())


daemontest.main(globals())
