# SPDX-License-Identifier: Apache-2.0
"""A failure is shrunk, written as C, and reported to a CI server; accuracy that drifts.

    test_failing.py BUILD_DIR HEADERS [unittest options]
"""
import json
import os
import re
import shlex
import subprocess
import sys
import unittest
from xml.etree import ElementTree

HEADERS = os.path.abspath(sys.argv.pop(2))

# pylint: disable=wrong-import-position
from test_cli import BUILD, SMALL, Case, broken, rewrite

NAIVE = os.path.join(BUILD, "lib", "attnbench", "naive.so")
MISTAKEN = {"ATTNBENCH_TEST_PLUGIN": NAIVE}
TAIL = "sq=70 sk=145 d=24"
RICH = ("b=2 hq=8 hkv=2 sq=33 sk=70 d=32 mask=causal_br+window:20:3+len:60/70 sink=1 view=gaps "
        "bias=normal:hq dropout=0.1 out=lse+weights softcap=10 layout=bshd dtype=f64")


def smallest(done):
    """The case lines of the `smallest` repro lines."""
    return re.findall(r"^    smallest: attnbench verify .* --threads 1 '(.*)'$", done.stdout, re.M)


class Shrink(Case):
    def test_sizes(self):
        done = self.expect(3, "verify", "--plugin", broken("drops_tail"), "--shrink", TAIL)
        self.assertEqual(smallest(done), ["dk=1 sk=17 sq=1"])
        self.assertIn("keys from 144 on lost", done.stdout)
        self.assertIn("shrinking, test, ", done.stderr)
        again = self.expect(3, "verify", "--plugin", broken("drops_tail"), "--json", "--shrink",
                            smallest(done)[0])
        self.assertIn("'dk=1 sk=17 sq=1'", json.loads(again.stdout)["smallest"])

    def test_features(self):
        done = self.expect(3, "verify", "--plugin", broken("mistaken"), "--shrink", RICH,
                           env=MISTAKEN)
        self.assertEqual(smallest(done), ["dk=1 mask=causal_br sk=2 sq=1"])
        mha = "op=mha h=4 sq=9 sk=20 kv=cross dk=5 score=additive dh=7 mask=causal_br prune=1/3"
        done = self.expect(3, "verify", "--plugin", broken("mistaken"), "--shrink", mha,
                           env=MISTAKEN)
        self.assertEqual(smallest(done), ["dk=1 mask=causal_br sk=2 sq=1"])

    def test_a_fill_stays_while_it_is_needed(self):
        done = self.expect(3, "verify", "--plugin", broken("no_maximum"), "--shrink", TAIL)
        self.assertRegex(smallest(done)[0], r"^dk=\d( dv=1)? fill=\w+( sk=\d)? sq=1$")

    def test_what_crashes_still_crashes(self):
        done = self.expect(6, "verify", "--plugin", broken("crash"), "--shrink", TAIL)
        self.assertEqual(smallest(done), ["dk=1 sq=1"])
        self.assertIn("crash ", done.stdout)

    def test_what_passes_is_left_alone(self):
        done = self.expect(0, "verify", "-b", "naive", "--reproducer", self.path("r.c"), SMALL)
        self.assertNotIn("smallest", done.stdout)
        self.assertIn("nothing was written to", done.stderr)
        self.assertFalse(os.path.exists(self.path("r.c")))
        self.assertIn("cannot be written", self.expect(2, "verify", "-b", "naive", "--reproducer",
                                                        self.path("no/r.c"), SMALL).stderr)


