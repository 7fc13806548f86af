# SPDX-License-Identifier: Apache-2.0
"""What the backends promise each other, as ratios within one run; no absolute time.

    test_speed.py BUILD_DIR Speed|Memory|Workspaces

avx2 and avx512 are at least 3 times as fast as naive and not slower than blas with kernels of the
same width from S = 512 on, at additive scores at least 10 times and at lsh at least 4 times as fast
as naive, and their measured peak memory grows at most linearly in S, with lsh, too, as that of blas
in its blocked form does.
What naive and the rungs ask for beside the operands of gradients and of operators for long sequences
at most doubles with S. The harness's own cost is under 1/3000 of theirs at S = 512 (2 us where it is 6 ms).
"""
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
PROGRAM = os.path.join(BUILD, "bin", "attnbench")
CASES = ["s512: h=8 s=512 d=64", "s512_causal: h=8 s=512 d=64 mask=causal",
         "s1024: h=8 s=1024 d=64"]
ADDITIVE = "additive: h=8 s=512 d=64 score=additive"
LSH = ["lsh_r1: op=lsh s=4096 d=64 chunk=64 buckets=64 rounds=1",
       "lsh_r4: op=lsh s=4096 d=64 chunk=64 buckets=128 rounds=4"]
MEMORY = "memory: h=1 s=128:8192:*2 d=64"
MEMORY_LSH = "memory: op=lsh h=1 s=128:8192:*2 d=64 chunk=64 buckets=64 rounds=2"
# Operators whose memory is linear in S, at sizes where S^2 floats would outweigh all else.
LINEAR = ["linformer: op=linformer d=16 landmarks=32 dtype=f32,bf16",
          "nystrom: op=nystrom d=16 landmarks=16 dtype=f32,bf16",
          "performer: op=performer d=16 features=32 mask=dense,causal",
          "lsh: op=lsh d=16 chunk=32 rounds=2 buckets=16",
          "chunked: op=chunked d=16 chunk=64 mask=dense,causal",
          "backward: op=attention_backward d=16 mask=dense,causal dtype=f32,bf16",
          "wkv: op=wkv d=64", "linear_decay: op=linear_decay d=16",
          "tokens: d=16 mask=window:64:64+global:2,window:64:64:2"]
SQUARE = "square: d=16 mask=window:64:64"
DOUBLED = " s=512:2048:*2"


def bench(folder, backends, cases, *options, env=None):
    names = [word for backend in backends for word in ("-b", backend)]
    out = tempfile.mkdtemp(prefix="run", dir=folder)
    done = subprocess.run([PROGRAM, "bench", *names, "--cache", "hot", "--fills", "none",
                           "--checks", "none", "-o", out, *options, *cases],
                          capture_output=True, text=True, check=False, env={**os.environ, **(env or {})})
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    with open(os.path.join(out, "results.ndjson"), encoding="utf-8") as file:
        return [record for record in map(json.loads, file) if record["type"] == "bench"]


def least(record):
    """The shortest time of a run: of the rounds, or of the turns, whose clock is the processor's."""
    live = record["live"] or {}
    return min([record["time_ns"]["min"], *([live["low_ns"]["value"]] if "low_ns" in live else [])])


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="attnbench-speed-")
        self.addCleanup(self.folder.cleanup)

    def available(self):
        listed = json.loads(subprocess.run([PROGRAM, "list", "--json"], capture_output=True,
                                           text=True, check=True).stdout)
        return {item["name"] for item in listed if item["available"]}

    def rungs(self):
        """The vector backends of this machine; the fast rung does not excuse the other."""
        rungs = [name for name in ("avx2", "avx512") if name in self.available()]
        if not rungs:
            self.skipTest("this machine has no AVX2")
        return rungs


def best_of(records):
    return {(r["backend"], r["name"]): least(r) for r in records}


