#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""thinswap top in a real terminal (tmux), resized, and without a terminal

Usage: test_top.py BUILD
"""

import os
import random
import signal
import subprocess
import time

from clitest import (PAGE, THINSWAP, check, finish, need, qemu_io, scratch,
                     server)

class Terminal:
    def __init__(self, tmp, command):
        self.tmux = ["tmux", "-f", "/dev/null", "-S",
                     os.path.join(tmp, "tmux")]
        self.run("new-session", "-d", "-x", "100", "-y", "30", "-s", "top",
                 command)

    def run(self, *args):
        return subprocess.run([*self.tmux, *args], capture_output=True,
                              text=True, timeout=30,
                              env=dict(os.environ, LC_ALL="C.UTF-8"))

    def screen(self):
        return self.run("capture-pane", "-p", "-t", "top").stdout

    def wait(self, *texts):
        """Until all texts are on the screen; a deadline against hanging."""
        end = time.monotonic() + 20
        while not all(text in (screen := self.screen()) for text in texts):
            if time.monotonic() > end:
                return False, screen
            time.sleep(0.05)
        return True, screen

    def wait_line(self, start, is_right):
        """The same for the line that begins so."""
        end = time.monotonic() + 20
        while True:
            screen = self.screen()
            if any(line.startswith(start) and is_right(line)
                   for line in screen.splitlines()):
                return True, screen
            if time.monotonic() > end:
                return False, screen
            time.sleep(0.05)

    def see(self, what, *texts):
        check(what, *self.wait(*texts))

    def resize(self, x, y):
        self.run("resize-window", "-t", "top", "-x", str(x), "-y", str(y))

    def ends(self):
        end = time.monotonic() + 20
        while self.run("has-session", "-t", "top").returncode == 0:
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True


def write(data, sock):
    done = qemu_io(sock, f"write -q -s {data} 0 {3300 * PAGE}")
    check("written", done.returncode == 0, done)


def watch(tmp, process, stats, data, sock):
    terminal = Terminal(tmp, f"{THINSWAP} top --seconds 0.2 --file {stats}")
    try:
        terminal.see("first page", "device", "memory", "[#", "zero 300",
                     "raw ", "health", "good", "latency", "p99.9",
                     "decompress", "pages a second", "unspill")
        check("a bar for the spill file", *terminal.wait_line(
            "spill ", lambda line: "[#" in line and "MiB of 31 MiB" in line))
        write(data, sock)
        check("the history of writes", *terminal.wait_line(
            "  write ", lambda line: "█" in line))
        process.send_signal(signal.SIGSTOP)
        check("the health line while the server is stopped",
              *terminal.wait_line("health", lambda line: "server-stopped" in
                                  line))
        process.send_signal(signal.SIGCONT)
        check("and after it", *terminal.wait_line(
            "health", lambda line: line.split() == ["health", "good"]))
        terminal.run("send-keys", "-t", "top", "c")
        terminal.see("size classes", "fragmentation", "4096", "filled")
        terminal.run("send-keys", "-t", "top", "c")
        terminal.see("back", "pages a second")
        terminal.resize(60, 12)
        terminal.see("small: what fits", "device", "memory", "zero 300")
        lines = terminal.screen().rstrip("\n").split("\n")
        check("small: within the screen", len(lines) <= 12 and
              max(map(len, lines)) <= 60, lines)
        terminal.resize(140, 40)
        ok, screen = terminal.wait("spill_write", "classes")
        bar = next((l for l in screen.splitlines()
                    if l.startswith("memory")), "")
        check("large: bars use the width", ok and
              len(bar.split("]")[0]) > 90, screen)
        terminal.run("send-keys", "-t", "top", "q")
        check("q ends it", terminal.ends())
    finally:
        terminal.run("kill-server")


def without_terminal(stats):
    done = subprocess.Popen([THINSWAP, "top", "--seconds", "0.2", "--file",
                             stats], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, text=True)
    lines = [done.stdout.readline() for _ in range(3)]
    done.terminate()
    done.wait(30)
    check("plain lines without a terminal", "read/s" in lines[0] and
          lines[1].split()[0] == lines[2].split()[0] == "3300" and
          not any("\x1b" in line for line in lines), lines)


def main():
    need("nbdkit", "qemu-io", "tmux")
    with scratch("top") as tmp:
        stats, sock = os.path.join(tmp, "stats"), os.path.join(tmp, "sock")
        data = os.path.join(tmp, "data")
        with open(data, "wb") as file:
            file.write(bytes(300 * PAGE))
            file.write(random.Random(1).randbytes(3000 * PAGE))
        with server(tmp, "size=64M", "ram=8M", f"spill={tmp}/spill",
                    "spill-size=32M", "dictionary=false") as process:
            write(data, sock)
            watch(tmp, process, stats, data, sock)
            without_terminal(stats)
    finish()


main()
