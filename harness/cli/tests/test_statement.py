# SPDX-License-Identifier: Apache-2.0
"""Statements of conformance: written, repeated, and forged in every way we could think of.

    test_statement.py BUILD_DIR [unittest options]
"""
import copy
import hashlib
import json
import os
import re
import shutil
import unittest
import xml.etree.ElementTree as ElementTree

from test_cli import PLAIN, PROGRAM, SMALL, Case, broken

GOOD, BAD = broken("good"), broken("unwritten")
MORE = PLAIN + " seed=2"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def sealed(statement):
    """What a forger does who knows how the seal is made."""
    statement = {key: value for key, value in statement.items() if key != "sha256"}
    text = json.dumps(statement, separators=(",", ":"), sort_keys=True, ensure_ascii=False) + "\n"
    return dict(statement, sha256=hashlib.sha256(text.encode()).hexdigest())


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class Statement(Case):
    def state(self, form="json", plugin=GOOD, cases=(PLAIN,), code=0):
        """A statement of a plugin's cases."""
        path = self.path("mine." + form)
        self.expect(code, "verify", "--plugin", plugin, *cases, "--statement", path)
        return path

    @staticmethod
    def read(path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    def write(self, statement, name="forged.json"):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(statement if isinstance(statement, str) else json.dumps(statement))
        return self.path(name)

    def check(self, code, path, *more, plugin=GOOD):
        return self.expect(code, "statement", "check", path, "--plugin", plugin, *more)

    def test_markdown_and_badge_are_written_and_agree(self):
        path = self.state("md", cases=(PLAIN, MORE))
        text = self.read(path)
        self.assertIn("**test conforms**: 2 pass of 2 cases (cases that its author chose, no suite).", text)
        self.assertIn(digest(GOOD), text)
        self.assertRegex(text, r"\| checks made \| \d+ of \d+ that apply \|")
        self.assertRegex(text, r"\| power \| \d+ of \d+ usual mistakes would have been refused \|")
        badge = ElementTree.fromstring(self.read(self.path("mine.svg")))
        self.assertIn("conforms: 2 pass, chosen cases", "".join(badge.itertext()))
        said = self.check(0, path).stderr
        self.assertIn("the statement agrees with what was found here (not checked: its date, the commit", said)
        # In a README, with other text around it.
        self.check(0, self.write("# mine\n\n" + text + "\nmore\n", "README.md"))
        # The text says something else than the object; the badge, too.
        for old, new in (("2 pass of 2", "9 pass of 9"), ("conforms", "conforms well"), ("\n\n", "\n \n")):
            forged = self.write(text.replace(old, new, 1), "forged.md")
            self.assertIn("the text has been edited", self.check(3, forged).stderr)
        self.write(self.read(self.path("mine.svg")).replace("2 pass", "612 pass"), "mine.svg")
        self.assertIn("is not that of the statement", self.check(3, path).stderr)
        for bad in ("nothing", text + text, text.replace("ends -->", "")):
            self.check(2, self.write(bad, "none.md"))
        self.check(2, self.write("{", "bad.json"))
        self.check(2, self.write("{}", "bad.json"))

    def test_forgeries_are_found(self):
        # A case that the plugin refuses takes no time; what is said of checks needs another one.
        refused = json.loads(self.read(self.state(cases=(PLAIN + " mask=causal",), code=7)))
        honest = json.loads(self.read(self.state()))
        self.assertEqual(sealed(honest), honest)  # so each forgery below is found by what it says
        unsealed = copy.deepcopy(honest)
        unsealed["backends"][0]["counts"]["pass"] = 3
        self.assertIn("has been edited", self.check(3, self.write(unsealed)).stderr)

        def forge(change, statement):
            forged = copy.deepcopy(statement)
            change(forged, forged["backends"][0], forged["backends"][0]["operators"][0])
            self.assertNotEqual(forged, statement)
            return self.write(sealed(forged))

        def found(statement, code, says, change):
            done = self.check(code, forge(change, statement))
            self.assertIn(says, done.stderr)
            if code in (8, 2):  # before anything runs
                self.assertEqual(done.stdout, "")
        for forgery in (
                (3, "'counts'", lambda s, b, o: b["counts"].update({"skip": 3})),
                (3, "a field, 'pass'", lambda s, b, o: b.update(counts={"pass": 1}, conforms=True)),
                (3, "counts for attention", lambda s, b, o: o["counts"].update({"skip": 3})),
                (3, "'features'", lambda s, b, o: b["features"].append("mask=causal")),
                (3, "'conforms'", lambda s, b, o: b.update(conforms=True)),
                (3, "'results_sha256'", lambda s, b, o: b.update(results_sha256="0" * 64)),
                (3, "'plugin'", lambda s, b, o: b.update(plugin="better.so")),
                (3, "a field, 'op'", lambda s, b, o: b["operators"].append(dict(o, dtype="bf16"))),
                (3, "in bf16", lambda s, b, o: o.update(dtype="bf16")),
                (3, "a field, 'award'", lambda s, b, o: s.update(award="best")),
                (3, "a field, 'note'", lambda s, b, o: o.update(note="x")),
                (3, "a field, 'grade'", lambda s, b, o: b.pop("grade")),
                (3, "names test twice", lambda s, b, o: s["backends"].append(b)),
                # A subset as a whole, more cases than were run, others than those of the hash.
                (8, "number of cases", lambda s, b, o: s["suite"]["lines"].append(MORE)),
                (8, "set of cases", lambda s, b, o: s["suite"].update(lines=[MORE])),
                (8, "its number of cases", lambda s, b, o: s["suite"].update(cases=612)),
                (8, "set of cases", lambda s, b, o: s["suite"].update(sha256="0" * 64)),
                (8, "mutation score", lambda s, b, o: s["mutation_score"].update(refused=782)),
                (8, "version of attnbench", lambda s, b, o: s["attnbench"].update(version="9.9.9")),
                (8, "processor", lambda s, b, o: s["machine"].update(cpu="Another CPU")),
                (8, "vector extensions", lambda s, b, o: s["machine"].update(flags=["avx512f"])),
                (2, "names no backends", lambda s, b, o: s.update(backends=[])),
                (2, "there is no backend", lambda s, b, o: b.update(name="other")),
                (2, "no statement", lambda s, b, o: s.update(statement=2))):
            found(refused, *forgery)
        for forgery in (
                (3, "number of checks that apply", lambda s, b, o: o.update(checks_apply=1, checks_made=1)),
                (5, "checks were made", lambda s, b, o: o.update(checks_made=o["checks_made"] + 1)),
                (5, "checks were made", lambda s, b, o: o.update(checks_made="many")),
                (5, "usual mistakes apply", lambda s, b, o: o.update(power_of=1000, power_refused=1000)),
                (5, "would be refused", lambda s, b, o: o.update(power_refused=o["power_of"] * 2)),
                (5, "errors of test", lambda s, b, o: b.update(grade=round(b["grade"] / 4, 3)))):
            found(honest, *forgery)
        # Copied from another machine: not confirmed, unless one asks for the numbers alone.
        other = forge(lambda s, b, o: s["machine"].update(cpu="Another CPU", flags=["avx512f"]), refused)
        self.assertIn("its processor is another one (Another CPU)", self.check(8, other).stderr)
        self.assertIn("not checked: its date, the commit of attnbench, the machine",
                      self.check(0, other, "--cross").stderr)
        # Of chosen cases as the standard suite.
        found(refused, 8, "number of cases is another one",
              lambda s, b, o: (s["suite"].update(name="standard"), s["suite"].pop("lines")))

    def test_a_plugin_that_was_not_given_is_named(self):
        for given, wish in ((GOOD, "--plugin FILE"), ("mine=" + GOOD, "--plugin NAME=FILE")):
            done = self.expect(2, "statement", "check", self.state(plugin=given))
            name = "mine" if "=" in given else "test"
            self.assertIn(f"there is no backend '{name}'", done.stderr)
            self.assertTrue(done.stderr.endswith(
                f"the statement is about {name} of the plugin good.so; {wish} gives it\n"), done.stderr)
        self.check(0, self.path("mine.json"), plugin="mine=" + GOOD)

    def test_another_plugin_is_found(self):
        path = self.state()
        shutil.copy(BAD, self.path("mine.so"))
        done = self.check(3, path, plugin=self.path("mine.so"))
        self.assertIn("the statement is about another plugin", done.stderr)
        # Even if the forger puts in the hash of the other one.
        forged = json.loads(self.read(path))
        forged["backends"][0]["plugin_sha256"] = digest(BAD)
        done = self.check(3, self.write(sealed(forged)), plugin=BAD)
        self.assertRegex(done.stderr, "not the one found here|differ by a field")

    def test_another_adapter_is_found(self):
        python = os.path.join(os.path.dirname(PROGRAM), "../lib/attnbench/python.so")
        if not os.path.exists(python):
            self.skipTest("the plugin python is not built")
        self.expect(0, "new-backend", "mine", "--lang", "python", "-o", self.path("here"))
        adapter = self.path("here/mine/mine.py")
        env = {"ATTNBENCH_PYTHON_ADAPTERS": os.path.dirname(adapter), "ATTNBENCH_PYTHON_BACKENDS": "mine"}
        path = self.path("mine.json")
        self.expect(0, "verify", "-b", "mine", PLAIN, "--statement", path, env=env)
        self.assertEqual(json.loads(self.read(path))["backends"][0]["source_sha256"], digest(adapter))
        with open(adapter, "a", encoding="utf-8") as file:
            file.write("\n# another kernel\n")
        done = self.expect(3, "statement", "check", path, env=env)
        self.assertIn("the statement is about another file", done.stderr)

    def test_a_statement_of_what_fails_says_so_and_is_true(self):
        path = self.state("md", BAD, (PLAIN,), 3)
        self.assertIn("**test does not conform**: 1 fail of 1 cases", self.read(path))
        self.assertIn("does not conform", self.read(self.path("mine.svg")))
        self.check(0, path, plugin=BAD)
        # What was checked on nothing conforms to nothing.
        path = self.state("json", GOOD, (PLAIN + " mask=causal",), 7)
        self.assertFalse(json.loads(self.read(path))["backends"][0]["conforms"])

    def test_only_whole_suites_and_whole_checks(self):
        for options in (["--filter", "x*"], ["--shard", "1/2"], ["--seed", "3"], ["--fills", "none"],
                        ["--checks", "ones"], ["--budget", "1m"]):
            said = self.expect(2, "verify", "-b", "naive", "--statement", self.path("x.md"), SMALL, *options)
            self.assertIn("leave " + options[0] + " out", said.stderr)
        said = self.expect(2, "verify", "-b", "naive", "--statement", self.path("x.txt"), SMALL).stderr
        self.assertIn("must end in .md or .json", said)
        self.expect(2, "verify", "-b", "naive", "--statement", self.path("none/x.md"), SMALL)
        self.assertEqual(os.listdir(self.folder), [])
        for arguments in ([], ["check"], ["check", "x.txt"], ["check", self.path("no.md")], ["make", "x.md"]):
            self.expect(2, "statement", *arguments)

    def test_the_mutation_score_is_the_measured_one(self):
        header = self.read(os.path.join(ROOT, "harness/report/conformance.h"))
        table = self.read(os.path.join(ROOT, "harness/judge/README.md"))
        numbers = re.findall(r"#define ATTN_MUTANTS_(?:REFUSED|PLANTED) (\d+)", header)
        self.assertIn("| **all, {} of {}** |".format(*numbers), table)


if __name__ == "__main__":
    unittest.main(verbosity=2)
