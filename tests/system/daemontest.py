# SPDX-License-Identifier: BSD-3-Clause
"""daemontest.py - run thinswapd in tests, and see that nothing is left

A test script defines functions test_*(), each with a docstring, and ends with
daemontest.main(globals()). It is called with the build directory. Every
function gets a fresh temporary directory and prints one line; a function may
raise Skip. The exit code is 77 when all of them were skipped.

Instance is one thinswapd: its own configuration, runtime directory, notify
socket and log. Leaving the `with` block stops it and removes what a broken
one may have left: swap, loop device, mount, servers, all found by the
runtime directory, so nothing of anybody else is touched.
"""

import ctypes
import fcntl
import inspect
import json
import os
import random
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import traceback

BUILD = os.path.abspath(sys.argv[1])
THINSWAPD = os.path.join(BUILD, "daemon", "thinswapd")
THINSWAP_FUSE = os.path.join(BUILD, "daemon", "thinswap-fuse")
THINSWAP = os.path.join(BUILD, "daemon", "thinswap")

DEFAULTS = {
    "device": {"size": '"256M"', "attach": '"none"', "connections": "1"},
    "ram": {"budget": '"32M"'},
    "tuning": {"threads": "4"},
}


class Skip(Exception):
    pass


def check(ok, what, detail=""):
    if not ok:
        raise AssertionError(f"{what}: {detail}" if detail else what)


def wait_for(condition, what, seconds=240):
    """A deadline against hanging, not a claim about speed."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        check(time.monotonic() < end, f"waited in vain for {what}")
        time.sleep(0.01)
    return result


def start_time(pid):
    """Field 22 of stat: with the pid it names a process; None: gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def swaps():
    """Device path -> (size, used) in KiB."""
    with open("/proc/swaps") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return {row[0]: (int(row[2]), int(row[3])) for row in rows}


def segments():
    """The numbers of all segments of System V shared memory."""
    return set(shm_by_key(by_number=True))


def shm_by_key(by_number=False):
    """Key -> number of each segment, or number -> key."""
    with open("/proc/sysvipc/shm") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return {int(row[by_number]): int(row[not by_number]) for row in rows}


def loops_below(directory):
    out = []
    for name in os.listdir("/sys/block"):
        try:
            with open(f"/sys/block/{name}/loop/backing_file") as file:
                if file.read().startswith(directory + "/"):
                    out.append("/dev/" + name)
        except OSError:
            pass
    return out


def mounts_below(directory):
    with open("/proc/self/mounts") as file:
        points = [line.split()[1] for line in file]
    return [point for point in points if point.startswith(directory + "/")]


def need_root():
    if os.geteuid() != 0:
        raise Skip("needs root")


def need_swap():
    need_root()
    for tool in ("mkswap", "swapon", "swapoff"):
        if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin"):
            raise Skip(f"{tool} is not installed")
    for path in ("/dev/fuse", "/dev/loop-control", "/proc/swaps"):
        if not os.path.exists(path):
            raise Skip(f"{path} does not exist")


def need_tools(*tools):
    for tool in tools:
        if not shutil.which(tool):
            raise Skip(f"{tool} is not installed")


def without_capability(name):
    """A command prefix that runs the rest without one capability."""
    return ["setpriv", "--bounding-set", f"-{name}", "--inh-caps", f"-{name}"]


def fake_systemctl(tmp, job):
    """Environment in which the unit's job is of that type; "" for none."""
    where = os.path.join(tmp, "bin")
    os.makedirs(where, exist_ok=True)
    line = f"17 thinswap.service {job} running" if job else ""
    fake(where, "systemctl", f'echo "$*" >>{tmp}/systemctl.args\n'
         f"echo '{line}'")
    return {"PATH": where + ":" + os.environ["PATH"],
            "THINSWAP_UNIT": "thinswap.service"}


