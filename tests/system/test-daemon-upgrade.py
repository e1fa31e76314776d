#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""thinswap upgrade, and the standby: servers replaced, nothing stored lost

Route none with clients that connect again, as the kernel does, and the FUSE
route with swap that is on. Case 5.
"""

import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import time

import daemontest
from daemontest import (BUILD, THINSWAPD, Instance, check, fake_systemctl,
                        flip_fingerprint, journal, loops_below, need_swap,
                        replace, start_time, swaps, verdict, wait_for)

PLUGIN = os.path.join(BUILD, "plugin", "nbdkit-thinswap-plugin.so")
RAM = {"ram.budget": '"48M"'}
ALWAYS = dict(RAM, **{"tuning.standby": '"always"'})
FUSE = {"device.attach": '"fuse"', "device.size": '"64M"',
        "device.priority": "0"}


def segment(it):
    return it.status()["kept_memory"]["segment"]


def finish(it):
    it.remember_servers()
    check(it.stop() == 0, "stop", it.log())
    check(it.left() == [], "nothing is left", it.left())


def with_standby(it):
    """The status, once there is one."""
    return wait_for(lambda: (s := it.status())["standby"] and s, "a standby")


def test_upgrade(tmp):
    """upgrade under load: the same daemon process, memory and clients"""
    with Instance(tmp, RAM) as it:
        it.start()
        before, kept, load = it.status(), segment(it), journal(it)
        for i in range(1, 4):
            time.sleep(0.4)
            it.remember_servers()
            done = it.cli("upgrade", "--json")
            check(done.returncode == 0, "upgrade", done)
            answer = json.loads(done.stdout)
            after = it.status()
            check(answer["server_replaced"] and
                  answer["server_pid"] == after["server_pid"] and
                  after["server_pid"] != before["server_pid"], "replaced",
                  answer)
            check(after["pid"] == before["pid"] and segment(it) == kept,
                  "the same process and memory")
            check(after["successors"]["replaced"] == i and
                  after["uptime_seconds"] > before["uptime_seconds"],
                  "counted on", after["successors"])
            check(start_time(before["server_pid"]) is None, "the old one")
            before = after
        report = verdict(load)
        check(report["connects"] == 4 * 4, "at each upgrade", report)
        check("new one" in it.cli("upgrade").stdout, "said in text")
        finish(it)


def test_settings_survive(tmp):
    """what was tuned is not forgotten by an upgrade"""
    with Instance(tmp, RAM) as it:
        it.start()
        for setting in ("ram=24M", "level=3"):
            check(it.cli("tune", setting).returncode == 0, setting)
        for _ in range(2):
            check(it.cli("upgrade").returncode == 0, "upgrade", it.log())
            settings = it.status()["settings"]
            check(settings["ram_bytes"] == 24 << 20 and
                  settings["level"] == 3, "kept", settings)
        check(it.cli("tune", "ram=48M").returncode == 0, "back again")
        finish(it)


def test_other_layout(tmp):
    """a new server that cannot read the layout: refused, the old goes on"""
    with Instance(tmp, ALWAYS, env=fake_systemctl(tmp, "restart")) as it:
        it.start()
        status = with_standby(it)
        server, kept, load = status["server_pid"], segment(it), journal(it)
        flip_fingerprint(kept)
        done = it.cli("upgrade")
        check(done.returncode == 1 and "another version" in done.stderr and
              "goes on" in done.stderr, "refused", done)
        status = it.status()
        check(status["server_pid"] == server and status["state"] == "running",
              "the old one serves", status)
        wait_for(lambda: "no standby" in it.log(), "no standby either")
        check(it.cli("status").returncode == 0, "the daemon lives")
        # A restart with the same outcome, and a crash after it.
        it.remember_servers()
        it.write_config(dict(ALWAYS, **{"tuning.threads": "5"}))
        check(it.stop() == 0, "restart")
        it.start()
        wait_for(lambda: "another version" in it.log().split("ready:")[-1],
                 "said again")
        check(it.server_pid() == server, "still the old one", it.log())
        flip_fingerprint(kept)
        check(it.cli("upgrade").returncode == 0, "the right one", it.log())
        check(it.server_pid() != server, "replaced")
        verdict(load)
        fake_systemctl(tmp, "stop")
        finish(it)


def test_other_sizes(tmp):
    """a new size cannot be taken over: said, and the old one goes on"""
    with Instance(tmp, RAM) as it:
        it.start()
        server = it.server_pid()
        it.write_config(dict(RAM, **{"device.size": '"128M"'}))
        done = it.cli("upgrade")
        check(done.returncode == 1 and "same sizes" in done.stderr, "refused",
              done)
        check(it.server_pid() == server, "the old one serves")
        finish(it)


def install(tmp):
    """A copy of what thinswapd needs, that can be replaced."""
    for part in ("daemon", "plugin"):
        os.makedirs(os.path.join(tmp, part))
    replace(THINSWAPD, os.path.join(tmp, "daemon", "thinswapd"))
    plugin = os.path.join(tmp, "plugin", os.path.basename(PLUGIN))
    replace(PLUGIN, plugin)
    return os.path.join(tmp, "daemon", "thinswapd"), plugin


def test_new_programs(tmp):
    """the installed programs are used: a broken one is refused"""
    program, plugin = install(tmp)
    with Instance(tmp, RAM) as it:
        it.program = program
        it.start()
        pid, server = it.process.pid, it.server_pid()
        daemontest.fake(tmp, "broken", "exit 1")
        replace(os.path.join(tmp, "broken"), program)
        done = it.cli("upgrade")
        check(done.returncode == 1 and "failed with status 1" in done.stderr,
              "a broken program", done)
        with open(it.config, "a") as file:
            file.write("nonsense = 1\n")
        replace(THINSWAPD, program)
        done = it.cli("upgrade")
        check(done.returncode == 1 and "nonsense" in done.stderr,
              "a broken configuration", done)
        check(it.server_pid() == server, "nothing changed")
        it.write_config(RAM)
        replace(PLUGIN, plugin)
        check(it.cli("upgrade").returncode == 0, "upgrade", it.log())
        check(os.readlink(f"/proc/{pid}/exe") == program, "the new daemon")
        with open(f"/proc/{it.server_pid()}/maps") as file:
            maps = file.read()
        check(plugin + "\n" in maps, "the new plugin")
        finish(it)


def test_restart_replaces(tmp):
    """a package upgrade restarts: the server is replaced if it is outdated"""
    program, plugin = install(tmp)
    with Instance(tmp, RAM, env=fake_systemctl(tmp, "restart")) as it:
        it.program = program
        it.start()
        server, kept, load = it.server_pid(), segment(it), journal(it)
        it.remember_servers()
        check(it.stop() == 0, "restart")
        it.start()
        time.sleep(0.5)
        check(it.server_pid() == server, "nothing new: the same server")
        replace(PLUGIN, plugin)
        check(it.stop() == 0, "restart")
        it.start()
        wait_for(lambda: it.server_pid() != server, "a new server")
        check(segment(it) == kept, "the same memory")
        server = it.server_pid()
        it.write_config(dict(RAM, **{"tuning.threads": "6"}))
        it.remember_servers()
        check(it.stop() == 0, "restart")
        it.start()
        wait_for(lambda: it.server_pid() != server, "as configured now")
        with open(f"/proc/{it.server_pid()}/cmdline") as file:
            check("--threads\0006\0" in file.read(), "threads")
        verdict(load)
        fake_systemctl(tmp, "stop")
        finish(it)


def test_upgrade_with_swap(tmp):
    """upgrade with swap on: it stays on, by the same device"""
    need_swap()
    with Instance(tmp, FUSE) as it:
        it.start()
        before = it.status()
        device = before["device"]["path"]
        check(device in swaps(), "swap is on")
        done = it.cli("upgrade")
        check(done.returncode == 0, "upgrade", done.stderr + it.log())
        after = it.status()
        check(device in swaps() and after["device"] == before["device"] and
              after["pid"] == before["pid"], "swap stays on", after)
        check(it.cli("detach").returncode == 0, "detach")
        check(it.cli("upgrade").returncode == 0, "upgrade without a device")
        check(it.cli("attach").returncode == 0, "attach")
        check(len([d for d in loops_below(it.dir) if d in swaps()]) == 1,
              "swap is on")
        finish(it)


def test_standby(tmp):
    """the standby takes over at once, again and again"""
    with Instance(tmp, ALWAYS) as it:
        it.start()
        kept, load = segment(it), journal(it)
        for _ in range(4):
            status = with_standby(it)
            standby = status["standby"]["pid"]
            check(status["standby"]["own_bytes"] < 16 << 20, "small", status)
            it.remember_servers()
            os.kill(status["server_pid"], signal.SIGKILL)
            wait_for(lambda: it.status()["server_pid"] == standby and
                     it.status()["state"] == "running", "its taking over")
            check(segment(it) == kept, "the same memory")
            time.sleep(0.2)
        with_standby(it)
        check("\nstandby " in it.cli("status").stdout, "shown")
        verdict(load)
        finish(it)


def rss_kib(pid):
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(r"RssAnon:\s+(\d+)", file.read()).group(1))


def test_standby_needs_nothing(tmp):
    """what a standby takes over with, it has before: beside the protocol of
    plugin/standby.h, with connections made in between"""
    with Instance(tmp, RAM) as it:
        it.start()
        load = journal(it)
        time.sleep(1)
        server = it.server_pid()
        with open(f"/proc/{server}/cmdline") as file:
            words = file.read().split("\0")[1:-1]
        ours, theirs = socket.socketpair()
        ours.settimeout(240)
        path = os.path.join(tmp, "standby-socket")
        where = [i for i, word in enumerate(words) if word == "--foreground"]
        words[where[0]:where[0] + 1] = ["--foreground", "-U", path]
        env = dict(os.environ, THINSWAP_STANDBY=str(theirs.fileno()),
                   MALLOC_ARENA_MAX="1", MALLOC_TRIM_THRESHOLD_="1073741824",
                   MALLOC_MMAP_THRESHOLD_="33554432")
        standby = subprocess.Popen(["nbdkit", *words], env=env,
                                   pass_fds=[theirs.fileno()])
        theirs.close()
        try:
            check(ours.recv(600).startswith(b"ready "), "ready")
            with NbdReader(path) as reader:
                check(reader.read(64 << 10) == bytes(64 << 10),
                      "zeros, for nobody but us")
                ours.send(b"again\n")
                check(ours.recv(600).startswith(b"ready "), "ready again")
                before = rss_kib(standby.pid)
                it.process.send_signal(signal.SIGSTOP)
                end = os.pidfd_open(server)
                os.kill(server, signal.SIGKILL)
                select.select([end], [], [], 30)
                os.close(end)
                ours.send(b"take\n")
                check(ours.recv(600) == b"taken\n", "taken")
                grown = rss_kib(standby.pid) - before
                print(f"  {before} KiB, {grown} more when taken over")
                check(grown < 512, "it asked for next to nothing", grown)
        finally:
            standby.kill()
            standby.wait()
            it.process.send_signal(signal.SIGCONT)
        verdict(load)
        finish(it)


class NbdReader:
    """As little of an NBD client as reads need."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(240)
        self.sock.connect(path)
        self.take(18)
        # Fixed newstyle, no zeroes; then NBD_OPT_EXPORT_NAME of "".
        self.sock.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", 1, 0))
        self.take(10)

    def take(self, count):
        data = b""
        while len(data) < count:
            more = self.sock.recv(count - len(data))
            check(more, "the server answers")
            data += more
        return data

    def read(self, count):
        self.sock.sendall(struct.pack(">IHHQQI", 0x25609513, 0, 0, 1, 0,
                                      count))
        self.take(16)
        return self.take(count)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()


