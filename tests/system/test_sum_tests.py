#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/sum-tests: results are counted as they are, and none gets lost."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TOOL = os.path.join(HERE, "..", "..", "tools", "sum-tests")

PROJECT = """
project('t')
sh = find_program('sh')
test('good', sh, args: ['-c', 'exit 0'])
test('skips', sh, args: ['-c', 'echo SKIP: needs a moon; exit 77'])
test('tapskip', sh, args: ['-c', 'echo "1..0 # SKIP no tide"'],
  protocol: 'tap')
test('bad', sh, args: ['-c', 'exit 1'])
test('badtap', sh, args: ['-c', 'echo 1..2; echo ok 1; echo not ok 2'],
  protocol: 'tap')
test('dies', sh, args: ['-c', 'kill -9 $$'])
test('tells', sh, args: ['-c', 'echo ok: a; echo failed: b: 3 left; seq 50;exit 1'])
test('mute', sh, args: ['-c', 'seq 50; echo boo >&2; exit 1'])
test('hangs', sh, args: ['-c', 'exec sleep 30'], timeout: 1)
test('shouldfail', sh, args: ['-c', 'exit 1'], should_fail: true)
test('shouldfailbutpasses', sh, args: ['-c', 'exit 0'], should_fail: true)
"""


class SumTests(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def log(self, name, *results, tail=""):
        path = os.path.join(self.dir.name, name)
        with open(path, "w", encoding="utf-8") as out:
            for number, result in enumerate(results):
                entry = {"name": f"p:s / t{number}", "result": result,
                         "stdout": ""}
                out.write(json.dumps(entry) + "\n")
            out.write(tail)
        return path

    def sum(self, *runs):
        done = subprocess.run([TOOL, *runs], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.stderr, "")
        return done.stdout.splitlines(), done.returncode

    def assert_sum(self, runs, last, status):
        lines, code = self.sum(*runs)
        self.assertEqual(lines[-1], last)
        self.assertEqual(code, status)
        return lines

    def test_adds_up_several_runs(self):
        a = self.log("a", "OK", "OK", "SKIP")
        b = self.log("b", "OK", "EXPECTEDFAIL")
        self.assert_sum([f"a:3:{a}", f"b:2:{b}"],
                        "4 passed, 0 failed, 1 skipped", 0)

    def test_every_other_result_is_a_failure(self):
        a = self.log("a", "OK", "FAIL", "ERROR", "TIMEOUT", "INTERRUPT",
                     "UNEXPECTEDPASS", "IGNORED", "something new")
        self.assert_sum([f"a:8:{a}"], "1 passed, 7 failed, 0 skipped", 1)

    def test_a_missing_result_is_a_failure(self):
        a = self.log("a", "OK")
        self.assert_sum([f"a:3:{a}"], "1 passed, 2 failed, 0 skipped", 1)

    def test_a_cut_log_is_a_failure(self):
        a = self.log("a", "OK", tail='{"name": "p:s / t1", "resu')
        self.assert_sum([f"a:2:{a}"], "1 passed, 1 failed, 0 skipped", 1)

    def test_no_log_is_a_failure(self):
        self.assert_sum(["a:2:/nonexistent"],
                        "0 passed, 2 failed, 0 skipped", 1)

    def test_zero_tests_are_a_failure(self):
        a = self.log("a", "OK")
        self.assert_sum([], "0 passed, 1 failed, 0 skipped", 1)
        self.assert_sum([f"a:1:{a}", "b:0:/nonexistent"],
                        "1 passed, 1 failed, 0 skipped", 1)

    def test_only_skips_are_a_failure(self):
        a = self.log("a", "SKIP")
        self.assert_sum([f"a:1:{a}"], "0 passed, 1 failed, 1 skipped", 1)

    def test_a_broken_build_is_a_failure(self):
        a = self.log("a", "OK")
        lines = self.assert_sum([f"a:1:{a}", "b:failed:the build broke"],
                                "1 passed, 1 failed, 0 skipped", 1)
        self.assertIn("FAILED: b: the build broke", lines)

    def test_what_meson_really_writes(self):
        source = os.path.join(self.dir.name, "source")
        build = os.path.join(self.dir.name, "build")
        os.mkdir(source)
        with open(os.path.join(source, "meson.build"), "w",
                  encoding="utf-8") as out:
            out.write(PROJECT)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(["meson", "setup", build, source], check=True, **quiet)
        subprocess.run(["meson", "test", "-C", build, "--logbase", "x"],
                       check=False, **quiet)
        lines = self.assert_sum([f"m:11:{build}/meson-logs/x.json"],
                                "2 passed, 7 failed, 2 skipped", 1)
        self.assertIn("skipped: m: skips: needs a moon", lines)
        self.assertIn("skipped: m: tapskip: no tide", lines)
        self.assertIn("FAILED: m: hangs: TIMEOUT", lines)
        # Then what the test says of it: the line that names it, or its last.
        tells = lines.index("FAILED: m: tells: FAIL")
        self.assertEqual(lines[tells + 1], "    | failed: b: 3 left")
        self.assertTrue(lines[tells + 2].startswith("FAILED: "), lines)
        mute = lines.index("FAILED: m: mute: FAIL")
        self.assertEqual(lines[mute + 1:mute + 9],
                         [f"    | {n}" for n in range(44, 51)] + ["    | boo"])


if __name__ == "__main__":
    sys.exit(unittest.main())
