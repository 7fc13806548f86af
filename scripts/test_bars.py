# SPDX-License-Identifier: Apache-2.0
"""Figures and exit codes of bars.py, on runs made up so that each figure is plain; and whether the data
of cases/bars fit each other.

    test_bars.py BUILD_DIR [unittest options]
"""
import contextlib
import glob
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bars  # noqa: E402

BUILD = os.path.abspath(sys.argv.pop(1))
DATA = os.path.join(bars.ROOT, "cases", "bars")
BARS = {
    "cases": "made.cases", "into": "made.md", "ours": ["wide", "narrow"], "peers": ["p1", "p2"],
    "peak": "f32",
    "speed": {"cases": ["a", "b"], "mean": 2.0, "least": 1.0},
    "narrow": {"backend": "narrow", "mean": 1.0, "peaks_within": 0.1},
    "peak_shares": {"a": 0.8}, "read_shares": {"b": 0.8},
    "memory": {"case": "memory: s=1:4:*2 d=1", "slope": 1.05},
    "threads": {"cases": ["a"], "kept": 0.95},
}
# ns: case a has 8000 FLOPs, b has 3000 bytes; the machine does 100 GFLOP/s and reads 30 GB/s
TIMES = {("a", "wide"): 100, ("a", "narrow"): 110, ("a", "p1"): 400, ("a", "p2"): 900,
         ("b", "wide"): 120, ("b", "narrow"): 200, ("b", "p1"): 300, ("b", "p2"): 240}


def machine(peak=100.0, narrow=95.0):
    return {"cpu": {"model": "Made", "cores": 2}, "date": "2026-01-31T12:00:00Z", "threads": 1,
            "attnbench": {"commit": "0123"}, "compiler": "none", "protocol": {"rounds": 5},
            "ceilings": {"read_gbs": 30.0, "rungs": [
                {"isa": "narrow", "f32": narrow, "f64": 1.0, "bf16": 0.0},
                {"isa": "wide", "f32": peak, "f64": 1.0, "bf16": 0.0}],
                "reads": [{"level": "memory", "bytes": 0, "gbs": 30.0}],
                "gemm": [{"backend": "p1", "dtype": "f32", "gflops": 90.0}]}}


def record(case, backend, ns, s=1, peak_bytes=None):
    """The best round is 4 % faster than the median, as on a machine with other work on it."""
    return {"type": "bench", "name": case, "backend": backend, "time_ns": {"median": ns},
            "samples_ns": [[ns], [0.96 * ns, 0.96 * ns], [1.5 * ns]], "flops": 8000, "bytes": 3000,
            "gflops": ns and 8000 / ns, "sizes": {"sq": s}, "peak_bytes": peak_bytes}


