#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare --live as a user sees it: verdicts, exit codes, the record. No time is asked for, only
ratios within one comparison.

    test_compare_live.py BUILD_DIR [unittest options]
"""
import json
import os
import subprocess
import sys
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
PROGRAM = os.path.join(BUILD, "bin", "attnbench")
NAIVE = os.path.join(BUILD, "lib", "attnbench", "naive.so")
SLOWED = os.path.join(BUILD, "lib", "attnbench", "planted", "slowed.so")
CASE = "h=10 s=24 d=16"
ONE_HEAD = "s=24 dk=8"  # what the plugins that are broken on purpose can do


def plugin(name):
    return os.path.join(BUILD, "tests", "plugins", name + ".so")


class Live(unittest.TestCase):
    def live(self, code, *args):
        environment = dict(os.environ, ATTNBENCH_SLOWED=NAIVE, ATTNBENCH_PYTHON_BACKENDS="noop")
        done = subprocess.run([PROGRAM, "compare", "--live", "--pair-time", "20ms", *args],
                              capture_output=True, text=True, timeout=200, check=False,
                              env=environment, stdin=subprocess.DEVNULL)
        if isinstance(code, int):
            code = (code,)
        self.assertIn(done.returncode, code, f"{args}\n{done.stdout}\n{done.stderr}")
        return done

    def test_sides_with_confinements_of_their_own(self):
        done = self.live((0, 5), "naive", "naive", CASE, "--confine", "off,strict", "--json")
        self.assertNotIn("slower", json.loads(done.stdout)["results"][0]["verdict"])
        for wrong in ("off,", "off,all", ",off", "off,off,off"):
            self.assertIn("off, limits or strict", self.live(2, "naive", "naive", CASE, "--confine", wrong).stderr)
        done = subprocess.run([PROGRAM, "verify", CASE, "--confine", "off,strict"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("compare --live", done.stderr)

    def test_work_on_top_is_slower(self):
        done = self.live(4, "--plugin", SLOWED, "slowed", "slowed:permille=300", CASE,
                         "--json")
        whole = json.loads(done.stdout)
        self.assertEqual(whole["exit"], 4)
        self.assertEqual(whole["counts"]["slower"], 1)
        result = whole["results"][0]
        self.assertEqual(result["verdict"], "slower")
        # 3 of 10 heads are computed twice.
        self.assertGreater(result["ratio"], 1.15)
        self.assertLess(result["ratio"], 1.6)
        self.assertLess(result["lo"], result["ratio"])
        self.assertLess(result["ratio"], result["hi"])
        # Slower was measured again.
        self.assertEqual({pair["series"] for pair in result["pairs"]}, {1, 2})
        self.check_pairs(result)

    def check_pairs(self, result):
        for pair in result["pairs"]:
            self.assertGreaterEqual(pair["cycles"], 60)
            self.assertEqual(len(pair["processors"]), 1)
            self.assertIn(pair["noise"], ("quiet", "shared", "contended"))
            for side in (pair["a"], pair["b"]):
                self.assertGreater(side["processor_ns"], 0)
                self.assertGreaterEqual(side["wall_ns"], side["least_ns"] * 0.5)
                self.assertGreater(side["bytes"], 0)
                self.assertLessEqual(side["huge_bytes"], side["bytes"])
                self.assertGreaterEqual(side["iterations"], 1)
        for side in "ab":  # fixed once
            self.assertEqual(len({pair[side]["iterations"] for pair in result["pairs"]}), 1)

    def test_sides_of_one_speed_have_batches_of_as_many_runs(self):
        # The runs from which B's number is found take half as long again: 2 for 3.
        done = self.live((0, 5), "--plugin", plugin("uneven"), "test", "test:first=40", "s=4 dk=8",
                         "--json")
        result = json.loads(done.stdout)["results"][0]
        self.assertIn(result["verdict"], ("same", "unclear"))
        self.check_pairs(result)
        for pair in result["pairs"]:
            self.assertEqual(pair["a"]["iterations"], pair["b"]["iterations"])

    def test_a_build_beside_itself_is_not_slower(self):
        done = self.live((0, 5), "--plugin", "new=" + NAIVE, "naive", "new", CASE, "--margin", "10",
                         "--json")
        result = json.loads(done.stdout)["results"][0]
        self.assertNotEqual(result["verdict"], "slower")
        self.assertEqual([result[side]["backend"] for side in "ab"], ["naive", "new"])
        self.assertEqual(result["a"]["plugin"], result["b"]["plugin"])
        self.assertGreaterEqual(len(result["pairs"]), 6)
        self.check_pairs(result)

    def test_results_of_timed_runs_are_judged(self):
        # Right in its first 600 runs, then wrong. So small a case runs more often in 60 cycles, even
        # with sanitizers.
        done = self.live(3, "--plugin", plugin("late"), "test", "naive", "s=4 dk=8")
        self.assertIn("while timed: out[", done.stdout)
        self.assertNotIn("same", done.stdout)

    def test_what_fails_verification_is_not_timed(self):
        done = self.live(3, "--plugin", plugin("unwritten"), "naive", "test", ONE_HEAD)
        self.assertIn("test: fail", done.stdout)
        self.assertIn("exit 3: no case was compared, as a result is wrong", done.stderr)

    def test_time_is_up(self):
        # On a busy machine verification may take all of it.
        done = self.live((5, 7), "naive", "naive", CASE, "--budget", "500ms", "--pair-time", "600ms")
        self.assertIn("A: naive\nB: naive\n", done.stdout)
        self.assertIn("budget", done.stdout)
        self.assertTrue(done.returncode == 7 or done.stderr.endswith(
            "exit 5: the budget was spent before a verdict; a larger --budget may tell\n"), done.stderr)
        if done.returncode == 5:
            self.assertRegex(done.stdout, r"(?m)^unclear +- +- +1 ")
            self.assertIn("1 unclear", done.stdout)

    def test_mistakes(self):
        for args, message in ((("naive", CASE), "needs two backends"),
                              (("naive", "naive"), "needs two backends"),
                              (("naive", "nave", CASE), "did you mean 'naive'"),
                              (("naive", "naive", CASE, "--backends", "a,b"), "--backends is for stored"),
                              (("null", "naive", CASE), "null computes nothing, so there is nothing to compare"),
                              (("naive", "naive", CASE, "--gate"), "--gate is for stored runs"),
                              (("naive", "naive", CASE, "--anchor", "a"), "--anchor is for stored"),
                              (("--plugin", "naive=" + NAIVE, "naive", "naive", CASE), "offered by both"),
                              (("--plugin", "new=" + NAIVE + "x", "new", "new", CASE), "naive.sox")):
            with self.subTest(args=args):
                self.assertIn(message, self.live(2, *args).stderr)
        self.assertIn("need --live", subprocess.run(
            [PROGRAM, "compare", "a", "b", "--plugin", NAIVE], capture_output=True, text=True,
            check=False).stderr)


if __name__ == "__main__":
    unittest.main()
