#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""doctor --calibrate as a user sees it. No time is asked for: rates depend on the machine, and
test_calibrate.c judges given ones.

    test_calibrate.py BUILD_DIR [--full] [unittest options]

--full calibrates for a minute and looks at the ratios that were measured.
"""
import json
import os
import subprocess
import sys
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
FULL = "--full" in sys.argv
if FULL:
    sys.argv.remove("--full")
PROGRAM = os.path.join(BUILD, "bin", "attnbench")


def doctor(*args):
    environment = dict(os.environ, ATTNBENCH_PYTHON_BACKENDS="noop")
    return subprocess.run([PROGRAM, "doctor", *args], capture_output=True, text=True, timeout=280,
                          check=False, env=environment, stdin=subprocess.DEVNULL)


def backend():
    """The one whose runs are shortest."""
    found = {b["name"]: b["available"] for b in json.loads(doctor("--json").stdout)["backends"]}
    return "avx2" if found.get("avx2") else "naive"


class Calibrate(unittest.TestCase):
    def calibrate(self, *args):
        done = doctor("--calibrate", "--json", *args)
        self.assertIn(done.returncode, (0, 5), done.stderr)
        result = json.loads(done.stdout)["calibration"]
        self.assertEqual(done.returncode == 0, result["level"] == "OK")
        self.assertEqual([case["what"] for case in result["cases"]], ["compute-bound", "decode"])
        for case in result["cases"]:
            for kind in ("aa", "planted"):
                tally = case[kind]
                self.assertEqual(sum(tally["counts"].values()), tally["comparisons"])
                self.assertLessEqual(tally["wrong"], tally["comparisons"])
                self.assertGreater(tally["wrong_most"], tally["wrong"] / (tally["comparisons"] + 1))
            self.assertEqual(case["pairs"] > 0, case["aa"]["comparisons"] > 0 or
                             case["planted"]["comparisons"] > 0)
        return result

    @unittest.skipIf(FULL, "the short one")
    def test_a_short_one(self):
        result = self.calibrate("--time", "1s", "--pair-time", "10ms", "-b", backend())
        self.assertEqual(result["backend"], backend())
        aa = result["cases"][0]["aa"]
        self.assertGreater(aa["comparisons"] + aa["cut"], 0)

    @unittest.skipUnless(FULL, "a minute")
    def test_the_slowdown_is_there(self):
        compute = self.calibrate("--time", "60s")["cases"][0]
        self.assertGreater(compute["aa"]["comparisons"], 0)
        self.assertGreater(compute["planted"]["comparisons"], 0)
        self.assertGreater(compute["planted"]["ratio"], compute["aa"]["ratio"] + 0.02)
        self.assertLess(compute["planted"]["ratio"], compute["aa"]["ratio"] + 0.08)
        self.assertGreater(compute["resolves"], 1.03)

    @unittest.skipIf(FULL, "no calibration")
    def test_mistakes(self):
        for args, message in ((("-b", "avx2"), "--backend needs --calibrate"),
                              (("--time", "9s"), "--time needs --calibrate"),
                              (("--calibrate", "-b", "nosuch"), "there is no backend 'nosuch'"),
                              (("--calibrate", "-b", "null"), "null: it computes no exact"),
                              (("--calibrate", "-b", "naive", "-b", "naive"), "takes one backend"),
                              (("--calibrate", "-b", "blas:rows=2"), "without options")):
            with self.subTest(args=args):
                done = doctor(*args)
                self.assertEqual(done.returncode, 2)
                self.assertIn(message, done.stderr)

    @unittest.skipIf(FULL, "no calibration")
    def test_the_plugin_is_no_backend(self):
        self.assertTrue(os.path.isfile(os.path.join(BUILD, "lib", "attnbench", "planted",
                                                    "slowed.so")))
        self.assertNotIn("slowed", doctor("--json").stdout)


if __name__ == "__main__":
    unittest.main()