class Speed(Run):
    def beat(self, best, rung, rival, factor, cases=CASES):
        for case in (line.split(":")[0] for line in cases):
            ratio = best[rival, case] / best[rung, case]
            print(f"{case}: {rung} is {ratio:.2f} times as fast as {rival}", file=sys.stderr)
            self.assertGreaterEqual(ratio, factor, (rung, case, rival))

    def test_against_blas(self):
        rungs = self.rungs()
        blas = {"blas"} & self.available()
        records = bench(self.folder.name, [*rungs, "null", *blas], CASES, "--rounds", "3")
        best = best_of(records)
        null = [r["time_ns"]["median"] for r in records if r["backend"] == "null"]
        print(f"null: {max(null):.1f} ns", file=sys.stderr)
        self.assertLess(max(null), min(best[rung, "s512"] for rung in rungs) / 3000)
        if not blas:
            self.skipTest("no BLAS was found")
        self.beat(best, rungs[-1], "blas", 1.0)
        if rungs[0] != rungs[-1]:
            again = bench(self.folder.name, [rungs[0], "blas"], CASES, "--rounds", "3",
                          env={"OPENBLAS_CORETYPE": "Haswell"})
            self.beat(best_of(again), rungs[0], "blas", 1.0)

    def beat_naive(self, cases, factor, *options):
        rungs = self.rungs()
        if "naive" not in self.available():
            self.skipTest("naive is not built")
        best = best_of(bench(self.folder.name, [*rungs, "naive"], cases, *options))
        for rung in rungs:
            self.beat(best, rung, "naive", factor, cases)

    def test_plain(self):
        self.beat_naive(CASES, 3.0, "--rounds", "1")

    def test_additive(self):
        self.beat_naive([ADDITIVE], 10.0, "--rounds", "1", "--samples", "1", "--run-limit", "0")

    def test_lsh(self):
        self.beat_naive(LSH, 4.0, "--rounds", "1")


class Memory(Run):
    def slope(self, backend, case=MEMORY):
        records = bench(self.folder.name, [backend], [case], "--rounds", "1", "--samples", "1",
                        "--run-limit", "0")
        points = [(math.log(r["sizes"]["sq"]), math.log(r["peak_bytes"])) for r in records]
        self.assertGreaterEqual(len(points), 6)
        mean_x = sum(x for x, _ in points) / len(points)
        mean_y = sum(y for _, y in points) / len(points)
        slope = (sum((x - mean_x) * (y - mean_y) for x, y in points) /
                 sum((x - mean_x) ** 2 for x, _ in points))
        print(f"peak memory of {backend} grows as S^{slope:.2f}", file=sys.stderr)
        return slope

    def test_memory_slope(self):
        for rung in self.rungs():
            self.assertLessEqual(self.slope(rung), 1.05)

    def test_memory_slope_of_lsh(self):
        for rung in self.rungs():
            self.assertLessEqual(self.slope(rung, MEMORY_LSH), 1.05)

    def test_memory_slope_of_blas(self):
        """Beside the form that is to be told from it by this figure."""
        if "blas" not in self.available():
            self.skipTest("no BLAS was found")
        self.assertLessEqual(self.slope("blas:form=blocked"), 1.05)
        self.assertGreater(self.slope("blas:form=plain"), 1.05)


class Workspaces(Run):
    def growth(self, backends, cases):
        """Per backend and case: the largest factor of the workspace when S doubles."""
        records = bench(self.folder.name, backends, [case + DOUBLED for case in cases], "--rounds",
                        "1", "--samples", "1", "--run-limit", "0", "--threads", "1")
        bytes_at = {}
        for r in records:
            case = re.sub(r"s=\d+,?", "", r["name"]).rstrip("/,")
            bytes_at.setdefault((r["backend"], case), {})[r["sizes"]["sq"]] = r["workspace_bytes"]
        return {key: max(at[1024] / at[512], at[2048] / at[1024]) for key, at in bytes_at.items()}

    def test_linear(self):
        backends = [name for name in ("naive", "avx2", "avx512") if name in self.available()]
        found = self.growth(backends, LINEAR)
        for key, factor in sorted(found.items()):
            print(f"{key[0]}, {key[1]}: the workspace grows {factor:.2f} times", file=sys.stderr)
            self.assertLessEqual(factor, 2.1, key)
        for operator in (case.split(":")[0] for case in LINEAR):
            self.assertTrue([key for key in found if key[1].startswith(operator)], operator)

    def test_a_square_is_found(self):
        if "blas" not in self.available():
            self.skipTest("no BLAS was found")
        self.assertGreater(min(self.growth(["blas:form=plain"], [SQUARE]).values()), 2.1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
