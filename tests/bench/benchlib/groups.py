# SPDX-License-Identifier: BSD-3-Clause
"""groups.py - what tools/bench measures, a function a group

Every function takes the context (tools/bench) and returns a dictionary that
goes into the JSON file under the group's name. Peers alternate inside each
round; figures are medians over the rounds, every one by itself.
"""

import contextlib
import json
import os
import subprocess
import tempfile
import time

from . import peers, spill
from .peers import CLEAN_ENV, Failed, by_name, median_of, say

MIB = 1 << 20
ROUNDS_OF_FILL = 10


def alternate(rounds, names, run):
    """run(name) for every name, round by round. name -> list of results."""
    results = {name: [] for name in names}
    for number in range(rounds):
        for name in names:
            say(f"round {number + 1} of {rounds}: {name}")
            results[name].append(run(name))
    return results


def raw(ctx):
    """zstd alone on the same pages, one thread and all cores, and what zram
    makes of them."""
    result = {}
    for label, threads in (("one", 1), ("all", ctx.cores)):
        # What one thread makes of all pages is what resident memory is
        # compared with; times alone need no more than a sample.
        sample = "32768" if ctx.quick and label == "all" else "0"
        done = subprocess.run(
            [ctx.rawzstd, "--pages", ctx.pages, "--sample", sample,
             "--rounds", "1" if ctx.quick else "3", "--threads",
             str(threads), "--json", "--", str(ctx.level)],
            env=CLEAN_ENV, capture_output=True, text=True, check=True)
        result[label] = json.loads(done.stdout)[0]
    zram = {}
    for algorithm in ("lz4", "lzo-rle", "zstd"):
        with contextlib.suppress(Failed, OSError):
            zram[algorithm] = zram_ratio(ctx, algorithm)
    result["zram"] = zram
    return result


@contextlib.contextmanager
def zram_device(algorithm, size_bytes):
    """A zram device of our own; its directory in /sys/block."""
    control = "/sys/class/zram-control/"
    if not os.path.exists(control + "hot_add"):
        raise Failed("the kernel has no zram")
    with open(control + "hot_add", encoding="ascii") as hot_add:
        number = hot_add.read().strip()
    device = f"/sys/block/zram{number}"

    def put(name, value):
        with open(name, "w", encoding="ascii") as out:
            out.write(str(value))
    try:
        put(f"{device}/comp_algorithm", algorithm)
        put(f"{device}/disksize", size_bytes)
        yield device
    finally:
        put(f"{device}/reset", 1)
        put(control + "hot_remove", number)


def zram_ratio(ctx, algorithm):
    with zram_device(algorithm, ctx.size_bytes) as device:
        subprocess.run(
            ["dd", f"if={ctx.pages}", f"of=/dev/{os.path.basename(device)}",
             "bs=1M", "oflag=direct", "status=none"], check=True)
        with open(f"{device}/mm_stat", encoding="ascii") as mm_stat:
            stat = [int(word) for word in mm_stat.read().split()]
    return {"pages_bytes": stat[0], "compressed_bytes": stat[1],
            "resident_bytes": stat[2], "ratio": stat[0] / stat[1],
            "ratio_resident": stat[0] / stat[2]}


def nbd_scripts(ctx):
    """(bytes of the device, phases), each run on a server of its own. The
    first is what the figures to reach are taken from."""
    # As many overwrites for every peer as there are pages: what they leave
    # behind in a peer's memory is part of what is compared.
    end = "seconds=1" if ctx.quick else \
        f"requests={ctx.size_bytes // 4096}"
    seconds = 1 if ctx.quick else 4
    yield ctx.size_bytes, [
        "fill:bs=64K", "seqread:bs=64K", f"overwrite:bs=4K,{end}",
        f"randread:bs=4K,seconds={seconds}", f"mixed:bs=4K,seconds={seconds}",
        "check:bs=64K", "discard:bs=2M",
        *["fill:bs=64K", "discard:bs=2M"] * (1 if ctx.quick else 3)]
    if ctx.quick:
        return
    yield ctx.size_bytes, [
        "fill:bs=2M", "seqread:bs=2M", "overwrite:bs=2M,seconds=2",
        "randread:bs=2M,seconds=2", "mixed:bs=2M,seconds=2",
        "overwrite:bs=64K,seconds=2", "randread:bs=64K,seconds=2",
        "mixed:bs=64K,seconds=2", "discard:bs=64K"]
    yield min(ctx.size_bytes, 64 * MIB), [
        "fill:bs=4K", "seqread:bs=4K", "discard:bs=4K"]


def nbd(ctx):
    """Throughput, latency, CPU and memory over a unix socket."""
    def run(name):
        result = {}
        for size_bytes, phases in nbd_scripts(ctx):
            if name == "null":  # it has nothing to compare with
                phases = [phase for phase in phases
                          if not phase.startswith("check")]
            result.update(by_name(phases, peers.nbdload(
                ctx, ctx.peers[name], size_bytes, phases)))
        return result
    runs = alternate(ctx.rounds, list(ctx.peers), run)
    return {name: median_of(results) for name, results in runs.items()}


