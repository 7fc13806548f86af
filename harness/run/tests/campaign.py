# SPDX-License-Identifier: Apache-2.0
"""Random cases of the whole case language on every exact backend. Each case must pass or be
refused, as it was drawn and under every adversarial fill that fits it.

    campaign.py BUILD_DIR [--seed N] [--cases N] [--seconds S] [--results N] [-b BACKEND]...
                [--keep FOLDER]

The cases are those of `attnbench verify --fuzz`, in batches: batch I of seed N has the seed
N * 10^6 + I. They depend on the seed alone; how many are run, on --cases, --seconds and --results.
"""
import argparse
import collections
import json
import os
import statistics
import subprocess
import sys
import time

BATCH = 200
BATCHES_MAX = 10**6  # of one seed
GOOD = {"pass", "skip"}
# The bound may be so wide that a pass proves nothing, or scores beyond the range of f32.
EXTREME = {"scale=3000", "scale=1e+08", "scale=1e+38", "softcap=1e+300"}


def verify(program, backends, count, seed, threads):
    """The records of one batch; exits where the program itself fails."""
    command = [program, "verify", "--json", "--fuzz", str(count), "--seed", str(seed),
               "--threads", str(threads), "--run-limit", "0"]
    for backend in backends:
        command += ["-b", backend]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)
    if done.returncode not in (0, 3, 6):
        sys.exit(f"{' '.join(command)}\nexit code {done.returncode}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def keep(folder, seed, records):
    """The cases of a batch as a file that `verify` reads."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"fuzz_{seed}.cases"), "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in dict.fromkeys(r["case"] for r in records))


def fill_names(program):
    done = subprocess.run([program, "list", "fills", "--json"], capture_output=True, text=True,
                          check=True)
    return {fill["name"] for fill in json.loads(done.stdout)}


class Tally:
    """What became of the cases, by backend and type. A result is a case on a backend, as it was
    drawn or under one more fill; all those of a case share its record, and the largest ratio."""

    def __init__(self, fills):
        self.fills = fills
        self.statuses = collections.Counter()
        self.results = collections.Counter()
        self.ratios = collections.defaultdict(list)
        self.skips = collections.Counter()
        self.bad = []

    def add(self, record):
        backend = record["backend"] + (":" + record["options"] if record["options"] else "")
        status = record["status"]
        self.statuses[status] += 1
        if status == "skip":
            self.skips[backend, record["reason"]] += 1
        elif status == "pass" and "max_ratio" in record:
            self.ratios[backend, record["sizes"]["dtype"]].append(record["max_ratio"])
            self.results[backend, "as drawn"] += 1
            for fill in self.fills.intersection(record["checks"]):
                self.results[backend, fill] += 1
        if status == "mistrusted" and EXTREME.intersection(record["case"].split()):
            return
        if status not in GOOD:
            self.bad.append(record)
            print(f"{status}: {record['reason']}\n    {record['repro']}", flush=True)

    def report(self):
        print("status:", ", ".join(f"{n} {s}" for s, n in sorted(self.statuses.items())))
        print("largest error over its bound in a case: median and largest of the passes")
        for (backend, dtype), ratios in sorted(self.ratios.items()):
            print(f"    {backend:20} {dtype:5} {len(ratios):6}  {statistics.median(ratios):.4f}"
                  f"  {max(ratios):.4f}")
        print(f"results that held: {self.results.total()}, by backend and fill")
        for backend in sorted({b for b, _ in self.results}):
            held = {fill: n for (b, fill), n in sorted(self.results.items()) if b == backend}
            print(f"    {backend:20} {sum(held.values()):6} ",
                  ", ".join(f"{fill} {n}" for fill, n in held.items()))
        for (backend, reason), count in sorted(self.skips.items()):
            print(f"    {backend:20} skip  {count:6}  {reason}")


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=BATCH * BATCHES_MAX)
    parser.add_argument("--seconds", type=float, default=1e9, help="no batch begins after this")
    parser.add_argument("--results", type=int, default=10**9,
                        help="no batch begins after so many have held")
    parser.add_argument("-b", "--backend", action="append", default=[])
    parser.add_argument("--keep", help="folder for the case files")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    program = os.path.join(os.path.abspath(arguments.build), "bin", "attnbench")
    tally = Tally(fill_names(program))
    done, begun = 0, time.monotonic()
    while (done < arguments.cases and time.monotonic() - begun < arguments.seconds
           and tally.results.total() < arguments.results):
        count, batch = min(BATCH, arguments.cases - done), done // BATCH
        seed = arguments.seed * BATCHES_MAX + batch
        records = verify(program, arguments.backend, count, seed, 1 + batch % 2)
        for record in records:
            tally.add(record)
        if arguments.keep:
            keep(arguments.keep, seed, records)
        done += count
    print(f"seed {arguments.seed}: {done} cases")
    tally.report()
    passes = tally.statuses["pass"]
    return 0 if passes > 0 and not tally.bad else 1


if __name__ == "__main__":
    sys.exit(main())
