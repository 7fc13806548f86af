# SPDX-License-Identifier: Apache-2.0
"""Packs are what their makers make. Needs the NumPy of .deps/venv or .deps/peers.

    test_makers.py SOURCE_DIR [unittest options]

Exit code 77, skipped, where there is no NumPy.
"""
import glob
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(sys.argv.pop(1))
FORMAT = {"F32": "f", "F64": "d", "BOOL": "?"}
PACKS = os.path.join(ROOT, ".deps", "packs")


def python():
    """A Python that has NumPy, or None."""
    for program in (os.path.join(ROOT, ".deps", venv, "bin", "python3") for venv in ("venv", "peers")):
        if os.path.exists(program) and not subprocess.run(
                [program, "-c", "import numpy"], stderr=subprocess.DEVNULL, check=False).returncode:
            return program
    return None


def read(path):
    """Metadata, and name -> (shape, numbers)."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + size])
    tensors = {}
    for name, about in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in about["data_offsets"])
        letter = FORMAT[about["dtype"]]
        tensors[name] = about["shape"], memoryview(data[begin:end]).cast(letter)
    return header["__metadata__"], tensors


class Encoder(unittest.TestCase):
    def test_the_packs_are_those_of_the_script(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([python(), os.path.join(ROOT, "scripts", "make_encoder.py"), folder],
                           check=True)
            names = sorted(os.listdir(folder))
            kept = glob.glob(os.path.join(ROOT, "cases", "encoder", "*.safetensors"))
            self.assertEqual(names, sorted(map(os.path.basename, kept)))
            for name in names:
                with self.subTest(name):
                    self.compare(read(os.path.join(folder, name)),
                                 read(os.path.join(ROOT, "cases", "encoder", name)))

    def compare(self, made, kept):
        """Another BLAS may round differently: the last bit of an f32 may be another."""
        self.assertEqual(made[0], kept[0])
        self.assertEqual(list(made[1]), list(kept[1]))
        for name, (shape, values) in made[1].items():
            self.assertEqual(shape, kept[1][name][0])
            for x, y in zip(values, kept[1][name][1]):
                self.assertLessEqual(abs(x - y), 1e-5 * max(1.0, abs(y)), name)


@unittest.skipUnless(os.path.exists(os.path.join(PACKS, "text.exact_1024.safetensors")), "no packs of a text")
class Text(unittest.TestCase):
    def packs(self, length, folder=""):
        found = glob.glob(os.path.join(PACKS, folder, f"text.*_{length}.safetensors"))
        return {os.path.basename(path): read(path)[1] for path in found}

    def test_the_variants_have_the_same_q_k_and_v(self):
        packs = self.packs(1024)
        self.assertEqual(len(packs), 6)
        want = packs["text.exact_1024.safetensors"]
        for name, tensors in packs.items():
            self.assertIn("out", tensors, name)
            for letter in "qkv":
                if letter in tensors:
                    self.assertEqual(tensors[letter], want[letter], name)

    def test_a_longer_text_begins_like_a_shorter_one(self):
        short = self.packs(1024)["text.exact_1024.safetensors"]
        long = self.packs(4096, "long")["text.exact_4096.safetensors"]
        for letter in "qkv":
            n = len(short[letter][1])
            self.assertEqual(long[letter][1][:n], short[letter][1])

    def test_the_rows_are_not_alike(self):
        """A wrong projection, or a window that repeats, would show."""
        shape, q = self.packs(1024)["text.exact_1024.safetensors"]["q"]
        rows = {tuple(q[i:i + shape[3]]) for i in range(0, len(q), shape[3])}
        self.assertEqual(len(rows), shape[2])


if __name__ == "__main__":
    if python() is None:
        print("no NumPy in .deps: left out")
        sys.exit(77)
    unittest.main()