class Instance:
    def __init__(self, tmp, keys=None, name="run", prefix=(), umask=0o022,
                 env=None):
        self.dir = os.path.join(tmp, name)
        self.prefix = list(prefix)
        self.umask = umask
        self.env = dict(os.environ, **(env or {}))
        self.config = os.path.join(tmp, name + ".toml")
        self.log_path = os.path.join(tmp, name + ".log")
        self.notify_path = os.path.join(tmp, name + ".notify")
        self.process = None
        self.servers = {}
        self.loads = []         # clients
        self.kept = set()       # segments that servers have had
        self.store = {}         # descriptors by name, as systemd has them
        self.store_lock = threading.Lock()
        self.has_store = False  # play systemd's part in that
        self.program = THINSWAPD
        self.write_config(keys or {})

    def write_config(self, keys):
        sections = {name: dict(rows) for name, rows in DEFAULTS.items()}
        for key, value in keys.items():
            section, _, key = key.partition(".")
            sections.setdefault(section, {})[key] = value
        with open(self.config, "w") as file:
            for section, rows in sections.items():
                file.write(f"[{section}]\n")
                file.writelines(f"{k} = {v}\n" for k, v in rows.items())
        os.chmod(self.config, 0o644)

    def launch(self):
        if os.path.exists(self.notify_path):
            os.unlink(self.notify_path)
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind(self.notify_path)
        os.chmod(self.notify_path, 0o777)
        self.told = []
        with open(self.log_path, "a") as log:
            self.process = self._popen(
                self.prefix + [self.program, "--config", self.config,
                               "--runtime-dir", self.dir],
                dict(self.env, NOTIFY_SOCKET=self.notify_path), log)
        # The queue is short and the daemon waits when it is full: as systemd
        # does, always read.
        threading.Thread(target=self._hear, args=(notify, self.process,
                                                  self.told),
                         daemon=True).start()
        return self

    def _hand_over(self, names):
        """In the child: the store from descriptor 3 on, as systemd does."""
        high = [fcntl.fcntl(self.store[name], fcntl.F_DUPFD, 100)
                for name in names]
        for i, fd in enumerate(high):
            os.dup2(fd, 3 + i)
            os.close(fd)

    def _popen(self, command, env, log):
        more = {}
        if self.has_store and self.store:
            names = sorted(self.store)
            command = ["sh", "-c", 'export LISTEN_PID=$$; exec "$@"', "sh",
                       *command]
            env.update(LISTEN_FDS=str(len(names)),
                       LISTEN_FDNAMES=":".join(names))
            more = {"preexec_fn": lambda: self._hand_over(names),
                    "close_fds": False}
        return subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                stdout=log, stderr=log, env=env,
                                umask=self.umask, **more)

    def _hear(self, notify, process, told):
        notify.settimeout(0.2)
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(notify, 4096, 4)
                self._stored(data.decode().splitlines(), fds)
                told.extend(data.decode().splitlines())
            except socket.timeout:
                if process.poll() is not None:
                    break
        notify.close()

    def _stored(self, lines, fds):
        """Keep descriptors, or let go of them, by FDNAME."""
        name = next((line[7:] for line in lines
                     if line.startswith("FDNAME=")), "stored")
        with self.store_lock:
            if "FDSTOREREMOVE=1" in lines and name in self.store:
                os.close(self.store.pop(name))
            if "FDSTORE=1" in lines and self.has_store:
                if name in self.store:
                    os.close(self.store.pop(name))
                self.store[name] = fds.pop()
        for fd in fds:
            os.close(fd)

    def heard(self, wanted, since=0):
        return any(line.startswith(wanted) for line in self.told[since:])

    def listen(self, wanted, since=0):
        """Wait until systemd would have heard it; False at the end."""
        wait_for(lambda: self.heard(wanted, since) or
                 self.process.poll() is not None, wanted)
        return self.heard(wanted, since)

    def start(self):
        self.launch()
        check(self.listen("READY=1"), "thinswapd starts", self.log())
        return self

    def remember_servers(self):
        """Servers outlive a killed daemon: keep what names them."""
        for name in ("nbdkit.pid", "standby.pid"):
            try:
                with open(os.path.join(self.dir, name)) as file:
                    pid, started = map(int, file.read().split())
                self.servers[pid] = started
            except (OSError, ValueError):
                pass
        if (number := self.kept_segment()) is not None:
            self.kept.add(number)
        return list(self.servers)

    def kept_segment(self):
        """The one that the note names, in whatever state it is; or None."""
        try:
            with open(os.path.join(self.dir, "memory")) as file:
                words = file.read().split()
            with open("/proc/sys/kernel/random/boot_id") as file:
                if words[-1] != file.read().strip():
                    return None
            if words[0] == "making":
                return shm_by_key().get(int(words[1]))
            return int(words[-2])
        except (OSError, ValueError, IndexError):
            return None

    def server_pid(self):
        return self.status()["server_pid"]

    def stop(self):
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(240)

    def kill(self):
        self.remember_servers()
        self.process.kill()
        self.process.wait()

    def kill_both(self):
        """The daemon, then its server, as a crash of everything would."""
        self.remember_servers()
        pid = list(self.servers)[-1]
        self.kill()
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: start_time(pid) is None, "its end")

    def kill_server(self):
        """SIGKILL; returns the successor's pid once it serves."""
        old = self.server_pid()
        os.kill(old, signal.SIGKILL)

        def successor():
            status = self.status()
            check(status["state"] in ("running", "recovering"), "state",
                  status)
            return status["server_pid"] if (
                status["state"] == "running" and
                status["server_pid"] != old) else None

        return wait_for(successor, "a successor")

    def log(self):
        with open(self.log_path) as file:
            return file.read()

    def cli(self, *args, prefix=()):
        return subprocess.run(
            [*prefix, THINSWAP, "--runtime-dir", self.dir, *args],
            capture_output=True, text=True, timeout=280)

    def status(self):
        done = self.cli("status", "--json")
        check(done.returncode == 0, "status", done.stdout + done.stderr)
        return json.loads(done.stdout)

    def stats(self):
        """Of a look that was later than now."""
        begin = time.monotonic()
        while True:
            done = self.cli("stats", "--json")
            check(done.returncode == 0, "stats", done.stdout + done.stderr)
            stats = json.loads(done.stdout)
            age = stats["server"]["looked_up_seconds_ago"]
            if age < time.monotonic() - begin or not stats["server"]["alive"]:
                return stats
            time.sleep(0.05)

    def qemu_io(self, *commands):
        args = [word for command in commands for word in ("-c", command)]
        return subprocess.run(
            ["qemu-io", "-f", "raw", *args,
             f"nbd+unix:///?socket={self.socket_path()}"],
            capture_output=True, text=True, timeout=280)

    def write_noise(self, n, offset=0):
        """n pages that do not compress; the file that has them too, None
        when some did not fit."""
        path = f"{self.config}.{offset}"
        with open(path, "wb") as file:
            file.write(random.Random(n + offset).randbytes(n * 4096))
        done = self.qemu_io(f"write -q -s {path} {offset} {n * 4096}")
        return path if done.returncode == 0 else None

    def socket_path(self, name="socket"):
        return os.path.join(self.dir, name)

    def left(self):
        """What is still there and should not be, as a list of texts."""
        out = [f"loop {dev}" for dev in loops_below(self.dir)]
        out += [f"mount {point}" for point in mounts_below(self.dir)]
        out += [f"server {pid}" for pid, started in self.servers.items()
                if start_time(pid) == started]
        for name in ("socket", "control", "device", "nbdkit.pid", "fuse",
                     "standby", "standby.pid", "socket.inode", "memory"):
            if os.path.lexists(os.path.join(self.dir, name)):
                out.append(f"file {name}")
        out += [f"segment {number}" for number in self.kept & segments()]
        return out

    def kill_servers(self):
        """Those that were seen, and those whose command line names us."""
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            try:
                with open(f"/proc/{pid}/cmdline") as file:
                    if f"keep={self.dir}/memory\0" in file.read():
                        self.servers[pid] = start_time(pid)
            except (OSError, UnicodeDecodeError):
                pass
        for pid, started in self.servers.items():
            if started is not None and start_time(pid) == started:
                os.kill(pid, signal.SIGKILL)

    def disown(self):
        """What is in the directory is another instance's."""
        self.servers, self.kept = {}, set()
        self.dir += ".disowned"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remember_servers()
        for load in self.loads:
            load.kill()
            load.wait()
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(120)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for device in loops_below(self.dir):
            if device in swaps():
                subprocess.run(["swapoff", device])
            subprocess.run(["losetup", "-d", device])
        for point in mounts_below(self.dir):
            subprocess.run(["umount", "-l", point])
        self.kill_servers()
        # Marked at least, should a server be on its way out still.
        for number in self.kept & segments():
            subprocess.run(["ipcrm", "-m", str(number)])
        with self.store_lock:
            self.has_store = False
            while self.store:
                os.close(self.store.popitem()[1])


