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

from . import peers, spill, swap
from .peers import (CLEAN_ENV, Failed, alternate, by_name, free_bytes,
                    median_of, say)

MIB = 1 << 20
ROUNDS_OF_FILL = 10


def raw(ctx):
    """zstd alone on the same pages, one thread and all cores, and what zram
    makes of them."""
    result = {}
    for label, threads in (("one", 1), ("all", ctx.cores)):
        sample = "16384" if ctx.quick else "0"
        done = subprocess.run(
            [ctx.rawzstd, "--pages", ctx.pages, "--sample", sample,
             "--rounds", "1" if ctx.quick else "3", "--threads",
             str(threads), "--json", "--", str(ctx.level),
             *([f"{ctx.level},dict=16384,attach=1"] if label == "one"
               else [])],
            env=CLEAN_ENV, capture_output=True, text=True, check=True)
        result[label], *with_dictionary = json.loads(done.stdout)
        if with_dictionary:
            result["one-dictionary"] = with_dictionary[0]
    zram = {}
    for algorithm in ("lzo-rle",) if ctx.quick else ("lz4", "lzo-rle", "zstd"):
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
             "bs=1M", f"count={ctx.size_bytes // MIB}", "oflag=direct",
             "status=none"], check=True)
        with open(f"{device}/mm_stat", encoding="ascii") as mm_stat:
            stat = [int(word) for word in mm_stat.read().split()]
    return {"pages_bytes": stat[0], "compressed_bytes": stat[1],
            "resident_bytes": stat[2], "ratio": stat[0] / stat[1],
            "ratio_resident": stat[0] / stat[2]}


def nbd_scripts(ctx):
    """(bytes of the device, phases, more for nbdload), each run on a server
    of its own. The first is what the figures to reach are taken from; in the
    last, nothing else is under way while a request is."""
    # As many overwrites for every peer as there are pages: what they leave
    # behind in a peer's memory is part of what is compared.
    end = "seconds=1" if ctx.quick else \
        f"requests={ctx.size_bytes // 4096}"
    seconds = 1 if ctx.quick else 4
    yield ctx.size_bytes, [
        "fill:bs=64K", "seqread:bs=64K", f"overwrite:bs=4K,{end}",
        f"randread:bs=4K,seconds={seconds}", f"mixed:bs=4K,seconds={seconds}",
        "check:bs=64K", "discard:bs=2M",
        *["fill:bs=64K", "discard:bs=2M"] * (1 if ctx.quick else 3)], {}
    alone = {"connections": 1, "depth": 1}
    small = min(ctx.size_bytes, 64 * MIB)
    if ctx.quick:
        yield small, ["fill:bs=64K", "overwrite:bs=4K,seconds=0.5",
                      "randread:bs=4K,seconds=0.5"], alone
        return
    yield ctx.size_bytes, [
        "fill:bs=2M", "seqread:bs=2M", "overwrite:bs=2M,seconds=2",
        "randread:bs=2M,seconds=2", "mixed:bs=2M,seconds=2",
        "overwrite:bs=64K,seconds=2", "randread:bs=64K,seconds=2",
        "mixed:bs=64K,seconds=2", "discard:bs=64K"], {}
    yield small, ["fill:bs=4K", "seqread:bs=4K", "discard:bs=4K"], {}
    yield 2 * small, [
        "fill:bs=64K", *(f"{what}:bs={size},seconds=1"
                         for size in ("4K", "64K", "2M")
                         for what in ("overwrite", "randread"))], alone


def nbd(ctx):
    """Throughput, latency, CPU and memory over a unix socket."""
    def run(name):
        result = {}
        for size_bytes, phases, more in nbd_scripts(ctx):
            if name == "null":  # it has nothing to compare with
                phases = [phase for phase in phases
                          if not phase.startswith("check")]
            named = by_name(phases, peers.nbdload(
                ctx, ctx.peers[name], size_bytes, phases, **more))
            if more:
                named = {f"{phase}-alone": one
                         for phase, one in named.items()
                         if not phase.startswith("fill")}
            result.update(named)
        return result
    runs = alternate(ctx.rounds, list(ctx.peers), run)
    return {name: median_of(results) for name, results in runs.items()}


