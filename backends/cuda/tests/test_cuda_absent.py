#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_cuda_absent.py - a library that is missing or too old is one sentence of `probe`, and
no failure.

    test_cuda_absent.py BUILD_DIR [unittest options]
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

from test_cuda_emulation import planted

BUILD = os.path.abspath(sys.argv.pop(1))
DENSE, PROJECTED = "h=1 s=16 d=16 dtype=f16", "op=mha h=2 s=4 d=8 e=16"
# plugin -> what its backends say of themselves; "": they can run
SAID = {
    "cuda_no_driver": {name: "no CUDA driver is installed (libattn_absent.so.1 cannot be opened)"
                       for name in ("cuda_emu", "cuda_unfused_emu")},
    "cuda_old_driver": {name: "the CUDA driver lacks cuInit: it is too old"
                        for name in ("cuda_emu", "cuda_unfused_emu")},
    "cuda_no_maps": {"cuda_emu": "", "cuda_unfused_emu": ""},
    "cuda_no_cublas": {"cuda_emu": "", "cuda_unfused_emu":
                       "no cuBLAS of CUDA 12 or later is installed (libattn_absent.so.1 cannot be opened)"},
    "cuda_old_cublas": {"cuda_emu": "", "cuda_unfused_emu": "cuBLAS lacks cublasGetProperty"},
    "cudnn_no": {"cuda_cudnn_no": "cuDNN is not installed (libattn_absent.so.1 cannot be opened)"},
    "cudnn_old": {"cuda_cudnn_old": "libm.so.6 lacks cudnnGetVersion"},
}


def attnbench(verb, plugin, *arguments):
    """(exit code, standard output)"""
    done = subprocess.run([os.path.join(BUILD, "bin", "attnbench"), *verb.split(), "--plugin",
                           os.path.join(BUILD, "tests", "plugins", plugin + ".so"), *arguments],
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


class Absent(unittest.TestCase):
    def test_what_is_listed(self):
        for plugin, said in SAID.items():
            code, text = attnbench("list backends", plugin, "--json")
            reasons = {b["name"]: b["reason"] for b in json.loads(text) if b["name"] in said}
            self.assertEqual((code, reasons), (0, said), plugin)

    def test_skipped_and_no_success(self):
        for plugin, said in SAID.items():
            for backend, reason in said.items():
                code, text = attnbench("verify", plugin, "-b", backend, DENSE)
                self.assertEqual(code, 7 if reason else 0, text)
                self.assertIn(reason and "skip", text)
                self.assertIn(reason, text)

    def test_projections_alone_need_cublas(self):
        code, text = attnbench("verify", "cuda_no_cublas", "-b", "cuda_emu", DENSE, PROJECTED)
        self.assertEqual(code, 0, text)
        self.assertIn("1 pass, 1 skip", text)
        self.assertIn(SAID["cuda_no_cublas"]["cuda_unfused_emu"], text)

    def test_a_driver_without_tensor_maps_runs_the_other_kernel(self):
        backend = "cuda_emu:device=%d" % planted().index("hopper")
        for plugin, kind in (("cuda_emu", "hopper"), ("cuda_no_maps", "plain")):
            with tempfile.TemporaryDirectory() as folder:
                code, text = attnbench("verify", plugin, "-b", backend, "--fills", "none", "--checks", "none",
                                       "-o", os.path.join(folder, "run"), "h=1 sq=66 sk=20 d=16 dtype=f16")
                with open(os.path.join(folder, "run", "results.ndjson"), encoding="utf-8") as file:
                    self.assertEqual((code, "flash_f16_64_%s" % kind in file.read()), (0, True), text)


if __name__ == "__main__":
    unittest.main()
