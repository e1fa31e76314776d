#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_goals.py - medians, goals and tables from made-up results"""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
sys.dont_write_bytecode = True

from benchlib import goals, peers, report  # noqa: E402


def phase(mb_s, **more):
    us = {"p50": 1.0, "p95": 2.0, "p99": 3.0, "p99.9": 4.0, "max": 5.0}
    return {"mb_s": mb_s, "iops": mb_s * 100, "read_us": us,
            "server_cpu_us_page": 9.0, "server_rss_kib": 120 << 10,
            "server_peak_kib": 130 << 10, **more}


def results(ours, theirs):
    phases = ("fill-64K", "refill-64K", "seqread-64K", "overwrite-4K",
              "randread-4K", "discard-2M")
    made_up = {"cores": 2, "nbd": {
        "thinswap": {name: phase(ours) for name in phases},
        "zstd": {name: phase(theirs, server_peak_kib=300 << 10)
                 for name in phases}},
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
        made_up["nbd"]["thinswap"]["seqread-64K"]["server_rss_kib"] = 125 << 10
        self.assertEqual(verdicts(made_up)[name][1], "NOT REACHED")

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
        self.assertRegex(shown, r"fill-64K +thinswap +600\.0 +60000")


unittest.main()
