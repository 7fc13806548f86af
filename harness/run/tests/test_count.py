#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench --count: instructions agree between runs, planted work is read as what it is, and what
valgrind cannot follow is refused with the reason.

    test_count.py BUILD_DIR [--full] [unittest options]

--full repeats a count, and tries what is refused before valgrind starts.
Exit status 77: valgrind is not installed.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
FULL = "--full" in sys.argv
if FULL:
    sys.argv.remove("--full")
PROGRAM = os.path.join(BUILD, "bin", "attnbench")
PLUGINS = os.path.join(BUILD, "lib", "attnbench")
SLOWED = os.path.join(PLUGINS, "planted", "slowed.so")
CASE = "h=50 s=16 d=16"


class Count(unittest.TestCase):
    def bench(self, *args, **environment):
        """{(backend, options): (instructions, reason)}"""
        environment = dict(os.environ, ATTNBENCH_PYTHON_BACKENDS="noop",
                           ATTNBENCH_SLOWED=os.path.join(PLUGINS, "naive.so"), **environment)
        with tempfile.TemporaryDirectory(prefix="attnbench-test-") as run:
            done = subprocess.run(
                [PROGRAM, "bench", "--count", "--rounds", "1", "--samples", "1", "--min-time",
                 "100us", "--cache", "hot", "-o", run, *args], capture_output=True, text=True,
                timeout=280, check=False, env=environment, stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(os.path.join(run, "results.ndjson"), encoding="utf-8") as file:
                records = [json.loads(line) for line in file]
        self.printed = done.stdout
        return {(r["backend"], r["options"]): (r["instructions"], r["instructions_reason"])
                for r in records if r["type"] == "bench"}

    def has_avx512(self):
        listed = subprocess.run([PROGRAM, "list", "--json"], capture_output=True, text=True,
                                check=True, timeout=100,
                                env=dict(os.environ, ATTNBENCH_PYTHON_BACKENDS="noop"))
        return any(b["name"] == "avx512" and b["available"] for b in json.loads(listed.stdout))

    @unittest.skipIf(FULL, "the fast one")
    def test_planted_work_is_read(self):
        wide = ("-b", "avx512") if self.has_avx512() else ()
        found = self.bench("--plugin", SLOWED, "-b", "slowed", "-b", "slowed:permille=20", *wide,
                           CASE)
        plain, _ = found["slowed", ""]
        more, _ = found["slowed", "permille=20"]
        self.assertGreater(plain, 50 * 16 * 16 * 16)
        # 1 of 50 heads is computed twice.
        self.assertAlmostEqual(more / plain, 1.02, delta=0.001)
        self.assertRegex(self.printed, rf"slowed +{plain}\n")
        if wide:
            self.assertIsNone(found["avx512", ""][0])
            self.assertIn("valgrind has AVX2 at most", found["avx512", ""][1])

    @unittest.skipUnless(FULL, "three more runs")
    def test_counts_agree(self):
        counts = [self.bench("-b", "naive", "s=33 d=24 mask=causal dtype=f16")["naive", ""][0]
                  for _ in range(3)]
        self.assertLessEqual(max(counts), 1.0006 * min(counts))

    @unittest.skipUnless(FULL, "two more runs")
    def test_refusals(self):
        folder = tempfile.mkdtemp(prefix="attnbench-test-")
        self.addCleanup(shutil.rmtree, folder)
        if len(os.sched_getaffinity(0)) > 1:
            self.assertEqual(self.bench("-b", "naive", "--threads", "2", "s=8 d=8")["naive", ""],
                             (None, "valgrind runs one thread at a time: count with --threads 1"))
        self.assertEqual(self.bench("-b", "naive", "s=8 d=8", PATH=folder)["naive", ""],
                         (None, "valgrind is not installed"))
        self.assertRegex(self.printed, "naive +-  valgrind is not installed\n")


if __name__ == "__main__":
    if not shutil.which("valgrind"):
        sys.exit(77)
    unittest.main()
