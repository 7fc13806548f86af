#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rounds of turns as a user sees them: the field `live` of a bench record. No time is asked for,
only ratios within one run.

    test_paired.py BUILD_DIR [Paired | Runtime] [unittest options]

Runtime is for builds with oneDNN and without sanitizers, in which it finds no processor.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
PROGRAM = os.path.join(BUILD, "bin", "attnbench")
SLOWED = os.path.join(BUILD, "lib", "attnbench", "planted", "slowed.so")
NAIVE = os.path.join(BUILD, "lib", "attnbench", "naive.so")
CASE = "h=10 s=24 d=16"
CLOCKS = ("thread", "process", "wall", "device")
NOISES = ("unknown", "quiet", "shared", "contended")


def plugin(name):
    return os.path.join(BUILD, "tests", "plugins", name + ".so")


class Bench(unittest.TestCase):
    def bench(self, code, *args):
        """The records of a run, by type."""
        environment = dict(os.environ, ATTNBENCH_SLOWED=NAIVE, ATTNBENCH_PYTHON_BACKENDS="noop")
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([PROGRAM, "bench", "-o", os.path.join(folder, "run"),
                                   "--fills", "none", "--checks", "none", *args],
                                  capture_output=True, text=True, timeout=200, check=False,
                                  env=environment, stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, code, f"{args}\n{done.stdout}\n{done.stderr}")
            with open(os.path.join(folder, "run", "results.ndjson"), encoding="utf-8") as file:
                records = list(map(json.loads, file))
        return {kind: [record for record in records if record["type"] == kind]
                for kind in ("verify", "round", "bench")}