def rounds(ctx):
    """Fill and discard again and again on one server: does it degrade?"""
    phases = ["fill:bs=64K", "discard:bs=2M"] * ROUNDS_OF_FILL

    def run(name):
        results = peers.nbdload(ctx, ctx.peers[name], ctx.size_bytes, phases)
        return {"fill": dict(enumerate(results[0::2])),
                "discard": dict(enumerate(results[1::2]))}
    names = ["thinswap"] if ctx.quick else ["thinswap", "zstd"]
    runs = alternate(ctx.rounds, names, run)
    return {name: {op: list(median_of([run[op] for run in results]).values())
                   for op in ("fill", "discard")}
            for name, results in runs.items()}


def swap_kinds(ctx):
    size = str(2 * ctx.swap_bytes)
    kinds = {
        name: ["nbdkit", *(part.format(size=size)
                           for part in ctx.peers[name])]
        for name in ("thinswap", "sparse")}
    if ctx.fuse_command:
        kinds["thinswap-fuse"] = ["fuse", *ctx.fuse_command]
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


def swap(ctx):
    """The verifying pager on real swap, three times its cgroup's size."""
    kinds = swap_kinds(ctx)
    command = [ctx.pager, "--pages", ctx.pages, "--size",
               str(ctx.swap_bytes), "--seconds", "2" if ctx.quick else "10",
               "--seed", "1", "--json"]
    missing = {}

    def run(name):
        # Or the first run would measure the disk.
        with open(ctx.pages, "rb", buffering=0) as pages:
            while pages.read(4 * MIB):
                pass
        if name in missing:
            return None
        try:
            output, report = swaprun(ctx, kinds[name], command,
                                     ctx.swap_cgroup_bytes)
        except Failed as why:
            if name.startswith("zram") and "SKIP" in str(why):
                say(str(why))
                missing[name] = str(why)
                return None
            raise
        return {**json.loads(output), **report}
    runs = alternate(ctx.rounds, list(kinds), run)
    result = {name: median_of(results) for name, results in runs.items()
              if name not in missing}
    return result


def scale(ctx):
    """Connections, and how much is stored: the cost must not grow."""
    seconds = 1 if ctx.quick else 3
    single = [f"overwrite:bs=4K,seconds={seconds}",
              f"randread:bs=4K,seconds={seconds}"]
    result = {"connections": {}, "stored": {}}
    for connections in (1, 2, 4):
        say(f"{connections} connections")
        phases = ["fill:bs=64K", *single]
        result["connections"][str(connections)] = {
            name: by_name(phases, peers.nbdload(
                ctx, ctx.peers[name], ctx.size_bytes, phases, connections))
            for name in ("thinswap", "null", "sparse")}
    for gib in (1, 2) if ctx.quick else (1, 4, 16):
        # The load generator needs memory for its pages, the server for
        # theirs: at a ratio of two, whatever the pages are.
        if free_bytes() < (gib << 29) + ctx.size_bytes + (1 << 30):
            say(f"not enough memory to store {gib} GiB, left out")
            continue
        say(f"{gib} GiB stored")
        phases = ["fill:bs=64K", *single, "discard:bs=2M"]
        server = [*ctx.peers["thinswap"], f"ram={gib << 29}"]
        result["stored"][str(gib)] = by_name(phases, peers.nbdload(
            ctx, server, gib << 30, phases))
    return result


def free_bytes():
    with open("/proc/meminfo", encoding="ascii") as meminfo:
        for line in meminfo:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return 0


def work(ctx):
    """Ordinary programs in cgroups that are too small for them."""
    jobs = {
        "memhog": (160 * MIB, [
            "memhog", "-r1" if ctx.quick else "-r3", "384m"]),
        "stress-ng": (96 * MIB, [
            "stress-ng", "--vm", "1", "--vm-bytes", "192m", "--vm-ops",
            "200" if ctx.quick else "1000", "--vm-method", "rand-set",
            "--verify", "--quiet"]),
        "build": (16 * MIB, None),
    }
    kinds = {name: kind for name, kind in swap_kinds(ctx).items()
             if name != "zram-lzo-rle"}
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
            return {**report, "seconds": report["milliseconds"] / 1000}
        runs = alternate(ctx.rounds, list(kinds), run)
        result[job] = {name: median_of(results)
                       for name, results in runs.items()}
    return result


def build_command(ctx, stack):
    """This project's plugin, built with four compilers at a time, configured
    beforehand."""
    folder = stack.enter_context(
        tempfile.TemporaryDirectory(prefix="thinswap-build-"))
    subprocess.run(["meson", "setup", folder, ctx.root], env=CLEAN_ENV,
                   check=True, capture_output=True)
    return ["ninja", "-C", folder, "-j4", "--quiet",
            "plugin/nbdkit-thinswap-plugin.so"]


GROUPS = {"raw": raw, "nbd": nbd, "rounds": rounds, "swap": swap,
          "spill": spill.spill, "scale": scale, "work": work}
ONLY_FULL = ("scale", "work")


def run_groups(ctx, names):
    results = {}
    for name in names:
        start = time.monotonic()
        say(f"group {name}")
        results[name] = GROUPS[name](ctx)
        say(f"group {name} took {time.monotonic() - start:.0f} s")
    return results
