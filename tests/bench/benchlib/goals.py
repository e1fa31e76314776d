# SPDX-License-Identifier: BSD-3-Clause
"""goals.py - the figures to reach, computed from one run

Every goal is a number that must be at least or at most its target. One that
needs a group that was not run, or a peer that the machine does not have, is
"not measured", which is not "reached".
"""

from dataclasses import dataclass
from typing import Callable

MIB = 1 << 20


@dataclass
class Goal:
    text: str
    sign: str  # ">=" or "<="
    target: float
    value: Callable[[dict], float]

    def judge(self, results):
        """(value or None, verdict)"""
        try:
            value = self.value(results)
        except (KeyError, IndexError, TypeError, ZeroDivisionError):
            return None, "not measured"
        good = value >= self.target if self.sign == ">=" \
            else value <= self.target
        return value, "reached" if good else "NOT REACHED"


def mb_s(peer, phase):
    return lambda r: r["nbd"][peer][phase]["mb_s"]


def over(first, second):
    return lambda r: first(r) / second(r)


def against(phase, peer):
    """thinswap's throughput as a multiple of the peer's."""
    return over(mb_s("thinswap", phase), mb_s(peer, phase))


def read_p99(peer):
    return lambda r: r["nbd"][peer]["randread-4K"]["read_us"]["p99"]


def peak(peer):
    """After everything that the first server of group nbd went through (a
    peak only grows, and refill is its last). Requests of 2 MiB, which need
    64 MiB of nbdkit's own buffers, are not among it."""
    return lambda r: r["nbd"][peer]["refill-64K"]["server_peak_kib"]


def as_default(r, pages=None):
    """Group memory, for a page set (the first is the one measured with),
    stored as the plugin does by default."""
    return (r["memory"][pages] if pages else
            next(iter(r["memory"].values())))["dictionary"]


def resident_factor(r):
    """Resident memory beyond 16 MiB, as a multiple of the bytes that the
    server's own compression made. Taken after all was read, so nothing waits
    to be compressed."""
    one = as_default(r)
    rss = one["seqread-64K"]["server_rss_kib"] * 1024
    return (rss - 16 * MIB) / one["stored_bytes"]


# What a phase asks of the codec.
WORK = {"fill-64K": "comp_us", "overwrite-4K": "comp_us",
        "seqread-64K": "decomp_us", "randread-4K": "decomp_us"}


def bound(r, phase, codec="one"):
    """MB/s of transport and codec one after the other, on all cores: what
    null reaches, and zstd alone on each core."""
    transport = r["nbd"]["null"][phase]["mb_s"]
    alone = r["cores"] * 4096 / r["raw"][codec][WORK[phase]]
    return 1 / (1 / transport + 1 / alone)


def of_bound(phase, codec="one"):
    return lambda r: mb_s("thinswap", phase)(r) / bound(r, phase, codec)


def growth(phase):
    """Server CPU a page with most stored to that with least."""
    def value(r):
        by_gib = r["scale"]["stored"]
        least, *_, most = sorted(by_gib, key=int)
        return (by_gib[most][phase]["server_cpu_us_page"] /
                by_gib[least][phase]["server_cpu_us_page"])
    return value


def alone(phase, point):
    """A lone request's latency with write-behind to that without."""
    def value(r):
        with_it, without = (r["nbd"][peer][f"{phase}-alone"]["write_us"]
                            for peer in ("thinswap", "inline"))
        return with_it[point] / without[point]
    return value


def dictionary(worst, value):
    """With a dictionary to without it, the worst of the page sets."""
    return lambda r: worst(value(one["dictionary"]) / value(one["plain"])
                           for one in r["memory"].values())


def last_to_first(op):
    def value(r):
        speeds = [one["mb_s"] for one in r["rounds"]["thinswap"][op]]
        return speeds[9] / speeds[0]
    return value


