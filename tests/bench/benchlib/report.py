# SPDX-License-Identifier: BSD-3-Clause
"""report.py - the results as tables, the figures to reach last"""

import os

from . import goals, spill


MIB = 1 << 20


def table(title, columns, rows):
    """Columns as wide as needed; the first is text, the rest numbers."""
    cells = [columns] + [[cell if isinstance(cell, str) else number(cell)
                          for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in cells)
              for at in range(len(columns))]
    lines = [title]
    for row in cells:
        line = row[0].ljust(widths[0])
        for at in range(1, len(row)):
            line += "  " + row[at].rjust(widths[at])
        lines.append("  " + line.rstrip())
    return "\n".join(lines) + "\n"


def number(value):
    if value is None:
        return "-"
    if isinstance(value, int):
        return str(value)
    if value >= 1000:
        return f"{value:.0f}"
    return f"{value:.2f}" if value < 100 else f"{value:.1f}"


def goals_table(judged):
    rows = [[one["goal"], "#" + one["issue"], one["value"],
             f"{one['sign']} {one['target']:.4g}", one["verdict"]]
            for one in judged]
    return table("to reach", ["goal", "issue", "measured", "target", ""],
                 rows)


def nbd_rows(nbd):
    names = []
    for peer in nbd.values():
        names += [name for name in peer if name not in names]
    for phase in names:
        if phase.startswith("check"):
            continue
        for peer, results in nbd.items():
            if phase not in results:
                continue
            one = results[phase]
            kinds = [kind for kind in ("read", "write", "discard", "zero")
                     if kind + "_us" in one]
            for kind in kinds:
                us = one[kind + "_us"]
                label = f"{phase} {kind}s" if len(kinds) > 1 else phase
                yield [label, peer, one["mb_s"], round(one["iops"]),
                       us["p50"], us["p95"], us["p99"], us["p99.9"],
                       one["server_cpu_us_page"],
                       one["server_peak_kib"] / 1024]


def raw_rows(raw):
    for label in ("one", "one-dictionary", "all"):
        if label not in raw:
            continue
        one = raw[label]
        yield [f"zstd {one['config']}, {one['threads']} thread(s)",
               one["ratio"], one["comp_mb_s"], one["decomp_mb_s"],
               one["comp_us"], one["decomp_us"]]
    for name, one in raw["zram"].items():
        yield [f"zram {name}", one["ratio"], None, None, None, None]


def memory_rows(memory):
    for pages, variants in memory.items():
        for variant, one in variants.items():
            read, refill = one["seqread-64K"], one["refill-64K"]
            yield [f"pages {pages}, {variant}", one["ratio"],
                   one["stored_bytes"] / MIB,
                   one["engine_resident_bytes"] / MIB,
                   read["server_rss_kib"] / 1024,
                   read["server_peak_kib"] / 1024,
                   refill["server_cpu_us_page"], one["compress_us"],
                   read["server_cpu_us_page"], one["decompress_us"]]


def bound_rows(results):
    """Not a group: what nbd and raw say together."""
    for phase, what in goals.WORK.items():
        for codec in ("one", "one-dictionary"):
            if codec not in results["raw"]:
                continue
            ours = results["nbd"]["thinswap"][phase]["mb_s"]
            bound = goals.bound(results, phase, codec)
            alone = results["raw"][codec]
            yield [phase, alone["config"],
                   results["nbd"]["null"][phase]["mb_s"],
                   results["cores"] * 4096 / alone[what], bound, ours,
                   ours / bound]


def swap_rows(swap):
    for name, one in swap.items():
        us = one["fault_us"]
        yield [name, one["fill_mb_per_s"], round(one["touches_per_s"]),
               us["p50"], us["p99"], us["p99.9"], one["verify_mb_per_s"],
               one["free_ms"], one["server_peak_kib"] / 1024,
               str(one["wrong_pages"])]


def rounds_rows(rounds):
    for peer, ops in rounds.items():
        for op, results in ops.items():
            yield [f"{peer} {op}"] + [one["mb_s"] for one in results]


def scale_rows(scale):
    for count, by_peer in scale["connections"].items():
        for peer, phases in by_peer.items():
            for phase, one in phases.items():
                yield [f"{count} connections, {phase}", peer, one["mb_s"],
                       one["server_cpu_us_page"]]
    for what in ("threads", "workers"):
        for count, by_peer in scale[what].items():
            for peer, phases in by_peer.items():
                for phase, one in phases.items():
                    yield [f"{count} {what}, {phase}", peer, one["mb_s"],
                           one["server_cpu_us_page"]]
    for gib, phases in scale["stored"].items():
        for phase, one in phases.items():
            yield [f"{gib} GiB stored, {phase}", "thinswap", one["mb_s"],
                   one["server_cpu_us_page"]]


