# SPDX-License-Identifier: Apache-2.0
"""Runs that are made, compared and cut short; faulty backends.

    test_runs.py BUILD_DIR [unittest options]
"""
import json
import os
import shutil
import subprocess
import time
import unittest

from test_cli import BUILD, PLAIN, QUICK, SMALL, Case, broken, records_of

# Nanoseconds of each made-up timing.
SPEED = {"naive": 3000.0, "avx2": 1000.0}


class Compare(Case):
    def run_of(self, name, factor=1, turns=None):
        """Rounds that differ by a thousandth, whatever this machine did. turns: ratios by turns."""
        def change(record):
            if record["type"] == "bench":
                median = factor * SPEED[record["backend"]]
                record["samples_ns"] = [[median * (1 + 0.001 * i)] for i in range(-2, 3)]
                record["time_ns"].update(median=median, ci95=[0.99 * median, 1.01 * median])
                record["live"] = turns and {
                    "paired": {"anchor": "naive", "anchor_options": ""},
                    "in_rounds": [{"round": i, "ratio": turns[record["backend"]] * (1 + 0.001 * i),
                                   "disturbed": False} for i in range(5)]}
        return self.run_folder(name, backends=("naive", "avx2"), change=change)

    def test_two_backends_of_one_run(self):
        run = self.run_of("run")
        done = self.expect(0, "compare", run, "--backends", "naive,avx2", "--json")
        result = json.loads(done.stdout)["results"][0]
        self.assertEqual((result["verdict"], round(result["ratio"], 6)), ("faster", 0.333333))
        self.assertEqual("attnbench: exit 4: broke, slower, more memory or more instructions, as said "
                         "above\n", self.expect(4, "compare", run, "--backends", "avx2,naive").stderr)
        # What took turns is compared by its turns, as the report of the run does.
        run = self.run_of("turns", turns={"naive": 1.0, "avx2": 0.5})
        done = self.expect(0, "compare", run, "--backends", "naive,avx2", "--json")
        self.assertAlmostEqual(json.loads(done.stdout)["results"][0]["ratio"], 0.5, 6)
        # --within says the same.
        within = self.expect(0, "compare", "--within", run, "naive", "avx2", "--json").stdout
        self.assertEqual(within, done.stdout)
        self.assertTrue(json.loads(within)["results"][0]["by_turns"])
        said = self.expect(4, "compare", "--within", run, "avx2", "naive").stdout
        self.assertIn("ratios of 1 of 1 by turns in this run; margin 3 %", said)
        self.assertIn("needs two backends of that run",
                      self.expect(2, "compare", "--within", run, "naive").stderr)
        for more in (["--gate"], ["--backends", "naive,avx2"], ["--live"]):
            self.expect(2, "compare", "--within", run, "naive", "avx2", *more)
        self.assertIn("A and B are the same backend",
                      self.expect(7, "compare", "--within", run, "avx2", "avx2").stderr)
        self.assertIn("the run has no backend 'nave'; did you mean 'naive'?",
                      self.expect(7, "compare", run, "--backends", "nave,avx2").stderr)
        self.expect(2, "compare", run, "--backends", "naive")
        self.expect(2, "compare", run, "--backends", "naive,")

    def test_two_versions_take_turns_in_one_run(self):
        plugin, run = os.path.join(BUILD, "lib", "attnbench", "naive.so"), self.path("run")
        versions = ["--plugin", "base=" + plugin, "--plugin", "new=" + plugin]
        self.expect(0, "run", *versions, *QUICK, "-o", run, SMALL)
        records = records_of(run + "/results.ndjson")
        self.assertEqual({record["backend"] for record in records}, {"base", "new"})
        rounds = [record["round"] for record in records if record["type"] == "round"]
        self.assertEqual(rounds, [0, 0, 1, 1])  # both in each
        self.assertTrue(all("--plugin " + record["backend"] + "=" in record["repro"]
                            for record in records))
        with open(run + "/machine.json", encoding="utf-8") as file:
            names = [(b["name"], b["offered"]) for b in json.load(file)["backends"]]
        self.assertEqual(names, [("base", "naive"), ("new", "naive")])
        done = self.expect(0, "compare", "--within", run, "base", "new", "--margin", "99", "--json")
        result = json.loads(done.stdout)["results"][0]
        self.assertEqual((result["backend"], result["new_backend"]), ("base", "new"))
        self.assertTrue(result["by_turns"])
        self.assertIn("base", self.expect(0, "compare", "--within", run, "base", "new", "--margin",
                                          "99", "--markdown").stdout)
        # A version that is wrong is worse than a slow one.
        bad = self.path("bad")
        self.expect(3, "bench", "--plugin", "base=" + broken("good"), "--plugin",
                    "new=" + broken("unwritten"), *QUICK, "-o", bad, PLAIN)
        self.assertIn("broke", self.expect(4, "compare", "--within", bad, "base", "new").stdout)

    def test_one_backend_against_another_across_runs(self):
        base, new = self.run_of("base"), self.run_of("new")
        self.expect(0, "compare", base, new)
        self.expect(4, "compare", base, new, "--map", "avx2=naive")
        self.expect(0, "compare", base, new, "--map", "naive=avx2")
        self.expect(2, "compare", base, new, "--map", "avx2")
        self.expect(2, "compare", base, new, *["--map", "a=b"] * 17)

    def test_margin(self):
        run, slow = self.run_of("run"), self.run_of("slow", 1.5)
        self.expect(4, "compare", run, slow)
        self.expect(4, "compare", run, slow, "--margin", "40%")
        self.expect(0, "compare", run, slow, "--margin", "60")
        self.expect(4, "compare", run, slow, "--discoveries", "1%")
        for rate in ("x", "0", "100", "5%%"):
            self.expect(2, "compare", run, slow, "--discoveries", rate)
        for margin in ("x", "-1", "100", "5%%"):
            self.assertIn("a percentage", self.expect(2, "compare", run, slow, "--margin",
                                                      margin).stderr)

    def test_runs_that_are_not_comparable(self):
        run, other = self.run_of("run"), self.run_of("other", 1.5)
        with open(other + "/machine.json", encoding="utf-8") as file:
            machine = json.load(file)
        for fact in ("vendor", "family", "number", "stepping", "l1d"):
            self.assertIn(fact, machine["cpu"])
        self.assertTrue(all(len(b["plugin_sha256"]) == 64 for b in machine["backends"]))
        self.assertGreater(machine["page_bytes"], 0)
        self.assertIn("-O", machine["compiler_flags"])
        machine["page_bytes"] *= 2
        machine["compiler_flags"] = "-O9"
        machine["backends"][0]["plugin_sha256"] = "0"
        with open(other + "/machine.json", "w", encoding="utf-8") as file:
            json.dump(machine, file)
        done = self.expect(8, "compare", run, other)
        self.assertIn("differs: the page size is ", done.stdout)
        self.assertIn("differs: the set of compiler flags is ", done.stdout)
        self.assertIn("changed: the plugin file of ", done.stdout)
        self.assertIn("--cross compares nevertheless", done.stderr)
        self.assertIn("- differs: the page size is ", self.expect(8, "compare", run, other, "--markdown").stdout)
        found = json.loads(self.expect(8, "compare", run, other, "--json").stdout)
        self.assertEqual(sum(d["stops"] for d in found["differences"]), 2)
        self.assertIn("2 slower", self.expect(4, "compare", run, other, "--cross").stdout)

    def test_margin_between_runs_is_wide(self):
        run, slow = self.run_of("run"), self.run_of("slow", 1.06)
        self.assertIn("times are absolute", self.expect(0, "compare", run, slow).stdout)
        self.expect(4, "compare", run, slow, "--margin", "3")
        self.expect(4, "compare", run, self.run_of("slower", 1.15))

    def test_one_baseline_gates_three_things(self):
        def with_peaks(factor, error):
            def change(record):
                if record["type"] == "bench":
                    record["samples_ns"] = [[1000.0], [1001.0]]
                    record["peak_bytes"] = factor * 1048576
                elif record["type"] == "verify":
                    record["max_ratio"] *= error
            return change
        run = self.run_folder("run", change=with_peaks(1, 1))
        same = self.run_folder("same", change=with_peaks(1, 1))
        more = self.run_folder("more", change=with_peaks(2, 1))
        worse = self.run_folder("worse", change=with_peaks(1, 3))
        self.assertIn("gate: time passed, memory passed, accuracy passed",
                      self.expect(0, "compare", run, same, "--gate").stdout)
        self.assertIn("peak: was 1.00 MiB, is 2.00 MiB  naive",
                      self.expect(4, "compare", run, more, "--gate").stdout)
        self.expect(0, "compare", run, more)
        self.assertIn("drift: naive on ", self.expect(3, "compare", run, worse, "--gate").stdout)
        self.expect(0, "compare", run, worse, "--gate", "--drift", "4")
        found = json.loads(self.expect(3, "compare", run, worse, "--gate", "--json").stdout)["gate"]
        self.assertEqual((found["memory"]["grew"], found["accuracy"]["drifted"]), (0, 1))
        self.expect(2, "compare", run, "--gate", "--backends", "naive,avx2")

    def test_more_rounds_than_64(self):
        self.expect(2, "bench", "-b", "naive", "--rounds", "1001", "-o", self.path("no"), PLAIN)
        self.expect(0, "bench", "-b", "naive", *QUICK, "--rounds", "66", "--min-time", "10us",
                    "--cache", "cold", "-o", self.path("long"), PLAIN)
        with open(self.path("long/results.ndjson"), encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        bench = [r for r in records if r["type"] == "bench"][0]
        self.assertEqual(len(bench["samples_ns"]), 66)
        low, high = bench["time_ns"]["ci95"]
        self.assertLessEqual(low, high)


class Runs(Case):
    def test_run_leaves_results_and_report(self):
        self.expect(0, "run", "-b", "naive", *QUICK, "-o", self.path("run"), SMALL)
        for name in ("results.ndjson", "machine.json", "report/index.html"):
            self.assertTrue(os.path.getsize(self.path("run/" + name)) > 0, name)
        self.expect(2, "run", "-b", "naive", *QUICK, SMALL)

    def test_dry_run_makes_no_folder(self):
        for verb in ("bench", "run"):
            done = self.expect(0, verb, "-b", "naive", "--dry-run", "-o", self.path("run"), SMALL)
            self.assertEqual(done.stdout, "dk=8 hq=2 mask=causal sq=24\n")
            self.assertFalse(os.path.exists(self.path("run")))

    def test_folders_that_can_not_be_made(self):
        with open(self.path("file"), "w", encoding="utf-8"):
            pass
        inside = self.path("file/run")
        self.assertIn(inside, self.expect(2, "bench", "-b", "naive", *QUICK, "-o", inside,
                                          SMALL).stderr)
        run = self.run_folder("run")
        self.assertIn(inside, self.expect(2, "report", run, "-o", inside).stderr)
        self.assertIn(self.path("file"),
                      self.expect(2, "new-backend", "mine", "-o", self.path("file")).stderr)
        self.expect(2, "new-backend")

    def test_a_run_predicted_to_be_too_long_is_skipped(self):
        # The first case tells the rate; of the second a run takes some 64 times as long.
        done = self.expect(0, "verify", "-b", "naive", "s=256 d=64", "s=2048 d=64",
                           "--run-limit", "1us", "--json")
        records = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([record["status"] for record in records], ["pass", "skip"])
        self.assertIn("budget: a run is predicted to take", records[1]["reason"])

    def test_the_run_limit_leaves_out_no_checks(self):
        """Checks that cost too much on a case are made on a smaller one, which takes less than it."""
        done = self.expect(0, "verify", "-b", "naive", "s=384 d=64 score=additive",
                           "--run-limit", "1us", "--json")
        record = json.loads(done.stdout)
        self.assertEqual(record["status"], "pass", record.get("reason"))
        self.assertIn("checks_case", record)

    def test_rounds_are_given_up_before_cases(self):
        cases = [SMALL, SMALL + " seed=2"]
        began = time.monotonic()
        self.expect(0, "bench", "-b", "naive", *QUICK, "-o", self.path("two"), *cases)
        budget = 5 * (time.monotonic() - began)
        # two rounds take a fifth of the budget, and 64 of two cases three times as long as it
        done = self.expect(0, "bench", "-b", "naive", *QUICK, "--rounds", "64", "--min-time",
                           f"{budget / 40:.3f}s", "--budget", f"{budget:.3f}s",
                           "-o", self.path("run"), "--json", *cases)
        records = [json.loads(line) for line in done.stdout.splitlines()]
        rounds = [record["time_ns"]["n"] for record in records if record["type"] == "bench"]
        self.assertEqual(len(rounds), 2)
        self.assertTrue(all(3 <= n < 64 for n in rounds), rounds)

    def test_a_budget_that_is_spent_shows_the_rounds_that_were_made(self):
        # A round takes as long as the budget, however slow the machine is.
        began = time.monotonic()
        self.expect(0, "bench", "-b", "naive", *QUICK, "-o", self.path("quick"), SMALL)
        budget = 2 * (time.monotonic() - began) + 1
        bench = ["bench", "-b", "naive", *QUICK, "--rounds", "3", "--samples", "1", "--timeout", "1h",
                 "--min-time", f"{budget:.3f}s", "--budget", f"{budget:.3f}s", SMALL]
        done = self.expect(0, *bench, "-o", self.path("run"), "--json")
        records = {r["type"]: r for r in map(json.loads, done.stdout.splitlines())}
        self.assertEqual(list(records), ["verify", "round", "bench"])
        self.assertIsNone(records["bench"]["time_ns"]["ci95"])
        self.assertGreater(records["bench"]["time_ns"]["median"], 0)

    def test_decoding_says_nothing_about_prefill(self):
        # slow sleeps while it decodes: 10 MFLOP/s, at which the prefill would take 13 s.
        done = self.expect(0, "verify", "--plugin", broken("slow"), "-b", "test:when=decode",
                           "--run-limit", "8s", "--fills", "none", "--checks", "none", "--json",
                           "sq=1 sk=40960 d=64", "s=768 d=64")
        self.assertNotIn("skip", [json.loads(line)["status"] for line in done.stdout.splitlines()])

    def test_a_kind_of_case_that_was_never_run_is_tried_on_a_smaller_one(self):
        # Nothing is known of prefill; a smaller case takes a second.
        done = self.expect(7, "verify", "--plugin", broken("slow"), "-b", "test:when=large",
                           "--run-limit", "1s", "--json", "s=1024 d=64")
        self.assertIn("budget: a run is predicted to take", json.loads(done.stdout)["reason"])
        self.assertTrue(done.stderr.endswith("; give it a larger --run-limit\n"), done.stderr)

    def test_debug_says_which_process_it_is(self):
        done = self.expect(0, "verify", "-b", "naive", "--debug", SMALL)
        self.assertRegex(done.stderr, r"worker of naive: gdb -p \d+")


class Backends(Case):
    """A tree of programs and plugins of the test's own."""

    def setUp(self):
        super().setUp()
        plugin = json.loads(self.expect(0, "list", "--json").stdout)[0]["plugin"]
        self.plugins = os.path.relpath(os.path.dirname(plugin), BUILD)
        for program in ("bin/attnbench", self.plugins + "/attnbench-worker"):
            os.makedirs(os.path.dirname(self.path(program)))
            shutil.copy2(os.path.join(BUILD, program), self.path(program))
        os.mkdir(self.path("more"))

    def answer(self, code, *args):
        done = subprocess.run([self.path("bin/attnbench"), *args], capture_output=True, text=True,
                              check=False, env=dict(os.environ,
                                                    ATTNBENCH_PLUGIN_PATH=self.path("more")))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_one_name_in_two_plugins(self):
        for place in (self.plugins + "/one.so", "more/two.so"):
            shutil.copy(broken("good"), self.path(place))
        self.assertRegex(self.answer(2, "list").stderr,
                         "backend 'test' is offered by both .*one.so and .*two.so")

    def test_a_list_of_skips_with_a_bad_line(self):
        shutil.copy(broken("good"), self.path("more/good.so"))
        with open(self.path("more/good.skips"), "w", encoding="utf-8") as file:
            file.write("# heads\n\nscore_*: no such score\nonly a glob\n")
        self.assertIn("good.skips:4: expected 'case glob: reason'", self.answer(2, "list").stderr)

    def test_a_plugin_that_crashes_in_a_folder_is_not_available(self):
        shutil.copy(broken("crash_load"), self.path("more/lost.so"))
        self.assertRegex(self.answer(0, "list").stdout,
                         "lost +not available: crashed in loading the plugin")

    def test_left_out_of_the_build_is_a_skip(self):
        with open(self.path(self.plugins + "/gone.missing"), "w", encoding="utf-8") as file:
            file.write("its library was not found\n")
        done = self.answer(7, "verify", "-b", "gone", PLAIN)
        self.assertIn("exit 7: gone was checked on nothing: its only case was skipped (its library "
                      "was not found)", done.stderr)
        self.assertRegex(done.stdout, "skip .* gone .*\n    its library was not found")
        self.assertIn("no backend can run", self.answer(7, "verify", PLAIN).stderr)

    def test_what_is_left_out_has_the_names_of_its_backends(self):
        with open(self.path(self.plugins + "/gone.missing"), "w", encoding="utf-8") as file:
            file.write("its library was not found\ngone_a\ngone_b")
        listed = self.answer(0, "list").stdout
        for name in ("gone_a", "gone_b"):
            done = self.answer(7, "verify", "-b", name, PLAIN)
            self.assertIn(f"exit 7: {name} was checked on nothing: its only case was skipped (its "
                          "library was not found)", done.stderr)
            self.assertRegex(listed, f"{name} +not available: its library was not found")
        self.assertNotRegex(listed, "gone +not")


if __name__ == "__main__":
    unittest.main(verbosity=2)
