#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""false_alarms.py - random cases on right kernels of different arithmetic: the rogue backend's
arith=NAME (honest.h). Every case must pass, as it was drawn and under every fill and check that
fits it. What is refused is a fault of the bound, of a check, or of what the kernel declares.

    false_alarms.py BUILD [--seed N] [--results N] [--seconds S] [--log FILE] [--logged]
                    [--arith NAME]... [--jobs N] [--checks LIST]

The cases are those of `attnbench list cases --fuzz` that rogue takes, in f32, f16 and bf16 by turns.
Batch I of seed N has the seed N * 10^6 + I. With --log a run that was cut off goes on; --logged
reports what FILE has and tries nothing.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."),
                os.path.join(HERE, "..", "..", "..", "harness", "run", "tests")]
import campaign  # noqa: E402  (which fills there are)
from scoring import Program  # noqa: E402

DRAWN = 14  # cases of a batch, of which about half are of other scores
MOST = 1 << 23  # products of a score, for all cells: larger cases show nothing more
TYPES = ("f32", "f16", "bf16")
KEPT = ("options", "status", "reason", "case", "repro", "max_ratio")


def ariths():
    with open(os.path.join(HERE, "honest.h"), encoding="utf-8") as file:
        return ["f32"] + re.findall(r"^ +ARITH\((\w+),", file.read(), re.M)


def products(line):
    sizes = {"b": 1, "hq": 1, "sq": 1, "sk": 0, "dk": 64}
    for word in line.split():
        key, _, value = word.partition("=")
        if key in sizes:
            sizes[key] = int(value)
    return sizes["b"] * sizes["hq"] * sizes["sq"] * (sizes["sk"] or sizes["sq"]) * sizes["dk"]


def draw(program, seed):
    """The cases of a batch, {name: words}."""
    done = subprocess.run([program.attnbench, "list", "cases", "--fuzz", str(DRAWN), "--seed", str(seed),
                           "--json"], capture_output=True, text=True, check=True)
    lines = [" ".join(word for word in line.split() if not word.startswith("dtype="))
             for line in (case["case"] for case in json.loads(done.stdout))
             if not re.search(r"score=(bilinear|additive|gaussian)", line) and
             products(line) <= MOST]
    return {f"case_{n}": f"{line} dtype={TYPES[n % len(TYPES)]}" for n, line in enumerate(lines)}


def verify(program, names, checks, seed, fills):
    """The records of a batch on every kernel, as the log keeps them."""
    path = program.file(f"batch_{seed}", draw(program, seed))
    backends = [word for name in names for word in ("-b", f"rogue:arith={name}")]
    _, records = program.verify(backends[1], path, 1 + seed % 2, "--run-limit", "0",
                                "--checks", checks, *backends[2:], timeout=7200)
    return [summary(r, fills) for r in records]


def summary(record, fills):
    """What the log keeps of a record. `results`: the case as drawn, and under further fills."""
    kept = {key: record.get(key) for key in KEPT}
    kept["dtype"] = (record.get("sizes") or {}).get("dtype")
    kept["results"] = 1 + len(fills.intersection(record["checks"]))
    kept["checks"] = len(record["checks"])
    return kept


def read_log(path):
    if not path or not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return {entry["seed"]: entry["records"] for entry in map(json.loads, file)}


class Alarms:
    def __init__(self):
        self.records = []

    def add(self, records):
        self.records += records
        for r in records:
            if r["status"] not in ("pass", "skip", "mistrusted"):
                print(f"{r['options']} {r['status']}: {r['reason']}\n    {r['repro']}", flush=True)

    def results(self):
        return sum(r["results"] for r in self.records if r["status"] == "pass")

    def bad(self):
        return [r for r in self.records if r["status"] not in ("pass", "skip", "mistrusted")]

    def report(self):
        keys = sorted({(r["options"], r["dtype"]) for r in self.records if r["status"] != "skip"})
        print("| kernel | type | cases | results | checks | largest ratio | median | mistrusted | "
              "refused |\n|---|---|---:|---:|---:|---:|---:|---:|---:|")
        for options, dtype in keys:
            mine = [r for r in self.records if (r["options"], r["dtype"]) == (options, dtype)]
            passed = [r for r in mine if r["status"] == "pass"]
            ratios = [r["max_ratio"] for r in passed] or [0]
            print(f"| {options.partition('=')[2]} | {dtype} | {len(passed)} | "
                  f"{sum(r['results'] for r in passed)} | {sum(r['checks'] for r in passed)} | "
                  f"{max(ratios):.3f} | {statistics.median(ratios):.3f} | "
                  f"{sum(r['status'] == 'mistrusted' for r in mine)} | "
                  f"{sum(r in self.bad() for r in mine)} |")
        reasons = collections.Counter((r["status"], re.sub(r"\d+(\.\d+)?", "N", r["reason"]))
                                      for r in self.records
                                      if r["status"] in ("skip", "mistrusted"))
        for (status, reason), count in reasons.most_common():
            print(f"{status} {count:6}  {reason}")
        statuses = collections.Counter(r["status"] for r in self.records)
        print(", ".join(f"{count} {status}" for status, count in sorted(statuses.items())) +
              f": {self.results()} results held")


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--results", type=int, default=30000,
                        help="no batch begins after so many have held")
    parser.add_argument("--seconds", type=float, default=1e9, help="no batch begins after this")
    parser.add_argument("--arith", action="append", help="these kernels alone")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--checks", default="all", help="as of `attnbench verify`")
    parser.add_argument("--log")
    parser.add_argument("--logged", action="store_true", help="nothing but what the log has")
    return parser.parse_args()


def main():
    args = parse_arguments()
    known, alarms, lock = read_log(args.log), Alarms(), threading.Lock()
    for records in known.values():
        alarms.add(records)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="attnbench-alarms-") as folder:
        program = Program(args.build, "rogue.so", folder)
        fills = campaign.fill_names(program.attnbench)

        def work(job):
            batch = job
            while (not args.logged and alarms.results() < args.results and
                   time.monotonic() - begun < args.seconds):
                seed, batch = args.seed * campaign.BATCHES_MAX + batch, batch + args.jobs
                if seed in known:
                    continue
                records = verify(program, args.arith or ariths(), args.checks, seed, fills)
                with lock:
                    alarms.add(records)
                    if args.log:
                        with open(args.log, "a", encoding="utf-8") as file:
                            file.write(json.dumps({"seed": seed, "records": records}) + "\n")

        with concurrent.futures.ThreadPoolExecutor(max_workers=args.jobs) as pool:
            list(pool.map(work, range(args.jobs)))
    alarms.report()
    return 1 if alarms.bad() or not alarms.results() else 0


if __name__ == "__main__":
    sys.exit(main())
