# SPDX-License-Identifier: Apache-2.0
"""The step for GitHub and the job for GitLab: checked against what their documentation allows, and run as the
services would run them. Needs PyYAML (Debian's python3-yaml, which scripts/build.sh brings).

    test_ci.py BUILD_DIR [unittest options]
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

try:
    import yaml
except ImportError:
    print("no PyYAML: run scripts/build.sh")
    sys.exit(77)

BUILD = os.path.abspath(sys.argv.pop(1))
HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(BUILD, "bin", "attnbench")
PLUGINS = os.path.join(BUILD, "tests", "plugins")
NAIVE, BLAS = (os.path.join(BUILD, "lib", "attnbench", name + ".so") for name in ("naive", "blas"))
PLAIN = "'s=24 dk=8'"
FEW = "--fills none --checks none"
QUICK = "--rounds 2 --samples 1 --min-time 1ms --cache hot"
# So many turns that a difference of several times is seen beside any other work.
SURE = "--rounds 12 --samples 1 --min-time 1ms --cache hot"

# Metadata syntax of GitHub: key -> (type, must be there).
ACTION = {"name": (str, True), "author": (str, False), "description": (str, True), "inputs": (dict, False),
          "outputs": (dict, False), "runs": (dict, True), "branding": (dict, False)}
INPUT = {"description": (str, True), "required": (bool, False), "default": (str, False),
         "deprecationMessage": (str, False)}
OUTPUT = {"description": (str, True), "value": (str, True)}
RUNS = {"using": (str, True), "steps": (list, True)}
STEP = {"run": (str, True), "shell": (str, True), "name": (str, False), "id": (str, False), "if": (str, False),
        "env": (dict, False), "working-directory": (str, False), "continue-on-error": (bool, False)}
# Of a job of GitLab, what we use.
JOB = {"stage": (str, False), "image": (str, False), "variables": (dict, False), "script": (list, True),
       "artifacts": (dict, False)}
ARTIFACTS = {"when": (str, False), "paths": (list, False), "reports": (dict, False)}


def read(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return yaml.safe_load(file)


class Syntax(unittest.TestCase):
    def check(self, value, schema):
        self.assertIsInstance(value, dict)
        self.assertEqual(set(value) - set(schema), set())
        for key, (kind, must) in schema.items():
            self.assertTrue(key in value or not must, key)
            self.assertIsInstance(value.get(key, kind()), kind, key)

    def test_action(self):
        action = read("action.yml")
        self.check(action, ACTION)
        self.check(action["runs"], RUNS)
        self.assertEqual(action["runs"]["using"], "composite")
        for name, value in action["inputs"].items():
            self.assertRegex(name, r"^[A-Za-z_][\w-]*$")
            self.check(value, INPUT)
            self.assertNotEqual(value["required"], "default" in value)  # the one or the other
        for value in action["outputs"].values():
            self.check(value, OUTPUT)
        used = set()
        for step in action["runs"]["steps"]:
            self.check(step, STEP)
            self.assertNotIn("${{", step["run"])  # an input would be run as a script
            for text in [step.get("if", "")] + list(step.get("env", {}).values()):
                used.update(re.findall(r"inputs\.([\w-]+)", text))
        self.assertEqual(used, set(action["inputs"]))
        ids = {step.get("id") for step in action["runs"]["steps"]}
        for value in action["outputs"].values():
            self.assertIn(re.search(r"steps\.(\w+)\.outputs", value["value"]).group(1), ids)

    def test_gitlab(self):
        jobs = read("gitlab.yml")
        self.assertEqual(list(jobs), ["attnbench"])
        job = jobs["attnbench"]
        self.check(job, JOB)
        self.check(job["artifacts"], ARTIFACTS)
        self.assertEqual(job["artifacts"]["when"], "always")
        self.assertEqual(list(job["artifacts"]["reports"]), ["junit"])
        for values, kind in ((job["script"], str), (job["variables"].values(), str)):
            self.assertTrue(all(isinstance(value, kind) for value in values))

    def test_the_example_of_the_readme(self):
        with open(os.path.join(HERE, "README.md"), encoding="utf-8") as file:
            workflow = yaml.safe_load(re.search(r"```yaml\n(.*?)```", file.read(), re.S).group(1))
        step = workflow["jobs"]["kernel"]["steps"][-1]
        self.assertEqual(set(step["with"]) - set(read("action.yml")["inputs"]), set())


class Steps(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="attnbench ci-")  # with a blank
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("temp", "work"):
            os.mkdir(os.path.join(self.folder, name))

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def read(self, *names):
        with open(self.path(*names), encoding="utf-8") as file:
            return file.read()

    def results(self):
        return re.fullmatch(r"results=(.*)\n", self.read("output")).group(1)

    def value(self, text, inputs):
        """Expressions as far as the action has them."""
        if text == "${{ steps.where.outputs.results }}":
            return self.results()
        return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: inputs[found.group(1)], text)

    def is_on(self, step, inputs):
        found = re.fullmatch(r"\$\{\{ inputs\.([\w-]+) (==|!=) '' \}\}", step.get("if", "${{ inputs.plugin != '' }}"))
        self.assertTrue(found, step.get("if"))
        return (inputs[found.group(1)] == "") == (found.group(2) == "==")

    def github(self, **given):
        """Runs the steps up to the first that fails. Returns the exit code, what was printed, and the steps."""
        action = read("action.yml")
        inputs = {name: value.get("default", "") for name, value in action["inputs"].items()}
        inputs.update({name.replace("_", "-"): value for name, value in given.items()})
        ran, said, code = [], "", 0
        for name in ("output", "summary"):
            if os.path.exists(self.path(name)):
                os.remove(self.path(name))
        environment = dict(os.environ, GITHUB_ACTIONS="true", GITHUB_ACTION_PATH=HERE, GITHUB_WORKSPACE=self.path("work"),
                           GITHUB_STEP_SUMMARY=self.path("summary"), GITHUB_OUTPUT=self.path("output"),
                           RUNNER_TEMP=self.path("temp"))
        for step in action["runs"]["steps"]:
            if not self.is_on(step, inputs):
                continue
            ran.append(step["name"])
            with open(self.path("step.sh"), "w", encoding="utf-8") as file:
                file.write(step["run"])
            own = {name: self.value(text, inputs) for name, text in step.get("env", {}).items()}
            done = subprocess.run(["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", self.path("step.sh")],
                                  env=dict(environment, **own), cwd=self.path("work"), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)
            said, code = said + done.stdout, done.returncode
            if code:
                break
        return code, said, ran

    def test_equal_builds_pass(self):
        code, said, ran = self.github(program=PROGRAM, plugin=NAIVE, base=NAIVE, cases="'s=24 d=8' 's=16 d=8'",
                                      margin="99", verify_options=FEW, bench_options=QUICK)
        self.assertEqual((code, ran), (0, ["Where results go", "Verify", "Compare with the base"]), said)
        self.assertNotIn("::error", said)
        summary = self.read("summary")
        self.assertIn("### attnbench verify: passed\n\n2 pass", summary)
        self.assertIn("### attnbench compare: passed", summary)
        self.assertIn("| case | backend | new/base |", summary)
        self.assertTrue(self.results().startswith(self.path("temp")))
        suites = ElementTree.parse(os.path.join(self.results(), "verdicts.xml")).getroot()
        self.assertEqual((suites.get("tests"), suites.get("failures")), ("2", "0"))
        with open(os.path.join(self.results(), "ab", "machine.json"), encoding="utf-8") as file:
            self.assertEqual([b["name"] for b in json.load(file)["backends"]], ["base", "new"])

    def test_a_slower_build_fails_with_an_annotation(self):
        code, said, _ = self.github(program=PROGRAM, plugin=NAIVE, base=BLAS, cases="'h=4 s=256 d=64'",
                                    verify_options=FEW, bench_options=SURE)
        self.assertEqual(code, 4, said)
        self.assertRegex(said, r"(?m)^::error title=slower%3A dk=64 hq=4 sq=256::\d+\.\d+ times the time of the base")
        self.assertIn("### slower", self.read("summary"))

    def test_wrong_numbers_fail_before_anything_is_timed(self):
        code, said, ran = self.github(program=PROGRAM, plugin=os.path.join(PLUGINS, "unwritten.so"), base=NAIVE,
                                      cases=PLAIN, verify_options=FEW)
        self.assertEqual((code, ran[-1]), (3, "Verify"), said)
        annotation = re.search(r"(?m)^::error title=fail on dk=8 sq=24::(.*)$", said).group(1)
        self.assertIn("%0Arerun: attnbench verify ", annotation)
        self.assertIn("| fail | dk=8 sq=24 |", self.read("summary"))

    def test_other_exit_codes_reach_the_job(self):
        for code, plugin, cases in ((6, "crash.so", PLAIN), (7, "good.so", "'s=24 dk=8 mask=causal'"),
                                    (2, "none.so", PLAIN), (2, "good.so", "'s=24 nonsense=1'")):
            got, said, _ = self.github(program=PROGRAM, plugin=os.path.join(PLUGINS, plugin), cases=cases,
                                       verify_options=FEW)
            self.assertEqual(got, code, said)
            self.assertIn("::error ", said)

    def test_inputs_are_never_run(self):
        mark = self.path("mark")
        text = f"$(touch '{mark}')`touch '{mark}'`'; touch '{mark}'; '\"; touch '{mark}' #"
        for name in ("plugin", "cases", "strict", "verify_options"):
            given = {"program": PROGRAM, "plugin": NAIVE, "cases": PLAIN, "verify_options": FEW}
            code, said, _ = self.github(**dict(given, **{name: text}))
            self.assertNotEqual(code, 0, said)
            self.assertFalse(os.path.exists(mark), name)

    def test_gitlab(self):
        job = read("gitlab.yml")["attnbench"]
        tree = self.path("work", "attnbench")
        os.makedirs(os.path.join(tree, "scripts"))
        os.symlink(HERE, os.path.join(tree, "scripts", "ci"))
        os.symlink(BUILD, os.path.join(tree, "build"))
        with open(self.path("job.sh"), "w", encoding="utf-8") as file:
            file.write("\n".join(job["script"]))
        for variables, code in (({"PLUGIN": NAIVE, "BASE": NAIVE, "MARGIN": "99"}, 2),
                                ({"PLUGIN": os.path.join(PLUGINS, "unwritten.so"), "BASE": "", "CASES": PLAIN}, 3),
                                ({"PLUGIN": os.path.join(PLUGINS, "good.so"), "BASE": "", "CASES": PLAIN}, 0)):
            if code == 2:
                variables["CASES"] = "'s=24 nonsense=1'"
            done = subprocess.run(["bash", "-e", "-o", "pipefail", self.path("job.sh")], cwd=self.path("work"),
                                  env={k: v for k, v in {**os.environ, **job["variables"], **variables}.items()
                                       if not k.startswith("GITHUB_")}, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for path in job["artifacts"]["paths"] + [job["artifacts"]["reports"]["junit"]]:
            self.assertTrue(os.path.exists(self.path("work", path)), path)
        self.assertIn("### attnbench verify: passed", self.read("work", "attnbench-results", "summary.md"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
