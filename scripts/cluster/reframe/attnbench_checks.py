# SPDX-License-Identifier: Apache-2.0
"""ReFrame tests of attnbench: one for each case and backend.

    ATTNBENCH_CASES='cases/sweep_seqlen.cases' ATTNBENCH_BACKENDS=avx2,blas \\
        reframe -C scripts/cluster/reframe/settings.py -c scripts/cluster/reframe -r

A test runs `attnbench bench` on one case. It is sane if the exit code is 0 and every verdict holds, or
is a skip that is expected. Its performance variables are those of the timings. With a baseline, a run
folder of the same cases, times and peak memory have references, and beyond these the test fails.

Variables of the environment:
  ATTNBENCH            the program (default: attnbench)
  ATTNBENCH_CASES      what `attnbench list cases` takes; words are those of a shell
  ATTNBENCH_BACKENDS   names with commas between them
  ATTNBENCH_PLUGINS    plugins outside the plugin folder, with commas between them
  ATTNBENCH_BASELINE   a run folder
  ATTNBENCH_MARGIN     by how much a result may exceed its reference (default 0.1)
  ATTNBENCH_OPTIONS    further options of `attnbench bench`, words as of a shell
"""
import json
import os
import shlex
import subprocess

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import deferrable, parameter, run_before, sanity_function

PROGRAM = os.environ.get("ATTNBENCH", "attnbench")
CASES = shlex.split(os.environ.get("ATTNBENCH_CASES", ""))
BACKENDS = [name for name in os.environ.get("ATTNBENCH_BACKENDS", "").split(",") if name]
PLUGINS = [word for name in os.environ.get("ATTNBENCH_PLUGINS", "").split(",") if name
           for word in ("--plugin", name)]
BASELINE = os.environ.get("ATTNBENCH_BASELINE", "")
MARGIN = float(os.environ.get("ATTNBENCH_MARGIN", "0.1"))
OPTIONS = shlex.split(os.environ.get("ATTNBENCH_OPTIONS", ""))
HOLDS = ("pass", "approx", "mistrusted")


def case_lines():
    done = subprocess.run([PROGRAM, "list", "cases", "--json", *CASES], capture_output=True,
                          text=True, check=True)
    return [(case["id"], case["case"]) for case in json.loads(done.stdout)]


def records(folder):
    with open(os.path.join(folder, "results.ndjson"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def figures(found):
    """{"time_hot": (ns, "ns"), ...} of the timings of one result."""
    values = {}
    for record in found:
        if record.get("type") != "bench" or record.get("cut"):
            continue
        cache = record["cache"]
        values["time_" + cache] = (record["time_ns"]["median"], "ns")
        values["rate_" + cache] = (record["gflops"], "GFLOP/s")
        if record.get("peak_bytes") is not None:
            values["peak"] = (record["peak_bytes"], "B")
    return values


def baseline():
    """(id, backend) -> its records."""
    results = {}
    for record in records(BASELINE) if BASELINE else []:
        results.setdefault((record.get("id"), record.get("backend")), []).append(record)
    return results


REFERENCES = baseline()


@rfm.simple_test
class attnbench_bench(rfm.RunOnlyRegressionTest):
    descr = "attnbench: numbers and times of one case on one backend"
    case = parameter(case_lines(), fmt=lambda case: case[0])
    backend = parameter(BACKENDS)
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    num_cpus_per_task = 2

    @run_before("run")
    def set_command(self):
        self.executable = PROGRAM
        self.executable_opts = ["bench", "-b", self.backend, *PLUGINS, *OPTIONS, "-o", "run",
                                shlex.quote(self.case[1])]
        # Which queue ran it, and how it ended: a scheduler without accounting says neither.
        self.postrun_cmds = ['echo "RC=$?"', 'echo "JOB=${SLURM_JOB_ID:-none}"']

    @sanity_function
    def numbers_are_right(self):
        return sn.all([sn.assert_found(r"^RC=0$", self.stdout, msg="the exit code is not 0"),
                       sn.assert_true(self.verdicts_hold(), msg="a verdict does not hold")])

    @deferrable
    def verdicts_hold(self):
        verdicts = [record for record in records(os.path.join(self.stagedir, "run"))
                    if record.get("type") == "verify"]
        return bool(verdicts) and all(
            record["status"] in HOLDS or (record["status"] == "skip" and record.get("expected"))
            for record in verdicts)

    @run_before("performance")
    def set_figures(self):
        found = figures(records(os.path.join(self.stagedir, "run")))
        limits = figures(REFERENCES.get((self.case[0], self.backend), []))
        self.perf_variables = {
            name: sn.make_performance_function(sn.defer(value), unit)
            for name, (value, unit) in found.items()}
        # Of times and memory less is better, of rates more.
        self.reference = {self.current_partition.fullname: {
            name: (value, -MARGIN if name.startswith("rate") else None,
                   None if name.startswith("rate") else MARGIN, unit)
            for name, (value, unit) in limits.items() if name in found and value > 0}}
