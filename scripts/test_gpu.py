#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu.sh without a GPU, and from end to end over the emulated driver, where a stand-in takes the place of
compute-sanitizer; figures of gpu.py from a run made up so that each is plain.

    test_gpu.py BUILD_DIR [unittest options]
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gpu  # noqa: E402

BUILD = os.path.abspath(sys.argv.pop(1))
SCRIPT = os.path.join(gpu.ROOT, "scripts", "gpu.sh")
CASES = "prefill: sq=3 sk=5 d=64 dtype=f16\ndecode: sq=1 sk=7 d=64 dtype=bf16\n"
QUICK = ("--rounds", "2", "--samples", "3", "--min-time", "1ms")


class Script(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="attnbench-test-gpu-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_script(self, *arguments, **environment):
        return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False,
                              env=dict(os.environ, TMPDIR=self.folder, **environment))

    def run_emulated(self, summary):
        cases, tool = (os.path.join(self.folder, name) for name in ("a.cases", "compute-sanitizer"))
        with open(cases, "w", encoding="utf-8") as file:
            file.write(CASES)
        with open(tool, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift 2; done\n'
                       '"$@" && echo "========= ERROR SUMMARY: %s"\n' % summary)
        os.chmod(tool, 0o755)
        report = os.path.join(self.folder, "report")
        done = self.run_script("-o", report, "-j", "2", *QUICK, GPU_BUILD=BUILD, GPU_CASES=cases,
                               GPU_PLUGIN=os.path.join(BUILD, "tests", "plugins", "cuda_emu.so"),
                               PATH=self.folder + ":" + os.environ["PATH"])
        with open(os.path.join(report, "gpu.md"), encoding="utf-8") as file:
            return done, file.read(), os.listdir(report)

    @unittest.skipIf(subprocess.run(["sh", "-c", "ls /dev/nvidia[0-9]* /dev/dxg"], check=False,
                                    capture_output=True).stdout, "there is a GPU")
    def test_without_a_gpu(self):
        done = self.run_script()
        self.assertEqual((done.returncode, done.stdout), (6, ""))
        self.assertEqual(done.stderr.splitlines(),
                         ["gpu: no GPU: the CUDA driver is missing, or it knows none"])

    def test_a_step_that_there_is_not(self):
        done = self.run_script("-s", "small,benhc")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertTrue(done.stderr.startswith("gpu: there is no step 'benhc', but small,matrix"), done.stderr)

    def test_from_end_to_end(self):
        done, text, report = self.run_emulated("0 errors")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("gpu: all steps passed\n", done.stderr)
        self.assertLessEqual({"gpu.md", "report.md", "index.html", "machine.json"}, set(report))
        for line in ("# emulation", "- clock: 1410 MHz", "- power: 400 W", "- temperature: 81 °C",
                     "- an empty launch, one of many: 1000.0 to 1000.0 us",
                     "- small, cuda_emu: 2 pass; the same bits in all reruns of 2 cases",
                     "- matrix, cuda_emu: 2 pass; the same bits in all reruns of 2 cases",
                     "- memcheck: 2 processes, nothing found", "- racecheck: 2 processes"):
            self.assertIn(line, text)
        self.assertRegex(text, r"- clocks held down by: power cap; heat \(software\) \((\d+) of \1 ")

    def test_what_the_sanitizer_finds_fails(self):
        done, text, _ = self.run_emulated("7 errors")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("- racecheck: 2 processes, 7 errors; 7 errors", text)
        self.assertIn("failed: memcheck racecheck\n", done.stderr)

    def test_what_is_missing_is_said(self):
        """No cuBLAS, a sanitizer that cannot start, no round that could be timed."""
        plugin = os.path.join(BUILD, "tests", "plugins", "cuda_no_cublas.so")
        done = self.run_script("--rounds", "0", GPU_BUILD=BUILD, GPU_PLUGIN=plugin, GPU_CASES="none.cases",
                               PATH=self.folder + ":" + os.environ["PATH"])
        self.assertIn("gpu: left out: cuda_unfused_emu: no cuBLAS", done.stderr)
        self.assertRegex(done.stderr, "gpu: failed: small matrix .*bench report\n")
        self.assertEqual(done.returncode, 2)


def record(backend, ns, case="a", cache="hot", gbs=0.0, **sizes):
    return {"type": "bench", "case": case, "backend": backend, "cache": cache, "time_ns": {"median": ns},
            "gflops": 4e8 / ns, "gbs": gbs, "device": {"copy_gbs": 2000.0},
            "sizes": {"op": "attention", "dtype": "f16", "sq": 2048, "dk": 64, **sizes}}


class Figures(unittest.TestCase):
    gpus = {"dense_tflops": {"A10": 125, "A100": 312, "L4": 121}}
    wanted = {"over_cudnn": {"d": [64], "from_s": 2048, "least": 1.0}, "decode": {"least": 0.85}}

    def test_peak_by_name(self):
        for name, peak in (("NVIDIA A100-SXM4-80GB", 312e3), ("A10", 125e3), ("NVIDIA L40", None)):
            self.assertEqual(gpu.dense_peak(self.gpus, name), peak)

    def test_rates_shares_and_ratios(self):
        table = gpu.by_case([record("cuda_flash", 2000), record("cuda_cudnn", 1500),
                             record("cuda_flash", 9, cache="cold"), record("x", 1, sq=1),
                             record("y", 1, op="attention_backward")], "forward")
        line = list(gpu.table_lines(table, False, lambda r: 400e3))[2]
        self.assertEqual(line, "| a | 200 (50 %) | 267 (67 %) | 0.75 |")

    def test_what_is_wanted(self):
        forward = gpu.by_case([record("cuda_flash", 100), record("cuda_cudnn", 110),
                               record("cuda_flash", 300, case="short", sq=512),
                               record("cuda_cudnn", 100, case="short", sq=512)], "forward")
        decode = gpu.by_case([record("cuda_flash", 1, sq=1, gbs=1900, cache="hot"),
                              record("cuda_flash", 1, sq=1, gbs=1600, cache="cold")], "decode")
        met = [(round(bar.measured, 2), bar.met) for bar in gpu.results(forward, decode, self.wanted)]
        self.assertEqual(met, [(1.1, True), (1.1, True), (0.8, False)])
        self.assertFalse(any(bar.met for bar in gpu.results({}, {}, self.wanted)))

    def test_data(self):
        with open(os.path.join(gpu.ROOT, "cases", "gpu", "gpus.json"), encoding="utf-8") as file:
            self.assertLessEqual({"source", "dense_tflops", "wanted"}, set(json.load(file)))
        done = subprocess.run([os.path.join(BUILD, "bin", "attnbench"), "list", "cases", "--json",
                               *(os.path.join(gpu.ROOT, "cases", "gpu", name + ".cases")
                                 for name in ("forward", "backward", "decode", "matrix"))], capture_output=True, check=True)
        self.assertEqual(len(json.loads(done.stdout)), 72 + 32 + 24 + 91)


if __name__ == "__main__":
    unittest.main()