def test_standby_dies(tmp):
    """a standby that dies is no harm; another comes; together with the
    server: a successor is started as without one"""
    with Instance(tmp, ALWAYS) as it:
        it.start()
        load = journal(it)
        first = with_standby(it)
        it.remember_servers()
        os.kill(first["standby"]["pid"], signal.SIGKILL)
        wait_for(lambda: not it.status()["standby"], "its end")
        check(it.status()["state"] == "running", "nothing else happened")
        second = with_standby(it)
        it.remember_servers()
        os.kill(second["standby"]["pid"], signal.SIGSTOP)
        os.kill(second["standby"]["pid"], signal.SIGKILL)
        os.kill(first["server_pid"], signal.SIGKILL)
        wait_for(lambda: it.status()["state"] == "running" and
                 it.status()["server_pid"] not in (
                     None, first["server_pid"]), "a successor")
        time.sleep(0.3)
        verdict(load)
        finish(it)


def test_standby_ends_with_daemon(tmp):
    """a standby ends with its daemon, and is in nobody's way"""
    with Instance(tmp, ALWAYS) as it:
        it.start()
        status = with_standby(it)
        it.kill()
        wait_for(lambda: start_time(status["standby"]["pid"]) is None,
                 "its end")
        it.start()
        check(it.server_pid() == status["server_pid"], "taken over")
        status = with_standby(it)
        # One that cannot see the end of its daemon is killed by the next.
        os.kill(status["standby"]["pid"], signal.SIGSTOP)
        it.kill()
        os.kill(status["server_pid"], signal.SIGKILL)
        it.start()
        check(start_time(status["standby"]["pid"]) is None, "ended")
        finish(it)


def test_standby_never(tmp):
    """standby = "never", and "auto" without a device: there is none"""
    for value in ('"never"', '"auto"'):
        with Instance(tmp, dict(RAM, **{"tuning.standby": value})) as it:
            it.start()
            time.sleep(2.5)
            check(it.status()["standby"] is None, value)
            finish(it)


daemontest.main(globals())
