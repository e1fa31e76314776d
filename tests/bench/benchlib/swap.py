# SPDX-License-Identifier: BSD-3-Clause
"""swap.py - real swap in small cgroups: a verifying pager, ordinary programs

Everything runs through swaprun.sh, which attaches a kind of swap, runs one
command in a memory cgroup and undoes it all.
"""

import contextlib
import json
import os
import subprocess
import tempfile

from . import peers
from .peers import CLEAN_ENV, Failed, alternate, median_of, say

MIB = 1 << 20


def swap_kinds(ctx):
    size = str(2 * ctx.swap_bytes)
    kinds = {
        name: ["nbdkit", *(part.format(size=size)
                           for part in ctx.peers[name])]
        for name in ("thinswap", "sparse")}
    if ctx.fuse_command:
        kinds["thinswap-fuse"] = ["fuse", *ctx.fuse_command]
        if "inline" in ctx.peers and not ctx.quick:
            kinds["fuse-inline"] = ["fuse", *ctx.fuse_command,
                                    "write-behind=0"]
    kinds["zram-lz4"] = ["zram", "lz4", size]
    if not ctx.quick:
        kinds["zram-lzo-rle"] = ["zram", "lzo-rle", size]
    return kinds


def swaprun(ctx, kind, command, cgroup_bytes):
    """Run a command in a small cgroup on a kind of swap. (output, report)"""
    with tempfile.NamedTemporaryFile("r", prefix="thinswap-report-") as report:
        status, output, errors = peers.run_gently(
            [ctx.swaprun, "--report", report.name, "--cgroup",
             str(cgroup_bytes), *kind, "--", *command])
        if status:
            said = (errors or output).strip()
            raise Failed(f"{' '.join(kind)}: {said[-400:]}")
        return output, json.load(report)


def on_kinds(rounds, kinds, run, may_fail=()):
    """run(name) for every kind of swap, in turn, round by round; the medians
    of those that the machine has. A failure of one in @may_fail is told, and
    leaves it out."""
    missing = set()

    def run_or_skip(name):
        try:
            return None if name in missing else run(name)
        except Failed as why:
            skipped = name.startswith("zram") and "SKIP" in str(why)
            if not skipped and name not in may_fail:
                raise
            say(str(why))
            missing.add(name)
            return None
    runs = alternate(rounds, list(kinds), run_or_skip)
    return {name: median_of(results) for name, results in runs.items()
            if name not in missing}


def swap(ctx):
    """The verifying pager on real swap, three times its cgroup's size."""
    kinds = swap_kinds(ctx)
    command = [ctx.pager, "--pages", ctx.pages, "--size",
               str(ctx.swap_bytes), "--seconds", "1" if ctx.quick else "10",
               "--seed", "1", "--json"]

    def run(name):
        # Or the first run would measure the disk.
        with open(ctx.pages, "rb", buffering=0) as pages:
            while pages.read(4 * MIB):
                pass
        output, report = swaprun(ctx, kinds[name], command,
                                 ctx.swap_cgroup_bytes)
        return {**json.loads(output), **report}
    return on_kinds(ctx.rounds, kinds, run)


def work(ctx):
    """Ordinary programs in cgroups that are too small for them, once: they
    take long."""
    jobs = {
        "memhog": (160 * MIB, [
            "memhog", "-r1" if ctx.quick else "-r3", "384m"]),
        # Bytes that compress, and bytes that do not.
        **{f"stress-ng {method}": (128 * MIB, [
            "stress-ng", "--vm", "1", "--vm-bytes", "160m", "--vm-keep",
            "--vm-ops", "50" if ctx.quick else "200", "--vm-method",
            method, "--verify", "--quiet"])
           for method in ("gray", "rand-sum")},
        "build": (16 * MIB, None),
    }
    kinds = {name: kind for name, kind in swap_kinds(ctx).items()
             if name not in ("zram-lzo-rle", "fuse-inline")}
    result = {}
    for job, (cgroup_bytes, command) in jobs.items():
        tool = command[0] if command else "meson"
        if not any(os.access(os.path.join(folder, tool), os.X_OK)
                   for folder in CLEAN_ENV["PATH"].split(":")):
            say(f"{tool} is not installed, left out")
            continue

        def run(name):
            with contextlib.ExitStack() as stack:
                argv = command or build_command(ctx, stack)
                _, report = swaprun(ctx, kinds[name], argv, cgroup_bytes)
            if not report["most_swapped_bytes"]:
                raise Failed(f"{job} did not swap")
            return {**report, "seconds": report["milliseconds"] / 1000}
        say(f"{job} in {cgroup_bytes // MIB} MiB")
        # A program that its cgroup's swap does not save is killed, on a
        # peer's swap no less.
        result[job] = on_kinds(1, kinds, run,
                               set(kinds) - {"thinswap", "thinswap-fuse"})
    return result


def build_command(ctx, stack):
    """This project's plugin, built with four compilers at a time, configured
    beforehand, and really compiled."""
    folder = stack.enter_context(
        tempfile.TemporaryDirectory(prefix="thinswap-build-"))
    subprocess.run(["meson", "setup", folder, ctx.root], env=CLEAN_ENV,
                   check=True, capture_output=True)
    return ["env", "CCACHE_DISABLE=1", "ninja", "-C", folder, "-j4",
            "--quiet", "plugin/nbdkit-thinswap-plugin.so"]
