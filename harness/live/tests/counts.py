#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""counts.py - how often `compare --live` is right: comparisons of which the answer is known.

    counts.py BUILD [--backend FILE:NAME] [--aa N] [--planted N] [--decode SHARE] [--busy N]
              [--log FILE] [--logged]

A/A: a backend beside itself (avx2; --backend names a file of the plugin folder and a backend).
Planted: beside itself with one of 20 heads computed twice (the plugin planted/slowed.c on both
sides). --aa and --planted: comparisons of each kind, compute-bound cases in turn; of decoding,
SHARE times as many (a third). --busy N: N processes that compute all the time take part. With --log
a run that was cut off goes on; --logged prints what FILE has and compares nothing.

Exit code 1 if more than 1 % of the verdicts are wrong, or fewer than 95 % of the slowdowns were
found on compute-bound cases.
"""
import argparse
import collections
import json
import math
import os
import statistics
import subprocess
import sys

COMPUTE = ("h=20 s=128 d=64", "h=20 s=48 d=32", "h=20 s=192 d=64")
DECODE = ("h=20 sq=1 sk=2048 d=64", "h=20 sq=1 sk=256 d=64")
SAME, MORE = "slowed", "slowed:permille=50"


def compare(build, planted, case):
    attnbench = os.path.join(build, "bin", "attnbench")
    plugin = os.path.join(build, "lib", "attnbench", "planted", "slowed.so")
    done = subprocess.run([attnbench, "compare", "--live", "--plugin", plugin, SAME,
                           MORE if planted else SAME, case, "--json"],
                          capture_output=True, text=True, check=False)
    if done.returncode not in (0, 4, 5):
        sys.exit(f"counts: {case}: exit code {done.returncode}: {done.stderr.strip()}")
    result = json.loads(done.stdout)["results"][0]
    pairs = result["pairs"]
    return {"planted": planted, "case": case, "verdict": result["verdict"],
            "ratio": result["ratio"], "lo": result["lo"], "hi": result["hi"],
            "pairs": len(pairs), "ratios": [p["ratio"] and round(p["ratio"], 5) for p in pairs],
            "seconds": result["seconds"], "noise": result["noise"],
            "load": max(p["load"] for p in pairs), "steal": max(p["steal"] for p in pairs)}


def wanted(args):
    """Which comparisons, the kinds mixed, so that no hour of the day has one kind only."""
    kinds = [(False, case, args.aa, COMPUTE) for case in COMPUTE]
    kinds += [(True, case, args.planted, COMPUTE) for case in COMPUTE]
    kinds += [(False, case, round(args.aa * args.decode), DECODE) for case in DECODE]
    kinds += [(True, case, round(args.planted * args.decode), DECODE) for case in DECODE]
    todo = [((i + 0.5) * len(group) / n, planted, case)
            for planted, case, n, group in kinds for i in range(-(-n // len(group)))]
    return [(planted, case) for _, planted, case in sorted(todo)]


def limit(bad, n, level=0.95):
    """The rate that `bad` of n do not exceed, at this level (Clopper and Pearson), by bisection."""
    def at_most(p):
        return sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(bad + 1))
    low, high = bad / n, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if at_most(middle) > 1 - level else (low, middle)
    return high


def report(results):
    print("| comparison | case | verdicts | wrong, at most | found, at least | in the interval | "
          "seconds |\n|---|---|---|---:|---:|---:|---:|")
    wrong_all = found = planted_all = 0
    for kind, cases in (("compute", COMPUTE), ("decode", DECODE)):
        for planted in (False, True):
            rows = [(case, [r for r in results if r["planted"] == planted and r["case"] == case])
                    for case in cases]
            rows = [(case, some) for case, some in rows if some]
            inside = 0
            for case, some in rows + [("all", [r for _, some in rows for r in some])]:
                if not some:
                    continue
                n = len(some)
                verdicts = collections.Counter(r["verdict"] for r in some)
                bad = verdicts["faster"] + verdicts["same" if planted else "slower"]
                if case == "all":
                    within = inside
                    wrong_all += bad
                else:
                    # What a twentieth of the work costs is known by all of its comparisons only.
                    truth = statistics.mean(math.log(r["ratio"]) for r in some) if planted else 0
                    within = sum(math.log(r["lo"]) <= truth <= math.log(r["hi"]) for r in some)
                    inside += within
                text = ", ".join(f"{count} `{verdict}`" for verdict, count in verdicts.most_common())
                least = ""
                if planted:
                    least = f"{100 * (1 - limit(n - verdicts['slower'], n)):.1f} %"
                    if case == "all" and kind == "compute":
                        found, planted_all = verdicts["slower"], n
                print(f"| {'5 % on top' if planted else 'A/A'} | "
                      f"{case if case == 'all' else f'`{case}`'} | {text} | "
                      f"{100 * limit(bad, n):.1f} % | {least} | {within} of {n} | "
                      f"{statistics.median(r['seconds'] for r in some):.1f} |")
    if not results:
        return True
    loads = [r["load"] for r in results]
    noise = collections.Counter(r["noise"] for r in results)
    print(f"\n{len(results)} comparisons, load {min(loads):.1f} to {max(loads):.1f}, noise "
          + ", ".join(f"{count} {name}" for name, count in noise.most_common())
          + f", {sum(r['seconds'] for r in results) / 3600:.1f} hours")
    return wrong_all > 0.01 * len(results) or found < 0.95 * planted_all


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--backend", default="simd.so:avx2")
    parser.add_argument("--aa", type=int, default=300)
    parser.add_argument("--planted", type=int, default=102)
    parser.add_argument("--decode", type=float, default=1 / 3)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--log")
    parser.add_argument("--logged", action="store_true")
    args = parser.parse_args()
    os.environ["ATTNBENCH_SLOWED"] = os.path.realpath(
        os.path.join(args.build, "lib", "attnbench", args.backend.partition(":")[0])) + ":" + \
        args.backend.partition(":")[2]
    results, todo = [], collections.Counter(wanted(args))
    if args.log and os.path.exists(args.log):
        with open(args.log, encoding="utf-8") as file:
            results = [json.loads(line) for line in file]
    for r in results:
        todo[r["planted"], r["case"]] -= 1
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
            for _ in range(0 if args.logged else args.busy)]
    try:
        for planted, case in [] if args.logged else wanted(args):
            if todo[planted, case] <= 0:
                continue
            todo[planted, case] -= 1
            results.append(compare(args.build, planted, case))
            if args.log:
                with open(args.log, "a", encoding="utf-8") as file:
                    file.write(json.dumps(results[-1]) + "\n")
    finally:
        for process in busy:
            process.kill()
            process.wait()
    return report(results)


if __name__ == "__main__":
    sys.exit(main())