def work_rows(work):
    for job, kinds in work.items():
        for kind, one in kinds.items():
            yield [job, kind, one["seconds"],
                   *(one["seconds"] / kinds[peer]["seconds"]
                     if peer in kinds else None
                     for peer in ("sparse", "zram-lz4")),
                   one["most_swapped_bytes"] / MIB,
                   one["server_peak_kib"] / 1024]


TABLES = {
    "nbd": ("over a unix socket, median",
            ["phase", "server", "MB/s", "IOPS", "p50 us", "p95", "p99",
             "p99.9", "CPU us/page", "peak MiB"], nbd_rows),
    "rounds": ("fill and discard, MB/s by round",
               ["", *[str(n) for n in range(1, 11)]], rounds_rows),
    "swap": ("real swap, verifying pager, median",
             ["swap on", "fill MB/s", "touches/s", "fault p50 us", "p99",
              "p99.9", "verify MB/s", "free ms", "peak MiB", "wrong"],
             swap_rows),
    "raw": ("codec alone",
            ["", "ratio", "MB/s", "back", "CPU us/page", "back"], raw_rows),
    "memory": ("what is stored, and where the time goes, median",
               ["", "ratio", "stored MiB", "engine MiB", "resident MiB",
                "peak MiB", "CPU us/page written", "of it zstd", "read",
                "of it zstd"], memory_rows),
    "spill": ("spill tier and fio on the same file, median",
              ["", "", ""], spill.rows),
    "scale": ("scaling", ["", "server", "MB/s", "CPU us/page"], scale_rows),
    "work": ("ordinary programs in small cgroups",
             ["job", "swap on", "seconds", "to sparse", "to zram lz4",
              "swapped MiB", "peak MiB"], work_rows),
}
BEGIN, END = "<!-- tools/bench: begin -->", "<!-- tools/bench: end -->"


def harder(one, other):
    return one["target"] > other["target"] if one["sign"] == ">=" else \
        one["target"] < other["target"]


def markdown(results, judged):
    """The figures to reach for README, each once."""
    lines = [f"Commit {results['machine']['commit'][:7]}, "
             f"{results['machine']['cores']} cores"
             f" ({results['machine']['cpu']}), Linux "
             f"{results['machine']['kernel'].split('-')[0]}:", "",
             "| figure | measured | to reach | |", "|---|---|---|---|"]
    hardest = {}
    for one in judged:
        same = hardest.get(one["goal"])
        if one["value"] is not None and not (same and harder(same, one)):
            hardest[one["goal"]] = one
    for one in hardest.values():
        sign = "at least" if one["sign"] == ">=" else "at most"
        lines.append(f"| {one['goal']} | {number(one['value'])} | "
                     f"{sign} {one['target']:.3g} | "
                     f"{'' if one['verdict'] == 'reached' else 'not reached'}"
                     " |")
    return "\n".join(lines)


def put_in_readme(path, results, judged, charts=None):
    """Replace what is between the two marks; the pictures are those in the
    folder @charts."""
    folder = os.path.dirname(os.path.abspath(path))
    images = "".join(
        f"\n![{name[:-4]}]"
        f"({os.path.relpath(os.path.join(charts, name), folder)})\n"
        for name in sorted(os.listdir(charts) if charts else ())
        if name.endswith(".svg"))
    with open(path, encoding="utf-8") as readme:
        before, rest = readme.read().split(BEGIN)
        after = rest.split(END)[1]
    with open(path, "w", encoding="utf-8") as readme:
        readme.write(f"{before}{BEGIN}\n{markdown(results, judged)}\n"
                     f"{images}{END}{after}")


BOUND = ("1/(1/null + 1/(cores x zstd alone)), MB/s",
         ["phase", "zstd", "null", "zstd", "bound", "thinswap", "share"])


def show(results, judged):
    parts = []
    for group, (title, columns, rows) in TABLES.items():
        if group in results:
            parts.append(table(title, columns, list(rows(results[group]))))
    if "raw" in results and "nbd" in results:
        parts.append(table(*BOUND, list(bound_rows(results))))
    if judged:
        parts.append(goals_table(judged))
    return "\n".join(parts)