def discard_speed(r):
    """8 GB/s, or half of sparse's: the better of the two, 1 is enough."""
    ours = r["nbd"]["thinswap"]["discard-2M"]["mb_s"]
    return max(ours / 8000,
               ours / r["nbd"]["sparse"]["discard-2M"]["mb_s"] / 0.5)


def ours_on_swap(r):
    """The better of the two ways to attach without a kernel driver."""
    return r["swap"].get("thinswap-fuse", r["swap"]["thinswap"])


def fault(point):
    return lambda r: (ours_on_swap(r)["fault_us"][point] /
                      r["swap"]["zram-lz4"]["fault_us"][point])


def to_sparse(what):
    return lambda r: ours_on_swap(r)[what] / r["swap"]["sparse"][what]


def compression(r):
    """All pages to compressed bytes, zero and same-filled ones included, as
    zram counts."""
    return as_default(r)["ratio"] / r["raw"]["zram"]["lzo-rle"]["ratio"]


RESIDENT = Goal("resident less 16 MiB, multiple of compressed", "<=", 1.04,
                resident_factor)


GOALS = {
    "2": [
        Goal("64 KiB writes, multiple of memory zstd", ">=", 1.5,
             against("fill-64K", "zstd")),
        Goal("64 KiB writes again, multiple of memory zstd", ">=", 1.5,
             against("refill-64K", "zstd")),
        Goal("4 KiB random writes, multiple of memory zstd", ">=", 5,
             against("overwrite-4K", "zstd")),
        Goal("4 KiB random reads, multiple of memory zstd", ">=", 1.5,
             against("randread-4K", "zstd")),
        Goal("2 MiB discards, multiple of memory zstd", ">=", 5,
             against("discard-2M", "zstd")),
        RESIDENT,
        Goal("peak resident, share of memory zstd's", "<=", 0.55,
             over(peak("thinswap"), peak("zstd"))),
        Goal("fill: round 10 to round 1", ">=", 0.9, last_to_first("fill")),
        Goal("discard: round 10 to round 1", ">=", 0.9,
             last_to_first("discard")),
    ],
    "6": [
        Goal("64 KiB writes, multiple of memory zstd", ">=", 2.2,
             against("fill-64K", "zstd")),
        Goal("64 KiB writes again, multiple of memory zstd", ">=", 2.2,
             against("refill-64K", "zstd")),
        Goal("64 KiB writes, server CPU us a page", "<=", 15,
             lambda r: r["nbd"]["thinswap"]["fill-64K"]
             ["server_cpu_us_page"]),
        Goal("64 KiB writes, share of transport + codec bound", ">=", 0.85,
             of_bound("fill-64K")),
        Goal("4 KiB random writes, multiple of memory zstd", ">=", 7,
             against("overwrite-4K", "zstd")),
        Goal("4 KiB random writes, share of null's IOPS", ">=", 0.6,
             against("overwrite-4K", "null")),
        Goal("4 KiB random reads, multiple of memory zstd", ">=", 2,
             against("randread-4K", "zstd")),
        Goal("4 KiB random reads, p99 to memory zstd's", "<=", 1 / 3,
             over(read_p99("thinswap"), read_p99("zstd"))),
        Goal("4 KiB random reads, share of sparse's IOPS", ">=", 0.7,
             against("randread-4K", "sparse")),
        Goal("2 MiB discards, of 8 GB/s or half of sparse's", ">=", 1,
             discard_speed),
        Goal("a lone 4 KiB write, p50 with write-behind to without", "<=", 1,
             alone("overwrite-4K", "p50")),
        Goal("a lone 4 KiB write, p99 with write-behind to without", "<=", 1,
             alone("overwrite-4K", "p99")),
        Goal("ratio with a dictionary to without, worst page set", ">=", 1,
             dictionary(min, lambda one: one["ratio"])),
        Goal("server CPU a page written, the same", "<=", 1,
             dictionary(max, lambda one: one["refill-64K"]
                        ["server_cpu_us_page"])),
        Goal("16 to 1 GiB stored, server CPU a page: fill", "<=", 1.1,
             growth("fill-64K")),
        Goal("16 to 1 GiB stored: 4 KiB random writes", "<=", 1.1,
             growth("overwrite-4K")),
        Goal("16 to 1 GiB stored: 4 KiB random reads", "<=", 1.1,
             growth("randread-4K")),
        Goal("16 to 1 GiB stored: discards", "<=", 1.1,
             growth("discard-2M")),
        Goal("swap: touches a second, multiple of sparse", ">=", 1.6,
             to_sparse("touches_per_s")),
        Goal("swap: fault p99, multiple of zram lz4's", "<=", 0.5,
             fault("p99")),
        Goal("swap: fault p99.9, multiple of zram lz4's", "<=", 5,
             fault("p99.9")),
        Goal("swap: time to free, multiple of zram lz4's", "<=", 1,
             lambda r: ours_on_swap(r)["free_ms"] /
             r["swap"]["zram-lz4"]["free_ms"]),
        Goal("compression ratio, multiple of zram lzo-rle's", ">=", 1.4,
             compression),
        RESIDENT,
    ],
}


