# SPDX-License-Identifier: Apache-2.0
"""The command line as a user sees it: verbs, messages, exit codes.

    test_cli.py BUILD_DIR [unittest options]

With ATTNBENCH_TEST_SHARE=n one in n of these tests and of those in other files beside this one runs,
drawn by ATTNBENCH_TEST_SEED.
"""
import atexit
import binascii
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
PROGRAM = os.path.join(BUILD, "bin", "attnbench")
BROKEN = os.path.join(BUILD, "tests", "plugins")
SMALL = "h=2 s=24 d=8 mask=causal"
PLAIN = "s=24 dk=8"  # what the plugins that are broken on purpose can do
QUICK = ["--rounds", "2", "--samples", "1", "--min-time", "1ms", "--cache", "hot"]


def attnbench(*args, **options):
    environment = dict(os.environ, **options.pop("env", {}))
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=280,
                          stdin=subprocess.DEVNULL, env=environment, check=False, **options)


def broken(name):
    return os.path.join(BROKEN, name + ".so")


def main_records(lines):
    """The records of a results file, without the entries of the journal itself and without those that
    only --resume needs."""
    entries = [json.loads(line) for line in lines]
    return [entry for entry in entries
            if entry["type"] not in ("run", "resume", "end", "peak", "count", "turns")]


def records_of(path):
    with open(path, encoding="utf-8") as file:
        return main_records(file)


