# SPDX-License-Identifier: BSD-3-Clause
"""Run one guest under QEMU's software emulation and watch it.

Its clock counts instructions (-icount), half a billion a second, and not the
host's time: a host that is slow or busy makes a run longer, and changes
nothing in it. Every limit here is therefore in the guest's seconds, which QMP
tells through the guest's real-time clock, also when the guest itself has hung.

Two serial ports lead out of it, each to a unix socket of ours: the kernel's
console, streamed and searched for complaints, and a port on which the
scenario and the heartbeat write lines of JSON. QMP also sends a serial break,
which the kernel takes as the SysRq key, so that a guest that has hung can
still print its blocked tasks.
"""
import calendar
import json
import os
import re
import selectors
import shutil
import socket
import subprocess
import time

GAP_LIMIT_S = 15    # longest pause between two heartbeats that may pass
HANG_LIMIT_S = 45   # no heartbeat for so long is a hang
STUCK_LIMIT_S = 120  # host seconds without QMP's answer: QEMU itself is stuck
# 2^1 ns an instruction. Idle time passes as the host's (sleep=on), so that a
# disk of the host is not infinitely slow.
ICOUNT = ["-accel", "tcg,thread=single", "-icount", "shift=1,align=off,sleep=on"]
HOST_CLOCK = ["-accel", "tcg,thread=multi"]

# What a healthy kernel never prints. The name is the verdict.
COMPLAINTS = [
    ("hung task", re.compile(r"INFO: task .* blocked for more than")),
    ("kernel panic", re.compile(r"Kernel panic - not syncing")),
    ("kernel warning", re.compile(
        r"WARNING: CPU|BUG: |Oops: |general protection fault|"
        r"possible circular locking|page allocation failure|"
        r"rcu.*(detected stalls|self-detected stall)")),
    ("i/o error", re.compile(
        r"I/O error|[Ww]rite-error on swap|[Rr]ead-error on swap|"
        r"nbd\d+: .*(Connection timed out|"
        r"Wrong magic|Other side returned error|Dead connection|"
        r"Receive control failed|Send \w+ failed)")),
    ("oom kill", re.compile(r"Killed process \d+ \(")),
    ("program crashed", re.compile(r"segfault at|traps: .* general prot")),
]


# The kernel's last words: userspace has come to its end.
DOWN = re.compile(r"reboot: (Restarting system|Power down)")


class Event(dict):
    """One line of the results; t is guest seconds since the start."""


class Qmp:
    """QEMU's control socket."""

    def __init__(self, connection):
        connection.settimeout(STUCK_LIMIT_S)
        self.stream = connection.makefile("rw")
        self.stream.readline()
        self.call("qmp_capabilities")

    def call(self, command, **arguments):
        """What the command returns; None on an error, or when QEMU ended."""
        try:
            self.stream.write(json.dumps({"execute": command,
                                          "arguments": arguments}) + "\n")
            self.stream.flush()
            for line in self.stream:
                answer = json.loads(line)
                if "event" not in answer:
                    return answer.get("return")
        except (OSError, ValueError):
            pass
        return None

    def clock(self):
        """The guest's real-time clock, in seconds; None when QEMU ended."""
        now = self.call("qom-get", path="/machine", property="rtc-time")
        if now is None:
            return None
        return calendar.timegm((now["tm_year"] + 1900, now["tm_mon"] + 1,
                                now["tm_mday"], now["tm_hour"], now["tm_min"],
                                now["tm_sec"]))


