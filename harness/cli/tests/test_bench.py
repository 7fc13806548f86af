# SPDX-License-Identifier: Apache-2.0
"""Timing, its records and their comparison, as a user sees them.

    test_bench.py BUILD_DIR [unittest options]
"""
import binascii
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import time
import unittest

from test_cli import BUILD, PLAIN, PROGRAM, QUICK, SMALL, Case, broken, main_records, records_of


class Bench(Case):
    def check_ceilings(self, ceilings):
        widest = [rung for rung in ceilings["rungs"] if rung["f32"]][-1]
        self.assertEqual(ceilings["isa"], widest["isa"])
        self.assertEqual(ceilings["fma_gflops_f32"], widest["f32"])
        self.assertGreater(ceilings["fma_gflops_f32"], 0)
        self.assertGreater(ceilings["clock_ghz"], 0)
        self.assertEqual(ceilings["read_gbs"], ceilings["reads"][-1]["gbs"])
        self.assertEqual(ceilings["reads"][-1]["level"], "memory")
        levels = [read["bytes"] for read in ceilings["reads"][:-1]]
        self.assertEqual(levels, sorted(levels))
        # f32 alone was timed, so no other type's product is asked for.
        roofs = [name for name in os.listdir(os.path.join(BUILD, "lib", "attnbench")) if name.endswith(".roof")]
        self.assertEqual([gemm["dtype"] for gemm in ceilings["gemm"]], ["f32"] * len(roofs))
        for gemm in ceilings["gemm"]:
            self.assertIn(gemm["backend"] + ".roof", roofs)
            self.assertGreater(gemm["gflops"], 0)

    def test_records(self):
        run = self.run_folder("run", backends=("naive", "null"))
        records = records_of(os.path.join(run, "results.ndjson"))
        kinds = [record["type"] for record in records if record["backend"] == "naive"]
        self.assertEqual(kinds, ["verify", "round", "round", "bench"])
        bench = records[-1] if records[-1]["backend"] == "naive" else records[-2]
        self.assertEqual(bench["flops"], 2 * (8 + 8) * 2 * 24 * 25 / 2)
        self.assertLessEqual(bench["time_ns"]["min"], bench["time_ns"]["median"])
        self.assertEqual(bench["time_ns"]["n"], 2)
        self.assertTrue(bench["peak_bytes"] is not None or bench["peak_reason"])
        with open(os.path.join(run, "machine.json"), encoding="utf-8") as file:
            machine = json.load(file)
        self.check_ceilings(machine["ceilings"])
        self.assertGreater(machine["harness_ns"], 0)
        self.assertRegex(machine["attnbench"]["built"], r"^20\d\d-\d\d-\d\dT[\d:]{8}Z$")

    def test_a_device_tells_of_itself(self):
        # So small that a run takes no longer than the device says, with sanitizers, too.
        self.expect(0, "bench", "--plugin", broken("device"), "s=11 dk=8", *QUICK, "-o",
                    self.path("run"))
        records = {r["type"]: r for r in records_of(self.path("run/results.ndjson"))}
        for when in ("before", "after"):
            self.assertEqual(records["round"]["device"][when],
                             {"clock_mhz": 1500, "memory_clock_mhz": 0, "temperature_c": 0,
                              "power_w": 0, "throttled": 127 * "x"})
        self.assertEqual(records["bench"]["device"]["cache_bytes"], 4096)
        self.assertEqual(records["bench"]["device"]["taken_bytes"], 20000)
        self.assertEqual(records["bench"]["peak_bytes"], 0)  # fewer than the operands

    def test_one_round_has_no_interval(self):
        done = self.expect(0, "bench", "-b", "naive", *QUICK, "--rounds", "1", "-o",
                           self.path("run"), SMALL)
        self.assertIn(" 1 round ", done.stdout)
        live = records_of(self.path("run/results.ndjson"))[-1]["live"]
        self.assertEqual(live["rounds"], 1)
        self.assertIsNone(live["low_ns"]["ci95"])
        self.assertEqual(live["paired"]["anchor"], "naive")  # itself

    def test_what_failed_is_not_timed(self):
        self.expect(3, "bench", "--plugin", broken("unwritten"), PLAIN, *QUICK, "-o",
                    self.path("run"))
        self.assertEqual([r["type"] for r in records_of(self.path("run/results.ndjson"))],
                         ["verify"])

    def test_a_first_run_that_is_slow_costs_no_cold_figure(self):
        # Runs of 10 ms and more have none.
        self.expect(0, "bench", "--plugin", broken("slow"), "-b", "test:when=first", *QUICK[:-2],
                    "-o", self.path("run"), "s=8 dk=8")
        found = {r["cache"] for r in records_of(self.path("run/results.ndjson")) if r["type"] == "bench"}
        self.assertEqual(found, {"hot", "cold"})

    def test_a_rate_above_the_roof_is_no_figure(self):
        done = self.expect(3, "bench", "--plugin", broken("shortcut"), *QUICK, "-o", self.path("run"),
                           "sq=1024 sk=1024 d=64 fill=zeros")
        self.assertIn("suspect", done.stdout)
        self.assertIn("above the roof of this machine", done.stdout)
        records = records_of(self.path("run/results.ndjson"))
        self.assertNotIn("bench", [record["type"] for record in records])
        self.assertEqual(records[-1]["status"], "suspect")
        self.expect(0, "report", self.path("run"))
        with open(self.path("run/report/report.md"), encoding="utf-8") as file:
            self.assertIn("suspect", file.read())

    def test_a_timed_output_is_verified_again(self):
        done = self.expect(3, "bench", "--plugin", broken("late"), PLAIN, *QUICK, "--min-time",
                           "50ms", "-o", self.path("run"))  # runs enough on a slow machine, too
        self.assertIn("while timed: out[", done.stdout)
        repro = re.search(r"rerun: attnbench (.*) '(.*)'", done.stdout)
        again = self.expect(3, *repro.group(1).split(), "--min-time", "50ms", repro.group(2),
                            cwd=self.folder)
        self.assertIn("while timed: out[", again.stdout)
        with open(self.path("run/results.ndjson"), encoding="utf-8") as file:
            self.assertNotIn("bench", [json.loads(line)["type"] for line in file])

    def interrupted(self, when, *words):
        """Exit code, stdout, stderr of a bench into `run`, interrupted at its first record of this type."""
        results = self.path("run/results.ndjson")
        with subprocess.Popen([PROGRAM, "bench", "-b", "naive", "--cache", "hot", "-o", self.path("run"), *words],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
            while True:
                if os.path.exists(results):
                    with open(results, encoding="utf-8") as file:
                        if f'"type":"{when}"' in file.read():
                            break
                time.sleep(0.01)
            program.send_signal(signal.SIGINT)
            said, errors = program.communicate(timeout=60)
        return program.returncode, said, errors

    def test_ctrl_c_counts_what_was_not_begun(self):
        sizes = ",".join(str(s) for s in range(1, 501))
        code, _, errors = self.interrupted("verify", f"h=1 s={sizes} d=8")
        self.assertEqual(code, -signal.SIGINT)
        begun = re.search(r"interrupted before (\d+) of 500 cases were begun; the same command with --resume", errors)
        with open(self.path("run/results.ndjson"), encoding="utf-8") as file:
            ids = {record["id"] for record in map(json.loads, file) if "id" in record}
        self.assertEqual(int(begun.group(1)), 500 - len(ids))

    def test_ctrl_c_shows_what_there_is(self):
        results = self.path("run/results.ndjson")
        code, said, errors = self.interrupted("round", "--rounds", "1000", SMALL)
        self.assertEqual(code, -signal.SIGINT)
        self.assertRegex(said, r"\n  naive +[\d.]+ .s ")
        self.assertIn("interrupted; the same command with --resume goes on", errors)
        self.assertRegex(said, r"\nCut off +1 timings have fewer rounds")
        self.assertEqual([bench["cut"] for bench in self.benches(results)], [True])
        self.assertIn("is unfinished: it was cut short", self.expect(6, "report", self.path("run")).stderr)
        with open(self.path("run/report/report.md"), encoding="utf-8") as file:
            page = file.read()
        self.assertIn("Cut off", page)
        self.assertIn("Not whole: unfinished", page)
        self.assertNotIn("Nothing was timed", page)
        done = self.expect(6, "compare", self.path("run"), self.path("run"), "--json")
        self.assertEqual(json.loads(done.stdout)["exit"], 6)
        self.assertIn("exit 6: " + self.path("run") + " is unfinished", done.stderr)
        # What was cut off is measured again.
        more = ["bench", "-b", "naive", "--rounds", "3", "--cache", "hot", "--resume", "-o",
                self.path("run"), SMALL]
        self.assertIn("number of rounds is 1000, now 3; --cross", self.expect(2, *more).stderr)
        self.expect(0, *more, "--cross")
        self.assertEqual([bench.get("cut") for bench in self.benches(results)], [True, None])
        self.expect(0, "report", self.path("run"))
        with open(self.path("run/report/report.md"), encoding="utf-8") as file:
            self.assertNotIn("Cut off", file.read())

    def test_ctrl_c_before_the_first_round_says_what_is_not_timed(self):
        _, said, _ = self.interrupted("round", "--rounds", "1000", "--run-limit", "0", SMALL, "s=1024 h=4 d=64")
        self.assertRegex(said, r"Not timed +naive 1: interrupted|Cut off +2 timings")

    @staticmethod
    def benches(results):
        return [record for record in records_of(results) if record["type"] == "bench"]

    def test_rows_are_listed_where_there_are_few_or_they_are_asked_for(self):
        cases = [f"s={n} d=8" for n in range(8, 50)]
        bench = ["bench", "-b", "naive", "--rounds", "1", "--samples", "1", "--min-time", "1us",
                 "--cache", "hot", *cases]
        said = self.expect(0, *bench, "-o", self.path("many")).stdout
        self.assertIn("; --rows lists all 42 timings", " ".join(said.split()))
        self.assertNotIn("hot, median", said)
        self.assertLess(len(said.splitlines()), 25)
        said = self.expect(0, *bench, "--rows", "-o", self.path("rows")).stdout
        self.assertEqual(len(re.findall(r"(?m)^  naive +[\d.]+ ", said)), 42)
        # Afterwards, too.
        self.assertEqual(self.expect(0, "report", self.path("many")).stdout, "")
        said = self.expect(0, "report", "--rows", self.path("many")).stdout
        self.assertEqual(len(re.findall(r"(?m)^  naive +[\d.]+ ", said)), 42)
        self.assertRegex(said, r"(?m)^Report +.*/many/report/index.html$")

    def test_of_many_failures_some_are_listed(self):
        said = self.expect(3, "bench", "--plugin", broken("unwritten"), *QUICK, "-o", self.path("run"),
                           *(f"s={n} d=8" for n in range(5, 12))).stdout
        self.assertEqual(said.count("    rerun: "), 5)
        self.assertIn("\nand 2 more, each with 'reason' and 'repro' in results.ndjson\n", said)

    def test_a_run_of_verify_alone_has_a_report(self):
        self.expect(0, "verify", "-b", "naive", "-o", self.path("run"), PLAIN)
        self.expect(0, "report", self.path("run"))
        with open(self.path("run/report/index.html"), encoding="utf-8") as file:
            self.assertIn(">Verdicts by backend</h2>", file.read())
        self.assertIn("holds a run already; name another folder",
                      self.expect(2, "verify", "-o", self.path("run"), PLAIN).stderr)

    def test_holes_between_elements_stay_holes(self):
        """Operands of 66 GB that are mostly holes: cold caches need the elements alone."""
        self.expect(0, "bench", "-b", "naive", "--cache", "cold", "--rounds", "1", "--memory", "1G",
                    "--fills", "none", "--checks", "none", "-o", self.path("run"),
                    "b=2 h=2 s=5 d=8 view=huge")

    def test_resume_takes_up_what_there_was_no_time_for(self):
        arguments = ["bench", "-b", "naive", *QUICK, "-o", self.path("run"), SMALL, PLAIN]
        done = self.expect(0, *arguments, "--budget", "1us", "--json")
        # The first case has a figure, whatever the budget.
        first, second, *times = main_records(done.stdout.splitlines())
        self.assertEqual([record["type"] for record in times], ["round", "bench"])
        self.assertEqual((first["status"], second["status"]), ("pass", "skip"))
        self.assertIn("the time given is used up (1e-06 s)", second["reason"])
        done = self.expect(0, *arguments, "--resume", "--json")
        kinds = [record["type"] for record in main_records(done.stdout.splitlines())
                 if record["id"] == second["id"]]
        self.assertEqual(kinds, ["verify", "round", "round", "bench"])

    def test_a_budget_without_turns_says_so(self):
        done = self.expect(0, "bench", "-b", "naive", "--budget", "1us", "-o", self.path("run"), SMALL)
        self.assertRegex(done.stdout, r"\nNo turns +1 of 1 timed cases: the budget has no time for \d+ "
                                      r"rounds of turns; a larger\s--budget has\n")

    def test_resume_leaves_finished_cases_alone(self):
        run = self.run_folder("run")
        results = os.path.join(run, "results.ndjson")
        with open(results, encoding="utf-8") as file:
            before = file.read()
        with open(results, "a", encoding="utf-8") as file:
            file.write('{"type":"verify","torn')
        self.expect(2, "bench", "-b", "naive", *QUICK, "-o", run, SMALL)
        self.expect(0, "bench", "-b", "naive", *QUICK, "-o", run, "--resume", SMALL)
        with open(results, encoding="utf-8") as file:
            self.assertEqual(file.read(), before)
        self.expect(0, "bench", "-b", "naive", *QUICK, "-o", run, "--resume", SMALL,
                    SMALL + " seed=2")
        self.assertEqual([r["type"] for r in records_of(results)],
                         2 * ["verify", "round", "round", "bench"])
        done = self.expect(0, "bench", "-b", "naive", *QUICK, "-o", run, "--resume", SMALL)
        self.assertIn(f"'{run}' has results of 1 more case than asked for now; they stay\n", done.stderr)
        self.expect(0, "report", run)
        other = self.path("rum")  # perhaps a misspelling
        self.assertIn(f"attnbench: '{other}' has no run to continue: a new one begins\n",
                      self.expect(0, "bench", "-b", "naive", *QUICK, "-o", other, "--resume", SMALL).stderr)

    def test_a_cut_run_is_resumed_with_its_own_cases(self):
        run = self.run_folder("run")
        results = os.path.join(run, "results.ndjson")
        with open(results, encoding="utf-8") as file:
            lines = file.readlines()
        with open(results, "w", encoding="utf-8") as file:
            file.writelines(lines[:3])
        for others in ([SMALL + " seed=2"], [SMALL, SMALL + " seed=2"], []):
            done = self.expect(2, "bench", "-b", "naive", *QUICK, "-o", run, "--resume", *others)
            self.assertIn("is not finished, and its list of cases was another one (1, now ", done.stderr)
        self.expect(0, "bench", "-b", "naive", *QUICK, "-o", run, "--resume", "--cross", SMALL, SMALL + " seed=2")

    def test_weights_are_kept_and_survive_a_resume(self):
        case, more = "h=2 s=9 d=8 out=weights", "h=2 s=9 d=8 seed=2 out=weights"
        run = self.run_folder("run", case, SMALL)
        verified = [r for r in records_of(os.path.join(run, "results.ndjson"))
                    if r["type"] == "verify"]
        self.assertEqual(["weights_file" in record for record in verified], [True, False])
        name = verified[0]["weights_file"]
        self.assertEqual(name, "tensors/" + verified[0]["id"] + "-naive.safetensors")
        reference = name.replace("-naive", "-reference")

        def read(name):
            with open(os.path.join(run, name), "rb") as file:
                data = file.read()
            length = int.from_bytes(data[:8], "little")
            return json.loads(data[8:8 + length]), data[8 + length:]
        header, data = read(name)
        self.assertEqual(header["weights"]["shape"], [1, 2, 9, 9])
        self.assertEqual(header["__metadata__"]["case"], verified[0]["case"])
        rows = struct.iter_unpack("<9f", data)
        self.assertTrue(all(abs(sum(row) - 1) < 1e-5 for row in rows))
        self.assertEqual(read(reference)[0]["weights"]["dtype"], "F64")
        before = {name: read(name), reference: read(reference)}
        self.expect(0, "bench", "-b", "naive", *QUICK, "-o", run, "--resume", case, SMALL, more)
        self.assertEqual(len(os.listdir(os.path.join(run, "tensors"))), 4)
        self.assertEqual({name: read(name), reference: read(reference)}, before)
        self.expect(0, "verify", "-b", "naive", "-o", self.path("verified"), case)
        self.assertEqual(len(os.listdir(self.path("verified/tensors"))), 2)

    def test_resume_keeps_the_exit_code(self):
        arguments = ["bench", "--plugin", broken("unwritten"), PLAIN, *QUICK, "-o",
                     self.path("run")]
        self.expect(3, *arguments)
        self.expect(3, *arguments, "--resume")

    def test_matrix_is_in_the_run_and_its_report(self):
        run = self.run_folder("run")
        with open(os.path.join(run, "matrix.json"), encoding="utf-8") as file:
            self.assertEqual([b["name"] for b in json.load(file)["backends"]], ["naive"])

        def page():
            self.expect(0, "report", run)
            with open(os.path.join(run, "report", "index.html"), encoding="utf-8") as file:
                return file.read()
        self.assertIn(">Support</h2>", page())
        os.remove(os.path.join(run, "matrix.json"))
        self.assertNotIn("<h2>Support</h2>", page())

    def test_report(self):
        run = self.run_folder("run")
        self.expect(0, "report", run)
        for name in ("index.html", "report.md", "results.csv", "junit.xml"):
            self.assertTrue(os.path.getsize(os.path.join(run, "report", name)) > 0, name)
        self.assertEqual(json.loads(self.expect(0, "report", run, "--json").stdout),
                         {"report": os.path.join(run, "report")})
        self.expect(2, "report", self.path("nothing"))
        self.expect(2, "report")
        self.expect(2, "report", run, "--baseline", "nobody")
        self.expect(2, "report", run, "--margin", "5")
        self.assertEqual(json.loads(self.expect(0, "report", run, "--against", run, "--json").stdout)
                         ["against"], os.path.join(run, "report", "against.html"))


class Compare(Case):
    def timed(self, name, first=1000.0, step=1.0):
        """A run whose rounds took `first` nanoseconds and each `step` more, whatever they did."""
        def change(record):
            if record["type"] == "bench":
                record["samples_ns"] = [[first + step * i] for i in range(len(record["samples_ns"]))]
        return self.run_folder(name, change=change)

    def test_exit_codes(self):
        base = self.timed("base")
        self.expect(0, "compare", base, base)
        self.expect(4, "compare", base, self.timed("slow", 1500.0))
        self.expect(0, "compare", base, self.timed("fast", 500.0))

        unclear = self.timed("unclear", 500.0, 1500.0)
        self.expect(0, "compare", base, unclear)
        self.expect(5, "compare", "--strict", base, unclear)

        other = self.run_folder("other", "h=1 s=16 d=8")
        # Its ceilings were measured at another time.
        shutil.copy(os.path.join(base, "machine.json"), os.path.join(other, "machine.json"))
        self.expect(7, "compare", base, other)

        foreign = self.timed("foreign")
        path = os.path.join(foreign, "machine.json")
        with open(path, encoding="utf-8") as file:
            machine = json.load(file)
        machine["cpu"]["model"] = "Another CPU"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(machine, file)
        self.expect(8, "compare", base, foreign)
        self.expect(2, "compare", base)

    def test_damage_is_named(self):
        run = self.run_folder("run")
        path = os.path.join(run, "results.ndjson")
        with open(path, "r+b") as file:
            file.seek(40)
            file.write(b"#")
        for verb in (["compare", run, run], ["report", run], ["report", run, "--salvage"]):
            self.assertIn("line 1 does not match", self.expect(6, *verb).stderr)
        self.assertIn("line 1 does not match", self.expect(6, "bench", "-b", "naive", *QUICK, "-o",
                                                           run, "--resume", SMALL).stderr)

    def test_what_is_before_damage_can_be_salvaged(self):
        run, whole = self.run_folder("run"), self.run_folder("whole")
        path = os.path.join(run, "results.ndjson")
        with open(path, encoding="utf-8") as file:
            lines = file.readlines()
        with open(path, "w", encoding="utf-8") as file:  # a line is missing
            file.writelines(lines[:3] + lines[4:])
        self.assertIn("line 4 has the number 5: lines are missing or out of order; --salvage",
                      self.expect(6, "report", run).stderr)
        said = self.expect(6, "report", run, "--salvage").stderr
        self.assertIn("is damaged: line 4 has the number 5: lines are missing or out of order; only "
                      "the 3 lines before it are used", said)
        self.expect(6, "compare", whole, run)
        self.assertIn("run is damaged", self.expect(7, "compare", whole, run, "--salvage").stderr)
        resume = ["bench", "-b", "naive", *QUICK, "-o", run, "--resume", SMALL]
        self.expect(6, *resume)
        self.expect(0, *resume, "--salvage")
        with open(path + ".cut", encoding="utf-8") as file:
            self.assertEqual(file.readlines(), lines[4:])
        self.expect(0, "report", run)
        self.expect(2, "bench", "-b", "naive", *QUICK, "-o", self.path("new"), "--salvage", SMALL)

    def test_an_earlier_version_is_read_and_said_to_be_one(self):
        run = self.run_folder("run")
        path = os.path.join(run, "results.ndjson")
        records = records_of(path)
        with open(path, "w", encoding="utf-8") as file:
            for record in records:
                for key in ("seq", "run", "crc32"):
                    record.pop(key)
                body = json.dumps(record, separators=(",", ":"))[:-1]
                file.write(f'{body},"crc32":"{binascii.crc32(body.encode()):08x}"}}\n')
        self.assertIn("is of an earlier version", self.expect(0, "report", run).stderr)
        self.assertIn("is of an earlier version", self.expect(0, "compare", run, run).stderr)
        self.assertIn("earlier version", self.expect(2, "bench", "-b", "naive", *QUICK, "-o", run,
                                                     "--resume", SMALL).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
