# SPDX-License-Identifier: Apache-2.0
"""Answers that change with runs or time, and kernels that are slow at every usual size.

    test_age.py BUILD_DIR [unittest options]
"""
import json
import os
import subprocess
import sys
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
PROGRAM = os.path.join(BUILD, "bin", "attnbench")
LONG_RUN = "d=64 s=1024"  # milliseconds a run, so that hundreds of them take seconds


def verify(plugin, backend, case, *options):
    """The record of a verdict."""
    done = subprocess.run([PROGRAM, "verify", "--plugin", os.path.join(BUILD, "tests", "plugins", plugin),
                           "-b", backend, "--threads", "1", "--json", *options, case],
                          capture_output=True, text=True, check=False)
    return json.loads(done.stdout.splitlines()[-1])


class Age(unittest.TestCase):
    def expect_new_data(self, bug, words):
        record = verify("rogue.so", f"rogue:bug={bug}", LONG_RUN, "--fills", "none", "--checks",
                        "new_data")
        self.assertEqual(record["status"], "fail", record["reason"])
        self.assertRegex(record["reason"], words)

    def test_runs_are_counted_by_the_hundred(self):
        self.expect_new_data("wrong_after_300",
                             r"^new_data: a plan of 'dk=64 sq=8' after some hundred runs: out\[")

    def test_a_plan_grows_old_in_a_session_of_one_case(self):
        # On a busy machine other plans live as long.
        self.expect_new_data("wrong_after_1500_ms", r"out\[")

    def test_who_is_slow_on_a_smaller_case_gets_a_tiny_one(self):
        record = verify("slow.so", "test:when=large", "d=8 s=512", "--checks", "ones,shift",
                        "--fills", "exact,spike")
        self.assertEqual(record["status"], "pass", record["reason"])
        self.assertEqual(record["checks_case"], "dk=8 sq=8")
        self.assertEqual([why for why in record["checks_missed"].values()
                          if not why.startswith("left out")], [])


if __name__ == "__main__":
    unittest.main()