def rewrite(path, change):
    """Applies `change` to every result of a results file and seals the lines again."""
    with open(path, encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    with open(path, "w", encoding="utf-8") as file:
        for record in records:
            record.pop("crc32")
            if "backend" in record:
                change(record)
            body = json.dumps(record, separators=(",", ":"))[:-1]
            crc = binascii.crc32(body.encode())
            file.write(f'{body},"crc32":"{crc:08x}"}}\n')


class Case(unittest.TestCase):
    def setUp(self):
        drawn = binascii.crc32((os.environ.get("ATTNBENCH_TEST_SEED", "") + self.id()).encode())
        if drawn % int(os.environ.get("ATTNBENCH_TEST_SHARE", "1")):
            self.skipTest("not drawn")
        self.folder = tempfile.mkdtemp(prefix="attnbench-test-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def expect(self, code, *args, **options):
        done = attnbench(*args, **options)
        self.assertEqual(done.returncode, code, f"{args}\n{done.stdout}\n{done.stderr}")
        return done

    made = {}  # by cases and backends

    def run_folder(self, name, *cases, backends=("naive",), change=None):
        """A copy of a run, its records changed. The run is made once for all that want the same."""
        kind = (cases or (SMALL,), backends)
        if kind not in self.made:
            folder = tempfile.mkdtemp(prefix="attnbench-test-")
            atexit.register(shutil.rmtree, folder)
            chosen = [word for backend in backends for word in ("-b", backend)]
            self.expect(0, "bench", *chosen, *QUICK, "-o", folder + "/run", *kind[0])
            self.made[kind] = folder + "/run"
        run = shutil.copytree(self.made[kind], self.path(name))
        if change:
            rewrite(os.path.join(run, "results.ndjson"), change)
        return run


class Help(Case):
    def test_version_and_help_of_a_verb(self):
        self.assertRegex(self.expect(0, "--version").stdout, r"^attnbench \d+\.\d+\.\d+ \(.+\), \w")
        commit = re.search(r"\((?:.*-g)?([0-9a-f]+)(?:-dirty)?\)", self.expect(0, "--version").stdout)
        self.assertGreaterEqual(len(commit[1]) if commit else 10, 10)  # of a build outside git it is unknown
        for verb in ("verify", "compare"):
            self.assertEqual(self.expect(0, "help", verb).stdout,
                             self.expect(0, verb, "--help").stdout)
        self.assertIn("did you mean 'verify'", self.expect(2, "help", "verfy").stderr)
        self.assertIn("130  interrupted", self.expect(0, "--help").stdout)

    def test_exit_7_has_both_meanings(self):
        self.assertIn("  7  nothing matched, or a backend that was named was checked on nothing\n",
                      self.expect(0, "help").stdout)

    def test_help_explains_each_word_of_a_verdict(self):
        shown = " ".join(self.expect(0, "help", "verify").stdout.split())
        line = self.expect(0, "verify", "-b", "naive", SMALL).stdout.splitlines()[0]
        words = re.findall(r"\b([a-z]+): ", line)
        self.assertEqual(words, ["checks", "power", "grade", "slack"])
        for word in words:
            self.assertIn(f" {word}: ", shown)

    def test_every_verb_has_help(self):
        text = self.expect(0, "--help").stdout
        verbs = re.findall(r"^  attnbench (\S+)", text, re.M)
        self.assertEqual(verbs, ["list", "verify", "bench", "report", "run", "compare", "doctor",
                                 "new-backend", "history", "merge", "export", "import",
                                 "statement"])
        for verb in verbs:
            shown = self.expect(0, verb, "--help", env={"COLUMNS": ""}).stdout
            self.assertIn("attnbench " + verb, shown)
            self.assertNotRegex(shown, r"(?m)\|.?$")  # a list of values that is cut off
            self.assertLessEqual(max(map(len, shown.splitlines())), 80)

    def test_mistakes_are_answered_with_the_nearest_word(self):
        self.assertEqual(self.expect(2, "verfy").stderr,
                         "attnbench: there is no command 'verfy'; did you mean 'verify'?\n")
        self.assertIn("did you mean 'cases'", self.expect(2, "list", "case").stderr)
        self.assertIn("legal: backends|cases|fills|checks|ops", self.expect(2, "list", "nonsense").stderr)
        self.assertIn("did you mean '--threads'", self.expect(2, "verify", "--thraeds", "2").stderr)
        self.assertIn("did you mean 'naive'", self.expect(2, "verify", "-b", "naiv", SMALL).stderr)
        self.assertIn("did you mean 'dtype'", self.expect(2, "verify", SMALL + " dtpe=f32").stderr)
        for words in ("fills", "checks"):
            self.assertIn(f"--{words}: there is no 'nonsense'; 'attnbench list {words}' names them\n",
                          self.expect(2, "verify", f"--{words}", "nonsense", SMALL).stderr)
        self.assertIn("does not belong to 'list'", self.expect(2, "list", "--rounds", "3").stderr)

    def test_functions_of_python_are_for_the_package(self):
        """Which a built tree has."""
        for word in ("mine.py::1", "/no/such/mine.py"):
            self.assertEqual(self.expect(2, "verify", word, SMALL).stderr,
                             f"attnbench: '{word}' is Python: name a function of it, as FILE.py::FUNCTION, "
                             "which the Python package knows (it is in a built tree; else pip install its "
                             "wheel)\n")
        with open(self.path("python"), "w", encoding="ascii") as file:
            file.write('#!/bin/sh\necho "$*"; echo "$PYTHONPATH"; echo "$ATTNBENCH_PROGRAM"\n')
        os.chmod(self.path("python"), 0o755)
        done = self.expect(0, "verify", "mine.py::mine", SMALL,
                           env={"ATTNBENCH_PYTHON": self.path("python"), "PYTHONPATH": "before"})
        self.assertEqual(done.stdout.splitlines(),
                         [f"-m attnbench verify mine.py::mine {SMALL}",
                          f"{os.path.join(BUILD, 'share', 'attnbench', 'python')}:before", PROGRAM])

    def test_a_lost_folder_of_adapters_is_said(self):
        for folder in (self.path("nowhere"), PROGRAM):
            done = self.expect(2, "verify", "-b", "my_kernel", SMALL,
                               env={"ATTNBENCH_PYTHON_ADAPTERS": f"{self.folder}::{folder}"})
            self.assertIn("there is no backend 'my_kernel'; 'attnbench list backends' names them; "
                          f"'{folder}' of ATTNBENCH_PYTHON_ADAPTERS is no folder\n", done.stderr)
        done = self.expect(2, "verify", "-b", "my_kernel", SMALL,
                           env={"ATTNBENCH_PYTHON_ADAPTERS": self.folder})
        self.assertNotIn("ATTNBENCH_PYTHON_ADAPTERS", done.stderr)

    def test_bad_values_are_refused(self):
        for option in (["--threads", "0"], ["--threads", "x"], ["--budget", "10q"],
                       ["--shard", "3/2"], ["--shard", "0/2"], ["--seed", "-1"], ["--rounds"]):
            verb = "bench" if option[0] == "--rounds" else "verify"
            self.assertTrue(self.expect(2, verb, SMALL, *option).stderr.startswith("attnbench: "))
        twins = ["verify", "--plugin", broken("twins"), PLAIN, "-b"]
        for option in ("test:tile=x", "test:nope=4", "test:tile"):
            self.assertIn("option", self.expect(2, *twins, option).stderr)
        self.expect(0, *twins, "test:tile=4")
        self.assertIn("no option 'rows'", self.expect(2, "verify", "-b", "naive:rows=1",
                                                      SMALL).stderr)
        self.expect(2, "doctor", "extra")
        self.expect(2, "verify", "no-such.cases")
        self.expect(2, "verify", "word")
        self.expect(2, "bench", SMALL)  # no -o
        self.expect(2)


    def test_a_plugin_may_be_given_a_name(self):
        late = broken("unwritten")
        done = self.expect(3, "verify", "--plugin", "new=" + late, "-b", "new", PLAIN)
        rerun = re.search(r"rerun: attnbench (.*)", done.stdout).group(1)
        self.assertIn(f"--plugin new={late} -b new ", rerun)
        self.expect(3, *shlex.split(rerun))
        # One of several backends; and a path that only looks like a name.
        self.expect(0, "verify", "--plugin", "two=" + broken("twins"), "-b", "two_test:tile=4", PLAIN)
        done = self.expect(2, "verify", "--plugin", "two=" + broken("twins"), "-b", "two", PLAIN)
        self.assertIn("no backend 'two'; the plugin 'two' offers two_test, two_other\n", done.stderr)
        done = self.expect(2, "compare", "--live", "--plugin", "two=" + broken("twins"), "two",
                           "naive", PLAIN)
        self.assertIn("the plugin 'two' offers two_test, two_other\n", done.stderr)
        done = self.expect(2, "verify", "--plugin", broken("twins"), "-b", "twins", PLAIN)
        self.assertIn("the plugin 'twins' offers test, other\n", done.stderr)
        copy = os.path.join(self.folder, "a=b.so")
        shutil.copy(broken("good"), copy)
        self.expect(0, "verify", "--plugin", copy, PLAIN)
        self.expect(2, "verify", "--plugin", 32 * "n" + "=" + late, PLAIN)
        # A plugin that is given, and of which nothing is asked for, is named.
        for word in (broken("twins"), "two=" + broken("twins")):
            twins = ("verify", "--plugin", word, PLAIN, "-b")
            line = f"attnbench: --plugin {word}: -b asks for none of its backends\n"
            self.assertIn(line, self.expect(0, *twins, "naive").stderr)
            name = "two_test" if word.startswith("two=") else "test"
            self.assertNotIn(line, self.expect(0, *twins, name + ":tile=4", "-b", "naive").stderr)


class List(Case):
    def test_an_installation_without_plugins_says_so(self):
        os.makedirs(self.path("bin"))
        shutil.copy(PROGRAM, self.path("bin"))
        os.makedirs(self.path("lib/attnbench"))
        shutil.copy(os.path.join(BUILD, "lib/attnbench/attnbench-worker"), self.path("lib/attnbench"))
        done = subprocess.run([self.path("bin/attnbench"), "list"], capture_output=True, text=True, check=True)
        folder = self.path("lib/attnbench")
        self.assertEqual((done.stdout, done.stderr), ("", f"attnbench: there are no plugins in {folder}: the "
                                                      "component 'plugins' of an installation is missing\n"))

    def test_backends(self):
        listed = json.loads(self.expect(0, "list", "--json").stdout)
        by_name = {item["name"]: item for item in listed}
        for name in ("null", "naive"):
            self.assertTrue(by_name[name]["available"])
        for item in listed:
            self.assertTrue(item["available"] or item["reason"], item)
        self.assertIn("naive", self.expect(0, "list").stdout)

    def test_what_was_left_out_of_the_build_says_why(self):
        plugin = json.loads(self.expect(0, "list", "--json").stdout)[0]["plugin"]
        plugins = os.path.relpath(os.path.dirname(plugin), BUILD)
        for program in ("bin/attnbench", plugins + "/attnbench-worker"):
            os.makedirs(os.path.dirname(self.path(program)))
            shutil.copy2(os.path.join(BUILD, program), self.path(program))
        shutil.copy(broken("good"), self.path(plugins + "/came.so"))
        for name in ("gone", "came"):
            with open(self.path(f"{plugins}/{name}.missing"), "w", encoding="utf-8") as file:
                file.write("its library was not found\n")

        def answer(*args):
            return subprocess.run([self.path("bin/attnbench"), *args], capture_output=True,
                                  text=True, check=False)
        for verb in ("list", "doctor"):
            self.assertRegex(answer(verb).stdout, "gone .*its library was not found")
            self.assertNotIn("came", answer(verb).stdout)  # installed since: it offers 'test'

    def matrix(self, *backends, plugins):
        words = [w for plugin in plugins for w in ("--plugin", broken(plugin))]
        words += [w for backend in backends for w in ("-b", backend)]
        return self.expect(0, "list", "backends", "--matrix", *words, "--json").stdout, \
            self.expect(0, "list", "backends", "--matrix", *words).stdout

    def test_matrix_has_each_gap_and_its_reason(self):
        data, text = self.matrix("naive", "test", "other", plugins=("twins",))
        matrix = json.loads(data)
        self.assertEqual([b["name"] for b in matrix["backends"]], ["naive", "test", "other"])
        self.assertEqual(matrix["backends"][2]["reason"], "no such device")
        for feature in matrix["features"]:
            self.assertEqual([p["type"] for p in feature["problems"]], ["f64", "f32", "f16", "bf16"])
            for problem in feature["problems"]:
                first, second, third = problem["answers"]
                self.assertEqual(first, {"supported": True, "reason": ""}, feature)
                self.assertEqual(second["reason"] == "", second["supported"])
                self.assertIn(second["reason"], ("", "only plain f32 attention"))
                self.assertIsNone(third)
        notes = dict((reason, number) for number, reason in re.findall(r"^ +(\d+)  (.*)$", text, re.M))
        self.assertEqual(sorted(notes), ["no such device", "only plain f32 attention"])
        plain, device = notes["only plain f32 attention"], notes["no such device"]
        self.assertRegex(text, rf"(?m)^  scaled dot +all +f32 \[{plain}\] +- \[{device}\]$")
        self.assertRegex(text, rf"(?m)^  causal +all +- \[{plain}\] +- \[{device}\]$")

    def test_matrix_answers_are_those_of_verify(self):
        matrix = json.loads(self.matrix("test", plugins=("good",))[0])
        refused = [p for f in matrix["features"] for p in f["problems"]
                   if not p["answers"][0]["supported"]]
        self.assertGreater(len(refused), 200)
        for problem in (refused[0], refused[-1]):
            done = self.expect(7, "verify", "--plugin", broken("good"), problem["case"], "--json")
            self.assertEqual([(r["status"], r["reason"]) for r in map(json.loads,
                                                                      done.stdout.splitlines())],
                             [("skip", problem["answers"][0]["reason"])])

    def test_a_crash_in_supports_ends_its_column_alone(self):
        data, text = self.matrix("fragile", "naive", plugins=("fragile",))
        matrix = json.loads(data)
        self.assertRegex(matrix["backends"][0]["reason"], "^crash: .*supports.*score=bilinear")
        answers = [p["answers"] for f in matrix["features"] for p in f["problems"]]
        self.assertEqual([a[0]["supported"] for a in answers[:8]],
                         [False, True, False, False] * 2)
        self.assertTrue(all(a[0] is None for a in answers[8:]))
        self.assertTrue(all(a[1]["supported"] for a in answers))
        self.assertIn("crash: ", text)

    def test_matrix_shows_the_rule_for_rows_without_keys(self):
        data, text = self.matrix("naive", "nan_rows", "null", plugins=("nan_rows",))
        self.assertEqual([b["empty_rows"] for b in json.loads(data)["backends"]],
                         [["zero"], ["nan"], []])
        self.assertRegex(text, r"(?m)^  answer +zero +nan +computes nothing$")

    def test_matrix_is_as_wide_as_columns_says(self):
        rows = []
        for columns in ("", "60", "1000"):
            shown = self.expect(0, "list", "backends", "--matrix", "-b", "naive", "-b", "null", "-b",
                                "avx2", "-b", "avx512", "-b", "blas", env={"COLUMNS": columns}).stdout
            rows.append(len(re.findall("(?m)^  scaled dot .*$", shown)))
            self.assertLessEqual(max(map(len, shown.splitlines())), int(columns or 80))
        self.assertGreater(rows[1], rows[0])
        self.assertEqual(rows[2], 1)

    def test_matrix_belongs_to_backends(self):
        self.assertIn("list backends", self.expect(2, "list", "cases", "--matrix").stderr)

    def test_cases_have_unique_ids_and_parse_back(self):
        listed = json.loads(self.expect(0, "list", "cases", "--json").stdout)
        self.assertEqual(len({item["id"] for item in listed}), len(listed))
        again = json.loads(self.expect(0, "list", "cases", listed[0]["case"], "--json").stdout)
        self.assertEqual(again[0]["id"], listed[0]["id"])

    def test_cases_are_one_array(self):
        """Cases are printed one by one, and still are one JSON array."""
        text = self.expect(0, "list", "cases", "x: s=4,5 d=8", "--json").stdout
        self.assertEqual(text, json.dumps(json.loads(text), indent=2) + "\n")
        self.assertEqual([item["name"] for item in json.loads(text)], ["x/s=4", "x/s=5"])
        text = self.expect(7, "list", "cases", "--json", "--filter", "no such case").stdout
        self.assertEqual(text, "[]\n")

    def test_operators(self):
        ops = {op["name"]: op for op in json.loads(self.expect(0, "list", "ops", "--json").stdout)}
        self.assertEqual(sorted(ops), ["attention", "attention_backward", "chunked", "linear_decay",
                                       "linformer", "lsh", "mha", "nystrom", "performer", "wkv"])
        for op in ops.values():
            self.assertEqual(op["outputs"][0]["name"],
                             "dq" if op["name"] == "attention_backward" else "out")
            self.assertTrue(all(key["help"] and key["values"] for key in op["keys"]))
        self.assertEqual({key["key"] for key in ops["attention"]["keys"]},
                         {"gate", "global_proj", "parts", "rel_buckets", "span", "variant",
                          "weight_fn"})
        self.assertIn({"name": "score_kr", "shape": ["Hq", "2*span", "Dk"]},
                      [{"name": t["name"], "shape": t["shape"]} for t in ops["attention"]["inputs"]])
        self.assertEqual(ops["mha"]["must_be_given"], ["hq"])
        self.assertIn({"key": "wo", "values": "0|1", "default": "1", "help": "output projection"},
                      ops["mha"]["keys"])
        text = self.expect(0, "list", "ops").stdout
        for op in ops.values():
            for tensor in op["inputs"] + op["outputs"]:
                self.assertIn(f"    {tensor['name']} ", text)
        self.assertIn("takes no further argument", self.expect(2, "list", "ops", "mha").stderr)

    def test_fills_and_checks(self):
        self.assertIn("normal", self.expect(0, "list", "fills").stdout)
        self.assertIn("permute_keys", self.expect(0, "list", "checks").stdout)
        self.assertIn("leaks", [item["name"] for item in
                                json.loads(self.expect(0, "list", "checks", "--json").stdout)])

    def test_the_full_suite_has_all_of_the_standard_one(self):
        names = {suite: {case["name"] for case in json.loads(self.expect(
            0, "list", "cases", "--json", "--suite", suite).stdout)} for suite in ("standard", "full")}
        self.assertLess(names["standard"], names["full"])
        self.assertIn("bwd_full_llama2", names["full"] - names["standard"])
        self.assertIn("standard or full", self.expect(2, "list", "cases", "--suite", "all").stderr)
        self.assertIn("give it no others",
                      self.expect(2, "verify", "--suite", "full", "s=4 dk=4").stderr)

    def test_filter_and_shard(self):
        every = json.loads(self.expect(0, "list", "cases", "--json").stdout)
        parts = [json.loads(self.expect(0, "list", "cases", "--json", "--shard", f"{i}/3").stdout)
                 for i in (1, 2, 3)]
        self.assertEqual(sorted(item["id"] for part in parts for item in part),
                         sorted(item["id"] for item in every))
        self.expect(7, "list", "cases", "--filter", "no such case")

    def test_a_shard_without_cases_is_no_failure(self):
        shard = {i: self.expect(0, "list", "cases", "--json", "--shard", f"{i}/3", SMALL)
                 for i in (1, 2, 3)}
        mine = [i for i, done in shard.items() if json.loads(done.stdout)]
        self.assertEqual(len(mine), 1)
        other = mine[0] % 3 + 1
        self.assertIn(f"shard {other} of 3 (--shard): 0 of 1 case, so there is nothing to do",
                      shard[other].stderr)
        self.expect(7, "list", "cases", "--shard", "1/3", "--filter", "nothing", SMALL)
        for verb in ("verify", "bench", "run"):
            run = self.path(verb)
            done = self.expect(0, verb, "-b", "naive", "--shard", f"{other}/3", "-o", run, SMALL)
            self.assertIn("nothing to do", done.stderr)
            with open(run + "/machine.json", encoding="utf-8") as file:
                machine = json.load(file)
            self.assertEqual(machine["shard"], {"index": other, "count": 3, "from": "--shard"})
            self.assertEqual(machine["selection"]["cases"], 1)
            self.assertTrue(os.path.exists(run + "/results.ndjson"))

    def test_a_shard_comes_from_its_engine(self):
        self.assertEqual(
            [len(json.loads(self.expect(0, "list", "cases", "--json", "--shard", "auto",
                                        "s=1:20:+1 d=8", env={"CI_NODE_INDEX": index,
                                                           "CI_NODE_TOTAL": "2"}).stdout))
             for index in "12"],
            [len(json.loads(self.expect(0, "list", "cases", "--json", "--shard", f"{index}/2",
                                        "s=1:20:+1 d=8").stdout)) for index in "12"])
        self.assertIn("CI_NODE_TOTAL", self.expect(2, "verify", "--shard", "auto", SMALL,
                                                   env={"CI_NODE_INDEX": "1"}).stderr)

    def test_in_a_shard_a_backend_may_skip_all(self):
        odd = "s=24 d=8 dtype=f64"  # which the one of simd refuses
        self.expect(7, "verify", "-b", "avx2", odd)
        part = [i for i in (1, 2) if json.loads(
            self.expect(0, "list", "cases", "--json", "--shard", f"{i}/2", odd).stdout)][0]
        self.expect(0, "verify", "-b", "avx2", "--shard", f"{part}/2", odd)


class Doctor(Case):
    def test_machine_and_backends(self):
        found = json.loads(self.expect(0, "doctor", "--json").stdout)
        self.assertIn("cpu", [item["what"] for item in found["machine"]])
        self.assertIn("naive", [item["name"] for item in found["backends"]])
        for item in found["machine"]:
            self.assertIn(item["level"], ("OK", "WARN", "FAIL", "unknown"))
            self.assertEqual(item["hint"] == "", item["level"] == "OK", item)
        shown = self.expect(0, "doctor").stdout
        for what in ("cpu", "governor", "turbo", "smt", "huge pages", "cpu pressure", "steal",
                     "timer", "counters", "gpu clocks"):
            self.assertRegex(shown, r"(?m)^(OK|WARN|FAIL|unknown) +%s +\S" % what)

    def test_strict_names_what_it_does_not_accept(self):
        done = self.expect(5, "doctor", "--strict", "--json", env={"PATH": self.folder})
        bad = [item["what"] for item in json.loads(done.stdout)["machine"] if item["level"] in ("WARN", "FAIL")]
        self.assertLessEqual({"gnuplot", "valgrind"}, set(bad))
        self.assertEqual(done.stderr,
                         f"attnbench: exit 5: {', '.join(bad)}: --strict accepts no WARN and no FAIL\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
