# SPDX-License-Identifier: BSD-3-Clause
"""report.py - the results as tables, ratios first"""

from . import spill


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
    for label in ("one", "all"):
        one = raw[label]
        yield [f"zstd {one['config']}, {one['threads']} thread(s)",
               one["ratio"], one["comp_mb_s"], one["decomp_mb_s"],
               one["comp_us"], one["decomp_us"]]
    for name, one in raw["zram"].items():
        yield [f"zram {name}", one["ratio"], None, None, None, None]


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
    for gib, phases in scale["stored"].items():
        for phase, one in phases.items():
            yield [f"{gib} GiB stored, {phase}", "thinswap", one["mb_s"],
                   one["server_cpu_us_page"]]


def work_rows(work):
    for job, kinds in work.items():
        for kind, one in kinds.items():
            yield [job, kind, one["seconds"],
                   one["most_swapped_bytes"] / (1 << 20),
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
    "spill": ("spill tier and fio on the same file, median",
              ["", "", ""], spill.rows),
    "scale": ("scaling", ["", "server", "MB/s", "CPU us/page"], scale_rows),
    "work": ("ordinary programs in small cgroups",
             ["job", "swap on", "seconds", "swapped MiB", "peak MiB"],
             work_rows),
}


def show(results, judged):
    parts = [goals_table(judged)] if judged else []
    for group, (title, columns, rows) in TABLES.items():
        if group in results:
            parts.append(table(title, columns, list(rows(results[group]))))
    return "\n".join(parts)