class Made(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="attnbench-test-bars-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.bars, self.times = json.loads(json.dumps(BARS)), dict(TIMES)
        self.narrow, self.behind = 95.0, []
        self.memory = {1: 100, 2: 200, 4: 400}
        self.page = "before\n<!-- bars made: begin -->\nold\n<!-- bars made: end -->\nafter\n"

    def put(self, name, about, records):
        folder = os.path.join(self.folder, "runs", name)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "machine.json"), "w", encoding="utf-8") as file:
            json.dump(about, file)
        with open(os.path.join(folder, "results.ndjson"), "w", encoding="utf-8") as file:
            for one in records:
                file.write(json.dumps({"type": "verify", "name": one["name"],
                                       "backend": one["backend"]}) + "\n")
                if one["gflops"]:  # else it was refused
                    file.write(json.dumps(one) + "\n")

    def run_it(self, *options):
        """Exit code, the page as it then is, and what was said."""
        about = machine(narrow=self.narrow)
        about["ceilings"]["rungs"] += self.behind
        self.put("main", about,
                 [record(case, backend, ns) for (case, backend), ns in self.times.items()])
        self.put("memory", machine(), [record(str(s), backend, 1, s, peak)
                                       for backend in ("wide", "narrow")
                                       for s, peak in self.memory.items()])
        for pair in range(bars.PAIRS):
            # 1.8 times as fast; the loops keep 0.9 of twice one
            self.put(f"threads-a-{pair}-1", machine(), [record("a", "wide", 180)])
            self.put(f"threads-a-{pair}-2", machine(180.0), [record("a", "wide", 100)])
        path = os.path.join(self.folder, "made.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.bars, file)
        page = os.path.join(self.folder, "made.md")
        with open(page, "w", encoding="utf-8") as file:
            file.write(self.page)
        said = io.StringIO()
        old, sys.argv = sys.argv, ["bars.py", path, "--reuse", "--out",
                                   os.path.join(self.folder, "runs"), *options]
        try:
            with contextlib.redirect_stderr(said):
                code = bars.main()
        finally:
            sys.argv = old
        with open(page, encoding="utf-8") as file:
            return code, file.read(), said.getvalue()

    def test_all_met(self):
        code, page, said = self.run_it("--check")
        self.assertEqual(code, 0, said)
        self.assertIn("8 of 8 bars met", said)
        self.assertTrue(page.startswith("before\n<!-- bars made: begin -->\nMade, 2 cores"))
        self.assertTrue(page.endswith("|\n<!-- bars made: end -->\nafter\n"))
        self.assertNotIn("old", page)
        self.assertIn("| case | wide | narrow | p1 | p2 | ours over best peer |\n", page)
        self.assertIn("| a | 80.0 | 72.7 | 20.0 | 8.9 | 4.00 |\n", page)
        for row in ("geometric mean | 2.83 | ≥ 2.00 | yes", "least case | 2.00 (b) | ≥ 1.00 | yes",
                    "narrow alone over best peer, geometric mean | 2.09 | ≥ 1.00 | yes",
                    "share of FMA peak, a | 0.83 (wide) | ≥ 0.80 | yes",
                    "share of read bandwidth, b | 0.87 (wide) | ≥ 0.80 | yes",
                    "slope of peak memory in S, wide | 1.00 | ≤ 1.05 | yes",
                    "loops keep, a | 1.00 | ≥ 0.95 | yes"):
            self.assertIn(row, page)

    def test_each_missed(self):
        for change, row in (
                (lambda: self.times.update({("b", "wide"): 250, ("b", "narrow"): 250}),
                 "best peer, least case | 0.96 (b) | ≥ 1.00 | **no**"),
                (lambda: self.times.update({("a", "narrow"): 900}),
                 "narrow alone over best peer, geometric mean | 0.73 | ≥ 1.00 | **no**"),
                (lambda: self.bars["peak_shares"].update({"a": 0.9}),
                 "share of FMA peak, a | 0.83 (wide) | ≥ 0.90 | **no**"),
                (lambda: self.bars["read_shares"].update({"b": 0.9}),
                 "share of read bandwidth, b | 0.87 (wide) | ≥ 0.90 | **no**"),
                (lambda: self.memory.update({1: 1, 2: 4, 4: 16}),
                 "slope of peak memory in S, narrow | 2.00 | ≤ 1.05 | **no**"),
                (lambda: self.bars["threads"].update({"kept": 1.01}),
                 "loops keep, a | 1.00 | ≥ 1.01 | **no**")):
            self.setUp()
            change()
            code, page, said = self.run_it("--check")
            self.assertEqual(code, 1, row)
            self.assertIn(row, page)
            self.assertIn("missed: ", said)
            self.assertEqual(self.run_it()[0], 0)

    def test_what_was_not_measured_is_missed(self):
        for key in (("a", "p1"), ("a", "p2")):
            del self.times[key]
        code, page, _ = self.run_it("--check")
        self.assertEqual(code, 1)
        self.assertIn("| a | 80.0 | 72.7 | — | — | — |\n", page)
        self.assertIn("geometric mean | — (1 of 2 cases) | ≥ 2.00 | **no**", page)
        self.setUp()
        self.memory = {1: 0, 2: 0, 4: 400}
        self.assertIn("slope of peak memory in S, wide | — | ≤ 1.05 | **no**", self.run_it()[1])

    def test_pairs_over_another_case(self):
        self.bars["ours"] = ["wide", "narrow", "pair"]
        self.bars["pairs"] = {"backend": "pair", "cases": {"c": "a", "d": "b"}, "mean": 1.5}
        self.assertNotIn("pair over f32", self.run_it()[1])  # the backend is not there
        self.times.update({("c", "pair"): 50, ("d", "pair"): 80})
        code, page, _ = self.run_it("--check")
        self.assertEqual(code, 0)
        self.assertIn("pair over f32 of ours, geometric mean | 1.73 (least 1.50, d) | ≥ 1.50 | yes", page)
        self.times["d", "pair"] = 200
        self.assertIn("mean | 1.10 (least 0.60, d) | ≥ 1.50 | **no**", self.run_it()[1])
        self.times["d", "pair"] = 0
        code, page, _ = self.run_it("--check")
        self.assertEqual(code, 1)
        self.assertIn("pair over f32 of ours, geometric mean | — (1 of 2 cases) | ≥ 1.50 | **no**", page)

    def test_narrow_is_not_asked_of_a_machine_whose_rungs_differ(self):
        self.narrow = 50.0
        self.times["a", "narrow"] = self.times["b", "narrow"] = 10000
        code, page, _ = self.run_it("--check")
        self.assertEqual(code, 0)
        self.assertNotIn("narrow alone", page)

    def test_peers_that_refuse_the_type_are_dashes(self):
        self.times["a", "p2"] = self.times["b", "p2"] = 0
        code, page, said = self.run_it("--check")
        self.assertEqual(code, 0, said)
        self.assertIn("| case | wide | narrow | p1 | p2 | ours over best peer |\n", page)
        self.assertIn("| b | 66.7 | 40.0 | 26.7 | — | 2.50 |\n", page)

    def test_what_is_not_asked_beside_matrix_tiles(self):
        self.bars.update({"unless_rung": "tiles", "peak_shares": {"a": 0.99}})
        self.bars["speed"]["mean"] = 99.0
        del self.bars["narrow"], self.bars["threads"]
        self.assertEqual(self.run_it("--check")[0], 1)
        self.behind = [{"isa": "tiles", "f32": 0.0, "f64": 0.0, "bf16": 900.0}]
        code, page, said = self.run_it("--check")
        self.assertEqual(code, 0, said)
        self.assertIn("tiles bf16 900 GFLOP/s", page)
        self.assertIn("least case | 2.00 (b) | ≥ 1.00 | yes", page)
        self.assertNotIn("geometric mean", page)
        self.assertNotIn("FMA peak", page)

    def test_a_peak_is_that_of_the_widest_rung_with_the_type(self):
        self.behind = [{"isa": "tiles", "f32": 0.0, "f64": 0.0, "bf16": 900.0}]
        self.assertIn("share of FMA peak, a | 0.83 (wide)", self.run_it()[1])
        self.bars["peak"] = "bf16"
        del self.bars["narrow"], self.bars["threads"]
        self.assertIn("share of FMA peak, a | 0.09 (wide)", self.run_it()[1])
        self.behind = []  # no such multiply-adds: no share is asked
        self.assertNotIn("FMA peak", self.run_it()[1])

    def test_a_page_without_markers(self):
        self.page = "no place\n"
        code, page, said = self.run_it()
        self.assertEqual((code, page), (2, "no place\n"))
        self.assertIn("does not have the markers", said)


class Data(unittest.TestCase):
    def test_files_fit_each_other(self):
        files = glob.glob(os.path.join(DATA, "*.json"))
        self.assertTrue(files)
        for path in files:
            data = bars.load(path)
            with open(data["cases"], encoding="utf-8") as file:
                names = {line.split(":")[0] for line in file if not line.startswith("#")}
            for used in (data["speed"]["cases"], data.get("peak_shares", {}),
                         data.get("read_shares", {}), data.get("pairs", {"cases": {}})["cases"],
                         data.get("pairs", {"cases": {}})["cases"].values(), data.get("threads", {"cases": []})["cases"]):
                self.assertLessEqual(set(used), names, path)
            with open(data["into"], encoding="utf-8") as file:
                page = file.read()
            stem = os.path.basename(path)[:-len(".json")]
            for marker in (f"<!-- bars {stem}: begin -->", f"<!-- bars {stem}: end -->"):
                self.assertEqual(page.count(marker), 1, marker)
            subprocess.run([os.path.join(BUILD, "bin", "attnbench"), "bench", "--dry-run",
                            data["cases"]], check=True, stdout=subprocess.DEVNULL)


class Measured(unittest.TestCase):
    def test_a_whole_small_one(self):
        """Made by the program itself: what is read is what a run leaves."""
        with tempfile.TemporaryDirectory(prefix="attnbench-test-bars-") as folder:
            data = {"cases": "small.cases", "into": "small.md", "ours": ["naive", "no_such"],
                    "peers": ["naive"], "peak": "f32", "peak_shares": {"s": 0.0}, "read_shares": {},
                    "speed": {"cases": ["s"], "mean": 1.0, "least": 1.0}}
            for name, text in (("small.cases", "s: s=32 d=16\n"), ("small.json", json.dumps(data)),
                               ("small.md", "<!-- bars small: begin --><!-- bars small: end -->")):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            done = subprocess.run([sys.executable, bars.__file__, os.path.join(folder, "small.json"),
                                   "--check", "--build", BUILD], capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("left out: no_such: not built", done.stderr)
            with open(os.path.join(folder, "small.md"), encoding="utf-8") as file:
                self.assertIn("least case | 1.00 (s) | ≥ 1.00 | yes", file.read())


if __name__ == "__main__":
    unittest.main(verbosity=2)