class Reproducer(Case):
    def build(self, name, *arguments, **options):
        source, program = self.path(name + ".c"), self.path(name)
        done = self.expect(3, "verify", "--reproducer", source, *arguments, **options)
        self.assertIn(f"'{source}' repeats this failure", done.stderr)
        compiler = shlex.split(os.environ.get("CC", "cc"))
        subprocess.run([*compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", HEADERS, source,
                        "-ldl", "-lm", "-o", program], check=True)
        return program

    def run_it(self, program, plugin, **environment):
        # What the plugins for tests allocate goes with the process.
        return subprocess.run([program, plugin], capture_output=True, text=True, check=False,
                              env=dict(os.environ, ASAN_OPTIONS="detect_leaks=0", **environment))

    def test_one_that_a_right_plugin_passes(self):
        program = self.build("tail", "--plugin", broken("drops_tail"), TAIL)
        done = self.run_it(program, broken("drops_tail"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("out: 1 of 1 elements wrong", done.stdout)
        self.assertEqual(self.run_it(program, broken("good")).returncode, 0)
        self.assertEqual(self.run_it(program, NAIVE).returncode, 2)  # has no such backend
        self.assertEqual(self.run_it(program, self.path("none.so")).returncode, 2)

    def test_one_with_more_operands(self):
        program = self.build("mask", "--plugin", broken("mistaken"), RICH, env=MISTAKEN)
        self.assertEqual(self.run_it(program, broken("mistaken"), **MISTAKEN).returncode, 1)
        done = self.run_it(program, broken("mistaken"), ATTNBENCH_TEST_RIGHT="1", **MISTAKEN)
        self.assertEqual(done.returncode, 0, done.stdout)


    def test_what_is_broken_beside_the_numbers_shows_in_it(self):
        for name, options, says in (
                ("write_before", "test", "out: 4 bytes outside its elements are written, the first at byte -4"),
                ("ftz", "test", "run leaves the floating-point state changed"),
                ("relations", "test:break=rerun", "run 3 gives other bits in out than the first")):
            with self.subTest(plugin=name):
                program = self.build(name, "--plugin", broken(name), "-b", options, "--fills", "none", "s=9 d=8")
                done = self.run_it(program, broken(name))
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn("\nout: 0 of 1 elements wrong\n", "\n" + done.stdout)
                self.assertIn(says, done.stdout)

    def test_what_it_cannot_show_has_a_reason(self):
        for name, options, says in (
                ("credulous", "test", "what 'supports' accepts does not depend on the case"),
                ("relations", "test:break=leak_descriptor", "is for 'verify' to count"),
                ("stale", "test", "the failure lies between runs or beside them")):
            with self.subTest(plugin=name):
                done = self.expect(3, "verify", "--plugin", broken(name), "-b", options, "--fills", "none",
                                   "--reproducer", self.path("r.c"), "s=9 d=8")
                self.assertRegex(done.stderr, "no reproducer: .*" + says)
                self.assertFalse(os.path.exists(self.path("r.c")))


def draws(done):
    """How many random cases were drawn, taken and passed over; None if it is not said."""
    found = re.search(r"drawn: (\d+), taken by a backend: (\d+), passed over: (\d+)", done.stderr)
    return tuple(map(int, found.groups())) if found else None


class Fuzz(Case):
    def test_a_seed_says_which_cases(self):
        lines = [self.expect(0, "verify", "--fuzz", "30", *seed, "--dry-run").stdout
                 for seed in ([], ["--seed", "1"], ["--seed", "2"])]
        self.assertEqual(len(lines[0].splitlines()), 30)
        self.assertEqual(lines[0], lines[1])
        self.assertNotEqual(lines[0], lines[2])

    def verify(self, code, plugin, n, *arguments, env=None):
        """The cases that were checked, with their statuses, and how many were drawn, taken and
        passed over."""
        done = self.expect(code, "verify", "--plugin", broken(plugin), "--fuzz", str(n), "--json",
                           "--fills", "none", "--checks", "none", *arguments, env=env or {})
        return [(r["case"], r["status"]) for r in map(json.loads, done.stdout.splitlines())], draws(done)

    def cases(self, verb, n, *arguments):
        listed = json.loads(self.expect(0, *verb, "--fuzz", str(n), "--json", *arguments).stdout)
        return [c["case"] for c in listed]

    def test_only_what_a_backend_takes_counts(self):
        checked, (drawn, taken, passed) = self.verify(3, "good", 5)
        self.assertEqual((len(checked), taken, drawn - passed), (5, 5, 5))
        self.assertGreater(passed, 100)
        self.assertNotIn("skip", [status for _, status in checked])
        lines = [case for case, _ in checked]
        only = ("verify", "--plugin", broken("good"), "--dry-run")
        self.assertEqual(self.cases(only, 5), lines)
        self.assertEqual(self.cases(only, 3), lines[:3])
        every = self.cases(("list", "cases"), drawn)  # nobody is asked
        self.assertEqual(len(every), drawn)
        self.assertEqual([case for case in every if case in lines], lines)
        self.assertEqual(every[-1], lines[-1])  # drawing ends with the last one
        parts = [self.cases(only, 5, "--shard", f"{part}/2") for part in (1, 2)]
        self.assertEqual(sorted(parts[0] + parts[1]), sorted(lines))
        found = self.expect(3, "verify", "--plugin", broken("good"), "--json", lines[2])
        self.assertEqual(json.loads(found.stdout)["case"], lines[2])

    def test_one_backend_that_takes_a_case_is_enough(self):
        checked, drawn = self.verify(7, "good", 12, "-b", "test,naive")
        self.assertIsNone(drawn)  # naive takes everything
        self.assertEqual(len(checked), 24)
        self.assertEqual([line for line, _ in checked[::2]], self.cases(("list", "cases"), 12))

    def test_what_takes_almost_nothing_ends(self):
        done = self.expect(0, "verify", "--plugin", broken("rare"), "--fuzz", "50", "--seed", "6",
                           "--dry-run")
        drawn, taken, passed = draws(done)
        self.assertIn(len(done.stdout.splitlines()), range(1, 50))  # a generator may need another seed
        self.assertEqual((taken, drawn - taken), (len(done.stdout.splitlines()), passed))
        self.assertIn("because 10000 in a row were passed over; last refusal: rare: only",
                      done.stderr)

    def test_what_takes_nothing_is_not_green(self):
        for code, arguments, env, reason in (
                (7, ("--plugin", broken("rare")), {"ATTNBENCH_TEST_QUERIES": "0"},
                 "drawn: 10000, taken by a backend: 0; last refusal: rare: only "),
                (7, ("-b", "null"), {}, "drawn: 0, taken by a backend: 0; last refusal: "
                 "null: it computes nothing")):
            done = self.expect(code, "verify", "--fuzz", "3", *arguments, env=env)
            self.assertIn("exit 7: nothing can be checked: random cases " + reason, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_what_crashes_when_it_is_asked_has_a_verdict(self):
        checked, (_, taken, _) = self.verify(6, "fragile", 3)
        self.assertEqual(taken, 3)
        for line, status in checked:
            self.assertEqual(status == "crash", "score=bilinear" in line)
        self.assertIn("crash", [status for _, status in checked])

    def test_drawing_leaves_time_to_check(self):
        done = self.expect(3, "verify", "--plugin", broken("good"), "--fuzz", "100000", "--budget",
                           "400ms", "--fills", "none", "--checks", "none")
        self.assertIn("because its share of --budget was used up", done.stderr)
        self.assertRegex(done.stdout, "(?m)^fail ")

    def test_right_numbers_pass(self):
        done = self.expect(0, "verify", "-b", "naive", "--fuzz", "25", "--seed", "4", "--fills",
                           "none")
        self.assertIn("25 results:", done.stdout)

    def test_what_it_finds_is_shrunk(self):
        done = self.expect(3, "verify", "--plugin", broken("mistaken"), "--fuzz", "25", "--fills",
                           "none", env=MISTAKEN)
        self.assertTrue(smallest(done))
        for line in smallest(done):
            self.assertRegex(line, "mask=")
            self.assertLess(len(line), 60)

    def test_it_makes_its_own_cases(self):
        self.assertIn("give it no others", self.expect(2, "verify", "--fuzz", "5", SMALL).stderr)
        self.assertIn("a number from 1", self.expect(2, "verify", "--fuzz", "0").stderr)


class Baseline(Case):
    CASES = [f"h=2 s=24 d={d} mask=causal" for d in (8, 16, 24)]

    def verify(self, code, *arguments):
        return self.expect(code, "verify", "-b", "naive", "--fills", "none", *arguments,
                           *self.CASES)

    def baseline(self, change):
        """An earlier run whose records are changed."""
        self.verify(0, "-o", self.path("run"))
        rewrite(self.path("run/results.ndjson"), change)
        return self.path("run")

    def test_what_has_not_changed_passes(self):
        folder = self.baseline(lambda record: None)
        self.assertNotIn("drift", self.verify(0, "--baseline", folder).stdout)
        self.verify(0, "--baseline", folder + "/results.ndjson")

    def test_larger_errors_below_the_bound_fail(self):
        folder = self.baseline(lambda r: r.update(max_ratio=r["max_ratio"] / 3))
        done = self.verify(3, "--baseline", folder)
        self.assertEqual(len(re.findall(r"^drift: naive on .* more than 2 times", done.stdout,
                                        re.M)), 3)
        self.assertIn("3 pass", done.stdout)
        self.verify(0, "--baseline", folder, "--drift", "3.5")
        done = self.verify(3, "--baseline", folder, "--json")
        self.assertIn("drift: ", done.stderr)
        json.loads(done.stdout.splitlines()[0])

    def test_a_case_that_once_had_luck_is_held_against_the_usual(self):
        folder = self.baseline(lambda r: r["sizes"]["dk"] == 8 and r.update(max_ratio=1e-4))
        self.assertNotIn("drift", self.verify(0, "--baseline", folder).stdout)

    def test_bad_ones_are_refused_before_anything_is_run(self):
        with open(self.path("empty.ndjson"), "w", encoding="utf-8"):
            pass
        for name in ("none.ndjson", "empty.ndjson", "."):
            done = self.verify(2, "--baseline", self.path(name), "-o", self.path("out"))
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertFalse(os.path.exists(self.path("out")))
        self.assertIn("a factor", self.verify(2, "--drift", "0.5").stderr)

    def test_one_of_other_cases_is_not_comparable(self):
        folder = self.baseline(lambda r: r.update(id="0" * 16))
        self.assertIn("3 of 3 results have no counterpart",
                      self.verify(8, "--baseline", folder).stderr)


class Junit(Case):
    def test_a_failure_says_what_is_wrong_and_how_to_see_it(self):
        path = self.path("j.xml")
        self.expect(3, "verify", "--plugin", broken("drops_tail"), "--shrink", "--junit", path, TAIL)
        failure = ElementTree.parse(path).find(".//failure")
        self.assertIn("explained: 100 %", failure.text)
        self.assertIn("\nrerun: attnbench verify --plugin", failure.text)
        self.assertIn("\nsmallest: attnbench verify --plugin", failure.text)


if __name__ == "__main__":
    unittest.main()
