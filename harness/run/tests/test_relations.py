# SPDX-License-Identifier: Apache-2.0
"""Each broken relation is caught under its own name, and no other check fails.

    test_relations.py BUILD_DIR [unittest options]
"""
import json
import os
import subprocess
import sys
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
PROGRAM = os.path.join(BUILD, "bin", "attnbench")
PLUGINS = os.path.join(BUILD, "tests", "plugins")
with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as cache:
    SANITIZED = any(line.startswith("ATTNBENCH_SANITIZE:") and "address" in line for line in cache)
FULL = "b=2 hq=4 hkv=2 s=37 d=16 out=lse"
CAUSAL = FULL + " mask=causal"
DROPOUT = "h=2 s=37 d=16 dropout=0.3"
ALONE = "s=37 d=16 out=lse"  # no other relation changes what the break looks at

# the option, the check that must fail, the case
BREAKS = [
    ("permute_keys", "permute_keys", ALONE),
    ("permute_queries", "permute_queries", ALONE),
    ("shift", "shift", FULL),
    ("scale_v", "scale_v", FULL),
    ("linear_v", "linear_v", FULL),
    ("ones", "ones", FULL),
    ("causal_prefix", "causal_prefix", CAUSAL),
    ("gqa", "gqa", FULL),
    ("batch", "batch", FULL),
    ("batch_bits", "batch", FULL),
    ("split", "split", CAUSAL),
    ("duplicate_key", "duplicate_key", FULL),
    ("keep", "keep", DROPOUT),
    ("threads", "threads", FULL),
    ("threads_bits", "threads", FULL),
    ("rerun", "rerun", FULL),
    ("leak_thread", "leaks", FULL),
    ("leak_descriptor", "leaks", FULL),
    ("leak_mapping", "leaks", FULL),
    ("grow_plan", "leaks", FULL),
    ("grow_run", "leaks", FULL),
    ("exp", "functions", ALONE),
    ("tanh", "functions", ALONE + " softcap=20"),
    ("log", "functions", ALONE),
    ("exp", "functions", ALONE + " score=bilinear"),
    ("exp", "functions", ALONE + " h=4 score=gaussian"),
    ("exp", "functions", ALONE + " h=4 score=additive dh=8"),
    ("tanh", "functions", ALONE + " h=4 score=additive dh=8"),
    ("no_denominator", "no_denominator", "b=2 hq=4 hkv=2 s=37 d=16 weight_fn=sigmoid"),
    ("no_denominator", "no_denominator", "s=37 d=16 weight_fn=relu2"),
    ("no_denominator", "no_denominator", "b=2 s=37 d=16 weight_fn=sigmoid mask=causal+len:rand"),
]
# of operators other than attention
OPERATORS = [
    ("chunks", "op=linear_decay b=2 h=2 s=100 dk=16 dv=24 bonus=1"),
    ("chunks", "op=linear_decay s=100 dk=16 dv=24 decay=inclusive state_in=1 out=state_out"),
    ("identity_projection", "op=linformer b=2 hq=4 hkv=2 sq=20 sk=100 d=16 landmarks=16 out=lse"),
    ("identity_projection", "op=linformer h=2 s=100 d=16 landmarks=16 proj_f=0"),
]
BACKWARD = "op=attention_backward b=2 hq=4 hkv=2 sq=19 sk=23 d=16"
# of gradients: the option, the check that must fail, the case
GRADIENTS = [
    ("permute_keys", "permute_keys", BACKWARD),
    ("permute_queries", "permute_queries", "op=attention_backward sq=19 sk=23 d=16"),
    ("gqa", "gqa", BACKWARD),
    ("split", "split", BACKWARD),
    ("split", "split", BACKWARD + " mask=causal+past:4"),
    ("keep", "keep", BACKWARD + " dropout=0.3"),
    ("shift_k", "shift_k", BACKWARD),
    ("linear_dout", "linear_dout", BACKWARD),
    ("causal_prefix", "causal_prefix", BACKWARD + " mask=causal"),
    ("causal_suffix", "causal_prefix", BACKWARD + " mask=causal+past:4"),
]
PROJECTED = "op=mha b=2 hq=4 hkv=2 sq=9 sk=21 d=8 kv=cross proj_bias=1 out=lse"
# of multi-head attention, with projections that are exact
PROJECTED_BREAKS = ["permute_keys", "shift", "scale_v", "linear_v", "ones", "gqa",
                    "duplicate_key", "permute_heads", "shift_k"]
