# SPDX-License-Identifier: Apache-2.0
"""A failure of a relation is shrunk to a case on which the same relation fails. From a failing pack
a part is cut out that still fails.

    test_shrink.py BUILD_DIR [unittest options]
"""
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..",
                                "scripts"))
import make_textbook  # noqa: E402  (writes packs)

PROGRAM = os.path.join(BUILD, "bin", "attnbench")
PLUGINS = os.path.join(BUILD, "tests", "plugins")
RELATIONS = ["--plugin", os.path.join(PLUGINS, "relations.so"), "-b"]
MUTANT = ["--plugin", os.path.join(PLUGINS, "mutant.so"), "-b"]
KEYS, WIDTH = 24, 16
make_textbook.FORMAT["I32"] = "i"


def verify(*words):
    return subprocess.run([PROGRAM, "verify", *words], capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, check=False)


def smallest(done):
    return re.findall(r"^    smallest: attnbench (.*)$", done.stdout, re.M)


class Checks(unittest.TestCase):
    def test_the_same_check_fails_on_a_smaller_case(self):
        for name, case, least in (("shift", "b=2 hq=4 hkv=2 s=37 d=16 out=lse", "dk=1 sq=1"),
                                  ("gqa", "b=2 hq=4 hkv=2 s=37 d=16 out=lse", None),
                                  ("duplicate_key", "b=2 h=2 s=37 d=16 bias=normal", None),
                                  ("leak_descriptor", "h=2 s=37 d=16", "dk=1 sq=1")):
            with self.subTest(check=name):
                done = verify(*RELATIONS, "test:break=" + name, "--fills", "none", "--shrink", case)
                self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
                self.assertEqual(len(smallest(done)), 1, done.stdout + done.stderr)
                line = shlex.split(smallest(done)[0])
                if least:
                    self.assertEqual(line[-1], least)
                again = subprocess.run([PROGRAM, *line, "--json"], capture_output=True, text=True,
                                       timeout=120, check=False)
                record = json.loads(again.stdout.splitlines()[0])
                broken = [c for c, v in record["checks"].items() if v == "fail"]
                self.assertEqual(broken, ["leaks" if name.startswith("leak") else name])

    def test_a_reproducer_of_it_is_refused_with_the_reason(self):
        with tempfile.TemporaryDirectory() as folder:
            done = verify(*RELATIONS, "test:break=shift", "--fills", "none", "--reproducer",
                          os.path.join(folder, "r.c"), "h=2 s=9 d=8")
            self.assertEqual(len(smallest(done)), 1, done.stdout + done.stderr)
            self.assertIn("only a relation between results fails", done.stderr)
            self.assertEqual(os.listdir(folder), [])


class Packs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def pack(self, line, **more):
        """Two batches, four query heads on two key/value heads; returns its path."""
        generator = random.Random(1)
        heads = {"q": 4, "k": 2, "v": 2}
        tensors = {role: ("F32", [[make_textbook.normal_rows(generator, KEYS, WIDTH)
                                   for _ in range(n)] for _ in range(2)])
                   for role, n in heads.items()}
        tensors.update(more)
        path = self.path("made.safetensors")
        make_textbook.write_pack(path, {"case": line, "source": "made"}, tensors)
        return path

    def shrink(self, bug, pack, *words):
        return verify(*MUTANT, "mutant:bug=" + bug, "--shrink", *words, "data=" + pack)

    def shapes(self):
        """{name: shape} and the case line of the part."""
        with open(self.path("r.safetensors"), "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        line = header.pop("__metadata__")["case"]
        return {name: entry["shape"] for name, entry in header.items()}, line

    def again(self, done):
        """The smallest line still fails."""
        self.assertEqual(len(smallest(done)), 1, done.stdout + done.stderr)
        again = subprocess.run([PROGRAM, *shlex.split(smallest(done)[0])], capture_output=True,
                               text=True, timeout=120, check=False)
        self.assertEqual(again.returncode, 3, again.stdout + again.stderr)

    def test_a_part_still_fails(self):
        sink = ("F32", [1.0, -1.0, 0.5, 2.0])
        length = ("I32", [20, 13])
        pack = self.pack("mask=causal+len sink=tensor", sink=sink, len=length)
        with open(pack, "rb") as file:
            before = file.read()
        done = self.shrink("out_5_percent", pack, "--reproducer", self.path("r.c"))
        self.again(done)
        shapes, line = self.shapes()
        self.assertEqual(shapes, {"q": [1, 1, 1, 1], "k": [1, 1, 1, 1], "v": [1, 1, 1, 1]})
        self.assertEqual(line, "")
        self.assertTrue(os.path.exists(self.path("r.c")))
        with open(pack, "rb") as file:
            self.assertEqual(file.read(), before)

    def test_what_it_needs_stays(self):
        length = ("I32", [20, 13])
        done = self.shrink("len_plus_one", self.pack("mask=causal+len", len=length),
                           "--reproducer", self.path("r.c"))
        self.again(done)
        shapes, line = self.shapes()
        self.assertEqual(shapes["len"], [1])
        self.assertEqual(shapes["k"][:2], [1, 1])
        self.assertLessEqual(shapes["k"][2], 2)
        self.assertEqual(line, "")

    def test_without_a_place_for_a_part_it_says_so(self):
        done = self.shrink("out_5_percent", self.pack(""))
        self.assertEqual(smallest(done), [])
        self.assertIn("a pack is shrunk into a file next to the first reproducer", done.stderr)

    def test_the_pack_itself_is_not_overwritten(self):
        pack = self.pack("")
        os.rename(pack, self.path("r.safetensors"))
        done = self.shrink("out_5_percent", self.path("r.safetensors"), "--reproducer",
                           self.path("r.c"))
        self.assertIn("is the pack itself", done.stderr)
        self.assertEqual(self.shapes()[0]["q"], [2, 4, KEYS, WIDTH])


if __name__ == "__main__":
    unittest.main()
