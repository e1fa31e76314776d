# SPDX-License-Identifier: BSD-3-Clause
"""clitest.py - what the tests of the commands share

A script is called with the build directory first. It says what it finds with
check(), and ends with finish().
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(sys.argv[1])
PLUGIN = os.path.join(BUILD, "plugin", "nbdkit-thinswap-plugin.so")
THINSWAP = os.path.join(BUILD, "daemon", "thinswap")
PAGE = 4096
# In a tmpfs, so that statistics are those of this moment.
BASE = "/dev/shm" if os.path.isdir("/dev/shm") else None
_failed = 0


def check(what, ok, detail=""):
    global _failed
    _failed += not ok
    print(f"{'ok' if ok else 'FAILED'}: {what}" +
          (f": {detail}" if not ok else ""), flush=True)


def finish():
    sys.exit(1 if _failed else 0)


def need(*tools):
    for tool in tools:
        if not shutil.which(tool):
            print(f"SKIP: needs {tool}")
            sys.exit(77)


def wait_for(condition, what, seconds=60):
    """A deadline against hanging, not a claim about speed."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.02)
    return result


def scratch(name):
    return tempfile.TemporaryDirectory(prefix=f"ts-{name}.", dir=BASE)


@contextlib.contextmanager
def server(tmp, *params):
    """The plugin by itself, at tmp/sock with its statistics in tmp/stats."""
    sock, stats = os.path.join(tmp, "sock"), os.path.join(tmp, "stats")
    process = subprocess.Popen(["nbdkit", "--foreground", "-U", sock, PLUGIN,
                                *params, f"stats={stats}"])
    try:
        wait_for(lambda: os.path.exists(sock) or process.poll() is not None,
                 "the server")
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(30)


def qemu_io(sock, *commands):
    args = [word for command in commands for word in ("-c", command)]
    return subprocess.run(["qemu-io", "-f", "raw", "-d", "unmap", *args,
                           f"nbd+unix:///?socket={sock}"],
                          capture_output=True, text=True, timeout=100)
