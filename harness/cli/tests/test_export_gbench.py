# SPDX-License-Identifier: Apache-2.0
"""Exports read by Google Benchmark's own compare.py, and files that Google Benchmark has made read by us.
scripts/build.sh brings both (Debian's libbenchmark-tools; SciPy for compare.py in .deps/venv).

    test_export_gbench.py BUILD_DIR VENV [unittest options]
"""
import json
import os
import re
import subprocess
import sys
import unittest

VENV = sys.argv.pop(2)
PYTHON = os.path.join(VENV, "bin", "python3")
TOOLS = "/usr/share/benchmark"
COMPARE = os.path.join(TOOLS, "compare.py")

from test_cli import Case  # noqa: E402 (it takes the build folder from the arguments)


class CompareTool(Case):
    def exported(self, name, factor=1.0):
        def change(record):
            if record["type"] == "bench":
                for field in ("samples_ns", "in_rounds"):
                    record.pop(field, None)
                record["samples_ns"] = [[factor * (1000.0 + i)] for i in range(2)]
        run = self.run_folder(name, backends=("naive", "avx2"), change=change)
        with open(self.path(name + ".json"), "w", encoding="utf-8") as file:
            file.write(self.expect(0, "export", run, "--format", "google-benchmark").stdout)
        return self.path(name + ".json")

    def compare(self, *arguments):
        done = subprocess.run([PYTHON, COMPARE, "--no-color", *arguments], capture_output=True, text=True,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout

    def test_two_exports(self):
        said = self.compare("benchmarks", self.exported("base"), self.exported("slow", 1.5))
        # Each repetition of each benchmark: half as long again, and a U test of all.
        for backend in ("naive", "avx2"):
            changes = re.findall(rf"(?m)^{backend}/\S.*?/hot +\+(\d\.\d+) +\+(\d\.\d+) ", said)
            self.assertEqual(changes, [("0.5000", "0.5000")] * 2, said)
            self.assertRegex(said, rf"(?m)^{backend}/\S.*/hot_pvalue .*U Test, Repetitions: 2 vs 2")
        self.assertRegex(said, r"(?m)^OVERALL_GEOMEAN +\+0.5000 +\+0.5000")

    def test_two_backends_of_one_export(self):
        said = self.compare("filters", self.exported("run"), "^naive", "^avx2")
        self.assertIn("[^naive vs. ^avx2]/", said)


class Files(Case):
    def test_its_own_files_are_imported_or_refused_in_a_sentence(self):
        folder = os.path.join(TOOLS, "gbench", "Inputs")
        taken = 0
        for name in sorted(os.listdir(folder)):
            file = os.path.join(folder, name)
            # test4: without a context, without times, or aggregates only.
            code = 2 if name.startswith("test4_") else 0
            done = self.expect(code, "import", file, "-o", self.path(name))
            taken += code == 0
            if code:
                self.assertRegex(done.stderr, rf"^attnbench: {re.escape(file)}: (line \d+[:,] |no benchmark)")
        self.assertGreaterEqual(taken, 4)
        # One repetition each: a ratio, and no verdict.
        done = self.expect(0, "compare", "--cross", self.path("test1_run1.json"), self.path("test1_run2.json"),
                           "--json")
        found = {result["case"]: result["ratio"] for result in json.loads(done.stdout)["results"]}
        self.assertAlmostEqual(found["BM_2xFaster"], 0.5)
        self.assertAlmostEqual(found["BM_100xSlower"], 100)


if __name__ == "__main__":
    if not os.path.exists(COMPARE) or not os.path.exists(os.path.join(VENV, ".scipy")):
        print("no compare.py of Google Benchmark, or no SciPy: run scripts/build.sh")
        sys.exit(77)
    unittest.main(verbosity=2)
