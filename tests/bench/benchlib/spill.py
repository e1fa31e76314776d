# SPDX-License-Identifier: BSD-3-Clause
"""spill.py - the spill tier, against fio on the same file

The engine alone (spillbench), since nbdkit would be what is measured; and RAM
only work over nbdkit with a spill file configured and idle, and without one.
Everything alternates inside each round.
"""

import json
import os
import shutil
import subprocess
import tempfile

from . import peers
from .peers import CLEAN_ENV, Failed, by_name, median_of, say

MIB = 1 << 20
PARTS = {
    # name: (part, spill MiB, ram MiB, real pages, percent of the file stored)
    "fill-random": ("fill", 512, 32, False, None),
    "fill-pages": ("fill", 256, 32, True, None),
    "drain": ("drain", 512, 600, False, None),
    "read": ("read", 512, 32, False, None),
    "overwrite": ("overwrite", 256, 32, False, 80),
    # 80 % of both tiers, memory half as large as the file.
    "overwrite-both": ("overwrite", 256, 128, False, 120),
    "working-set": ("working-set", 512, 64, True, None),
}
FIO = {
    # The spiller has three segments in flight.
    "fio-write": ["--rw=write", "--bs=1M", "--ioengine=io_uring",
                  "--iodepth=3"],
    "fio-read": ["--rw=randread", "--bs=4k", "--ioengine=psync",
                 "--runtime=3"],
}
IDLE_PHASES = ("fill:bs=64K", "randread:bs=4K", "overwrite:bs=4K")


def spillbench(ctx, path, name):
    part, spill_mib, ram_mib, real, full = PARTS[name]
    scale = 4 if ctx.quick else 1
    if os.path.exists(path):
        os.remove(path)
    command = [os.path.join(os.path.dirname(ctx.nbdload), "spillbench"),
               "--file", path, "--spill", f"{spill_mib // scale}M",
               "--ram", f"{max(ram_mib // scale, 16)}M",
               *(["--pages", ctx.pages] if real else []),
               *(["--full", str(full)] if full else []), part]
    done = subprocess.run(command, env=CLEAN_ENV, text=True, check=False,
                          capture_output=True)
    if done.returncode:
        raise Failed(f"spillbench {part}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def fio(ctx, path, name):
    size = 128 if ctx.quick else 512
    done = subprocess.run(
        ["fio", f"--name={name}", f"--filename={path}", "--direct=1",
         f"--size={size}M", *FIO[name], "--output-format=json"],
        env=CLEAN_ENV, text=True, check=False, capture_output=True)
    if done.returncode:
        raise Failed(f"{name}: {done.stderr.strip()}")
    job = json.loads(done.stdout)["jobs"][0]["write" if "write" in name
                                             else "read"]
    clat = job["clat_ns"]["percentile"]
    return {"mb_s": job["bw_bytes"] / 1e6,
            "p50_us": clat["50.000000"] / 1e3,
            "p99_us": clat["99.000000"] / 1e3}


def idle(ctx, path):
    """thinswap with a spill file that nothing goes to, and without."""
    size, phases = 256 * MIB, IDLE_PHASES
    if ctx.quick:
        size = 64 * MIB
        phases = [phase if phase.startswith("fill") else
                  phase + ",seconds=0.5" for phase in phases]
    plain = [ctx.plugin, "size={size}", "ram=1G"]
    runs = {"ram-only": plain,
            "spill-idle": [*plain, f"spill={path}", "spill-size=64M"]}
    results = {}
    for name, arguments in runs.items():
        if os.path.exists(path):
            os.remove(path)
        got = peers.nbdload(ctx, arguments, size, list(phases))
        results[name] = by_name(phases, got)
    return results


def spill(ctx):
    if not shutil.which("fio"):
        raise Failed("group spill needs fio")
    folder = tempfile.mkdtemp(prefix="thinswap-bench-", dir="/var/tmp")
    path = os.path.join(folder, "spill")
    runs = []
    try:
        for number in range(ctx.rounds):
            say(f"round {number + 1} of {ctx.rounds}")
            one = {name: spillbench(ctx, path, name) for name in PARTS}
            one |= {name: fio(ctx, path, name) for name in FIO}
            one["idle"] = idle(ctx, path)
            runs.append(one)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return median_of(runs)


def rows(results):
    for name in PARTS:
        for what, value in results[name].items():
            yield [name, what, value]
    for name in FIO:
        for what, value in results[name].items():
            yield [name, what, value]
    for name, phases in results["idle"].items():
        for phase, one in phases.items():
            yield [name, f"{phase} MB/s", one["mb_s"]]
