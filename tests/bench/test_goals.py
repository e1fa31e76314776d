#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_goals.py - medians, goals, tables, charts and profiles from made-up
results"""

import os
import shutil
import sys
import tempfile
import unittest
import xml.dom.minidom

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.dont_write_bytecode = True

from benchlib import charts, goals, peers, report, steps  # noqa: E402

MIB = 1 << 20


def phase(mb_s, **more):
    us = {"p50": 1.0, "p95": 2.0, "p99": 3.0, "p99.9": 4.0, "max": 5.0}
    return {"mb_s": mb_s, "iops": mb_s * 100, "read_us": us,
            "server_cpu_us_page": 9.0, "server_rss_kib": 120 << 10,
            "server_peak_kib": 130 << 10, **more}


def results(ours, theirs):
    phases = ("fill-64K", "refill-64K", "seqread-64K", "overwrite-4K",
              "randread-4K", "discard-2M")
    def by_name(mb_s, **more):
        named = {name: phase(mb_s, **more) for name in phases}
        named["overwrite-4K"]["write_us"] = \
            named["overwrite-4K"].pop("read_us")
        return named
    one = phase(ours, server_rss_kib=120 << 10)
    made_up = {"cores": 2, "nbd": {
        "thinswap": by_name(ours), "null": by_name(1000.0),
        "zstd": by_name(theirs, server_peak_kib=300 << 10)},
        "memory": {pages: {variant: {
            "seqread-64K": one, "refill-64K": one, "ratio": 4.0,
            "stored_bytes": 104 * MIB, "engine_resident_bytes": 110 * MIB,
            "compress_us": 9.0, "decompress_us": 5.0}
            for variant in ("dictionary", "plain")}
            for pages in ("app", "data")},
        "raw": {"one": {"out_bytes": 104 << 20, "pages": 1,
                        "trivial_pages": 0, "comp_us": 10.0,
                        "decomp_us": 5.0, "comp_mb_s": 400.0,
                        "decomp_mb_s": 800.0, "ratio": 4.0, "threads": 1,
                        "config": "1"}, "zram": {}},
        "rounds": {"thinswap": {op: [{"mb_s": 100.0 - n} for n in range(10)]
                                for op in ("fill", "discard")}}}
    made_up["raw"]["all"] = made_up["raw"]["one"]
    return made_up


def verdicts(made_up, issue="2"):
    return {one["goal"]: (one["value"], one["verdict"])
            for one in goals.judge_all(made_up) if one["issue"] == issue}


class Goals(unittest.TestCase):
    def test_reached(self):
        judged = verdicts(results(600.0, 100.0))
        self.assertEqual(
            judged["4 KiB random writes, multiple of memory zstd"],
            (6.0, "reached"))
        self.assertEqual({verdict for _, verdict in judged.values()},
                         {"reached"})

    def test_not_reached(self):
        judged = verdicts(results(149.0, 100.0))
        self.assertEqual(judged["64 KiB writes, multiple of memory zstd"],
                         (1.49, "NOT REACHED"))

    def test_resident(self):
        made_up = results(600.0, 100.0)
        name = "resident less 16 MiB, multiple of compressed"
        self.assertEqual(verdicts(made_up)[name], (1.0, "reached"))
        made_up["memory"]["app"]["dictionary"]["stored_bytes"] = 99 * MIB
        self.assertEqual(verdicts(made_up)[name][1], "NOT REACHED")
        # The second page set is not what was measured with.
        made_up = results(600.0, 100.0)
        made_up["memory"]["data"]["dictionary"]["stored_bytes"] = 1
        self.assertEqual(verdicts(made_up)[name][1], "reached")

    def test_bound(self):
        # 2 cores x 4096 bytes / 10 us = 819.2 MB/s behind null's 1000.
        made_up = results(600.0, 100.0)
        self.assertAlmostEqual(goals.bound(made_up, "fill-64K"), 450.308,
                               places=3)
        self.assertAlmostEqual(goals.bound(made_up, "randread-4K"),
                               1 / (1 / 1000 + 1 / 1638.4))
        value, verdict = verdicts(made_up, "6")[
            "64 KiB writes, share of transport + codec bound"]
        self.assertAlmostEqual(value, 600 / 450.308, places=5)
        self.assertEqual(verdict, "reached")

    def test_worst_page_set(self):
        made_up = results(600.0, 100.0)
        name = "ratio with a dictionary to without, worst page set"
        self.assertEqual(verdicts(made_up, "6")[name], (1.0, "reached"))
        made_up["memory"]["app"]["dictionary"]["ratio"] = 8.0
        made_up["memory"]["data"]["dictionary"]["ratio"] = 3.0
        self.assertEqual(verdicts(made_up, "6")[name], (0.75, "NOT REACHED"))

    def test_alone(self):
        made_up = results(600.0, 100.0)
        name = "a lone 4 KiB write, p99 with write-behind to without"
        self.assertEqual(verdicts(made_up, "6")[name][1], "not measured")
        for peer, us in (("thinswap", 12.0), ("inline", 10.0)):
            made_up["nbd"].setdefault(peer, {})["overwrite-4K-alone"] = \
                {"write_us": {"p50": 1.0, "p99": us}}
        self.assertEqual(verdicts(made_up, "6")[name], (1.2, "NOT REACHED"))

    def test_growth(self):
        made_up = results(600.0, 100.0)
        # 16 is more than 4, although it sorts before it as text.
        made_up["scale"] = {"stored": {
            gib: {"fill-64K": phase(1.0, server_cpu_us_page=us)}
            for gib, us in (("1", 10.0), ("16", 10.5), ("4", 99.0))}}
        self.assertEqual(
            verdicts(made_up, "6")
            ["16 to 1 GiB stored, server CPU a page: fill"],
            (1.05, "reached"))

    def test_swap(self):
        made_up = results(600.0, 100.0)
        one = {"touches_per_s": 100.0, "verify_mb_per_s": 100.0,
               "free_ms": 10.0,
               "fault_us": {"p50": 10.0, "p99": 20.0, "p99.9": 30.0}}
        made_up["swap"] = {"thinswap": one, "sparse": one,
                           "zram-lz4": {**one, "free_ms": 20.0}}
        judged = verdicts(made_up, "4")
        self.assertEqual(judged["swap: touches a second, multiple of sparse"],
                         (1.0, "NOT REACHED"))
        # The FUSE server is what counts where there is one.
        made_up["swap"]["thinswap-fuse"] = {**one, "touches_per_s": 160.0}
        judged = verdicts(made_up, "4")
        self.assertEqual(judged["swap: touches a second, multiple of sparse"],
                         (1.6, "reached"))
        judged = verdicts(made_up, "6")
        self.assertEqual(
            judged["swap: time to free, multiple of zram lz4's"],
            (0.5, "reached"))

    def test_every_issue(self):
        self.assertEqual({one["issue"] for one in goals.judge_all({})},
                         {"2", "4", "5", "6"})
        self.assertEqual({one["verdict"] for one in goals.judge_all({})},
                         {"not measured"})

    def test_degrading(self):
        made_up = results(600.0, 100.0)
        made_up["rounds"]["thinswap"]["fill"][9]["mb_s"] = 89.0
        judged = verdicts(made_up)
        self.assertEqual(judged["fill: round 10 to round 1"],
                         (0.89, "NOT REACHED"))
        self.assertEqual(judged["discard: round 10 to round 1"],
                         (0.91, "reached"))

    def test_not_measured(self):
        made_up = results(600.0, 100.0)
        del made_up["nbd"]["zstd"]
        judged = verdicts(made_up)
        self.assertEqual(judged["2 MiB discards, multiple of memory zstd"],
                         (None, "not measured"))
        self.assertEqual(
            verdicts(made_up, "6")
            ["swap: fault p99, multiple of zram lz4's"][1], "not measured")


class Tables(unittest.TestCase):
    def test_median(self):
        runs = [{"a": {"b": n, "name": "x"}} for n in (5, 1, 3)]
        self.assertEqual(peers.median_of(runs), {"a": {"b": 3, "name": "x"}})

    def test_same_phase_again(self):
        named = peers.by_name(["fill", "discard", "fill", "discard", "fill"],
                              [{"n": n} for n in (1, 2, 3, 4, 5)])
        self.assertEqual(named, {"fill-64K": {"n": 1},
                                 "discard-64K": {"n": 3},
                                 "refill-64K": {"n": 4}})

    def test_phase_name(self):
        self.assertEqual(peers.phase_name("fill"), "fill-64K")
        self.assertEqual(peers.phase_name("mixed:seconds=1,bs=4K"),
                         "mixed-4K")

    def test_show(self):
        made_up = results(600.0, 100.0)
        shown = report.show(made_up, goals.judge_all(made_up))
        self.assertIn("4 KiB random writes", shown)
        self.assertIn("NOT REACHED", shown)
        # The figures to reach come last, where people look.
        self.assertTrue(shown.rsplit("\n\n", 1)[1].startswith("to reach"))
        self.assertRegex(shown, r"fill-64K +thinswap +600\.0 +60000")


class Readme(unittest.TestCase):
    def test_replaced(self):
        made_up = results(600.0, 100.0)
        made_up["machine"] = {"commit": "0123456789", "cores": 2,
                              "cpu": "some", "kernel": "6.1.0-1"}
        judged = goals.judge_all(made_up)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "README.md")
            with open(path, "w", encoding="utf-8") as readme:
                readme.write(f"one\n{report.BEGIN}\nold\n{report.END}\ntwo\n")
            pictures = os.path.join(folder, "pictures")
            os.mkdir(pictures)
            for name in ("b.svg", "a.svg", "other"):
                with open(os.path.join(pictures, name), "wb"):
                    pass
            for _ in range(2):
                report.put_in_readme(path, made_up, judged, pictures)
            with open(path, encoding="utf-8") as readme:
                text = readme.read()
        self.assertTrue(text.startswith("one\n"))
        self.assertTrue(text.endswith(f"\n{report.END}\ntwo\n"))
        self.assertNotIn("old", text)
        self.assertIn("Commit 0123456, 2 cores", text)
        self.assertIn("\n\n![a](pictures/a.svg)\n\n![b](pictures/b.svg)\n"
                      f"{report.END}", text)
        self.assertNotIn("other", text)
        # Asked for twice: the harder target, once.
        wanted = "| 4 KiB random writes, multiple of memory zstd |"
        self.assertEqual(text.count(wanted), 1)
        self.assertIn(wanted + " 6.00 | at least 7 | not reached |", text)


@unittest.skipUnless(shutil.which("gnuplot"), "needs gnuplot")
class Charts(unittest.TestCase):
    def test_drawn(self):
        made_up = results(600.0, 100.0)
        made_up["scale"] = {
            "stored": {gib: {name: phase(1.0) for name in (
                "fill-64K", "overwrite-4K", "randread-4K", "discard-2M")}
                for gib in ("1", "4")},
            "connections": {"1": {"thinswap": {
                name: phase(1.0) for name in ("overwrite-4K",
                                              "randread-4K")}}}}
        made_up["work"] = {"build": {"zram-lz4": {"seconds": 3.0},
                                     "thinswap-fuse": {"seconds": 4.0}}}
        for phases in made_up["nbd"].values():
            phases["randread-4K-alone"] = phases["randread-4K"]
            phases["overwrite-4K-alone"] = phases["overwrite-4K"]
        with tempfile.TemporaryDirectory() as folder:
            charts.draw(made_up, folder)
            drawn = {name: os.path.join(folder, name)
                     for name in os.listdir(folder)}
            self.assertEqual(set(drawn), {
                "throughput.svg", "latency.svg", "latency-alone.svg",
                "rounds.svg", "stored.svg", "connections.svg", "work.svg"})
            for path in drawn.values():
                xml.dom.minidom.parse(path)


class Profiles(unittest.TestCase):
    def test_callgrind(self):
        lines = """\
