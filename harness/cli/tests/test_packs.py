# SPDX-License-Identifier: Apache-2.0
"""Packs as a user sees them: the reference compared with their answers, and the messages if they
disagree.

    test_packs.py BUILD_DIR [unittest options]
"""
import json
import math
import os
import struct
import unittest

from test_cli import BUILD, Case, records_of

TEXTBOOK = os.path.join(BUILD, "share", "attnbench", "cases", "textbook")

# Two keys of logit 0 in one head, so that each has weight 1/2.
UNIFORM = {"q": ([1, 1, 1, 2], [0, 0]), "k": ([1, 1, 2, 2], [1, 2, 3, 4]),
           "v": ([1, 1, 2, 1], [1, 3]), "len": ([1], [2]),
           "out": ([1, 1, 1, 1], [2]), "lse": ([1, 1, 1], [math.log(2)]),
           "weights": ([1, 1, 1, 2], [0.5, 0.5]), "scores": ([1, 1, 1, 2], [0, 0])}
# The same with a query of NaN: the row is NaN, in what is computed and in what is expected.
NAN_ROW = {"q": ([1, 1, 1, 2], [math.nan, 0]), "out": ([1, 1, 1, 1], [math.nan]),
           "lse": ([1, 1, 1], [math.nan]), "weights": ([1, 1, 1, 2], [math.nan] * 2),
           "scores": ([1, 1, 1, 2], [math.nan] * 2)}
# No key at all.
EMPTY = {"len": ([1], [0]), "out": ([1, 1, 1, 1], [0]), "lse": ([1, 1, 1], [-math.inf]),
         "weights": ([1, 1, 1, 2], [0, 0])}


def write_pack(path, tensors, **metadata):
    header, data = {"__metadata__": {"case": "mask=len", "source": "by hand", "scores_stage": "raw",
                                     **metadata}}, b""
    for name, (shape, values) in tensors.items():
        kind = "i" if name == "len" else "d"
        packed = struct.pack(f"<{len(values)}{kind}", *values)
        header[name] = {"dtype": {"i": "I32", "d": "F64"}[kind], "shape": shape,
                        "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class Packs(Case):
    def verify(self, code, changes=None, **metadata):
        pack = self.path("made.safetensors")
        write_pack(pack, {**UNIFORM, **(changes or {})}, **metadata)
        return self.expect(code, "verify", "-b", "naive", pack)

    def test_textbook_answers_agree(self):
        for name in ("scaled_dot_1d", "mha"):
            done = self.expect(0, "verify", "-b", "naive",
                               os.path.join(TEXTBOOK, name + ".safetensors"))
            self.assertRegex(done.stdout, "pass .* reference .*" + name)

    def test_right_answers_agree(self):
        for changes in ({}, EMPTY, NAN_ROW):
            self.assertRegex(self.verify(0, changes).stdout, "pass .* reference ")

    def test_a_wrong_answer_is_named_with_both_values(self):
        for name, values, words in (
                ("out", [2.5], "the reference gives 2 for out[0], the pack expects 2.5"),
                ("lse", [0], "gives 0.69314718056 for lse[0], the pack expects 0"),
                ("lse", [math.nan], "the pack expects nan"),
                ("lse", [math.inf], "the pack expects inf"),
                ("weights", [0.5, 0.25], "for weights[1], the pack expects 0.25"),
                ("scores", [0, 1], "for scores[1], the pack expects 1")):
            with self.subTest(name=name, values=values):
                done = self.verify(3, {name: (UNIFORM[name][0], values)})
                self.assertRegex(done.stdout, "fail .* reference ")
                self.assertIn(words, done.stdout)
        done = self.verify(3, {**EMPTY, "lse": ([1, 1, 1], [0])})
        self.assertIn("gives -inf for lse[0], the pack expects 0 ", done.stdout)

    def test_nan_agrees_with_nan_alone(self):
        for name in ("out", "lse", "weights", "scores"):
            with self.subTest(name=name):
                done = self.verify(3, {name: (UNIFORM[name][0], [math.nan] * len(UNIFORM[name][1]))})
                self.assertRegex(done.stdout, rf"for {name}\[0\], the pack expects nan")
                done = self.verify(3, {**NAN_ROW, name: UNIFORM[name]})
                self.assertRegex(done.stdout, rf"gives nan for {name}\[0\], the pack expects \d")

    def test_tolerances_are_the_packs_own(self):
        near = {"out": ([1, 1, 1, 1], [2.001])}
        self.verify(3, near)
        self.verify(0, near, rtol="1e-3")
        self.verify(0, near, atol="2e-3")

    def test_records_say_what_a_pack_holds(self):
        pack, run = self.path("made.safetensors"), self.path("run")
        write_pack(pack, UNIFORM, case="mask=causal_br+len scale=2")
        self.expect(0, "verify", "-b", "naive", "-o", run, pack, "h=2 s=3 d=4")
        records = records_of(os.path.join(run, "results.ndjson"))
        held = {record.get("pack") for record in records if "data=" in record["case"]}
        self.assertEqual(held, {"dk=2 dtype=f64 dv=1 mask=causal_br+len scale=2 sk=2 sq=1"})
        self.assertEqual([record["name"] for record in records if "pack" not in record], [""])

    def test_a_broken_pack_is_refused_in_one_sentence(self):
        pack = self.path("made.safetensors")
        for cut in (0, 4, 100, -1):
            write_pack(pack, UNIFORM)
            size = os.path.getsize(pack)
            os.truncate(pack, cut if cut >= 0 else size + cut)
            done = self.expect(2, "verify", "-b", "naive", pack)
            self.assertRegex(done.stderr, r"\Aattnbench: .*made\.safetensors: .*\n\Z")
            self.assertEqual(done.stdout, "")
        self.assertIn("has no `source`", self.verify(2, source="").stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
