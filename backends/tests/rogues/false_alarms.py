#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""false_alarms.py - random cases on right kernels of different arithmetic: the rogue backend's
arith=NAME (honest.h). Every case must pass, as it was drawn and under every fill and check that
fits it. What is refused is a fault of the bound, of a check, or of what the kernel declares.

    false_alarms.py BUILD [--seed N] [--results N] [--seconds S] [--log FILE] [--logged]
                    [--arith NAME]...

The cases are those of `attnbench verify --fuzz`: batch I of seed N has the seed N * 10^6 + I. With
--log a run that was cut off goes on; --logged reports what FILE has and tries nothing.
"""
import argparse
import collections
import json
import os
import re
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "harness", "run", "tests"))
import campaign  # noqa: E402  (the batches, and which fills there are)

BATCH = 20
KEPT = ("options", "status", "reason", "case", "repro", "max_ratio")


def ariths():
    with open(os.path.join(HERE, "honest.h"), encoding="utf-8") as file:
        return ["f32"] + re.findall(r"^ +ARITH\((\w+),", file.read(), re.M)


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
    parser.add_argument("--log")
    parser.add_argument("--logged", action="store_true", help="nothing but what the log has")
    return parser.parse_args()


def main():
    args = parse_arguments()
    build = os.path.abspath(args.build)
    program = os.path.join(build, "bin", "attnbench")
    plugin = os.path.join(build, "tests", "plugins", "rogue.so")
    backends = [f"rogue:arith={name}" for name in args.arith or ariths()]
    fills = campaign.fill_names(program)
    known, alarms = read_log(args.log), Alarms()
    for records in known.values():
        alarms.add(records)
    begun, batch = time.monotonic(), 0
    while (not args.logged and alarms.results() < args.results and
           time.monotonic() - begun < args.seconds):
        seed, batch = args.seed * campaign.BATCHES_MAX + batch, batch + 1
        if seed in known:
            continue
        records = [summary(r, fills) for r in
                   campaign.verify(program, backends, BATCH, seed, 1 + batch % 2, plugin)
                   if r["type"] == "verify"]
        alarms.add(records)
        if args.log:
            with open(args.log, "a", encoding="utf-8") as file:
                file.write(json.dumps({"seed": seed, "records": records}) + "\n")
    alarms.report()
    return 1 if alarms.bad() or not alarms.results() else 0


if __name__ == "__main__":
    sys.exit(main())
