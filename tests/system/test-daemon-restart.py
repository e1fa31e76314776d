#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""thinswapd restarted by its service manager: swap stays on throughout

systemctl is a fake that says which job the unit is at; systemd's descriptor
store is played by daemontest. Route none with clients under load, and the
FUSE route with swap that is on. Case 5 and case 10.
"""

import os
import signal
import socket
import time

import daemontest
from daemontest import (Instance, check, fake_systemctl, journal, loops_below,
                        need_swap, start_time, swaps, verdict, wait_for)

FUSE = {"device.attach": '"fuse"', "device.size": '"64M"',
        "device.priority": "0"}


def swap_on(it):
    return [dev for dev in loops_below(it.dir) if dev in swaps()]


def restart(it):
    """systemctl restart: SIGTERM, then a start with the store."""
    it.remember_servers()
    check(it.stop() == 0, "ends", it.log())
    it.start()


def test_restart(tmp):
    """systemctl restart: nbdkit and its clients do not notice"""
    with Instance(tmp, {"ram.budget": '"48M"'},
                  env=fake_systemctl(tmp, "restart")) as it:
        it.has_store = True
        it.start()
        wait_for(lambda: it.store, "the store")
        check(list(it.store) == ["socket"], "stored", it.store)
        server, load = it.server_pid(), journal(it)
        inode = os.fstat(it.store["socket"]).st_ino
        for _ in range(3):
            time.sleep(0.3)
            restart(it)
            check(it.server_pid() == server, "the same server")
        check(os.fstat(it.store["socket"]).st_ino == inode and
              it.log().count("is the one of the instance before") == 3,
              "the same socket", it.log())
        with open(os.path.join(tmp, "systemctl.args")) as file:
            check("list-jobs" in file.readline(), "asked")
        # The socket it was handed is good for a successor of the server.
        os.kill(server, signal.SIGKILL)
        wait_for(lambda: it.status()["server_pid"] not in (None, server),
                 "a successor")
        report = verdict(load)
        check(report["connects"] == 8, "only when nbdkit died", report)
        fake_systemctl(tmp, "stop")
        it.remember_servers()
        check(it.stop() == 0 and it.left() == [], "a stop ends all",
              it.left())
        check(it.store == {}, "nothing stays in the store", it.store)


def test_restart_with_swap(tmp):
    """systemctl restart keeps swap on; stop, and no job at all, drain"""
    need_swap()
    with Instance(tmp, FUSE, env=fake_systemctl(tmp, "restart")) as it:
        it.start()
        device, server = swap_on(it)[0], it.server_pid()
        for _ in range(2):
            it.remember_servers()
            check(it.stop() == 0, "ends", it.log())
            check(swap_on(it) == [device], "swap is on in between")
            check(start_time(server) is not None, "and served")
            it.start()
            check(it.server_pid() == server, "the same server")
            check(swap_on(it) == [device], "swap is on")
        fake_systemctl(tmp, "stop")
        check(it.stop() == 0 and it.left() == [], "stop drains", it.left())
        it.start()
        fake_systemctl(tmp, "")
        check(it.stop() == 0 and it.left() == [], "no job drains", it.left())


def test_no_answer(tmp):
    """systemctl that fails or hangs: taken for a stop, and drained"""
    need_swap()
    env = fake_systemctl(tmp, "restart")
    with Instance(tmp, FUSE, env=env) as it:
        for body in ("exit 1", "exec sleep 90"):
            it.start()
            it.remember_servers()
            daemontest.fake(os.path.join(tmp, "bin"), "systemctl", body)
            check(it.stop() == 0 and it.left() == [], body, it.left())
        check(it.log().count("taken for a stop") == 2, "said", it.log())


def test_crash_with_store(tmp):
    """case 10: both killed: clients wait in the stored socket's queue"""
    with Instance(tmp, {"ram.budget": '"48M"'}) as it:
        it.has_store = True
        it.start()
        it.remember_servers()
        server = it.server_pid()
        it.kill()
        os.kill(server, signal.SIGKILL)
        wait_for(lambda: start_time(server) is None, "its end")
        client = socket.socket(socket.AF_UNIX)
        client.connect(it.socket_path())
        it.start()
        client.settimeout(240)
        check(client.recv(8) == b"NBDMAGIC", "the client that waited")
        client.close()
        it.remember_servers()
        check(it.stop() == 0 and it.left() == [], "clean", it.left())


def test_wrong_descriptors(tmp):
    """descriptors that are not what they are named are not used"""
    with Instance(tmp) as it:
        it.has_store = True
        it.start()
        it.remember_servers()
        check(it.stop() == 0 and it.left() == [], "clean", it.left())
        other = socket.socket(socket.AF_UNIX)
        other.bind(os.path.join(tmp, "other"))
        other.listen()
        it.store = {"socket": other.detach(), "lock": os.open("/dev/null", 0),
                    "strange": os.open("/dev/null", os.O_RDONLY)}
        it.start()
        check("the one of the instance before" not in it.log(), "not used",
              it.log())
        wait_for(lambda: sorted(it.store) == ["lock", "socket"] or
                 sorted(it.store) == ["socket"], "forgotten")
        it.remember_servers()
        check(it.cli("status").returncode == 0, "it works")
        with Instance(tmp) as second:
            second.launch()
            check(second.process.wait(240) == 1 and "is in use by" in
                  second.log(), "the lock is held")
            second.disown()
        check(it.stop() == 0, "stop")


def test_restart_after_giving_up(tmp):
    """a restart of a daemon that gave up tries again, on the kept memory"""
    broken = os.path.join(tmp, "broken")
    program = daemontest.fake(
        tmp, "nbdkit", f'[ -e {broken} ] && exit 3\nexec nbdkit "$@"')
    with Instance(tmp, {"tuning.nbdkit": f'"{program}"'},
                  env=fake_systemctl(tmp, "restart")) as it:
        it.start()
        kept, load = it.status()["kept_memory"]["segment"], journal(it)
        time.sleep(1)
        open(broken, "w").close()
        os.kill(it.server_pid(), signal.SIGKILL)
        wait_for(lambda: it.status()["state"] == "failed", "giving up")
        os.unlink(broken)
        restart(it)
        check(it.status()["kept_memory"]["segment"] == kept, "taken over")
        time.sleep(0.3)
        verdict(load)
        fake_systemctl(tmp, "stop")
        it.remember_servers()
        check(it.stop() == 0 and it.left() == [], "clean", it.left())


daemontest.main(globals())