def spill(part, what):
    return lambda r: r["spill"][part][what]


def spill_idle(r):
    """The worst of the phases."""
    idle = r["spill"]["idle"]
    return min(one["mb_s"] / idle["ram-only"][phase]["mb_s"]
               for phase, one in idle["spill-idle"].items())


GOALS["4"] = [
    Goal("swap: touches a second, multiple of sparse", ">=", 1.6,
         to_sparse("touches_per_s")),
    Goal("swap: fault p50 to sparse's", "<=", 0.45,
         lambda r: ours_on_swap(r)["fault_us"]["p50"] /
         r["swap"]["sparse"]["fault_us"]["p50"]),
    Goal("swap: reading all again, multiple of sparse", ">=", 2,
         to_sparse("verify_mb_per_s")),
]
GOALS["5"] = [
    Goal("spill: write bandwidth, share of fio's", ">=", 0.8,
         over(spill("drain", "written_mb_s"), spill("fio-write", "mb_s"))),
    Goal("spill: what compression sends it, share of what it can take",
         "<=", 0.8, over(spill("fill-pages", "written_mb_s"),
                         spill("drain", "written_mb_s"))),
    Goal("spill: its share of processor time in such a fill", "<=", 0.2,
         spill("fill-pages", "spill_share_of_cpu")),
    Goal("spill: write amplification of a fill", "<=", 1.1,
         spill("fill-random", "amplification")),
    Goal("spill: the same, overwrites at 80 % full", "<=", 1.5,
         spill("overwrite", "amplification")),
    Goal("spill: the same, to theory at that live share", "<=",
         1.1, over(spill("overwrite", "amplification"),
                   spill("overwrite", "for_uniform"))),
    Goal("spill: bytes written a byte overwritten, both tiers 80 % full",
         "<=", 1.5, spill("overwrite-both", "per_overwritten")),
    Goal("spill: 4 KiB random reads, p50 to fio's", "<=", 1.5,
         over(spill("read", "p50_us"), spill("fio-read", "p50_us"))),
    Goal("spill: reads from RAM when the set fits", ">=", 0.9,
         spill("working-set", "from_ram_share")),
    Goal("spill: RAM-only work with spill idle", ">=", 0.95, spill_idle),
]


def judge_all(results):
    """A list of dictionaries, one a goal, for the table and the JSON."""
    judged = []
    for issue in sorted(GOALS):
        for goal in GOALS[issue]:
            value, verdict = goal.judge(results)
            judged.append({"issue": issue, "goal": goal.text,
                           "sign": goal.sign, "target": goal.target,
                           "value": value, "verdict": verdict})
    return judged
