# SPDX-License-Identifier: Apache-2.0
"""cases/covering is what its generator writes, and covers what the generator promises.

    test_covering.py BUILD_DIR SOURCE_DIR [unittest options]
"""
import os
import subprocess
import sys
import unittest

SOURCE = os.path.abspath(sys.argv.pop(2))
BUILD = os.path.abspath(sys.argv.pop(1))
sys.path.insert(0, os.path.join(SOURCE, "scripts"))
import make_covering  # noqa: E402

FILE = os.path.join(SOURCE, "cases", "covering", "covering.cases")


def rows_of(text):
    """The values of the axes, read back from the words of each line."""
    rows = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, _, rest = line.partition(": ")
        word = dict(w.split("=", 1) for w in rest.split())
        path = name.split("_")[1]
        heads = int(word["hkv"])
        row = {"path": path, "type": word["dtype"], "heads": heads, "batch": int(word["b"]),
               "group": int(word["hq"]) // heads, "width": int(word["dk"]),
               "keys": make_covering.SIZES[path].index((int(word["sq"]), int(word["sk"]))),
               "value": int(word["dv"]) if "dv" in word else "same",
               "softcap": int(word.get("softcap", 0)), "sink": int(word.get("sink", 0)),
               "dropout": float(word.get("dropout", 0)), "score": word.get("score", "scaled_dot"),
               "layout": word.get("layout", "bhsd")}
        for axis in ("mask", "bias", "out", "view"):
            row[axis] = word.get(axis, "")
        rows.append(row)
    return rows


def left_out(rows):
    """What is promised and not covered."""
    missing = {make_covering.key(part) for part in make_covering.wanted()}
    for row in rows:
        missing -= make_covering.covers(row)
    return missing


class Covering(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(FILE, encoding="ascii") as file:
            cls.text = file.read()

    def test_the_file_is_what_the_generator_writes(self):
        self.assertEqual(self.text, make_covering.text())

    def test_every_valid_pair_and_triple_is_covered(self):
        rows = rows_of(self.text)
        self.assertEqual(left_out(rows), set())
        self.assertNotEqual(left_out(rows[1:]), set())
        self.assertNotEqual(left_out(rows[:-1]), set())

    def test_what_is_not_valid_is_little(self):
        axes = list(make_covering.AXES.values())
        pairs = sum(len(a) * len(b) for n, a in enumerate(axes) for b in axes[:n])
        triples = 1
        for name in make_covering.TRIPLE:
            triples *= len(make_covering.AXES[name])
        self.assertGreater(len(make_covering.wanted()), 0.95 * (pairs + triples))

    def test_every_line_is_a_case(self):
        done = subprocess.run([os.path.join(BUILD, "bin", "attnbench"), "list", "cases", FILE],
                              capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), len(rows_of(self.text)))


if __name__ == "__main__":
    unittest.main()
