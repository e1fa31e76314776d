# SPDX-License-Identifier: BSD-3-Clause
"""Run one guest under QEMU's software emulation and watch it.

Two serial ports lead out of it, each to a unix socket of ours: the kernel's
console, streamed and searched for complaints, and a port on which the
scenario and the heartbeat write lines of JSON. A QMP socket is there for
one thing: a serial break, which the kernel takes as the SysRq key, so that
a guest that has hung can still print its blocked tasks.
"""
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
PANIC_GRACE_S = 5   # console output still read after a panic

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
    """One line of the results; t is seconds since the guest was started."""


class Machine:
    def __init__(self, work, image, initramfs, mem_mib, cpus, disks,
                 append="", may_reboot=False):
        self.work = work
        self.start = time.monotonic()
        self.console_text = ""
        self.complaints = []        # (verdict, line)
        self.last_beat = None       # host time of the last heartbeat
        self.worst_gap_ms = 0
        self.beats = 0
        self.listeners = {}
        self.partial = {}
        self.options = [] if may_reboot else ["-no-reboot"]
        self.process = self._launch(image, initramfs, mem_mib, cpus, disks,
                                    append)

    def _launch(self, image, initramfs, mem_mib, cpus, disks, append):
        self.selector = selectors.DefaultSelector()
        for name in ("console", "results"):
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(os.path.join(self.work, name))
            listener.listen(1)
            self.listeners[name] = listener
        cmdline = ("console=ttyS0 rootfstype=ramfs rdinit=/init "
                   "sysrq_always_enabled random.trust_cpu=on "
                   "loglevel=5 panic=-1 rcupdate.rcu_cpu_stall_timeout=60 "
                   "watchdog_thresh=30 " + append)
        argv = [shutil.which("qemu-system-x86_64"),
                "-accel", "tcg,thread=multi", "-cpu", "max",
                "-machine", "pc", "-smp", str(cpus), "-m", f"{mem_mib}M",
                "-nodefaults", "-no-user-config", "-display", "none",
                "-kernel", image, "-initrd", initramfs,
                "-append", cmdline,
                "-chardev", f"socket,id=console,path={self.work}/console",
                "-serial", "chardev:console",
                "-chardev", f"socket,id=results,path={self.work}/results",
                "-serial", "chardev:results",
                "-qmp", f"unix:{self.work}/qmp,server=on,wait=off"]
        argv += self.options
        for disk in disks:
            argv += ["-drive", f"if=virtio,format=raw,cache=unsafe,{disk}"]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        self.sockets = {}
        for name, listener in self.listeners.items():
            listener.settimeout(30)
            connection, _ = listener.accept()
            listener.close()
            connection.setblocking(False)
            self.sockets[name] = connection
            self.partial[name] = b""
            self.selector.register(connection, selectors.EVENT_READ, name)
        return process

    def elapsed(self):
        return round(time.monotonic() - self.start, 1)

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
            self.last_beat = time.monotonic()
            self.worst_gap_ms = max(self.worst_gap_ms, event["gap_ms"])
        elif event.get("event") in ("beat-stop", "done", "leaving"):
            self.last_beat = None

    def silence(self):
        """Seconds since the last heartbeat; 0 while none is expected."""
        if self.last_beat is None:
            return 0
        return time.monotonic() - self.last_beat

    def sysrq(self, keys, on_console):
        """Press SysRq keys on the console and read what the kernel says."""
        qmp = socket.socket(socket.AF_UNIX)
        qmp.settimeout(10)
        try:
            qmp.connect(os.path.join(self.work, "qmp"))
            stream = qmp.makefile("rw")
            stream.readline()
            for request in [{"execute": "qmp_capabilities"}]:
                stream.write(json.dumps(request) + "\n")
                stream.flush()
                stream.readline()
            for key in keys:
                stream.write(json.dumps({"execute": "chardev-send-break",
                                         "arguments": {"id": "console"}})
                             + "\n")
                stream.flush()
                stream.readline()
                self.sockets["console"].sendall(key.encode())
                until = time.monotonic() + 4
                while time.monotonic() < until:
                    self.read(0.5, on_console)
        except OSError as error:
            on_console(f"runner: no SysRq: {error}")
        finally:
            qmp.close()

    def stop(self):
        """Give the guest a moment to power itself off, then end it."""
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for connection in self.sockets.values():
            connection.close()
