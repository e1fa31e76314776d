# SPDX-License-Identifier: BSD-3-Clause
"""peers.py - the servers that are compared, and runs of nbdload on them

A server is started for every run and stopped after it, so that none inherits
the memory of an earlier one. All get the same nbdkit, socket type, pages,
connections and depth.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

CLEAN_ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
START_SECONDS = 30


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


class Failed(Exception):
    """A measurement that could not be made, or a wrong page."""


def nbdkit_peers(plugin, extra=()):
    """name -> nbdkit's arguments, with {size} for the bytes of the device."""
    return {
        "thinswap": [plugin, "size={size}", *extra],
        "null": ["null", "{size}"],
        "sparse": ["memory", "{size}", "allocator=sparse"],
        "zstd": ["memory", "{size}", "allocator=zstd"],
    }


def plugin_takes(plugin, parameter):
    """Whether the plugin knows a parameter, such as write-behind=0."""
    done = subprocess.run(["nbdkit", "-U", "-", plugin, "size=1M", parameter,
                           "--run", "true"], env=CLEAN_ENV, check=False,
                          capture_output=True)
    return done.returncode == 0


def run_gently(command):
    """Run a command that cleans up after itself, also when this program is
    interrupted: ask it to end, and wait for it. (subprocess.run would kill
    it.) Returns (status, output, errors)."""
    with subprocess.Popen(command, env=CLEAN_ENV, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        try:
            output, errors = process.communicate()
        except BaseException:
            process.terminate()
            process.communicate()
            raise
    return process.returncode, output, errors


class Server:
    """nbdkit in the foreground, as a context manager; `program` may run it
    under another program."""

    def __init__(self, arguments, size_bytes, program=("nbdkit",)):
        self.program = program
        self.arguments = [part.format(size=size_bytes) for part in arguments]
        self.folder = self.process = self.log = None

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="thinswap-bench-")
        self.socket = os.path.join(self.folder, "socket")
        ready = os.path.join(self.folder, "pid")
        self.log = open(os.path.join(self.folder, "log"), "wb")
        self.process = subprocess.Popen(
            [*self.program, "--foreground", "--exit-with-parent", "--unix",
             self.socket, "--pidfile", ready, *self.arguments],
            env=CLEAN_ENV, stdin=subprocess.DEVNULL, stdout=self.log,
            stderr=self.log)
        deadline = time.monotonic() + START_SECONDS
        # nbdkit writes its pid file when it accepts connections.
        while not (os.path.exists(ready) and os.path.getsize(ready)):
            if self.process.poll() is not None or \
                    time.monotonic() > deadline:
                said = self.said()
                self.__exit__()
                raise Failed(f"nbdkit {' '.join(self.arguments)}: {said}")
            time.sleep(0.01)
        return self

    def said(self):
        with open(self.log.name, encoding="utf-8", errors="replace") as log:
            return log.read().strip().replace("\n", "; ")[-400:]

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def phase_name(phase):
    """fill:bs=64K,rounds=2 is known as fill-64K."""
    name, _, keys = phase.partition(":")
    size = dict(key.split("=") for key in keys.split(",") if key).get("bs")
    return f"{name}-{size or '64K'}"


def load_server(ctx, server, size_bytes, phases, connections=2, depth=16,
                options=(), pages=None):
    """Run phases on a server. Returns a list of results, in order."""
    command = [ctx.nbdload, "--socket", server.socket, "--pages",
               pages or ctx.pages, "--size", str(size_bytes),
               "--connections", str(connections), "--depth", str(depth),
               "--server-pid", str(server.process.pid), *options, *phases]
    done = subprocess.run(command, env=CLEAN_ENV, text=True, check=False,
                          capture_output=True)
    if done.returncode:
        raise Failed(f"{' '.join(server.arguments)}: {done.stderr.strip()} "
                     f"{server.said()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def nbdload(ctx, arguments, size_bytes, phases, **more):
    """The same on a server started for it."""
    with Server(arguments, size_bytes) as server:
        return load_server(ctx, server, size_bytes, phases, **more)


def by_name(phases, results):
    """Results by the phase's name. A phase run again gives the median, except
    a fill: the first one finds no memory in the server yet, later ones are
    `refill`."""
    runs = {}
    for phase, result in zip(phases, results):
        name = phase_name(phase)
        if name.startswith("fill") and name in runs:
            name = "re" + name
        runs.setdefault(name, []).append(result)
    return {name: median_of(same) for name, same in runs.items()}


def median_of(runs):
    """The median of every number in dictionaries of the same shape."""
    first = runs[0]
    if isinstance(first, dict):
        return {key: median_of([run[key] for run in runs if key in run])
                for key in first}
    if isinstance(first, bool) or not isinstance(first, (int, float)):
        return first
    return statistics.median(runs)


def alternate(rounds, names, run):
    """run(name) for every name, round by round. name -> list of results."""
    results = {name: [] for name in names}
    for number in range(rounds):
        for name in names:
            say(f"round {number + 1} of {rounds}: {name}")
            results[name].append(run(name))
    return results


def free_bytes():
    with open("/proc/meminfo", encoding="ascii") as meminfo:
        for line in meminfo:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return 0
