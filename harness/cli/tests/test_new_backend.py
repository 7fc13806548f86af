# SPDX-License-Identifier: Apache-2.0
"""attnbench new-backend: what it makes, and what it refuses.

    test_new_backend.py BUILD_DIR [unittest options]
"""
import json
import os
import shlex
import subprocess
import unittest

from test_cli import Case


class NewBackend(Case):
    def make(self, language="c", name="mine"):
        """The skeleton as it comes, built by the command that is printed. Returns the command that
        verifies it, as words, and its environment."""
        said = self.expect(0, "new-backend", name, "-o", self.folder, "--lang", language).stderr
        self.assertIn(f"into `run` of {self.path(name)}/{name}.", said)
        lines = [line.removeprefix("now:").strip() for line in said[:said.index("The first checks")].splitlines()]
        for line in lines[:-2]:
            warnings = ["-Wall", "-Wpedantic", "-Werror", *(["-Wextra"] if language == "c" else [])]
            subprocess.run(shlex.split(line) + warnings, check=True)
        words = shlex.split(lines[-1])
        environment = dict(word.split("=") for word in words[:words.index("attnbench")])
        if language == "python":  # the command names it where the environment chooses adapters
            self.assertEqual(environment.get("ATTNBENCH_PYTHON_BACKENDS"),
                             name if "ATTNBENCH_PYTHON_BACKENDS" in os.environ else None)
            environment["ATTNBENCH_PYTHON_BACKENDS"] = name
        if language != "python" or self.has_numpy():
            one = shlex.split(lines[-2])
            self.assertEqual(one[:-1], words)
            done = self.expect(0, *one[one.index("attnbench") + 1:], env=environment)
            self.assertIn("1 result: 1 pass", done.stdout)
        return words[words.index("attnbench") + 1:], environment

    def test_every_language_makes_a_backend_that_passes_and_refuses(self):
        taken = ["b=2 hq=4 hkv=2 sq=9 sk=14 dk=7 dv=5", "score=dot s=9 d=8 layout=bhds view=gaps",
                 "hq=2 sq=3 sk=0 d=4"]
        refused = ["op=mha hq=2 s=9 dk=4", "score=gaussian s=9 d=4", "dtype=bf16 s=9 d=4",
                   "softcap=3 s=9 d=4", "bias=normal s=9 d=4", "out=weights s=9 d=4",
                   "mask=causal s=9 d=4"]
        for language, name in (("c", "in_c"), ("c++", "in_cxx"), ("python", "in_python")):
            with self.subTest(language):
                if language == "python" and not self.has_numpy():
                    continue
                command, environment = self.make(language, name)
                done = self.expect(0, *command, *taken, *refused, "--json", env=environment)
                statuses = [r["status"] for r in map(json.loads, done.stdout.splitlines())]
                if language == "python":  # 0 / 0 in the row without keys
                    self.assertEqual(statuses.pop(2), "skip")
                self.assertEqual(statuses, ["pass"] * (len(statuses) - len(refused))
                                 + ["skip"] * len(refused), done.stdout)
                for file in os.listdir(self.path(name)):
                    if not file.startswith("__") and not file.endswith(".so"):
                        with open(self.path(f"{name}/{file}"), encoding="utf-8") as text:
                            self.assertNotIn("skeleton", text.read(), file)

    def has_numpy(self):
        listed = json.loads(self.expect(0, "list", "--json").stdout)
        return any(item["name"] == "numpy" and item["available"] for item in listed)

    def test_what_it_refuses_is_listed(self):
        # In the standard suite a refusal that is on no list fails the run; the skeleton has a list.
        for language, name in (("c", "in_c"), ("python", "in_python")):
            with self.subTest(language):
                if language == "python" and not self.has_numpy():
                    continue
                command, environment = self.make(language, name)
                suite = [*command, "--filter", "smoke_*", "--fills", "none", "--checks", "none"]
                self.expect(0, *suite, env=environment)
                os.remove(self.path(f"{name}/{name}.skips"))
                self.assertIn(f"refusals are not listed in {name}.skips, beside the "
                              f"{'adapter' if language == 'python' else 'plugin'};",
                              self.expect(3, *suite, env=environment).stderr)

    def test_names_that_are_taken_or_bad(self):
        self.make()
        self.assertIn("already exists",
                      self.expect(2, "new-backend", "mine", "-o", self.folder).stderr)
        self.expect(2, "new-backend", "Bad-Name", "-o", self.folder)
        self.assertIn("c, c++ or python", self.expect(2, "new-backend", "other", "-o", self.folder,
                                                      "--lang", "rust").stderr)

    def test_the_name_of_another_backend_is_refused(self):
        self.assertIn("there is a backend 'naive' already",
                      self.expect(2, "new-backend", "naive", "-o", self.folder).stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_without_o_it_belongs_into_the_source_tree(self):
        self.assertIn("'new-backend NAME -o DIR' makes one anywhere else",
                      self.expect(2, "new-backend", "mine", cwd=self.folder).stderr)
        self.assertEqual(os.listdir(self.folder), [])
        for part in ("backends", "harness/include/attnbench"):
            os.makedirs(self.path(part))
        self.assertEqual(self.expect(0, "new-backend", "mine", cwd=self.folder).stdout,
                         "backends/mine\n")

    def test_a_path_that_is_too_long_is_named(self):
        for length in (4095, 4088):  # the backend's folder does not fit; a file in it does not
            folder = self.folder + "/." * ((length - len(self.folder)) // 2)
            said = self.expect(2, "new-backend", "mine", "-o", folder).stderr
            self.assertIn(f"the path '{folder[:64]}...' is too long", said)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
