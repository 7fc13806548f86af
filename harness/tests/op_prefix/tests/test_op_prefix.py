# SPDX-License-Identifier: Apache-2.0
"""An operator of one folder is verified, timed, shrunk, reported and documented, without a line about
it elsewhere.

    test_op_prefix.py BUILD_DIR PROGRAM PLUGIN SOURCE_DIR [unittest options]
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

BUILD, PROGRAM, PLUGIN, SOURCE = sys.argv[1:5]
CASE = "op=prefix_mean b=2 hq=4 hkv=2 sq=9 sk=7 d=5"


def means(v, queries, group, gain=1.0, reach=0, without=False):
    """The definition in prefix.h, of v[key head][key][column], for one batch."""
    rows = []
    for head in range(len(v) * group):
        for i in range(queries):
            end = min(i if without else i + 1, len(v[0]))
            taken = v[head // group][max(0, end - reach) if reach else 0:end]
            rows += ([gain * sum(column) / len(taken) for column in zip(*taken)] if taken
                     else [0.0] * len(v[0][0]))
    return rows


def write_pack(path, line, tensors, **notes):
    """A safetensors file; tensors: name -> (type, shape, numbers)."""
    header = {"__metadata__": {"case": line, "source": "a test", **notes}}
    data = b""
    for name, (dtype, shape, numbers) in tensors.items():
        raw = struct.pack(f"<{len(numbers)}{'d' if dtype == 'F64' else 'f'}", *numbers)
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class OpPrefix(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def expect(self, code, *arguments):
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=200,
                              check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def verify(self, code, *arguments, backend="prefix"):
        done = self.expect(code, "verify", "--plugin", PLUGIN, "-b", backend, "--json", *arguments)
        records = [json.loads(line) for line in done.stdout.splitlines()]
        return [record for record in records if record.get("type") == "verify"]

    def one(self, code, *arguments, **options):
        records = self.verify(code, *arguments, **options)
        self.assertEqual(len(records), 1)
        return records[0]

    def listed(self, line):
        cases = json.loads(self.expect(0, "list", "cases", line, "--json").stdout)
        self.assertEqual(len(cases), 1)
        return cases[0]

    # ---- verified ----

    def test_right_results_pass(self):
        for words in ("", "gain=-2.5", "reach=3", "ends=without", "shift=1", "gain=7 reach=2 ends=without out=count",
                      "layout=bhds view=permuted+gaps+offset1 out=count", "view=broadcast", "sk=0"):
            line = CASE if "sk=" not in words else CASE.replace("sk=7 ", "")
            record = self.one(0, f"{line} {words}")
            self.assertEqual(record["status"], "pass", record["reason"])
            self.assertEqual(record["rows_checked"], 2 * 4 * 9)
            self.assertEqual(record["checks"].get("count"), "pass" if "count" in words else None)
        self.assertNotIn("fresh", self.one(0, CASE + " shift=1")["checks"])  # v alone tells nothing
        for check in ("out", "placement_end", "placement_start", "fresh", "rerun", "threads", "leaks",
                      "batch", "bounds", "inputs"):
            self.assertEqual(self.one(0, CASE)["checks"].get(check), "pass", check)

    def test_wrong_results_fail(self):
        record = self.one(3, CASE.replace("sk=7", "sk=9"), backend="prefix:wrong=5")
        self.assertEqual(record["status"], "fail")
        self.assertRegex(record["reason"], r"^out\[b\d h\d i[5-8] c\d\] is .*, the reference says ")
        self.assertEqual(record["checks"]["out"], "fail")
        record = self.one(3, CASE + " reach=4 out=count", backend="prefix:narrow=4")
        self.assertEqual((record["checks"]["out"], record["checks"]["count"]), ("fail", "pass"))

    def test_random_cases_hold(self):
        records = self.verify(0, "--fuzz", "8", "--seed", "1")
        self.assertEqual([record["status"] for record in records], ["pass"] * 8)
        self.assertEqual([record["case"] for record in records if "op=prefix_mean" not in record["case"]], [])

    def test_backends_that_do_not_know_it_refuse_it(self):
        done = self.expect(7, "verify", "-b", "naive", "--json", CASE)
        record = json.loads(done.stdout.splitlines()[0])
        self.assertEqual((record["status"], record["backend"]), ("skip", "naive"))
        self.assertIn("op 9001", record["reason"])

    # ---- shrunk ----

    def test_what_fails_is_shrunk(self):
        record = self.one(3, "--shrink", CASE.replace("sq=9 sk=7", "s=40") + " gain=3 out=count view=gaps",
                          backend="prefix:wrong=5")
        self.assertTrue(record["smallest"].endswith("'dk=1 op=prefix_mean sk=1 sq=6'"),
                        record["smallest"])

    def test_parameters_are_shrunk(self):
        record = self.one(3, "--shrink", CASE + " reach=100 ends=without", backend="prefix:narrow=6")
        self.assertTrue(record["smallest"].endswith("'dk=1 op=prefix_mean reach=6 sq=1'"),
                        record["smallest"])

    # ---- the case language ----

    def test_parameters_are_keys(self):
        case = self.listed("x: ends=without reach=12 gain=2.50 op=prefix_mean h=2 s=9 d=5")
        self.assertEqual(case["case"],
                         "dk=5 ends=without gain=2.5 hq=2 op=prefix_mean reach=12 sq=9")
        self.assertEqual(self.listed(case["case"])["id"], case["id"])
        plain = self.listed("op=prefix_mean h=2 s=9 d=5")
        self.assertEqual(self.listed("op=prefix_mean gain=1 reach=0 ends=with h=2 s=9 d=5")["id"],
                         plain["id"])
        self.assertNotEqual(case["id"], plain["id"])
        cases = json.loads(self.expect(0, "list", "cases", "--json", "y: op=prefix_mean s=9 d=5 "
                                       "reach=1:8:*2 ends=with,without").stdout)
        self.assertEqual(len({case["id"] for case in cases}), 8)
        self.assertIn("y/reach=4,ends=without", [case["name"] for case in cases])

    def test_what_does_not_fit_is_refused(self):
        for words, message in (
                ("op=prefix_mean gain=101", "column 24: gain = 101 is outside -100..100"),
                ("op=prefix_mean reach=-1", "reach = -1 is outside 0..1000000"),
                ("op=prefix_mean reach=1.5", "'1.5' is not a whole number"),
                ("op=prefix_mean ends=wth", "unknown ends 'wth'; did you mean 'with'?"),
                ("op=prefix_mean giain=2", "unknown key 'giain'; did you mean 'gain'?"),
                ("op=prefix_men", "unknown op 'prefix_men'; did you mean 'prefix_mean'?"),
                ("gain=2", "'gain' needs op=prefix_mean"),
                ("op=mha h=2 reach=2", "'reach' needs op=prefix_mean"),
                ("op=prefix_mean kv=cross", "'kv' needs op=mha"),
                ("op=prefix_mean mask=causal", "op=prefix_mean has no causal mask"),
                ("op=prefix_mean score=dot", "op=prefix_mean has no such score"),
                ("op=prefix_mean sink=1", "op=prefix_mean has no sink"),
                ("op=prefix_mean out=lse", "op=prefix_mean has no output lse"),
                ("out=count", "op=attention has no output count"),
                ("op=prefix_mean fill=census", "fill=census needs an operator with q, k and v")):
            self.assertIn(message, self.expect(2, "list", "cases", f"s=9 d=5 {words}").stderr)

    # ---- documented ----

    def test_it_is_listed(self):
        ops = {op["name"]: op for op in json.loads(self.expect(0, "list", "ops", "--json").stdout)}
        op = ops["prefix_mean"]
        self.assertEqual([tensor["name"] for tensor in op["inputs"]], ["v", "shift"])
        self.assertEqual([tensor["name"] for tensor in op["outputs"]], ["out", "count"])
        self.assertEqual({key["key"]: key["default"] for key in op["keys"]},
                         {"ends": "with", "gain": "1", "reach": "0", "shift": "0"})
        text = self.expect(0, "list", "ops").stdout
        for words in ("op=prefix_mean  means of the values up to each query",
                      "reach      N                  keys that a mean takes at most; 0: all (default 0)"):
            self.assertIn(words, text)

    def test_no_file_elsewhere_names_it(self):
        found = subprocess.run(["grep", "-rlE", "prefix_mean|op_prefix", "--exclude-dir=op_prefix",
                                "--exclude=*.md", "reference", "harness",
                                "backends", "cases", "scripts", "CMakeLists.txt"],
                               cwd=SOURCE, capture_output=True, text=True, check=False).stdout
        self.assertEqual(found, "")

    # ---- timed, reported ----

    def test_it_is_timed_and_reported(self):
        run = self.path("run")
        self.expect(0, "run", "--plugin", PLUGIN, "-b", "prefix", "--rounds", "2", "--min-time", "1ms",
                    "--cache", "hot", "x: op=prefix_mean s=32,64,128 d=16 gain=2", "-o", run)
        with open(os.path.join(run, "results.ndjson"), encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        bench = [record for record in records if record["type"] == "bench"]
        self.assertEqual([record["flops"] for record in bench],
                         [16 * s * s / 2 for s in (32, 64, 128)])
        self.assertEqual([record["bytes"] for record in bench], [2 * 4 * 16 * s for s in (32, 64, 128)])
        for record in bench:
            self.assertGreater(record["time_ns"]["median"], 0)
            self.assertEqual(record["sizes"]["op"], "prefix_mean")
        for page in ("index.html", "report.md", "results.csv"):
            with open(os.path.join(run, "report", page), encoding="utf-8") as file:
                self.assertIn("x/s=64", file.read(), page)
        plots = os.listdir(os.path.join(run, "report", "plots"))
        self.assertIn("latency_S_full.dat", plots)

    # ---- packs ----

    def make_pack(self, change=0.0, line="op=prefix_mean gain=2 reach=4", shift=None):
        """Two batches of three key heads, with the means of twice as many query heads."""
        numbers = random.Random(5)
        v = [[[[struct.unpack("f", struct.pack("f", numbers.gauss(0, 1)))[0] for _ in range(5)]
               for _ in range(8)] for _ in range(3)] for _ in range(2)]
        out = [x for batch in v for x in means(batch, 8, 2, gain=2, reach=4)]
        out[7] += change
        tensors = {"v": ("F32", [2, 3, 8, 5], [x for b in v for g in b for j in g for x in j])}
        if shift:
            tensors["shift"] = ("F32", [1, 5], shift)
            out = [x + shift[n % 5] for n, x in enumerate(out)]
        tensors["out"] = ("F64", [2, 6, 8, 5], out)
        path = self.path(f"pack{change}.safetensors")
        write_pack(path, line, tensors, rtol="1e-12", atol="1e-12")
        return path

    def test_packs_are_read(self):
        records = self.verify(0, self.make_pack())
        self.assertEqual({record["backend"]: record["status"] for record in records},
                         {"reference": "pass", "prefix": "pass"})
        sizes = records[0]["sizes"]
        self.assertEqual([sizes[key] for key in ("b", "hq", "hkv", "sq", "sk", "dq", "dk", "dv")],
                         [2, 6, 3, 8, 8, 5, 5, 5])
        records = self.verify(3, self.make_pack(change=1e-9))
        status = {record["backend"]: record["status"] for record in records}
        self.assertEqual(status["reference"], "fail")
        pack = self.make_pack()
        self.assertEqual(len(self.verify(0, f"data={pack} op=prefix_mean gain=2")), 2)
        self.assertIn("gain= contradicts the pack",
                      self.expect(2, "list", "cases", f"data={pack} op=prefix_mean gain=3").stderr)

    def test_an_optional_tensor_of_a_pack_takes_effect(self):
        shift = [1.0, 2.0, -3.0, 0.5, 0.25]
        records = self.verify(0, self.make_pack(shift=shift))
        self.assertEqual({record["status"] for record in records}, {"pass"})
        self.assertIn("shift=1", records[0]["case"])
        for line, tensors, message in (("shift=1", None, "the case says shift=1, but there is no"),
                                       ("sink=tensor", shift, "op=prefix_mean has no sink")):
            pack = self.make_pack(line=f"op=prefix_mean {line}", shift=tensors)
            self.assertIn(message, self.expect(2, "list", "cases", pack).stderr)

    def test_a_pack_that_fails_is_cut(self):
        record = self.verify(3, "--reproducer", self.path("repro.c"), self.make_pack(),
                             backend="prefix:wrong=3")[-1]
        self.assertIn("repro.safetensors", record["smallest"])
        self.assertLess(os.path.getsize(self.path("repro.safetensors")),
                        os.path.getsize(self.path("pack0.0.safetensors")) / 4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