JOURNAL = os.path.join(BUILD, "tests", "system", "ts-nbdjournal")


def journal(it, *more):
    """A client under load that notes what it was told is stored, until
    verdict() ends it."""
    it.loads.append(subprocess.Popen(
        [JOURNAL, "--socket", it.socket_path(), "--seconds", "3600", *more],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    return it.loads[-1]


def flip_fingerprint(number):
    """Make the layout of a kept segment another one, or undo that."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    base = libc.shmat(number, None, 0)
    check(base not in (None, ctypes.c_void_p(-1).value), "shmat")
    ctypes.c_uint64.from_address(base + 8).value ^= 0xff
    libc.shmdt(ctypes.c_void_p(base))


def replace(source, target):
    """As a package manager does: the old file is never written to."""
    shutil.copy(source, target + ".new")
    os.rename(target + ".new", target)


def verdict(process):
    """End it: all that it noted must be there. Returns its report."""
    process.terminate()
    out, _ = process.communicate(timeout=480)
    check(process.returncode == 0, "every acknowledged page is there", out)
    report = json.loads(out.splitlines()[-1])
    check(report["wrong"] == 0 and report["pages_verified"] > 1000,
          "pages were verified", report)
    return report


def socket_mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def fake(tmp, name, body):
    """An executable shell script."""
    path = os.path.join(tmp, name)
    with open(path, "w") as file:
        file.write("#!/bin/sh\n" + body + "\n")
    os.chmod(path, 0o755)
    return path


def quoted(text):
    return f'"{text}"'


def main(names):
    # One that takes too long is told to end, and cleans up after itself.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    wanted = sys.argv[2:]
    results = {"ok": 0, "failed": 0, "skipped": 0}
    for name, function in list(names.items()):
        if not name.startswith("test_") or not inspect.isfunction(function):
            continue
        if wanted and name not in wanted:
            continue
        title = re.sub(r"\s+", " ", function.__doc__).strip()
        tmp = tempfile.mkdtemp(prefix="thinswapd-test-")
        os.chmod(tmp, 0o755)
        try:
            function(tmp)
            result, detail = "ok", ""
        except Skip as skip:
            result, detail = "skipped", f": {skip}"
        except Exception as error:  # whatever it is, it is this test's
            result, detail = "failed", f": {type(error).__name__}: {error}"
            if not isinstance(error, AssertionError):
                traceback.print_exc(file=sys.stdout)
        results[result] += 1
        print(f"{result}: {title}{detail}", flush=True)
        if result == "failed":
            for log in sorted(os.listdir(tmp)):
                if log.endswith(".log"):
                    with open(os.path.join(tmp, log)) as file:
                        print(f"--- {log}\n" + file.read()[-8000:])
        if not mounts_below(tmp):
            shutil.rmtree(tmp, ignore_errors=True)
    print(" ".join(f"{n} {what}" for what, n in results.items()))
    if results["failed"]:
        sys.exit(1)
    sys.exit(77 if not results["ok"] else 0)
