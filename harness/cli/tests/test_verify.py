# SPDX-License-Identifier: Apache-2.0
"""The verb verify as a user sees it.

    test_verify.py BUILD_DIR [unittest options]
"""
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
import unittest

from test_cli import PLAIN, PROGRAM, QUICK, SMALL, Case, attnbench, broken, records_of

LARGE = "sq=4200 sk=4100 d=8"  # too many cells for every fill


class Verify(Case):
    def test_a_stochastic_bound_is_named(self):
        for line, bound in ((SMALL, None), ("op=nystrom s=20 d=8 landmarks=4", "stochastic")):
            done = self.expect(0, "verify", "-b", "naive", line, "--json", "--fills", "none")
            self.assertEqual(json.loads(done.stdout.splitlines()[0]).get("bound"), bound)
        self.assertIn("bound: stochastic", self.expect(0, "verify", "-b", "naive", line).stdout)

    def test_right_numbers_pass(self):
        done = self.expect(0, "verify", "-b", "naive", SMALL, "--json")
        record = json.loads(done.stdout.splitlines()[0])
        self.assertEqual(record["status"], "pass")
        self.assertTrue(0 < record["max_ratio"] <= 1)
        self.assertEqual(record["rows_checked"], record["rows_total"])
        self.assertTrue({"out", "placement_end", "placement_start", "fresh", "tiny"} <=
                        record["checks"].keys())
        self.assertEqual(set(record["checks"].values()), {"pass"})
        done = self.expect(0, "verify", "-b", "naive", SMALL, "--json", "--fills", "none",
                           "--checks", "none")
        record = json.loads(done.stdout.splitlines()[0])
        self.assertEqual(set(record["checks"]), {"out", "placement_end", "placement_start",
                                                 "fresh", "unknowns", "inputs", "bounds", "state"})

    def test_census_counts_where_other_fills_are_made_on_a_smaller_case(self):
        done = self.expect(0, "verify", "-b", "naive", LARGE + " mask=window:9:0", "--json")
        record = json.loads(done.stdout.splitlines()[0])
        self.assertEqual(record["rows_counted"], record["rows_total"])
        self.assertEqual(record["checks"].get("census"), "pass")
        self.assertEqual(record["checks"].get("tiny"), "pass")
        self.assertEqual(record["checks_made"], record["checks_apply"])
        self.assertEqual(record["checks_missed"], {})
        self.assertEqual(record["checks_case"], "dk=8 mask=window:9:0 sk=516 sq=552")

    def test_a_fault_found_on_a_smaller_case_is_rerun_there(self):
        done = self.expect(3, "verify", "--plugin", broken("no_maximum"), LARGE, "--json")
        record = json.loads(done.stdout.splitlines()[0])
        self.assertIn("on the smaller case '" + record["checks_case"], record["reason"])
        line = re.search(r"'(.*)'", record["repro"]).group(1)
        self.assertRegex(line, "fill=(one_hot|negative|stair_up)")
        self.assertEqual(set(line.split()) - set(record["checks_case"].split()),
                         {word for word in line.split() if word.startswith("fill=")})
        self.expect(3, *shlex.split(record["repro"])[1:])

    def test_checks_are_counted_and_strict_asks_for_all(self):
        done = self.expect(0, "verify", "-b", "naive", SMALL, "--strict")
        made, apply = re.search(r"checks: (\d+) of (\d+)", done.stdout).groups()
        self.assertEqual(made, apply)
        refused, of = re.search(r"power: (\d+) of (\d+)", done.stdout).groups()
        self.assertEqual(refused, of)
        fewer = ("verify", "-b", "naive", SMALL, "--fills", "census", "--checks", "ones")
        done = self.expect(0, *fewer, "--json")
        record = json.loads(done.stdout.splitlines()[0])
        self.assertEqual(record["checks_apply"], int(apply))
        self.assertEqual(record["checks_made"] + len(record["checks_missed"]), int(apply))
        self.assertEqual(record["checks_missed"]["tiny"], "left out by --fills")
        self.assertEqual(record["checks_missed"]["shift"], "left out by --checks")
        self.expect(3, *fewer, "--strict")

    def test_rows_are_sampled_by_a_fresh_seed_that_can_be_given(self):
        words = ("verify", "-b", "naive", "sq=20000 sk=128 d=64", "--fills", "none", "--checks",
                 "none", "--json")
        first, other = (json.loads(self.expect(0, *words).stdout.splitlines()[0])
                        for _ in range(2))
        self.assertLess(first["rows_checked"], first["rows_total"])
        self.assertNotEqual(first["sample_seed"], other["sample_seed"])
        self.assertIn(f"--sample-seed {first['sample_seed']} ", first["repro"])
        again = json.loads(self.expect(0, *words, "--sample-seed", str(first["sample_seed"]))
                           .stdout.splitlines()[0])
        for field in ("sample_seed", "rows_checked", "max_ratio", "rms", "worst", "repro"):
            self.assertEqual(again[field], first[field], field)
        self.assertIn("'x' is not a number", self.expect(2, *words, "--sample-seed", "x").stderr)

    def test_every_row_is_judged_where_the_case_was_sampled(self):
        done = self.expect(0, "verify", "-b", "naive", "sq=20000 sk=128 d=64 mask=causal", "--json",
                           "--fills", "few_queries", "--checks", "none")
        record = json.loads(done.stdout.splitlines()[0])
        self.assertLess(record["rows_checked"], record["rows_total"])
        self.assertEqual(record["rows_every"], record["rows_total"])
        self.assertEqual(record["checks"]["few_queries"], "pass")

    def test_all_rows_are_judged_where_no_fill_does_that(self):
        for case, fill in (("sq=3000 sk=512 d=64 bias=alibi", "tiny"),
                           ("op=attention_backward h=2 s=512 d=64 bias=alibi", "zero_grad")):
            words = ("verify", "-b", "naive", case, "--checks", "none", "--json")
            few, all_rows = (json.loads(self.expect(0, *words, "--fills", fills)
                                        .stdout.splitlines()[0]) for fills in ("none", fill))
            self.assertLess(few["rows_checked"], few["rows_total"])
            self.assertEqual(all_rows["rows_checked"], all_rows["rows_total"])

    def test_every_gradient_is_judged_where_the_case_was_sampled(self):
        done = self.expect(0, "verify", "-b", "naive", "op=attention_backward h=2 s=1024 d=16",
                           "--json", "--fills", "sparse_grad,sparse_keys", "--checks", "none")
        record = json.loads(done.stdout.splitlines()[0])
        self.assertLess(record["rows_checked"], record["rows_total"])
        self.assertEqual(record["rows_every"], record["rows_total"])
        self.assertEqual(record["keys_every"], 2048)
        for fill in ("sparse_grad", "sparse_keys"):
            self.assertEqual(record["checks"][fill], "pass")

    def test_a_fill_finds_what_random_numbers_hide(self):
        done = self.expect(3, "verify", "--plugin", broken("no_maximum"), PLAIN)
        fill = re.search(r"rerun: attnbench verify .*(fill=(one_hot|negative))", done.stdout).group(1)
        self.assertIn(f"    {fill}: out[", done.stdout)
        self.expect(0, "verify", "--plugin", broken("no_maximum"), PLAIN, "--fills", "none")

    def test_wrong_numbers_fail_and_the_repro_line_reruns_them(self):
        done = self.expect(3, "verify", "--plugin", broken("unwritten"), PLAIN)
        repro = re.search(r"rerun: attnbench (.*)", done.stdout).group(1)
        line = re.search(r"'(.*)'", repro).group(1)
        words = repro.split("'")[0].split()
        again = self.expect(3, *words, line)
        self.assertIn("fail", again.stdout)

    def test_an_error_does_not_ruin_the_next_case(self):
        done = self.expect(6, "verify", "--plugin", broken("ruined"), "-b", "test", "--json",
                           "--fills", "none", "--checks", "none", "sq=4,8,12 sk=16 d=8")
        self.assertEqual([(r["status"], r["reason"]) for r in map(json.loads,
                                                                  done.stdout.splitlines())],
                         [("pass", ""), ("error", "run failed: an illegal address was met"),
                          ("pass", "")])

    def test_a_crash_does_not_end_the_sweep(self):
        done = self.expect(6, "verify", "--plugin", broken("crash"), PLAIN, PLAIN + " seed=2",
                           "--json")
        self.assertEqual([json.loads(line)["status"] for line in done.stdout.splitlines()],
                         ["crash", "crash"])

    def test_the_repro_line_survives_a_shell(self):
        plugin = self.path("it's a plugin.so")
        shutil.copy(broken("unwritten"), plugin)
        done = self.expect(3, "verify", "--plugin", plugin, PLAIN)
        repro = re.search(r"rerun: (.*)", done.stdout).group(1)
        path = os.path.dirname(PROGRAM) + ":" + os.environ["PATH"]
        again = subprocess.run(["sh", "-c", repro], capture_output=True, text=True, check=False,
                               env=dict(os.environ, PATH=path))
        self.assertEqual((again.returncode, again.stdout), (3, done.stdout))

    def test_what_breaks_in_the_second_placement_alone_breaks_an_approximate_backend_too(self):
        done = self.expect(3, "verify", "--plugin", broken("approx_before"), PLAIN)
        self.assertIn("reads before the start of v", done.stdout)

    def test_memory_is_limited(self):
        done = self.expect(6, "verify", "--plugin", broken("hog"), "--memory", "200M", PLAIN)
        self.assertIn("over the limit of 200 MiB", done.stdout)
        self.assertRegex(self.expect(7, "verify", "-b", "naive", "--memory", "64M",
                                     "s=4096 d=4096").stdout, "needs .* GiB, have 0.06")

    def test_memory_is_limited_while_a_plugin_is_loaded(self):
        os.environ["ATTN_TEST_FAULT"] = "hog:init"
        try:
            done = self.expect(6, "verify", "--plugin", broken("faulty"), "--memory", "200M", PLAIN)
        finally:
            del os.environ["ATTN_TEST_FAULT"]
        self.assertIn("over the limit of 200 MiB", done.stderr)

    def test_a_level_of_confinement_is_chosen_and_recorded(self):
        for level in ("off", "limits", "strict"):
            self.expect(0, "verify", "-b", "naive", "--confine", level, "--fills", "none", "--checks",
                        "none", "-o", self.path(level), PLAIN)
            with open(self.path(level + "/machine.json"), encoding="utf-8") as file:
                self.assertEqual(re.split("[:;]", json.load(file)["confinement"])[0], level)
        self.assertIn("--confine: 'tight' is not off, limits or strict",
                      self.expect(2, "verify", "--confine", "tight", PLAIN).stderr)
        self.assertRegex(self.expect(0, "doctor").stdout, "(?m)^(OK|unknown) +confinement +strict")

    def test_more_threads_than_processors_is_a_mistake(self):
        self.assertIn("processors may be used",
                      self.expect(2, "verify", "--threads", "4000", PLAIN).stderr)

    def test_a_missing_worker_is_named(self):
        os.mkdir(self.path("bin"))
        shutil.copy(PROGRAM, self.path("bin/attnbench"))
        for arguments in (["verify", PLAIN], ["list"], ["doctor"]):
            done = subprocess.run([self.path("bin/attnbench"), *arguments], capture_output=True,
                                  text=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("attnbench-worker cannot be run", done.stderr)

    def test_a_plugin_that_crashes_while_it_is_loaded(self):
        for verb in (["verify", PLAIN], ["list"], ["doctor"]):
            done = self.expect(6, *verb[:1], "--plugin", broken("crash_load"), *verb[1:])
            self.assertRegex(done.stderr,
                             r"crash_load\.so: crashed in loading the plugin \(SIGSEGV")

    def test_a_plugin_that_can_not_be_loaded_is_named(self):
        os.mkdir(self.path("more"))
        shutil.copy(broken("wrong_version"), self.path("more/other.so"))
        done = self.expect(0, "verify", PLAIN, env={"ATTNBENCH_PLUGIN_PATH": self.path("more")})
        self.assertIn("without other: the plugin is of ABI version", done.stderr)

    def test_a_plugin_that_is_lost_in_a_folder_has_a_verdict(self):
        os.mkdir(self.path("more"))
        shutil.copy(broken("crash_load"), self.path("more/gone.so"))
        shutil.copy(broken("faulty"), self.path("more/hung.so"))
        env = {"ATTNBENCH_PLUGIN_PATH": self.path("more"), "ATTN_TEST_FAULT": "deaf:constructor",
               "ATTNBENCH_PYTHON_BACKENDS": "noop"}
        done = self.expect(6, "verify", "--strict", "--timeout", "5s", "-o", self.path("run"), PLAIN,
                           env=env)
        with open(self.path("run/results.ndjson"), encoding="utf-8") as lines:
            found = {r.get("backend"): r for r in map(json.loads, lines)}
        self.assertEqual(found["naive"]["status"], "pass")
        for name, status, reason in (("gone", "crash", "crashed in loading the plugin"),
                                     ("hung", "timeout", "no answer within 5 s, in loading")):
            self.assertEqual(found[name]["status"], status)
            self.assertIn(reason, found[name]["reason"])
        self.assertRegex(done.stderr, "exit 6: 1 crash, [0-9]+ timeout")
        # A list waits less than a run does.
        done = self.expect(0, "list", env=env)
        self.assertRegex(done.stdout, "hung +not available: no answer within 10 s")

    def test_a_signal_ends_the_program_soon_and_is_no_verdict(self):
        # SIGTERM is ignored by this plugin, SIGINT is not.
        for number in (signal.SIGINT, signal.SIGTERM):
            with subprocess.Popen([PROGRAM, "bench", "--plugin", broken("hang"), PLAIN,
                                   "-o", self.path(number.name)], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True) as program:
                log = self.path(number.name + "/workers.log")
                while not (os.path.exists(log) and os.path.getsize(log)):
                    time.sleep(0.01)
                program.send_signal(number)
                program.communicate(timeout=30)  # the watchdog would take 60 s
                self.assertEqual(program.returncode, -number)
            self.assertEqual(records_of(self.path(number.name + "/results.ndjson")), [])

    def test_a_command_without_resume_says_that_it_was_interrupted(self):
        with subprocess.Popen([PROGRAM, "verify", "--plugin", broken("hang"), PLAIN, "-o",
                               self.path("run")], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as program:
            log = self.path("run/workers.log")
            while not (os.path.exists(log) and os.path.getsize(log)):
                time.sleep(0.01)
            program.send_signal(signal.SIGINT)
            said = program.communicate(timeout=30)[1]
            self.assertEqual(program.returncode, -signal.SIGINT)
        self.assertTrue(said.endswith("attnbench: interrupted: what there is was printed\n"), said)

    def test_an_unlisted_refusal_of_the_standard_suite_fails(self):
        done = self.expect(3, "verify", "--plugin", broken("good"), "--filter", "smoke_*",
                           "--fills", "none", "--checks", "none")
        self.assertIn("in no list of expected skips", done.stdout)
        self.assertRegex(done.stderr, r"exit 3: .*\d+ refusals are not listed in good.skips, beside the "
                         r"plugin; allow them with a line such as '\*: only plain f32 attention'\n$")

    def test_refused_operands_are_listed_like_refused_problems(self):
        what = ("verify", "--plugin", broken("picky"), "--fills", "none", "--checks", "none")
        for cases, listed in ((("--filter", "smoke_dense"), False), ((PLAIN,), True)):
            done = attnbench(*what, *cases)
            self.assertIn("not these operands", done.stdout)
            self.assertEqual("in no list of expected skips" not in done.stdout, listed)

    def test_a_hang_is_a_timeout(self):
        done = self.expect(6, "verify", "--plugin", broken("hang"), "--timeout", "1s", PLAIN)
        self.assertIn("timeout", done.stdout)

    def test_nothing_matches(self):
        self.expect(7, "verify", "--filter", "no such case")

    def test_what_lies_in_subfolders_is_left_out_with_a_note(self):
        os.makedirs(self.path("cases/more/deep"))
        for name in ("more/b", "more/deep/c"):
            with open(self.path(f"cases/{name}.cases"), "w", encoding="utf-8") as file:
                file.write(SMALL)
        said = "2 case files in its subfolders are left out"
        folder = self.path("cases")
        self.assertIn(f"no .safetensors pack; {said}", self.expect(2, "list", "cases", folder).stderr)
        shutil.copy(self.path("cases/more/b.cases"), folder)
        done = self.expect(0, "list", "cases", folder, "--json")
        self.assertEqual(len(json.loads(done.stdout)), 1)
        self.assertEqual(done.stderr, f"attnbench: folder '{folder}': {said}\n")
        self.assertEqual(self.expect(0, "list", "cases", folder + "/more/deep").stderr, "")

    def test_a_refusal_counts_only_in_the_standard_suite(self):
        self.expect(0, "verify", "-b", "avx2", SMALL, SMALL + " score=additive")

    def test_a_backend_that_was_checked_on_nothing_is_no_success(self):
        for strict in ((), ("--strict",)):
            done = self.expect(7, "verify", *strict, "--plugin", broken("good"), "-b", "naive", "-b",
                               "test", "--checks", "none", SMALL, SMALL + " dtype=bf16")
            self.assertRegex(done.stderr, r"exit 7: test was checked on nothing: all its cases were "
                             r"skipped \(only plain f32 attention\); name a case that it supports\n$")
        self.expect(7, "verify", "--plugin", broken("good"), PLAIN + " dtype=f64")
        # What else is wrong is said, too.
        done = self.expect(7, "verify", "-b", "null", "--plugin", broken("crash"), "-b", "test", PLAIN)
        self.assertRegex(done.stderr, r"exit 7: null was checked on nothing.*\. Without it exit 6: 1 crash; ")
        # Of a plugin with several backends one is enough (others of this one refuse f32).
        plugins = os.path.dirname(json.loads(self.expect(0, "list", "--json").stdout)[0]["plugin"])
        self.expect(0, "verify", "--plugin", "x=" + os.path.join(plugins, "simd.so"), "--checks",
                    "none", "--fills", "none", PLAIN)
        self.expect(0, "verify", "op=mha hq=2 s=9 dk=8 residual=1")  # nobody asked for one of them

    def test_what_computes_nothing_is_timed_not_verified(self):
        for strict in ((), ("--strict",)):
            self.assertTrue(self.expect(7, "verify", *strict, "-b", "null", PLAIN).stderr.endswith(
                "null was checked on nothing; it computes nothing, so it can be timed, not verified\n"))
        done = self.expect(0, "bench", "-b", "null", *QUICK, "-o", self.path("run"), PLAIN)
        self.assertRegex(done.stdout, r"Harness +a run of null, which computes nothing, takes [\d.]+ ns")
        # One that crashed was checked on that.
        for verb in ("verify",), ("bench", *QUICK, "-o", self.path("crashed")):
            done = self.expect(6, *verb, "--plugin", broken("crash_none"), "-b", "none", PLAIN)
            self.assertIn("exit 6: 1 crash; 'rerun' above repeats", done.stderr)

    def test_strict_takes_approximate_results_beside_a_baseline_only(self):
        what = ("verify", "--plugin", broken("approx_before"), "-b", "test:reads=inside", PLAIN)
        self.expect(0, *what, "-o", self.path("run"))
        self.assertTrue(self.expect(5, *what, "--strict").stderr.endswith(
            "exit 5: 1 approx: measured, not judged, which --strict accepts only from verify --baseline\n"))
        self.expect(0, *what, "--strict", "--baseline", self.path("run"))

    def test_every_exit_says_why(self):
        for code, plugin, said in ((3, "read_past", "1 fail; 'rerun' above repeats it"),
                                   (6, "crash", "1 crash; 'rerun' above repeats what went wrong")):
            done = self.expect(code, "verify", "--plugin", broken(plugin), "--fills", "none",
                               "--checks", "none", PLAIN)
            self.assertEqual(done.stderr.splitlines()[-1], f"attnbench: exit {code}: {said}")

    def test_a_case_too_large_is_skipped_before_it_is_run(self):
        done = self.expect(7, "verify", "-b", "naive", "h=64 s=10000000 d=128")
        self.assertRegex(done.stdout, r"needs \d{4,} GiB, have [\d.]+\n")

    def test_seed_changes_the_case(self):
        one = json.loads(self.expect(0, "verify", "-b", "naive", SMALL, "--json").stdout)
        two = json.loads(self.expect(0, "verify", "-b", "naive", SMALL, "--seed", "5",
                                     "--json").stdout)
        self.assertNotEqual(one["id"], two["id"])
        self.assertNotEqual(one["max_abs"], two["max_abs"])

    def test_dry_run_runs_nothing(self):
        done = self.expect(0, "verify", "--plugin", broken("crash"), PLAIN, "--dry-run")
        self.assertEqual(len(done.stdout.splitlines()), 1)
        done = self.expect(0, "verify", "--plugin", broken("crash"), PLAIN, "--dry-run", "--json")
        self.assertEqual(json.loads(done.stdout)[0]["case"], "dk=8 sq=24")

    def test_junit(self):
        self.expect(0, "verify", "-b", "naive", SMALL, "--junit", self.path("j.xml"))
        with open(self.path("j.xml"), encoding="utf-8") as file:
            self.assertIn("<testsuite", file.read())
        # the last line is about the exit code that there is
        done = self.expect(1, "verify", "--plugin", broken("no_maximum"), PLAIN, "--junit", "/dev/full")
        said = done.stderr.splitlines()
        self.assertIn("exit 3: 1 fail", said[-2])
        self.assertIn("exit 1: /dev/full", said[-1])
        done = self.expect(2, "verify", "-b", "naive", SMALL, "--junit", self.path("none") + "/j.xml")
        self.assertNotIn("pass", done.stdout)

    def test_standard_output_that_can_not_be_written_is_an_internal_error(self):
        for words in (["list"], ["--version"], ["help"], ["verify", "--help"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE,
                                      text=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("standard output cannot be written", done.stderr)

    def test_a_reader_that_leaves_ends_the_program_quietly(self):
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as closed:
            done = subprocess.run([PROGRAM, "list", "cases"], stdout=closed,
                                  stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, ""))

    def test_no_colour_in_a_log(self):
        done = self.expect(0, "verify", "-b", "naive", SMALL, env={"NO_COLOR": "1"})
        self.assertNotIn("\033", done.stdout + done.stderr)

    def test_bar_on_a_terminal_obeys_no_color(self):
        for no_color, coloured in (("", True), ("1", False)):
            done = subprocess.run(
                ["script", "-qec", f"{PROGRAM} verify -b naive '{SMALL}'", "/dev/null"],
                capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                env=dict(os.environ, NO_COLOR=no_color, TERM="xterm"))
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("[....", done.stdout)
            self.assertEqual("\033[32m" in done.stdout, coloured)
            # The bar is cleared before a line is printed, and the status has its colour.
            green, end = ("\033[32m", "\033[0m") if coloured else ("", "")
            self.assertIn(f"\n\033[K{green}pass      {end} ", done.stdout)  # text: \r is \n


if __name__ == "__main__":
    unittest.main(verbosity=2)
