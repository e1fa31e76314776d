# SPDX-License-Identifier: BSD-3-Clause
"""charts.py - the results as SVG files, drawn by gnuplot

Bar charts for throughput, for the latency of single pages, for faults on real
swap and for programs in small cgroups, with a logarithmic scale, since peers
differ by more than ten times; lines for the rounds; and what a page costs by
how much is stored. A group that was not run gives no chart.
"""

import os
import subprocess

COLOURS = {"thinswap": "#c2410c", "inline": "#fdba74",
           "thinswap-fuse": "#f59e0b", "fuse-inline": "#fde68a",
           "zstd": "#1d4ed8", "sparse": "#60a5fa", "null": "#9ca3af",
           "zram-lz4": "#15803d", "zram-lzo-rle": "#86efac"}
HEAD = """set terminal svg size 1000,420 dynamic font "sans-serif,13" \\
    background "#ffffff"
set output "{file}"
set title "{title}"
set ylabel "{ylabel}"
set key outside right top
set grid ytics lc rgb "#dddddd"
set border 3
set tics nomirror
set xtics font ",11"
set format y "%.0f"
"""
EXTRA = ("#c2410c", "#f59e0b", "#fdba74")  # columns that are no peers
PHASES = ("fill-64K", "seqread-64K", "overwrite-4K", "randread-4K",
          "mixed-4K", "discard-2M")


def gnuplot(script):
    subprocess.run(["gnuplot"], input=script, text=True, check=True)


def head(folder, name, title, ylabel):
    file = os.path.join(folder, name + ".svg")
    return HEAD.format(file=file, title=title, ylabel=ylabel)


def bars(folder, name, title, ylabel, columns, rows, logarithmic=True):
    """rows: label -> a value for every column, None where there is none."""
    data = "".join(
        '"{}" {}\n'.format(label, " ".join(
            "NaN" if value is None else f"{value:.6g}" for value in values))
        for label, values in rows.items())
    plots = ", ".join(
        f'$data using {at + 2}:xtic(1) title "{column}" '
        f'lc rgb "{COLOURS.get(column, EXTRA[at % len(EXTRA)])}"'
        for at, column in enumerate(columns))
    scale = "set logscale y" if logarithmic else \
        'set yrange [0:*]; set format y "%g"'
    gnuplot(f"""$data << EOD
{data}EOD
{head(folder, name, title, ylabel)}
{scale}
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.9 noborder
plot {plots}
""")


def lines(folder, name, title, ylabel, series):
    """series: label -> values by round."""
    data = "".join("{} {}\n".format(at + 1, " ".join(
        f"{values[at]:.6g}" for values in series.values()))
        for at in range(len(next(iter(series.values())))))
    plots = ", ".join(
        f'$data using 1:{at + 2} with linespoints lw 2 pt 7 dt {at % 2 + 1} '
        f'lc rgb "{COLOURS[label.split()[0]]}" title "{label}"'
        for at, label in enumerate(series))
    gnuplot(f"""$data << EOD
{data}EOD
{head(folder, name, title, ylabel)}
set xlabel "round"
set logscale y
plot {plots}
""")


def alone_rows(nbd):
    rows = {}
    for size in ("4K", "64K", "2M"):
        for kind, phase in (("read", "randread"), ("write", "overwrite")):
            name = f"{phase}-{size}-alone"
            if all(name in phases for phases in nbd.values()):
                rows[f"{size} {kind}"] = [phases[name][f"{kind}_us"]["p50"]
                                          for phases in nbd.values()]
    return rows


def draw_scale(scale, folder):
    stored = scale["stored"]
    if stored:
        bars(folder, "stored", "What a page costs by how much is stored",
             "server CPU, microseconds a page",
             [f"{gib} GiB" for gib in stored],
             {label: [stored[gib][phase]["server_cpu_us_page"]
                      for gib in stored]
              for label, phase in (("fill", "fill-64K"),
                                   ("4 KiB write", "overwrite-4K"),
                                   ("4 KiB read", "randread-4K"),
                                   ("discard", "discard-2M"))},
             logarithmic=False)
    by_count = scale["connections"]
    peers = list(next(iter(by_count.values())))
    bars(folder, "connections", "4 KiB requests by connections", "IOPS",
         peers, {f"{kind} x{count}": [by_count[count][peer][phase]["iops"]
                                      for peer in peers]
                 for kind, phase in (("write", "overwrite-4K"),
                                     ("read", "randread-4K"))
                 for count in by_count})


def draw(results, folder):
    os.makedirs(folder, exist_ok=True)
    if "nbd" in results:
        nbd = results["nbd"]
        bars(folder, "throughput", "Throughput over a unix socket, "
             "same pages, same connections", "MB/s", list(nbd),
             {phase: [nbd[peer].get(phase, {}).get("mb_s") for peer in nbd]
              for phase in PHASES})
        bars(folder, "latency", "Latency of 4 KiB requests, 32 in flight",
             "microseconds", list(nbd),
             {f"{kind} {point}": [nbd[peer][phase][f"{kind}_us"][point]
                                  for peer in nbd]
              for kind, phase in (("read", "randread-4K"),
                                  ("write", "overwrite-4K"))
              for point in ("p50", "p99", "p99.9")})
        if alone_rows(nbd):
            bars(folder, "latency-alone",
                 "Latency of one request at a time (p50)", "microseconds",
                 list(nbd), alone_rows(nbd))
    if "rounds" in results:
        lines(folder, "rounds", "Fill and discard, ten rounds on one server",
              "MB/s", {f"{peer} {op}": [one["mb_s"] for one in values]
                       for peer, ops in results["rounds"].items()
                       for op, values in ops.items()})
    if "swap" in results:
        swap = results["swap"]
        bars(folder, "swap", "Real swap: what a fault waits",
             "microseconds", list(swap),
             {f"fault {point}": [swap[kind]["fault_us"][point]
                                 for kind in swap]
              for point in ("p50", "p99", "p99.9")})
    if "scale" in results:
        draw_scale(results["scale"], folder)
    if "work" in results:
        work = results["work"]
        kinds = max((list(by_kind) for by_kind in work.values()), key=len)
        bars(folder, "work", "Programs in cgroups too small for them",
             "seconds", kinds,
             {job: [by_kind.get(kind, {}).get("seconds") for kind in kinds]
              for job, by_kind in work.items()})
