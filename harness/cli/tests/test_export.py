# SPDX-License-Identifier: Apache-2.0
"""Runs in the formats of other tools, and files of Google Benchmark as runs. The schemas are written from
the documentation of each tool (harness/report/export.c names it).

    test_export.py BUILD_DIR [unittest options]
"""
import csv
import io
import json
import os
import statistics
import unittest
import xml.etree.ElementTree as ElementTree

from test_cli import SMALL, Case, records_of

NUMBER = (int, float)
# name: (type, must be there)
GBENCH_CONTEXT = {"date": (str, True), "host_name": (str, True), "executable": (str, True),
                  "num_cpus": (int, True), "mhz_per_cpu": (int, True), "cpu_scaling_enabled": (bool, True),
                  "caches": (list, True), "load_avg": (list, True), "library_build_type": (str, True)}
GBENCH_CACHE = {"type": (str, True), "level": (int, True), "size": (int, True), "num_sharing": (int, True)}
GBENCH_ENTRY = {"name": (str, True), "family_index": (int, True), "per_family_instance_index": (int, True),
                "run_name": (str, True), "run_type": (str, True), "repetitions": (int, True),
                "repetition_index": (int, True), "threads": (int, True), "iterations": (int, True),
                "real_time": (NUMBER, True), "cpu_time": (NUMBER, True), "time_unit": (str, True)}
GITHUB_ENTRY = {"name": (str, True), "unit": (str, True), "value": (NUMBER, True),
                "range": ((str, int, float), False), "extra": (str, False)}
BENCHER_METRIC = {"value": (NUMBER, True), "lower_value": (NUMBER, False), "upper_value": (NUMBER, False)}