# of the attack plugin: an exp that is wrong on one path of a kernel
EXP_PATHS = [
    ("exp_2e6", "h=4 d=16 s=70"),
    ("exp_2e6_mha", "op=mha hq=4 d=16 s=40"),
    ("exp_2e6_mha", "op=mha hq=4 hkv=2 d=16 sq=4 sk=600 kv=cross e=64"),
    ("exp_2e6_split", "hq=4 hkv=2 d=16 sq=4 sk=600"),
    ("exp_2e6_packed", "hq=8 hkv=2 d=16 sq=2 sk=100"),
    ("exp_2e6_rescale", "h=4 d=16 s=70"),
    ("exp_2e5_merge", "h=4 d=16 sq=4 sk=600"),
    ("exp_5e6_lse", "h=4 d=16 s=40 out=lse dtype=bf16"),
]
PROMISES = [("modify", "inputs"), ("gap", "bounds"), ("read_past", "bounds"),
            ("write_before", "bounds"), ("ftz", "state")]


def verify(plugin, case, *words):
    done = subprocess.run(
        [PROGRAM, "verify", "--plugin", os.path.join(PLUGINS, plugin + ".so"), "--json", *words,
         case], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()], done


class Relations(unittest.TestCase):
    def broken(self, record):
        return [name for name, verdict in record["checks"].items() if verdict == "fail"]

    def assert_delta(self, delta):
        """Whole shares of the comparisons that were made, and no more than the verdict may have."""
        shares = delta / (1e-6 / 64)
        self.assertAlmostEqual(shares, round(shares), places=6)
        self.assertGreater(shares, 2)
        self.assertLessEqual(delta, 1e-6)

    def test_what_is_right_passes_every_check(self):
        seen = set()
        for case in (FULL, CAUSAL, DROPOUT, FULL + " mask=len:rand+bool:0.8:bk",
                     FULL + " bias=normal:hqk", "b=3 sq=1 sk=40 d=16 mask=causal+past:39",
                     "sq=5 sk=0 d=8", ALONE + " softcap=20",
                     "h=2 d=16 out=lse score=gaussian softcap=21 sk=38 sq=13",
                     "sq=40 sk=9 d=16 mask=causal out=lse", "h=2 s=37 d=16 weight_fn=relu2"):
            records, done = verify("relations", case)
            self.assertEqual([r["status"] for r in records], ["pass"], done.stdout + done.stderr)
            self.assert_delta(records[0]["delta"])
            seen |= records[0]["checks"].keys()
        wanted = {name for _, name, _ in BREAKS} | {"inputs", "bounds", "state", "unknowns"}
        if len(os.sched_getaffinity(0)) < 2:
            wanted.discard("threads")
        self.assertLessEqual(wanted, seen)

    def test_each_broken_relation_is_named(self):
        for option, name, case in BREAKS:
            if name == "threads" and len(os.sched_getaffinity(0)) < 2:
                continue
            if SANITIZED and option.startswith("grow_"):  # worker/growth.c says why
                continue
            with self.subTest(option=option):
                words = ("--fills", "none", "-b", "test:break=" + option)
                records, done = verify("relations", case, *words)
                self.assertEqual(records[0]["status"], "fail", done.stdout + done.stderr)
                self.assertEqual(self.broken(records[0]), [name])
                self.assertTrue(records[0]["reason"].startswith(name + ": "))
                self.assertEqual(done.returncode, 3)

    def test_each_broken_relation_of_projected_heads_is_named(self):
        records, done = verify("relations_mha", PROJECTED)
        self.assertEqual([r["status"] for r in records], ["pass"], done.stdout + done.stderr)
        self.assertLessEqual(set(PROJECTED_BREAKS) | {"threads", "batch"},
                             records[0]["checks"].keys())
        for name in PROJECTED_BREAKS:
            with self.subTest(option=name):
                words = ("--fills", "none", "-b", "test:break=" + name)
                records, done = verify("relations_mha", PROJECTED, *words)
                self.assertEqual(records[0]["status"], "fail", done.stdout + done.stderr)
                self.assertEqual(self.broken(records[0]), [name])
        records, done = verify("relations_mha", PROJECTED, "--fills", "none", "-b", "test:break=exp")
        self.assertEqual(self.broken(records[0]), ["functions"], done.stdout + done.stderr)

    def test_each_broken_relation_of_an_operator_is_named(self):
        for name, case in OPERATORS:
            with self.subTest(option=name, case=case):
                records, done = verify("relations_operators", case)
                self.assertEqual([r["status"] for r in records], ["pass"], done.stdout + done.stderr)
                self.assertEqual(records[0]["checks"][name], "pass")
                words = ("--fills", "none", "-b", "test:break=" + name)
                records, done = verify("relations_operators", case, *words)
                self.assertEqual(records[0]["status"], "fail", done.stdout + done.stderr)
                self.assertEqual(self.broken(records[0]), [name])

    def test_each_broken_relation_of_gradients_is_named(self):
        for option, name, case in GRADIENTS:
            with self.subTest(option=option, case=case):
                records, done = verify("relations_gradients", case, "--fills", "none")
                self.assertEqual([r["status"] for r in records], ["pass"], done.stdout + done.stderr)
                self.assertEqual(records[0]["checks"][name], "pass")
                words = ("--fills", "none", "-b", "test:break=" + option)
                records, done = verify("relations_gradients", case, *words)
                self.assertEqual(records[0]["status"], "fail", done.stdout + done.stderr)
                self.assertEqual(self.broken(records[0]), [name])

    def test_functions_are_tested_on_each_path(self):
        words = ("--threads", "1", "--fills", "none", "--checks", "functions")
        for bug, case in EXP_PATHS:
            with self.subTest(bug=bug, case=case):
                records, done = verify("rogue", case, *words, "-b", "rogue:bug=" + bug)
                self.assertEqual(self.broken(records[0]), ["functions"], done.stdout + done.stderr)
                records, done = verify("rogue", case, *words, "-b", "rogue")
                self.assertEqual(records[0]["checks"]["functions"], "pass", done.stdout)

    def test_scale_v_allows_for_subnormal_products(self):
        # Each of 64 products p v may be subnormal, and their sum is not.
        case = ("b=4 dk=72 hq=2 layout=bhds mask=past:42+len:rand out=weights score=gaussian "
                "seed=66 sink=1 sk=64 sq=25 view=broadcast")
        done = subprocess.run(
            [PROGRAM, "verify", "-b", "naive", "--fills", "none", "--checks", "scale_v", "--json",
             case], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
            check=False)
        record = json.loads(done.stdout)
        self.assertEqual(record["checks"]["scale_v"], "pass", done.stdout + done.stderr)

    def test_checks_are_chosen_by_name(self):
        words = ("--fills", "none", "-b", "test:break=shift")
        records, done = verify("relations", FULL, *words, "--checks", "ones,gqa")
        self.assertEqual(records[0]["status"], "pass", done.stderr)
        self.assertEqual({"ones", "gqa"}, records[0]["checks"].keys() & {n for _, n, _ in BREAKS})
        records, _ = verify("relations", FULL, *words, "--checks", "none")
        self.assertFalse(records[0]["checks"].keys() & {n for _, n, _ in BREAKS})
        _, done = verify("relations", FULL, "--checks", "shfit")
        self.assertEqual(done.returncode, 2)
        self.assertIn("did you mean 'shift'?", done.stderr)

    def test_broken_promises_are_named(self):
        for plugin, name in PROMISES:
            with self.subTest(plugin=plugin):
                records, done = verify(plugin, "s=24 d=8 view=gaps" if plugin == "gap" else
                                       "s=24 d=8")
                self.assertEqual(records[0]["status"], "fail", done.stdout + done.stderr)
                self.assertIn(name, self.broken(records[0]))

    def test_what_has_no_meaning_must_be_refused(self):
        # In the record of every case, though the backend is asked once.
        for accepts in (0, 4):
            records, done = verify("credulous", "s=8,24 d=8", "-b", f"test:accepts={accepts}")
            self.assertEqual([r["status"] for r in records], ["fail"] * 2, done.stderr)
            for record in records:
                self.assertEqual(self.broken(record), ["unknowns"])
                self.assertTrue(record["reason"].startswith("supports accepts "), record["reason"])
            self.assertEqual(done.returncode, 3)


if __name__ == "__main__":
    unittest.main()
