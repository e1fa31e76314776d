#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""thinswapd without a device: sockets, locks, privileges, deaths

Cases 1, 2, 9, 10, 42, 49. No swap is switched on here.
"""

import grp
import json
import os
import re
import signal
import socket
import subprocess
import time

import daemontest
from daemontest import (Instance, check, need_root, quoted,
                        socket_mode, start_time, wait_for,
                        without_capability)

NOBODY = 65534


def connect(path):
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(240)
    client.connect(path)
    return client


def greeting(path):
    with connect(path) as client:
        return client.recv(8)


def as_nobody(*more):
    need_root()
    return ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY),
            "--clear-groups", *more, "--"]


def test_start_and_stop(tmp):
    """starts, answers, stops with 0 and leaves nothing"""
    with Instance(tmp) as it:
        it.start()
        it.remember_servers()
        check(greeting(it.socket_path()) == b"NBDMAGIC", "NBD is served")
        status = it.status()
        check(status["state"] == "running", "state", status)
        check(status["device"] is None, "no device")
        check(status["store"]["virtual_size_bytes"] == 256 << 20, "size")
        check(status["store"]["pages_stored"] == 0, "nothing stored")
        check(status["probe"]["reads"] > 0, "the probe has read")
        check(it.stop() == 0, "exit code 0")
        check(it.left() == [], "nothing is left", it.left())


def test_connect_at_readiness(tmp):
    """case 10: 200 starts, connected at readiness, none refused"""
    with Instance(tmp, {"tuning.threads": "2"}) as it:
        for i in range(200):
            it.start()
            with connect(it.socket_path()), connect(it.socket_path("control")):
                pass
            it.remember_servers()
            check(it.stop() == 0, f"stop {i}")
        check(it.left() == [], "nothing is left", it.left())


def test_second_copy(tmp):
    """case 9: a second copy names the holder, the socket stays"""
    with Instance(tmp) as first:
        first.start()
        before = os.stat(first.socket_path())
        with Instance(tmp) as second:
            second.log_path += ".second.log"
            second.launch()
            check(second.process.wait(240) == 1, "the second copy exits 1")
            check(f"pid {first.process.pid} (thinswapd)" in second.log(),
                  "the holder is named", second.log())
            second.disown()
            after = os.stat(first.socket_path())
            check((before.st_ino, before.st_ctime_ns) ==
                  (after.st_ino, after.st_ctime_ns), "socket inode unchanged")
            check(greeting(first.socket_path()) == b"NBDMAGIC", "still served")
        # __exit__ of the second must not have hit the first's server.
        first.start_time = start_time(first.process.pid)
        check(first.start_time is not None, "the first lives")


def test_restart_after_kill(tmp):
    """case 9: kill -9, then start again, otherwise configured"""
    with Instance(tmp) as it:
        it.start()
        old = it.remember_servers()[0]
        it.kill()
        # A server that was told to stop needs a moment to do so.
        time.sleep(1)
        check(start_time(old) is not None, "the server outlives the daemon")
        it.write_config({"tuning.threads": "5"})
        it.start()
        wait_for(lambda: start_time(old) is None, "the orphan's end")
        check(f"(pid {old})" in it.log(), "and named", it.log())
        # Between the two servers nobody is served for a moment.
        wait_for(lambda: is_served(it), "the successor")
        it.remember_servers()
        check(it.stop() == 0 and it.left() == [], "clean", it.left())


def is_served(it):
    try:
        return greeting(it.socket_path()) == b"NBDMAGIC"
    except OSError:
        return False


def test_foreign_listener(tmp):
    """case 9: a socket that somebody else serves is left alone"""
    with Instance(tmp) as it, socket.socket(socket.AF_UNIX) as other:
        os.mkdir(it.dir, 0o755)
        other.bind(it.socket_path())
        other.listen()
        inode = os.stat(it.socket_path()).st_ino
        it.launch()
        check(it.process.wait(240) == 1, "refused")
        check(f"served by pid {os.getpid()}" in it.log(), "owner named",
              it.log())
        check(os.stat(it.socket_path()).st_ino == inode, "inode unchanged")


def test_stale_socket(tmp):
    """case 9: a socket that nobody serves is replaced"""
    with Instance(tmp) as it:
        os.mkdir(it.dir, 0o755)
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(it.socket_path())
        it.start()
        check(greeting(it.socket_path()) == b"NBDMAGIC", "served")
        check(it.stop() == 0, "stop")


def test_modes(tmp):
    """case 49: modes and group hold whatever the umask"""
    group = grp.getgrgid(os.getgroups()[-1] if os.geteuid() else 1)
    for umask in (0o000, 0o077, 0o022):
        for mode in (0o600, 0o660, 0o640):
            keys = {"security.socket-mode": quoted(f"{mode:04o}")}
            if mode != 0o600:
                keys["security.socket-group"] = quoted(group.gr_name)
            with Instance(tmp, keys, umask=umask) as it:
                it.start()
                found = os.stat(it.socket_path())
                check(socket_mode(it.socket_path()) == mode,
                      f"umask {umask:03o} mode {mode:04o}",
                      oct(found.st_mode))
                if mode != 0o600:
                    check(found.st_gid == group.gr_gid, "group")
                check(socket_mode(it.socket_path("control")) == 0o600,
                      "control socket 0600")
                check(socket_mode(it.dir) == 0o755, "directory 0755")
                check(it.stop() == 0, "stop")
    with Instance(tmp, name="default") as it:
        it.start()
        check(socket_mode(it.socket_path()) == 0o600, "default 0600")


def test_unsafe_directory(tmp):
    """a runtime directory that others can write into is refused"""
    with Instance(tmp) as it:
        os.mkdir(it.dir)
        os.chmod(it.dir, 0o777)
        it.launch()
        check(it.process.wait(240) == 1, "refused")
        check("0777" in it.log(), "and says why", it.log())


def test_reload(tmp):
    """SIGHUP: takes over what can change, says what cannot"""
    with Instance(tmp) as it:
        it.start()
        it.write_config({"security.socket-mode": '"0660"',
                         "device.priority": "7", "codec.level": "3"})
        it.process.send_signal(signal.SIGHUP)
        check(it.listen("RELOADING=1"), "told to systemd")
        since = it.told.index("RELOADING=1")
        check(it.listen("READY=1", since), "and ready again")
        check(socket_mode(it.socket_path()) == 0o660, "mode taken over")
        check("device.priority stays 100" in it.log(), "priority", it.log())
        check("reload: level is now 3" in it.log(), "level", it.log())
        with open(it.config, "a") as file:
            file.write("nonsense = 1\n")
        since = len(it.told)
        it.process.send_signal(signal.SIGHUP)
        check(it.listen("READY=1", since), "ready")
        check("nothing changed" in it.log() and "nonsense" in it.log(),
              "a bad file changes nothing", it.log())
        check(socket_mode(it.socket_path()) == 0o660, "mode kept")


def test_bad_config(tmp):
    """a bad configuration: exit 6, the key named, nothing touched"""
    with Instance(tmp, {"ram.limt": '"1G"'}) as it:
        it.launch()
        check(it.process.wait(240) == 6, "exit code 6")
        check("limt" in it.log(), "the key is named", it.log())
        check(not os.path.exists(it.dir), "no directory was made")


def test_server_dies(tmp):
    """a server that keeps nothing dies, no device: the daemon ends with 1"""
    with Instance(tmp, {"tuning.plugin": '"memory"'}) as it:
        it.start()
        os.kill(it.server_pid(), signal.SIGKILL)
        check(it.process.wait(240) == 1, "exit code 1")
        check("nbdkit ended with status 137" in it.log(), "said", it.log())
        check(it.left() == [], "nothing is left", it.left())


def test_watchdog(tmp):
    """the watchdog is fed only while reads through the store succeed"""
    with Instance(tmp) as it:
        it.start()
        check(it.listen("WATCHDOG=1"), "fed")
        server = it.server_pid()
        os.kill(server, signal.SIGSTOP)
        try:
            wait_for(lambda: "no read through the store" in it.log(),
                     "the complaint")
            since = len(it.told)
            time.sleep(6)
            check(not it.heard("WATCHDOG", since), "no longer fed")
            status = it.status()
            check(status["store"]["pages_stored"] is None,
                  "what is not known is null", status["store"])
            check(status["probe"]["error"], "the error is shown")
        finally:
            os.kill(server, signal.SIGCONT)
        check(it.listen("WATCHDOG=1", since), "fed again")
        check(it.stop() == 0, "stop")


def test_cli_errors(tmp):
    """case 49: no daemon is 3, no permission is 4, each with what to do"""
    with Instance(tmp) as it:
        done = it.cli("status")
        check(done.returncode == 3, "exit code 3", done)
        check("does not run in" in done.stderr, "text", done.stderr)
        it.start()
        done = it.cli("attach")
        check(done.returncode == 1 and "none" in done.stderr, "attach", done)
        done = it.cli("detach", "--json")
        check(done.returncode == 1, "detach", done)
        check(json.loads(done.stdout)["error"] == "no device is attached",
              "JSON error", done.stdout)
        need_root()
        done = it.cli("status", prefix=as_nobody())
        check(done.returncode == 4, "exit code 4", done)
        check("permission denied" in done.stderr and "sudo" in done.stderr,
              "EPERM explained", done.stderr)


def rows(it):
    return {(row["process"], row["step"]): row
            for row in it.status()["hardening"]}


def test_without_root(tmp):
    """without root everything works but attach; missing rights are named"""
    prefix = as_nobody()
    os.chmod(tmp, 0o777)
    with Instance(tmp, prefix=prefix) as it:
        it.start()
        check(rows(it)["nbdkit", "I/O flusher flag"]["missing"] ==
              "CAP_SYS_RESOURCE", "flusher")
        check("CAP_SYS_RESOURCE" in it.log(), "warned", it.log())
        check(it.stop() == 0 and it.left() == [], "clean", it.left())
    with Instance(tmp, {"device.attach": '"auto"'}, prefix=prefix,
                  name="auto") as it:
        it.launch()
        check(it.process.wait(240) == 1, "attach is refused")
        check("root" in it.log() and "choose the route" in it.log(),
              "with the reason", it.log())
        check(it.left() == [], "nothing is left", it.left())


def test_memlock(tmp):
    """case 1: a small RLIMIT_MEMLOCK is found at start, and strict refuses"""
    prefix = ["prlimit", "--memlock=8388608", *as_nobody()]
    os.chmod(tmp, 0o777)
    with Instance(tmp, prefix=prefix) as it:
        it.start()
        row = rows(it)["thinswapd", "limit of locked memory"]
        check(not row["had"] and row["found"] == "8 MiB", "row", row)
        check("RLIMIT_MEMLOCK" in it.log(), "loud warning", it.log())
        check("memory is not locked" in it.log(), "the plugin says so, too",
              it.log())
        client = ["nbdcopy", "--", "[", "nbdkit", "random", "16M", "]",
                  "nbd+unix:///?socket=" + it.socket_path()]
        done = subprocess.run(client, capture_output=True, text=True)
        check(done.returncode == 0, "a large write works", done.stderr)
    with Instance(tmp, {"security.strict": "true"}, prefix=prefix,
                  name="strict") as it:
        it.launch()
        check(it.process.wait(240) == 1, "strict refuses")
        check("strict = true" in it.log(), "and says so", it.log())
        check(it.left() == [], "nothing is left", it.left())


def test_hardening(tmp):
    """cases 1, 2: locked, unswapped; the flusher flag on all or a warning"""
    need_root()
    with Instance(tmp) as it:
        it.start()
        table = rows(it)
        for process in ("thinswapd", "nbdkit"):
            for step in ("memory lock", "own pages in swap"):
                check(table[process, step]["had"], f"{process} {step}",
                      table[process, step])
        server = it.server_pid()
        bits = []
        for task in os.listdir(f"/proc/{server}/task"):
            with open(f"/proc/{server}/task/{task}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            bits.append(bool(int(fields[6]) & 0x80000))
        row = table["nbdkit", "I/O flusher flag"]
        check(row["had"] == all(bits), "the table tells the truth", row)
        if not all(bits):
            check("missing CAP_SYS_RESOURCE" in it.log(), "warned", it.log())
        with open(f"/proc/{server}/environ") as file:
            env = file.read().split("\0")
        check("MALLOC_ARENA_MAX=1" in env, "one arena")
        check(not any(e.startswith("NOTIFY_SOCKET") for e in env),
              "the notify socket is not passed on")


def test_no_resource_capability(tmp):
    """case 2: without CAP_SYS_RESOURCE there is an explicit warning"""
    need_root()
    with Instance(tmp, prefix=without_capability("sys_resource")) as it:
        it.start()
        for step in ("I/O flusher flag", "oom_score_adj"):
            found = re.search(re.escape(step) + r" \(.*missing "
                              "CAP_SYS_RESOURCE; at risk: ", it.log())
            check(found, f"warning for {step}", it.log())


def test_container(tmp):
    """case 42: no nbd, no CAP_SYS_ADMIN: attach names what is missing"""
    need_root()
    for route in ("nbd", "auto"):
        with Instance(tmp, {"device.attach": quoted(route)}, name=route,
                      prefix=without_capability("sys_admin")) as it:
            if route == "nbd" and os.path.exists("/sys/block/nbd0"):
                continue
            it.launch()
            check(it.process.wait(240) == 1, "refused")
            check("no nbd driver" in it.log() or "CAP_SYS_ADMIN" in it.log(),
                  "named", it.log())
            if route == "auto":
                check("CAP_SYS_ADMIN" in it.log(), "capability", it.log())
            check(it.left() == [], "nothing is left", it.left())
    with Instance(tmp, prefix=without_capability("sys_admin"),
                  name="serve") as it:
        it.start()
        check(greeting(it.socket_path()) == b"NBDMAGIC", "serving works")


def test_two_instances(tmp):
    """two instances side by side do not meet"""
    with Instance(tmp, name="a") as a, Instance(tmp, name="b") as b:
        a.start()
        b.start()
        check(a.server_pid() != b.server_pid(), "two servers")
        check(a.stop() == 0, "stop a")
        check(greeting(b.socket_path()) == b"NBDMAGIC", "b lives on")


daemontest.main(globals())