class Export(Case):
    def check(self, value, schema, more=()):
        """`more`: fields beyond the schema that the format allows."""
        self.assertIsInstance(value, dict)
        self.assertEqual(set(value) - set(schema) - set(more), set())
        for name, (kind, must) in schema.items():
            self.assertTrue(name in value or not must, name)
            if name in value:
                self.assertIsInstance(value[name], kind, name)
                self.assertFalse(isinstance(value[name], bool) and kind is not bool, name)

    def export(self, run, form):
        return self.expect(0, "export", run, "--format", form).stdout

    def both(self):
        """A run of two backends, with its bench and round records."""
        run = self.run_folder("run", backends=("naive", "avx2"))
        return run, records_of(run + "/results.ndjson")

    def test_google_benchmark_has_every_sample(self):
        run, records = self.both()
        exported = json.loads(self.export(run, "google-benchmark"))
        self.assertEqual(set(exported), {"context", "benchmarks"})
        self.check(exported["context"], GBENCH_CONTEXT, ["attnbench"])
        for cache in exported["context"]["caches"]:
            self.check(cache, GBENCH_CACHE)
        with open(run + "/machine.json", encoding="utf-8") as file:
            machine = json.load(file)
        self.assertEqual(json.loads(exported["context"]["attnbench"])["cpu"], machine["cpu"])
        for entry in exported["benchmarks"]:
            self.check(entry, GBENCH_ENTRY, ["attnbench"])
            self.assertEqual((entry["run_type"], entry["time_unit"]), ("iteration", "ns"))
            self.assertLess(entry["repetition_index"], entry["repetitions"])
        for backend in ("naive", "avx2"):
            mine = [e for e in exported["benchmarks"] if e["name"].startswith(backend + "/")]
            self.assertEqual(len({e["name"] for e in mine}), 1)
            rounds = [r for r in records if r["type"] == "round" and r["backend"] == backend]
            for field, key in (("real_time", "samples_ns"), ("cpu_time", "cpu_ns"),
                               ("iterations", "iterations")):
                self.assertEqual([e[field] for e in mine], [s for r in rounds for s in r[key]], field)
            self.assertNotEqual([e["real_time"] for e in mine], [e["cpu_time"] for e in mine])

    def test_cold_samples_have_no_processor_time_of_their_own(self):
        run = self.path("cold")
        self.expect(0, "bench", "-b", "naive", "--rounds", "1", "--samples", "1", "--cache", "cold", "-o", run,
                    SMALL)
        entry = json.loads(self.export(run, "google-benchmark"))["benchmarks"][0]
        self.assertTrue(entry["name"].endswith("/cold"))
        self.assertEqual(entry["real_time"], entry["cpu_time"])

    def test_github_action_benchmark(self):
        run, records = self.both()
        exported = json.loads(self.export(run, "github-action-benchmark"))
        benches = {r["backend"]: r for r in records if r["type"] == "bench"}
        self.assertEqual(len(exported), 2)
        for entry in exported:
            self.check(entry, GITHUB_ENTRY)
            bench = benches[entry["name"].split("/")[0]]
            self.assertEqual((entry["unit"], entry["value"]), ("ns", bench["time_ns"]["median"]))
            self.assertIn("rerun: attnbench verify", entry["extra"])

    def test_bencher(self):
        def four_rounds(record):  # so that there is an interval
            if record["type"] == "bench":
                record["samples_ns"] = [[1000.0], [1001.0], [1002.0], [1003.0]]
                record["time_ns"].update(median=1001.5, min=1000.0, ci95=[1000.1, 1003.5])
        run = self.run_folder("run", backends=("naive", "avx2"), change=four_rounds)
        exported = json.loads(self.export(run, "bencher"))
        self.assertEqual(len(exported), 2)
        for measures in exported.values():
            self.assertEqual(list(measures), ["latency"])
            self.check(measures["latency"], BENCHER_METRIC)
            self.assertEqual(list(measures["latency"].values()), [1001.5, 1000.1, 1003.5])
        # Of two rounds the interval says nothing.
        for measures in json.loads(self.export(self.run_folder("two"),
                                               "bencher")).values():
            self.assertEqual(list(measures["latency"]), ["value"])

    def test_names_are_as_long_as_bencher_takes_them(self):
        """One that is longer would cost the whole file there."""
        for form in ("bencher", "github-action-benchmark", "google-benchmark"):
            for more, by_id in ((0, False), (1, True)):
                case = "x" * (1024 - len("naive//hot") + more)
                run = self.run_folder(f"{form}{more}", change=lambda record, case=case: record.update(
                    {k: {"case": case, "name": ""}[k] for k in ("case", "name") if k in record}))
                exported = json.loads(self.export(run, form))
                if form != "bencher":
                    exported = {e["name"]: e for e in (exported if isinstance(exported, list)
                                                       else exported["benchmarks"])}
                name, = exported
                self.assertRegex(name, "^naive/[0-9a-f]{16}/hot$" if by_id else "^naive/x{1014}/hot$")

    def test_junit_and_csv_are_those_of_the_report(self):
        run, _ = self.both()
        self.expect(0, "report", run)
        for form, name in (("junit", "junit.xml"), ("csv", "results.csv")):
            with open(os.path.join(run, "report", name), encoding="utf-8", newline="") as file:
                self.assertEqual(self.export(run, form).replace("\r\n", "\n"),
                                 file.read().replace("\r\n", "\n"))
        suites = ElementTree.fromstring(self.export(run, "junit"))
        self.assertEqual(suites.get("tests"), str(len(suites.findall("testsuite/testcase"))))
        rows = list(csv.DictReader(io.StringIO(self.export(run, "csv"))))
        self.assertEqual({row["backend"] for row in rows}, {"naive", "avx2"})

    def test_nothing_to_export(self):
        run = self.path("verdicts")
        self.expect(0, "verify", "-b", "naive", "--fills", "none", "--checks", "none", "-o", run, SMALL)
        for form in ("google-benchmark", "github-action-benchmark", "bencher", "csv"):
            done = self.expect(7, "export", run, "--format", form)
            self.assertEqual(done.stdout, "")
            self.assertIn("has no result with a time", done.stderr)
        self.assertIn("<testcase", self.export(run, "junit"))
        self.assertIn("there is no format 'xml'; there are google-benchmark|",
                      self.expect(2, "export", run, "--format", "xml").stderr)
        self.expect(2, "export", run)
        self.expect(2, "export", "--format", "csv")
        self.expect(2, "export", self.path("none"), "--format", "csv")

    def test_what_was_wrong_is_not_exported(self):
        def wrong(record):
            if record["type"] == "verify" and record["backend"] == "avx2":
                record["status"] = "fail"
        run = self.run_folder("wrong", backends=("naive", "avx2"), change=wrong)
        for form in ("google-benchmark", "github-action-benchmark", "bencher"):
            self.assertNotIn("avx2/", self.export(run, form))
            self.assertIn("naive/", self.export(run, form))


