# SPDX-License-Identifier: Apache-2.0
"""What shapes.py draws, and what it makes of a run: runs are made up so that each figure is plain.

    test_shapes.py BUILD_DIR [unittest options]
"""
import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bars  # noqa: E402
import shapes  # noqa: E402

BUILD = os.path.abspath(sys.argv.pop(1))
COUNT = 200
# time over that of the anchor, by shape and backend; None: it has no turns
TIMES = {"a": {"avx512": 1.0, "avx2": 1.2, "ort": 3.0, "blas": 4.0},
         "b": {"avx512": 2.0, "avx2": 1.0, "onednn": 0.8, "blas": None},
         "m": {"avx512": 1.0, "torch_flash": 1.15},
         "alone": {"avx512": 1.0, "ort": None}}


def keys(line):
    return dict(word.split("=", 1) for word in line.split(": ", 1)[1].split())


class Drawn(unittest.TestCase):
    def test_same_seed_same_shapes(self):
        self.assertEqual(shapes.draw_cases(5, 30), shapes.draw_cases(5, 30))
        self.assertEqual(shapes.draw_cases(5, 30), shapes.draw_cases(5, 60)[:30])
        self.assertNotEqual(shapes.draw_cases(5, 30), shapes.draw_cases(6, 30))

    def test_kept_seeds_mean_what_they_meant(self):
        """Figures in the notebook name seeds: a change of the draw would change what they mean."""
        for seed, digest in ((shapes.TUNED, "63d13276f0ef907c"), (shapes.JUDGE, "86eb4c8d67db4f47")):
            text = "\n".join(shapes.draw_cases(seed, COUNT))
            self.assertEqual(hashlib.sha256(text.encode()).hexdigest()[:16], digest)

    def test_sizes_are_within_limits(self):
        for seed in (shapes.TUNED, shapes.JUDGE):
            for line in shapes.draw_cases(seed, COUNT):
                word = keys(line)
                for key, low, high in (("b", 1, 64), ("hq", 1, 64), ("hkv", 1, 64), ("sq", 1, 8192),
                                       ("sk", 1, 8192), ("dk", 16, 256), ("dv", 16, 256)):
                    self.assertTrue(low <= int(word[key]) <= high, line)
                self.assertEqual(int(word["hq"]) % int(word["hkv"]), 0, line)

    def test_features_all_occur(self):
        lines = shapes.draw_cases(shapes.JUDGE, COUNT)
        words = [keys(line) for line in lines]
        for dtype in shapes.DTYPES:
            self.assertGreaterEqual(sum(w["dtype"] == dtype for w in words), COUNT // 3)
        for part in ("op=mha", "kv=cross", "bias=normal", "bias=alibi", "softcap=", "mask=dense", "mask=causal ",
                     "mask=window", "mask=len:rand", "mask=len2d", "mask=bool", "sq=1 "):
            self.assertTrue(any(part in line + " " for line in lines), part)
        self.assertTrue(any(w["dk"] != w["dv"] for w in words))
        self.assertTrue(any(w["hq"] != w["hkv"] for w in words))
        self.assertTrue(any(int(w["dk"]) % 2 for w in words))

    def test_work_is_counted_as_the_cases_say(self):
        shape = {"b": 2, "hq": 4, "hkv": 2, "sq": 3, "sk": 5, "dk": 8, "dv": 16, "mask": "dense"}
        self.assertEqual(shapes.work_of(shape, 0.5), 2 * 2 * 4 * 3 * 5 * 0.5 * 24)
        mha = dict(shape, op="mha")  # the model is 32 wide: q, out, and k, v of half as many heads
        projections = 2 * 2 * 32 * (3 * 32 + 5 * 16 + 5 * 32 + 3 * 64)
        self.assertEqual(shapes.work_of(mha, 0.5) - shapes.work_of(shape, 0.5), projections)
        self.assertEqual(shapes.rows_left(3, 5, 0, 5, 0), 6 / 15)
        self.assertEqual(shapes.rows_left(3, 5, 2, 1, 0), 6 / 15)

    def test_the_program_takes_all_of_them(self):
        with tempfile.NamedTemporaryFile("w", suffix=".cases", encoding="utf-8") as file:
            file.write("\n".join(line for seed in range(3) for line in
                                 (f"s{seed}_{line}" for line in shapes.draw_cases(seed, COUNT))))
            file.flush()
            done = subprocess.run([os.path.join(BUILD, "bin", "attnbench"), "bench", "--dry-run", "--json",
                                   file.name], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(json.loads(done.stdout)), 3 * COUNT)


def records(name, times):
    sizes = {"op": "mha" if name == "m" else "attention", "dtype": "bf16" if name == "b" else "f32"}
    for backend, ratio in times.items():
        yield {"type": "verify", "name": name, "backend": backend}
        paired = None if ratio is None else {"ratio": ratio}
        yield {"type": "bench", "name": name, "case": f"case of {name}", "backend": backend, "sizes": sizes,
               "flops": 8000, "bytes": 300, "live": {"paired": paired, "low_ns": {"value": 100 * (ratio or 9)}}}


class Reported(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="attnbench-test-shapes-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_it(self, times, *options):
        """Exit code and what was printed, with a program that leaves a run of these times."""
        rungs = [{"isa": "avx2", "f32": 50.0, "f64": 25.0, "bf16": 0.0},
                 {"isa": "avx512", "f32": 100.0, "f64": 50.0, "bf16": 0.0}]
        machine = {"cpu": {"model": "Made"}, "date": "2026-01-31T12:00:00Z", "attnbench": {"commit": "0123"},
                   "ceilings": {"read_gbs": 10.0, "rungs": rungs, "reads": [], "gemm": []}}

        def program(command, **_):
            self.command = command
            run = command[command.index("-o") + 1]
            os.makedirs(run, exist_ok=True)
            with open(os.path.join(run, "machine.json"), "w", encoding="utf-8") as file:
                json.dump(machine, file)
            with open(os.path.join(run, "results.ndjson"), "w", encoding="utf-8") as file:
                for name, case in times.items():
                    file.writelines(json.dumps(r) + "\n" for r in records(name, case))
            return subprocess.CompletedProcess(command, 0)

        said = io.StringIO()
        with mock.patch.object(subprocess, "run", program), mock.patch.object(
                bars, "choose", lambda _, names: names), mock.patch.object(
                sys, "argv", ["shapes.py", "--out", self.folder, *options]), contextlib.redirect_stdout(said):
            code = shapes.main()
        return code, said.getvalue()

    def test_figures(self):
        code, page = self.run_it(TIMES, "--check")
        self.assertEqual(code, 1)
        self.assertIn("seed 2; 3 of 4 shapes compared in turns", page)
        self.assertIn("| f32, geometric mean of 1 | 3.00 | ≥ 1.50 | yes |", page)
        self.assertIn("| bf16, geometric mean of 1 | 0.80 | ≥ 1.70 | **no** |", page)
        self.assertIn("| mha, geometric mean of 1 | 1.15 | ≥ 1.15 | yes |", page)
        self.assertIn("| avx2 alone, geometric mean of 2 | 1.41 | ≥ 1.20 | yes |", page)
        self.assertIn("| share of shapes at or above 1 | 0.67 | ≥ 0.95 | **no** |", page)
        self.assertIn("| least | 0.80 (b) | ≥ 0.85 | **no** |", page)
        rows = [line for line in page.splitlines() if "case of" in line]
        self.assertEqual(rows, ["| b | 0.80 | avx2 | onednn | 1.60 FMA | `case of b` |",
                                "| m | 1.15 | avx512 | torch_flash | 0.80 FMA | `case of m` |",
                                "| a | 3.00 | avx512 | ort | 0.80 FMA | `case of a` |"])

    def test_bars_that_are_met(self):
        code, page = self.run_it({"a": TIMES["a"]}, "--check")
        self.assertEqual(code, 0, page)
        code, page = self.run_it({"a": TIMES["a"], "lost": {"ort": 1.0}}, "--check")
        self.assertEqual(code, 1, page)
        self.assertIn("| share of shapes that ours computed | 0.50 | ≥ 1.00 | **no** |", page)
        self.assertEqual(self.run_it({"b": TIMES["b"]})[0], 0)  # only --check makes it a failure

    def test_only_the_worst_are_listed(self):
        many = {f"n{n:03}": {"avx512": 1.0, "ort": 1.0 + n / 100} for n in range(30)}
        rows = [line for line in self.run_it(many)[1].splitlines() if "case of" in line]
        self.assertEqual(len(rows), 20)
        self.assertIn("| n000 | 1.00 |", rows[0])
        self.assertIn("| n019 | 1.19 |", rows[-1])

    def test_nothing_to_compare(self):
        self.assertEqual(self.run_it({"alone": TIMES["alone"]})[0], 2)

    def test_a_second_command_goes_on(self):
        self.run_it(TIMES, "--seed", "3", "--count", "4")
        self.assertNotIn("--resume", self.command)
        with open(os.path.join(self.folder, "shapes.cases"), encoding="utf-8") as file:
            self.assertEqual(file.read().splitlines(), shapes.draw_cases(3, 4))
        self.run_it(TIMES, "--seed", "3", "--count", "4")
        self.assertIn("--resume", self.command)
        self.run_it(TIMES, "--seed", "3", "--count", "4", "--restart")
        self.assertNotIn("--resume", self.command)


class Measured(unittest.TestCase):
    def test_a_whole_small_one(self):
        """Made by the program itself: what is read is what a run leaves."""
        with tempfile.TemporaryDirectory(prefix="attnbench-test-shapes-") as folder:
            path = os.path.join(folder, "two.cases")
            with open(path, "w", encoding="utf-8") as file:
                file.write("one: h=2 s=48 d=32\ntwo: s=33 d=24 mask=causal\n")
            command = [sys.executable, shapes.__file__, "--build", BUILD, "--out", folder, "--cases", path,
                       "--rounds", "1", "--ours", "avx2", "--peers", "naive"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("two.cases; 2 of 2 shapes compared in turns", done.stdout)
            again = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual((again.returncode, again.stdout), (0, done.stdout))


if __name__ == "__main__":
    unittest.main(verbosity=2)