def memory(ctx):
    """What the pages become and what that takes, by the server's own account:
    with and without a dictionary, on each page set."""
    sets = {ctx.set: ctx.pages}
    if ctx.other_pages and not ctx.quick:
        sets |= ctx.other_pages
    variants = {"dictionary": [], "plain": ["dictionary=false"]}
    # In the second fill all pages meet the dictionary.
    phases = ["fill:bs=64K", "discard:bs=2M", "fill:bs=64K", "seqread:bs=64K"]

    def run(name):
        pages, variant = name
        with tempfile.TemporaryDirectory(prefix="thinswap-bench-") as folder:
            stats = os.path.join(folder, "stats")
            with peers.Server([*ctx.peers["thinswap"], *variants[variant],
                               f"stats={stats}"], ctx.size_bytes) as server:
                named = by_name(phases, peers.load_server(
                    ctx, server, ctx.size_bytes, phases,
                    pages=sets[pages]))
                return {**named, **account(ctx, stats)}
    names = [(pages, variant) for pages in sets for variant in variants]
    runs = alternate(ctx.rounds, names, run)
    return {pages: {variant: median_of(runs[pages, variant])
                    for variant in variants} for pages in sets}


def account(ctx, stats):
    """A server's statistics, when all that it was given is stored and they
    have been looked up since."""
    deadline = time.monotonic() + 10
    before = None
    while True:
        done = subprocess.run([ctx.thinswap, "stats", "--file", stats,
                               "--json"], env=CLEAN_ENV, check=True,
                              capture_output=True, text=True)
        now = json.loads(done.stdout)
        same = before and all(now[part] == before[part]
                              for part in ("slots", "gauges", "counters"))
        if same or time.monotonic() > deadline:
            break
        before = now
        time.sleep(1)
    return {"ratio": now["slots"]["used"] * 4096 /
            now["gauges"]["stored_bytes"],
            "stored_bytes": now["gauges"]["stored_bytes"],
            "engine_resident_bytes": now["gauges"]["resident_bytes"],
            "dictionaries": now["counters"]["dictionaries"],
            "compress_us": now["latency"]["compress"]["mean_ns"] / 1e3,
            "decompress_us": now["latency"]["decompress"]["mean_ns"] / 1e3}


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


def scale(ctx):
    """Connections, threads, workers, and how much is stored: the cost must
    not grow with it."""
    seconds = 0.5 if ctx.quick else 3
    size = min(ctx.size_bytes, 128 * MIB) if ctx.quick else ctx.size_bytes
    single = [f"overwrite:bs=4K,seconds={seconds}",
              f"randread:bs=4K,seconds={seconds}"]
    phases = ["fill:bs=64K", *single]

    def run(arguments, **more):
        return by_name(phases, peers.nbdload(ctx, arguments, size, phases,
                                             **more))
    ours = ctx.peers["thinswap"]
    result = {"connections": {}, "threads": {}, "workers": {}, "stored": {}}
    for connections in (1, 2, 4):
        say(f"{connections} connections")
        result["connections"][str(connections)] = {
            name: run(ctx.peers[name], connections=connections)
            for name in ("thinswap", "null", "sparse", "zstd")}
    for threads in (1, 2, 4, 16):
        say(f"{threads} threads of nbdkit a connection")
        result["threads"][str(threads)] = {
            name: run(["--threads", str(threads), *ctx.peers[name]])
            for name in ("thinswap", "null")}
    for workers in (1, 2, 4) if "inline" in ctx.peers else ():
        say(f"{workers} workers")
        result["workers"][str(workers)] = {
            "thinswap": run([*ours, f"workers={workers}"])}
    result["stored"] = stored(ctx, single)
    return result


def stored(ctx, single):
    """1, 4 and 16 GiB of pages, no two of them equal. -> GiB -> phases"""
    result = {}
    for gib in (1, 2) if ctx.quick else (1, 4, 16):
        # The load generator needs memory for its pages, the server for
        # theirs: at a ratio of two, whatever the pages are.
        if free_bytes() < (gib << 29) + ctx.size_bytes + (1 << 30):
            say(f"not enough memory to store {gib} GiB, left out")
            continue
        say(f"{gib} GiB stored")
        # Read back over all of it at the end: what is measured is right.
        phases = ["fill:bs=64K", *single, "check:bs=64K", "discard:bs=2M"]
        server = [*ctx.peers["thinswap"], f"ram={gib << 29}"]
        result[str(gib)] = by_name(phases, peers.nbdload(
            ctx, server, gib << 30, phases, options=["--unique"]))
    return result


GROUPS = {"raw": raw, "memory": memory, "nbd": nbd, "rounds": rounds,
          "swap": swap.swap, "spill": spill.spill, "scale": scale, "work": swap.work}
ONLY_FULL = ("scale", "work")


def run_groups(ctx, names, results, save):
    """Add each group to @results and save() them. One that fails is told in
    results["failed"] and does not keep the others from being measured."""
    results["failed"] = {}
    for name in names:
        start = time.monotonic()
        say(f"group {name}")
        try:
            results[name] = GROUPS[name](ctx)
        except (Failed, subprocess.CalledProcessError, OSError) as why:
            results["failed"][name] = str(why)
            say(f"group {name} FAILED: {why}")
        save(results)
        say(f"group {name} took {time.monotonic() - start:.0f} s")