class Import(Case):
    def write(self, value, name="file.json"):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(value if isinstance(value, str) else json.dumps(value, indent=1))
        return self.path(name)

    @staticmethod
    def foreign(times, unit="us", **context):
        """A file as a program that uses Google Benchmark writes it."""
        entries = [{"name": "BM_x/64", "run_name": "BM_x/64", "run_type": "iteration", "threads": 1,
                    "repetitions": len(times), "repetition_index": i, "iterations": 100, "real_time": t,
                    "cpu_time": t / 2, "time_unit": unit, "items_per_second": 1e6}
                   for i, t in enumerate(times)]
        mean = dict(entries[0], name="BM_x/64_mean", run_type="aggregate", aggregate_name="mean")
        return {"context": dict({"date": "2026-11-27T00:00:00+00:00", "host_name": "box",
                                 "executable": "./build/My-bench", "num_cpus": 8, "mhz_per_cpu": 3000,
                                 "cpu_scaling_enabled": False, "caches": [], "load_avg": [1.0],
                                 "library_build_type": "release"}, **context),
                "benchmarks": entries + [mean]}

    def test_what_was_exported_comes_back(self):
        run = self.run_folder("run", backends=("naive", "avx2"))
        text = self.expect(0, "export", run, "--format", "google-benchmark").stdout
        self.expect(0, "import", self.write(text), "-o", self.path("back"))
        done = self.expect(0, "compare", run, self.path("back"), "--json")  # without --cross
        found = json.loads(done.stdout)
        self.assertEqual(found["differences"], [])
        self.assertEqual([result["ratio"] for result in found["results"]], [1.0, 1.0])
        statuses = {record["status"] for record in records_of(self.path("back/results.ndjson"))}
        self.assertEqual(statuses, {"mistrusted"})  # nobody has judged what is in the file
        again = self.expect(0, "export", self.path("back"), "--format", "google-benchmark").stdout
        self.assertEqual([e["real_time"] for e in json.loads(again)["benchmarks"]],
                         [e["real_time"] for e in json.loads(text)["benchmarks"]])
        self.expect(0, "report", self.path("back"))

    def test_files_of_other_programs_are_compared(self):
        for name, times in (("base", [100, 101, 102, 103]), ("slow", [150, 151, 152, 153])):
            done = self.expect(0, "import", self.write(self.foreign(times)), "-o", self.path(name), "--json")
            self.assertEqual(json.loads(done.stdout), {"run": self.path(name), "results": 1})
        record, = records_of(self.path("base/results.ndjson"))
        self.assertEqual((record["case"], record["backend"], record["samples_ns"]),
                         ("BM_x/64", "my_bench", [[100000.0], [101000.0], [102000.0], [103000.0]]))
        self.assertEqual(record["time_ns"]["median"], 1000 * statistics.median([100, 101, 102, 103]))
        done = self.expect(4, "compare", self.path("base"), self.path("slow"), "--json")
        self.assertAlmostEqual(json.loads(done.stdout)["results"][0]["ratio"], 1.4926, 3)
        # Another machine; a run of attnbench.
        self.expect(0, "import", self.write(self.foreign([150, 151], host_name="other")), "-o",
                    self.path("other"), "--name", "my_bench")
        done = self.expect(8, "compare", self.path("base"), self.path("other"))
        self.assertIn("CPU model", done.stdout)
        self.expect(8, "compare", self.path("base"), self.run_folder("run"))
        self.expect(2, "import", self.write(self.foreign([1])), "-o", self.path("base"))  # holds a run

    def test_an_error_is_a_result(self):
        file = self.foreign([100, 101])
        file["benchmarks"].append({"name": "BM_bad", "run_type": "iteration", "threads": 1,
                                   "error_occurred": True, "error_message": "no device"})
        self.expect(0, "import", self.write(file), "-o", self.path("run"))
        bad = records_of(self.path("run/results.ndjson"))[-1]
        self.assertEqual((bad["type"], bad["status"], bad["reason"]), ("verify", "error", "no device"))
        self.expect(0, "report", self.path("run"))

    def test_bad_files_are_named_by_line(self):
        def changed(**fields):
            file = self.foreign([100, 101])
            file["benchmarks"][1].update(fields)
            return file

        def without(field):
            file = self.foreign([100, 101])
            del file["benchmarks"][1][field]
            return file
        own = {"case": "x", "name": "", "id": "1", "backend": "b", "options": "", "cache": "hot", "round": 0}
        for file, says in (
                ("{\n\"context\": {},\n nonsense", "line 3: "),
                ("", "line 1: "), ("[1, 2]", "line 1: not the JSON of Google Benchmark"),
                ({"context": {}}, "line 1: not the JSON of Google Benchmark"),
                ({"context": {}, "benchmarks": {}}, "line 1: not the JSON"),
                ('{"context": {}, "benchmarks": [], "benchmarks": []}', "line 1: duplicate object key"),
                ({"context": {}, "benchmarks": []}, "no benchmark has a time of its own"),
                (dict(self.foreign([1]), benchmarks=self.foreign([1])["benchmarks"][1:]), "aggregates alone"),
                (changed(real_time=0), "benchmark 2 ('BM_x/64') has no real_time above 0"),
                (changed(real_time="5"), "has no real_time above 0"),
                (changed(real_time=-1), "has no real_time above 0"),
                (changed(real_time=1e308), "has no real_time above 0"),  # infinite in ns
                (without("real_time"), "has no real_time above 0"),
                (changed(time_unit="min"), "has a time_unit that is none of"),
                (changed(time_unit=5), "has a time_unit that is none of"),
                (changed(threads=0), "has no threads from 1 to"),
                (changed(threads=10 ** 9), "has no threads from 1 to"),
                (changed(threads="2"), "has no threads from 1 to"),
                (changed(run_type="other"), "has a run_type that is neither"),
                (changed(run_name="", name=""), "benchmark 2 has no name"),
                (changed(run_name="\x1b[31m"), "has a name with control characters"),
                (changed(run_name="x" * 9000), "has a name with control characters or over"),
                (changed(attnbench=5), "has an attnbench that is no object"),
                (changed(attnbench={}), "has no usable attnbench.case"),
                (changed(attnbench=dict(own, cache="")), "has no usable attnbench.cache"),
                (changed(attnbench=dict(own, round=7)), "has no attnbench.round that follows"),
                (changed(attnbench=dict(own, round=-1)), "has no attnbench.round that follows"),
                (changed(attnbench=dict(own, round="0")), "has no attnbench.round that follows")):
            done = self.expect(2, "import", self.write(file), "-o", self.path("bad"))
            self.assertIn(self.path("file.json") + ": ", done.stderr)
            self.assertIn(says, done.stderr)
            if "benchmark 2" in done.stderr:  # the line on which the entry begins
                line = int(done.stderr.split("line ")[1].split(",")[0])
                with open(self.path("file.json"), encoding="utf-8") as text:
                    self.assertEqual(text.read().splitlines()[line - 1].strip(), "{")
                self.assertGreater(line, 20)
            self.assertFalse(os.path.exists(self.path("bad")))
        # Strings that look like the structure do not mislead the line.
        file = changed(real_time=0)
        file["context"]["note"] = "\"benchmarks\": [{\\"
        self.assertIn("benchmark 2", self.expect(2, "import", self.write(file), "-o", self.path("bad")).stderr)
        for arguments in (["import"], ["import", self.write("{}")], ["import", self.path("none"), "-o", "x"],
                          ["import", self.write(self.foreign([1])), "-o", self.path("x"), "--name", "A/b"]):
            self.expect(2, *arguments)


if __name__ == "__main__":
    unittest.main(verbosity=2)