class Paired(Bench):
    def check_live(self, live, rounds):
        self.assertEqual(live["rounds"], rounds)
        self.assertEqual(len(live["in_rounds"]), rounds)
        self.assertEqual(live["undisturbed"],
                         sum(not r["disturbed"] for r in live["in_rounds"]))
        self.assertIn(live["put_off"], range(rounds + 1))
        self.assertIn(live["clock"], CLOCKS)
        self.assertIn(live["noise"], NOISES)
        self.assertEqual(live["reason"], "")
        self.assertGreater(live["bytes"], 0)
        self.assertLessEqual(live["huge_bytes"], live["bytes"])
        self.assertEqual(live["batches"], sum(r["batches"] for r in live["in_rounds"]))
        self.assertEqual(live["switches"], sum(r["switches"] for r in live["in_rounds"]))
        low = live["low_ns"]
        self.assertLessEqual(low["ci95"][0], low["value"])
        self.assertLessEqual(low["value"], low["ci95"][1])
        for one in live["in_rounds"]:
            self.assertLessEqual(one["least_ns"], one["low_ns"])
            self.assertGreaterEqual(one["batches"], one["cycles"])
            self.assertGreaterEqual(one["cycles"], one["undisturbed_cycles"])
            self.assertEqual(one["disturbed"], one["undisturbed_cycles"] < min(2, one["cycles"]))
            self.assertGreaterEqual(one["steal"], 0)
            for field in ("batches_ns", "batches_wall_ns", "batches_switches"):
                self.assertEqual(len(one[field]), one["batches"])
            self.assertLess(abs(min(one["batches_ns"]) - one["least_ns"]), 1)
            self.assertEqual(sum(one["batches_switches"]), one["switches"])
            self.assertLessEqual(len(one["processors"]), 1)

    def test_backends_are_compared_in_turns(self):
        # 3 of 10 heads are computed twice.
        records = self.bench(0, "--plugin", SLOWED, "-b", "slowed", "-b",
                             "slowed:permille=300", "-b", "null", "--cache", "hot", "--rounds", "6",
                             CASE)
        sides = {record["options"]: record for record in records["bench"]
                 if record["backend"] == "slowed"}
        for record in sides.values():
            self.check_live(record["live"], 12)
            # A round in which one run seems to take over 10 ms has fewer, on a busy machine some do.
            batches = [one["batches"] for one in record["live"]["in_rounds"]]
            self.assertGreaterEqual(min(batches), 1)
            if record["live"]["low_ns"]["value"] < 2e6:
                self.assertGreaterEqual(statistics.median(batches), 8)
            self.assertGreaterEqual(record["live"]["iterations"], 1)
        pairs = {options: record["live"]["paired"] for options, record in sides.items()}
        anchors = {(pair["anchor"], pair["anchor_options"]) for pair in pairs.values()}
        self.assertEqual(len(anchors), 1)
        (name, anchor), = anchors
        self.assertEqual(name, "slowed")
        self.assertEqual(pairs[anchor]["ratio"], 1)
        self.assertEqual(pairs[anchor]["ci95"], [1, 1])
        (other, pair), = ((options, pair) for options, pair in pairs.items() if options != anchor)
        ratio = pair["ratio"] if other else 1 / pair["ratio"]
        self.assertGreater(ratio, 1.15)
        self.assertLess(ratio, 1.6)
        calm = sides[other]["live"]["undisturbed"]
        self.assertEqual(pair["rounds"], calm if calm >= 3 else 12)
        self.assertLessEqual(pair["ci95"][0], pair["ratio"])
        self.assertLessEqual(pair["ratio"], pair["ci95"][1])
        # What computes nothing has no turns.
        null, = (record for record in records["bench"] if record["backend"] == "null")
        self.assertIsNone(null["live"])

    def test_fetch_is_part_of_a_run(self):
        # All work is done there. A batch takes 0.2 ms, or is one run.
        records = self.bench(0, "--plugin", plugin("rogue"), "-b", "rogue:bug=work_in_fetch",
                             "--cache", "hot", "--rounds", "2", "--min-time", "1ms", "s=64 d=64")
        live = records["bench"][0]["live"]
        self.assertLess((live["iterations"] - 1) * live["low_ns"]["value"], 1e6)

    def test_page_faults_are_not_what_a_result_costs(self):
        # Where inputs are exchanged, 1,024 of them; between timed runs none.
        records = self.bench(0, "--plugin", plugin("trims"), "-b", "test", "--cache", "hot", "--rounds", "3",
                             "s=64 d=64")
        self.assertEqual([record["status"] for record in records["verify"]], ["pass"])

    def test_results_of_turns_are_judged(self):
        # Right in its first 600 runs. So small a case runs more often in 16 batches, but not in 16
        # samples of a microsecond.
        records = self.bench(3, "--plugin", plugin("late"), "-b", "test", "-b", "naive", "--cache",
                             "hot", "--rounds", "2", "--samples", "16", "--min-time", "1us",
                             "s=4 dk=8")
        rounds = [record for record in records["round"] if record["backend"] == "test"]
        self.assertEqual([record["status"] for record in rounds], ["pass", "pass"])
        last = [record for record in records["verify"] if record["backend"] == "test"][-1]
        self.assertEqual(last["status"], "fail")
        self.assertIn("while timed: out[", last["reason"])
        # The other one goes on, and the anchor may be the one that has failed.
        bench, = records["bench"]
        self.assertEqual(bench["backend"], "naive")
        self.assertEqual(bench["live"]["paired"]["anchor"], "naive")


class Runtime(Bench):
    def test_onednn_may_have_a_thread_that_its_caller_waits_for(self):
        records = self.bench(0, "-b", "onednn", "--rounds", "3", "s=1 d=64", "h=4 s=32 d=64",
                             "h=2 s=128 d=32 score=additive")
        # What took 10 ms when it was verified, as the last one may on a busy machine, and takes so
        # long again has no cold timings.
        short = [record["seconds"] < 0.01 for record in records["verify"]]
        caches = [record["cache"] for record in records["bench"]]
        self.assertEqual((len(short), caches.count("hot")), (3, 3))
        self.assertIn(caches.count("cold"), range(sum(short), 4))


if __name__ == "__main__":
    unittest.main()
