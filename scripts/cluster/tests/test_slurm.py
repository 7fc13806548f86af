# SPDX-License-Identifier: Apache-2.0
"""slurm-array.sbatch on a real Slurm of one node: shards, preemption, a second try of some tasks.

    test_slurm.py BUILD_DIR [unittest options]
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import one_slurm  # noqa: E402

BUILD = os.path.abspath(sys.argv.pop(1))
PROGRAM = os.path.join(BUILD, "bin", "attnbench")
TEMPLATE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                        "slurm-array.sbatch")
SHARDS = 2
CASES = "s=8:12:+1 d=8"
# Long enough to be cut off, and no longer.
BENCH = ["bench", "-b", "naive", "--cache", "hot", "--rounds", "2", "--samples", "2", "--min-time",
         "150ms", CASES]
SMALL = [f"--array=1-{SHARDS}", "--oversubscribe", "--cpus-per-task=1"]  # both on this node

CUT = "interrupted.*; the same command with --resume goes on"


def records(run):
    """Whole lines of a journal that somebody may be writing."""
    try:
        with open(os.path.join(run, "results.ndjson"), encoding="utf-8") as file:
            return [json.loads(line) for line in file.read().splitlines(keepends=True)
                    if line.endswith("\n")]
    except FileNotFoundError:
        return []


def timed(run):
    """Cases with a timing that no signal has cut short."""
    return [record["id"] for record in records(run)
            if record["type"] == "bench" and not record.get("cut")]


class Slurm(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="attnbench-slurm-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.slurm = self.enterContext(one_slurm.OneSlurm(self.folder))
        self.variables = {"ATTNBENCH": PROGRAM, "ATTNBENCH_SHARDS": str(SHARDS),
                          "ATTNBENCH_RUNS": os.path.join(self.folder, "runs"),
                          "ATTNBENCH_NAME": "test"}

    def shard(self, i):
        return os.path.join(self.folder, "runs", "test", f"shard-{i}")

    def log(self, job, task):
        with open(os.path.join(self.folder, f"attnbench-{job}_{task}.log"), encoding="utf-8") as file:
            return file.read()

    def cases(self):
        done = subprocess.run([PROGRAM, "list", "cases", "--json", CASES], capture_output=True,
                              text=True, check=True, timeout=60)
        return sorted(case["id"] for case in json.loads(done.stdout))

    def wait_for_records(self, job, *runs):
        try:
            one_slurm.until("records", 120, lambda: all(map(records, runs)))
        except TimeoutError as error:
            queue = self.slurm.ask("squeue", "-r", "-t", "all", "-j", job).stdout
            self.fail(f"{error}\n{queue}{self.slurm.logs()}")

    def test_a_run_that_is_preempted_is_complete(self):
        shards = [self.shard(i + 1) for i in range(SHARDS)]
        job = self.slurm.submit(*SMALL, TEMPLATE, *BENCH, **self.variables)
        self.wait_for_records(job, *shards)
        urgent = self.slurm.submit("--partition=urgent", "--exclusive", "--wrap", "true")
        self.slurm.wait(urgent, "COMPLETED")
        before = [records(run) for run in shards]
        self.assertEqual(set(self.slurm.states(job).values()), {"PENDING"}, self.log(job, 1))
        self.slurm.hurry(job)
        self.slurm.wait(job, "COMPLETED")
        for run, first in zip(shards, before):
            self.assertLess(len(first), len(records(run)))
            self.assertEqual(records(run)[:len(first)], first) # nothing lost, nothing changed
        # Every case once, each on one node, with nothing left out.
        self.assertEqual(sorted(timed(shards[0]) + timed(shards[1])), self.cases())
        self.assertTrue(timed(shards[0]) and timed(shards[1]))
        for i, run in enumerate(shards):
            with open(os.path.join(run, "machine.json"), encoding="utf-8") as file:
                self.assertEqual(json.load(file)["shard"],
                                 {"index": i + 1, "count": SHARDS, "from": "SLURM_ARRAY_TASK_ID"})
            self.assertRegex(self.log(job, i + 1), CUT)

    def test_a_task_near_its_end_queues_itself_again(self):
        """USR1 comes to the script alone, as --signal=B:USR1@60 sends it."""
        shards = [self.shard(i + 1) for i in range(SHARDS)]
        job = self.slurm.submit(*SMALL, TEMPLATE, *BENCH, **self.variables)
        self.wait_for_records(job, *shards)
        self.slurm.ask("scancel", "--signal=USR1", "--batch", job)
        self.slurm.wait(job, "PENDING")
        before = [records(run) for run in shards]
        self.slurm.hurry(job)
        self.slurm.wait(job, "COMPLETED")
        for i, first in enumerate(before):
            self.assertEqual(records(shards[i])[:len(first)], first)
            self.assertRegex(self.log(job, i + 1), CUT)
        self.assertEqual(sorted(timed(shards[0]) + timed(shards[1])), self.cases())


if __name__ == "__main__":
    reason = one_slurm.missing()
    if reason:
        print(f"slurm: skipped: {reason}")
        sys.exit(77)
    unittest.main()
