# SPDX-License-Identifier: Apache-2.0
"""Real extensions with planted bugs, each found and named: one of PyTorch in C++, and kernels in Triton,
which its interpreter runs on the CPU.

    test_extensions.py PROGRAM TORCH_PYTHON TRITON_FOLDER [unittest options]

TRITON_FOLDER may hold Triton (pip install --no-deps --target TRITON_FOLDER triton, 1 GB), which the
other interpreter then sees. Exit status 77: no PyTorch.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM, TORCH, TRITON = map(os.path.abspath, sys.argv[1:4])
del sys.argv[1:4]
HERE = os.path.dirname(os.path.abspath(__file__))
KERNELS = os.path.join(HERE, "extensions")
if not os.access(TORCH, os.X_OK) or \
        subprocess.run([TORCH, "-c", "import torch"], capture_output=True, check=False).returncode:
    print("no PyTorch at", TORCH)
    sys.exit(77)


class Extensions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="attnbench-test-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)

    def verify(self, function, case, code, **environment):
        done = subprocess.run([TORCH, "-m", "attnbench", "verify", f"{KERNELS}/{function}", case],
                              capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                              timeout=280, env={**os.environ, "ATTNBENCH_PROGRAM": PROGRAM,
                                                "PYTHONPATH": f"{os.path.dirname(HERE)}:{TRITON}",
                                                "ROWS_FOLDER": self.folder, **environment})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def test_an_extension_of_torch(self):
        subprocess.run([TORCH, "-c", "import torch.utils.cpp_extension as e\n"
                        f"e.load(name='rows', sources=['{KERNELS}/rows.cpp'], "
                        f"build_directory='{self.folder}', extra_cflags=['-O2'])"],
                       check=True, capture_output=True)
        causal = "h=2 s=37 d=12 mask=causal"
        self.assertIn("checks: 25 of 25", self.verify("by_rows.py::right", causal, 0))
        for name, case, words in (("late", causal, "the mask shifted by one: offset 1 instead of 0"),
                                  ("tail", "h=2 sq=5 sk=17 d=12", "key"),
                                  ("past", causal, "reads past the end of k"),
                                  ("unshifted", causal, "is nan, the reference says")):
            self.assertIn(words, self.verify(f"by_rows.py::{name}", case, 3))

    @unittest.skipUnless(os.path.isdir(TRITON), "no Triton in " + TRITON)
    def test_kernels_in_triton(self):
        case = "hq/hkv=2/1 s=37 d=16"
        self.assertRegex(self.verify("by_triton.py::right", case, 0), "(?m)^pass ")
        self.assertIn("11 keys of padding (to a multiple of 16) counted with a score of 0",
                      self.verify("by_triton.py::unmasked", case, 3))
        self.assertIn("the sum of weights that it is divided by is wrong",
                      self.verify("by_triton.py::unscaled", case, 3))


if __name__ == "__main__":
    unittest.main()