class Machine:
    def __init__(self, work, image, initramfs, mem_mib, cpus, disks,
                 append="", may_reboot=False, host_clock=False):
        self.work = work
        self.start = time.monotonic()
        self.clock_start = None     # the guest's clock at the start
        self.clock_read = 0         # host time of the last look at it
        self.guest_s = 0
        self.complaints = []        # (verdict, line)
        self.last_beat = None       # guest time of the last heartbeat
        self.worst_gap_ms = 0
        self.beats = 0
        self.console_lines = 0
        self.listeners = {}
        self.partial = {}
        self.options = HOST_CLOCK if host_clock else ICOUNT
        if not may_reboot:
            self.options = self.options + ["-no-reboot"]
        self.process = self._launch(image, initramfs, mem_mib, cpus, disks,
                                    append)

    def _launch(self, image, initramfs, mem_mib, cpus, disks, append):
        self.selector = selectors.DefaultSelector()
        for name in ("console", "results", "qmp"):
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(os.path.join(self.work, name))
            listener.listen(1)
            self.listeners[name] = listener
        cmdline = ("console=ttyS0 rootfstype=ramfs rdinit=/init "
                   "sysrq_always_enabled random.trust_cpu=on "
                   "loglevel=5 panic=-1 rcupdate.rcu_cpu_stall_timeout=60 "
                   "watchdog_thresh=30 mitigations=off no5lvl " + append)
        argv = [shutil.which("qemu-system-x86_64"),
                "-cpu", "max,erms=off", "-rtc", "base=utc,clock=vm",
                "-machine", "pc", "-smp", str(cpus), "-m", f"{mem_mib}M",
                "-nodefaults", "-no-user-config", "-display", "none",
                "-kernel", image, "-initrd", initramfs,
                "-append", cmdline,
                "-chardev", f"socket,id=console,path={self.work}/console",
                "-serial", "chardev:console",
                "-chardev", f"socket,id=results,path={self.work}/results",
                "-serial", "chardev:results",
                "-chardev", f"socket,id=qmp,path={self.work}/qmp",
                "-mon", "chardev=qmp,mode=control"]
        argv += self.options
        for disk in disks:
            argv += ["-drive", f"if=virtio,format=raw,cache=unsafe,{disk}"]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        self.sockets = {}
        for name, listener in self.listeners.items():
            listener.settimeout(30)
            connection, _ = listener.accept()
            listener.close()
            self.sockets[name] = connection
            if name == "qmp":
                continue
            connection.setblocking(False)
            self.partial[name] = b""
            self.selector.register(connection, selectors.EVENT_READ, name)
        self.qmp = Qmp(self.sockets["qmp"])
        return process

    def host_seconds(self):
        return round(time.monotonic() - self.start, 1)

    def elapsed(self):
        """The guest's seconds since the start; asked once a second."""
        if time.monotonic() - self.clock_read >= 1:
            now = self.qmp.clock()
            if now is not None:
                self.clock_start = self.clock_start or now
                self.guest_s = now - self.clock_start
            self.clock_read = time.monotonic()
        return self.guest_s

    def lines(self, timeout):
        """Lines that arrived within timeout seconds: (port, text)."""
        for key, _ in self.selector.select(timeout):
            try:
                data = key.fileobj.recv(65536)
            except ConnectionError:
                data = b""
            if not data:
                self.selector.unregister(key.fileobj)
                continue
            parts = (self.partial[key.data] + data).split(b"\n")
            self.partial[key.data] = parts.pop()
            for part in parts:
                yield key.data, part.decode("utf-8", "replace").strip("\r\0")

    def connected(self):
        return bool(self.selector.get_map())

    def read(self, timeout, on_console):
        """Take in what arrived; returns the events the guest sent."""
        events = []
        for port, line in self.lines(timeout):
            if port == "console":
                self.console_lines += 1
                on_console(line)
                if DOWN.search(line):
                    events.append(Event(event="down", t=self.elapsed()))
                for verdict, pattern in COMPLAINTS:
                    if pattern.search(line):
                        self.complaints.append((verdict, line))
                        break
                continue
            try:
                event = Event(json.loads(line))
            except ValueError:
                event = Event(event="garbled", line=line)
            event["t"] = self.elapsed()
            self._note_beat(event)
            events.append(event)
        return events

    def _note_beat(self, event):
        if event.get("event") == "beat":
            self.beats += 1
            self.last_beat = self.elapsed()
            self.worst_gap_ms = max(self.worst_gap_ms, event["gap_ms"])
        elif event.get("event") in ("beat-stop", "done", "leaving"):
            self.last_beat = None

    def silence(self):
        """Seconds since the last heartbeat; 0 while none is expected."""
        if self.last_beat is None:
            return 0
        return self.elapsed() - self.last_beat

    def sysrq(self, keys, on_console):
        """Press SysRq keys on the console and read what the kernel says."""
        try:
            for key in keys:
                self.qmp.call("chardev-send-break", id="console")
                self.sockets["console"].sendall(key.encode())
                # Until it has said all of it.
                quiet, limit = 0, time.monotonic() + 60
                while quiet < 3 and time.monotonic() < limit:
                    before = self.console_lines
                    self.read(1, on_console)
                    quiet = quiet + 1 if before == self.console_lines else 0
        except OSError as error:
            on_console(f"runner: no SysRq: {error}")

    def stop(self):
        """Give the guest a moment to power itself off, then end it."""
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for connection in self.sockets.values():
            connection.close()
