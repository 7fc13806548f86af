# SPDX-License-Identifier: Apache-2.0
"""The adapters of a GPU over the stand-in for its driver: PyTorch computes on the processor with operands
from the stand-in's memory, Triton's interpreter runs our kernel, and flash_attn and flashinfer are what
their documentation says.

    test_python_gpu_adapters.py ATTNBENCH FOLDER DRIVER_FOLDER TRITON_FOLDER [unittest options]

TRITON_FOLDER may hold Triton (pip install --no-deps --target TRITON_FOLDER triton, 1 GB). Exit status
77: no PyTorch.
"""
import glob
import os
import subprocess
import sys
import tempfile
import unittest

ATTNBENCH, FOLDER, DRIVER, TRITON = map(os.path.abspath, sys.argv[1:5])
del sys.argv[1:5]
HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(HERE, "..", "..", "..", "harness", "python")
if not glob.glob(FOLDER + "/venv/lib/python3*/site-packages/torch"):
    print("no PyTorch in", FOLDER)
    sys.exit(77)
WIDE = "b=2 hq/hkv=4/2 sq=17 sk=23 d=64 mask=causal+br dtype=f16"
SQUARE = "hq/hkv=4/2 s=33 d=64 mask=causal dtype=bf16"
VIEWS = "h=2 s=9 d=64 dtype=f16 layout=bshd view=gaps+offset1"


class Adapters(unittest.TestCase):
    def verify(self, backend, *cases, code=0):
        done = subprocess.run(
            [ATTNBENCH, "verify", "-b", backend, "--checks", "none", "--fills", "none",
             "--timeout", "10m", *cases],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=1100, env=dict(
                os.environ, ATTNBENCH_PYTHON_BACKENDS=backend.split(":")[0], LD_LIBRARY_PATH=DRIVER,
                TRITON_INTERPRET="1", TRITON_CACHE_DIR="/dev/shm/triton",
                PYTHONPATH=":".join((HERE + "/standin_torch", HERE + "/standin", TRITON))))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def test_torch(self):
        self.assertIn("3 pass", self.verify("torch_cuda", SQUARE, VIEWS, WIDE))
        self.assertIn("3 pass", self.verify("torch_cuda:kernel=math", SQUARE, VIEWS, "s=9 dk=8 dv=16"))
        self.assertIn("4 pass", self.verify(
            "torch_cuda:kernel=flex", SQUARE, "h=2 sq=9 sk=33 d=16 mask=causal+window:8:0+br out=lse dtype=f16",
            "h=2 s=33 d=16 mask=window:4:3 dtype=f16", "h=4 s=17 d=16 mask=causal bias=alibi dtype=bf16"))

    def test_flash_attn(self):
        self.assertIn("5 pass", self.verify(
            "flash_attn", SQUARE + " out=lse", VIEWS, WIDE, "h=2 sq=9 sk=33 d=16 mask=causal+window:8:0+br dtype=f16",
            "h=4 s=17 d=16 mask=causal bias=alibi softcap=5 dtype=f16"))

    def test_flashinfer(self):
        self.assertIn("4 pass", self.verify("flashinfer", SQUARE + " out=lse", VIEWS, WIDE + " out=lse",
                                            "h=2 s=33 d=64 mask=causal+window:8:0 softcap=5 dtype=f16"))

    def test_a_function(self):
        """Of the package: it gets tensors on the device, and what it returns is fetched."""
        text = ("import attnbench, torch\nfrom torch.nn.functional import scaled_dot_product_attention as sdpa\n"
                "@attnbench.kernel(device='cuda', features=('gqa',))\ndef mine(q, k, v, p):\n"
                "    return sdpa(q, k, v, scale=p.scale, enable_gqa=True)\n"
                "@attnbench.kernel(device='cuda', arrays='numpy')\ndef wrong(q, k, v, p):\n    return q\n"
                "def hidden():\n    return {'device': 'cuda'}\n"
                "@attnbench.kernel(**hidden())\ndef unseen(q, k, v, p):\n    return q\n")
        with tempfile.TemporaryDirectory() as folder:
            with open(folder + "/file.py", "w", encoding="ascii") as file:
                file.write(text)
            for name, code, words in (("mine", 0, "1 pass"), ("wrong", 6, "wants arrays of torch, jax, cupy"),
                                      ("unseen", 6, "must stand in the decorator")):
                done = subprocess.run(
                    [FOLDER + "/venv/bin/python3", "-m", "attnbench", "verify", f"{folder}/file.py::{name}",
                     "hq/hkv=4/2 s=17 d=8", "--timeout", "10m"], capture_output=True, text=True, check=False,
                    timeout=1100,
                    env=dict(os.environ, ATTNBENCH_PROGRAM=ATTNBENCH, LD_LIBRARY_PATH=DRIVER, PYTHONPATH=":".join(
                        (HERE + "/standin_torch", HERE + "/standin", PACKAGE))))
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)
                self.assertIn(words, done.stdout)

    @unittest.skipUnless(os.path.isdir(TRITON), "no Triton in " + TRITON)
    def test_triton(self):
        self.assertIn("8 pass", self.verify(
            "triton", SQUARE.replace("bf16", "f16") + " out=lse", VIEWS, WIDE, "h=2 sq=9 sk=33 d=16 mask=causal+window:8:2+br out=lse dtype=f16",
            "hq/hkv=6/2 sq=5 sk=70 dk=12 dv=20 mask=len:3 out=lse", "b=3 s=21 d=8 mask=len:0/7/21+causal+br",
            "hq/hkv=8/1 sq=1 sk=200 d=16 mask=causal+past:5", "b=2 s=40 d=16 fill=poison mask=len:9/33"))


if __name__ == "__main__":
    unittest.main()