121,000,000 (94.1%)  ???:ZSTD_compressBlock_fast [/usr/lib/libzstd.so.1.5.4]
    700,001 ( 0.5%)  ./nptl/pthread_mutex_lock.c:pthread_mutex_lock@@GLIBC_2.2.5 [/lib/libc.so.6]
    400,000 ( 0.3%)  ../lib/pool.c:ts_pool_alloc [/b/nbdkit-thinswap-plugin.so]
    100,000 ( 0.1%)  ../lib/pool.c:take_from [/b/nbdkit-thinswap-plugin.so]
     50,000 ( 0.0%)  ../lib/request.c:ts_store_write [/b/nbdkit-thinswap-plugin.so]
Ir
--- no such line ---
"""
        self.assertEqual(steps.parse_callgrind(lines), {
            "zstd": 121000000, "locks": 700001, "pool": 500000,
            "rest of the engine": 50000})

    def test_perf(self):
        lines = """\
# Overhead;Shared Object;Symbol
40.00%;libzstd.so.1.5.4;[.] 0x000000000001cee3
20.00%;[kernel.kallsyms];[k] finish_task_switch.isra.0
5.50%;libc.so.6;[.] __memmove_avx512_unaligned_erms
1.00%;nbdkit-thinswap-plugin.so;[.] place
0.50%;nbdkit;[.] connection_worker
"""
        got = steps.parse_perf(lines)
        self.assertEqual({step: round(share, 3)
                          for step, share in got.items()}, {
            "zstd": 0.4, "kernel": 0.2, "copies": 0.055,
            "rest of the engine": 0.01, "nbdkit": 0.005})


unittest.main()
