#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""coverage.py - how often the intervals that `bench` prints hold the median of many benches.

    coverage.py BUILD [--benches N] [--log FILE] [--logged]

Each bench times CASES on all backends of the build. Per case and backend, the truth is the median
over all benches of the low quantile (`low_ns`), and of the ratio to the anchor that most of them
had. With --log a run that was cut off goes on; --logged reports what FILE has.

Exit code 1 if fewer than 85 % of the ratios' intervals hold it: neighbours that are busy for
minutes move all rounds of a bench.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

CASES = ("h=8 s=256 d=64", "h=8 s=128 d=64 mask=causal", "h=4 s=384 d=64")


def bench(build):
    """One bench: {case: {backend: [low, [lo, hi], ratio to the anchor, [lo, hi]]}}."""
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        done = subprocess.run([os.path.join(build, "bin", "attnbench"), "bench", "-o", run,
                               "--cache", "hot", "--rounds", "4", "--fills", "none", "--checks",
                               "none", *CASES], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"coverage: exit code {done.returncode}: {done.stderr.strip()}")
        with open(os.path.join(run, "results.ndjson"), encoding="utf-8") as file:
            records = [record for record in map(json.loads, file) if record["type"] == "bench"]
    figures = {}
    for record in records:
        live = record["live"]
        if live and live.get("paired") and record["options"] == "":
            low, paired = live["low_ns"], live["paired"]
            figures.setdefault(record["case"], {})[record["backend"]] = [
                low["value"], low["ci95"], paired["ratio"], paired["ci95"], paired["anchor"]]
    return figures


def report(benches):
    """Prints a line per case and kind; returns the share of ratios' intervals that hold."""
    print("| case | figure | intervals that hold | width, median |\n|---|---|---:|---:|")
    all_held = all_count = 0
    for case in sorted({case for figures in benches for case in figures}):
        for kind, at in (("low quantile", 0), ("ratio", 2)):
            held = count = 0
            widths = []
            backends = {name for figures in benches for name in figures.get(case, {})}
            for name in backends:
                rows = [figures[case][name] for figures in benches if name in figures.get(case, {})]
                if at == 2:  # to one anchor: the one that most benches had
                    anchors = [row[4] for row in rows]
                    anchor = statistics.mode(anchors)
                    rows = [row for row in rows if row[4] == anchor and name != anchor]
                rows = [row for row in rows if row[at + 1]]
                if len(rows) < 3:
                    continue
                truth = statistics.median(row[at] for row in rows)
                held += sum(row[at + 1][0] <= truth <= row[at + 1][1] for row in rows)
                count += len(rows)
                widths += [(row[at + 1][1] - row[at + 1][0]) / row[at] for row in rows]
            if not count:
                continue
            if at == 2:
                all_held, all_count = all_held + held, all_count + count
            print(f"| `{case}` | {kind} | {held} of {count} ({100 * held / count:.0f} %) | "
                  f"{100 * statistics.median(widths):.1f} % |")
    print(f"\n{len(benches)} benches; ratios together: {all_held} of {all_count}")
    return all_held / all_count if all_count else math.nan


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--benches", type=int, default=12)
    parser.add_argument("--log")
    parser.add_argument("--logged", action="store_true")
    args = parser.parse_args()
    benches = []
    if args.log and os.path.exists(args.log):
        with open(args.log, encoding="utf-8") as file:
            benches = [json.loads(line) for line in file]
    while len(benches) < args.benches and not args.logged:
        benches.append(bench(args.build))
        if args.log:
            with open(args.log, "a", encoding="utf-8") as file:
                file.write(json.dumps(benches[-1]) + "\n")
    return 0 if report(benches) >= 0.85 else 1


if __name__ == "__main__":
    sys.exit(main())
