#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds our backends against their peers and against the machine, and writes the table of it.

    scripts/bars.py [--build DIR] [--out DIR] [--reuse] [--no-write] [--check] [BARS.json]

BARS.json (cases/bars/f32.json when none is given; cases/bars/README.md says what is in it) names the
cases, the backends and what each figure must reach. All backends are timed in one run, on one thread,
in the same rounds; backends that are not there are left out with a line. The table goes between the
two marker comments of the Markdown file that BARS.json names. Exit code 1 with --check where a bar is
missed, 2 where nothing could be measured; without --check what is missed is only named.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAIRS = 3  # of runs on one thread and on two
DASH = "—"


class Unfit(Exception):
    """Nothing to compute from."""


# ---- measuring ----

def bench(program, folder, backends, cases, *options):
    """One run of `attnbench bench`, hot cache. A backend that fails a case is a figure that is missing."""
    names = [word for name in backends for word in ("-b", name)]
    done = subprocess.run([program, "bench", *names, "--cache", "hot", "--run-limit", "0", "-o", folder,
                           *options, *cases], stdout=subprocess.DEVNULL, check=False)
    if done.returncode not in (0, 3, 6, 7):  # 7: a backend has another type than all of these cases
        raise Unfit(f"attnbench bench ended with exit code {done.returncode}")


def choose(program, names):
    """Those that can run here; the others are named with the reason."""
    listed = json.loads(subprocess.run([program, "list", "backends", "--json"], capture_output=True,
                                       text=True, check=True).stdout)
    reasons = {item["name"]: "" if item["available"] else item["reason"] for item in listed}
    missing = {name: reason for name in names if (reason := reasons.get(name.split(":")[0], "not built"))}
    for name, reason in missing.items():
        print(f"left out: {name}: {reason}", file=sys.stderr)
    return [name for name in names if name not in missing]


def measure(program, bars, out):
    """Every run that the figures need, into folders of `out`."""
    ours, peers = choose(program, bars["ours"]), choose(program, bars["peers"])
    if not ours:
        raise Unfit("none of our backends can run here")
    # Rounds are what intervals and medians are made of; a third sample in each costs a minute.
    bench(program, os.path.join(out, "main"), ours + peers, [bars["cases"]], "--samples", "2")
    _, timed, _, _ = read(os.path.join(out, "main"))
    if "memory" in bars:
        bench(program, os.path.join(out, "memory"), ours, [bars["memory"]["case"]], "--rounds", "1",
              "--samples", "1")
    if "threads" not in bars or len(os.sched_getaffinity(0)) < 2:
        return
    # One case a pattern, so that each run is short and the two of a pair see the same machine.
    for case in bars["threads"]["cases"]:
        best = fastest(timed, case, ours)
        for pair in range(PAIRS if best else 0):
            for threads in (1, 2):
                bench(program, os.path.join(out, f"threads-{case}-{pair}-{threads}"), [best[0]],
                      [bars["cases"]], "--filter", case, "--threads", str(threads), "--rounds", "1",
                      "--samples", "5")


# ---- reading ----

def read(folder):
    """Ceilings and machine, the bench record of each (case, backend) of a run, its cases in order and the
    backends that were asked: one that refuses every case is among them."""
    with open(os.path.join(folder, "machine.json"), encoding="utf-8") as file:
        machine = json.load(file)
    if not machine["ceilings"]:
        raise Unfit(f"{folder}: the machine's ceilings could not be measured")
    with open(os.path.join(folder, "results.ndjson"), encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    timed = {(r["name"], named(r)): r for r in records if r["type"] == "bench"}
    asked = [r for r in records if r["type"] == "verify"]
    order = list(dict.fromkeys(r["name"] for r in asked))
    return machine, timed, order, {named(r) for r in asked}


def named(record):
    """The backend of a record as BARS.json names it, with its options."""
    return record["backend"] + (":" + record["options"] if record.get("options") else "")


def best_round(record):
    """The least of the medians of the rounds: the peak is the best of its trials, so is this."""
    return min(statistics.median(samples) for samples in record["samples_ns"])


def fastest(timed, case, backends):
    """The backend with the least median time of a case, and that time; None without any."""
    times = {b: timed[case, b]["time_ns"]["median"] for b in backends if (case, b) in timed}
    return min(times.items(), key=lambda item: item[1]) if times else None


def peak_of(machine, dtype):
    """That of the widest rung that multiplies this type; 0 without any."""
    return ([0] + [peak for rung in machine["ceilings"]["rungs"] if (peak := rung.get(dtype))])[-1]


def spared(bars, machine):
    """Has this machine the rung on which the mean and the shares of the peak are not asked."""
    return bars.get("unless_rung") in [rung["isa"] for rung in machine["ceilings"]["rungs"]]


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))


def slope(points):
    """Least squares in log-log; None where fewer than three sizes took any memory."""
    points = [(math.log(x), math.log(y)) for x, y in points if y]
    if len(points) < 3:
        return None
    mean_x, mean_y = (statistics.fmean(axis) for axis in zip(*points))
    return (sum((x - mean_x) * (y - mean_y) for x, y in points) /
            sum((x - mean_x) ** 2 for x, _ in points))


# ---- figures ----

class Bar:
    """One thing that is held to a bar. `measured` None: it could not be measured, and is missed."""

    def __init__(self, what, measured, wanted, at_most=False, note=""):
        self.what, self.measured, self.wanted = what, measured, wanted
        self.at_most, self.note = at_most, note
        self.met = measured is not None and (measured <= wanted if at_most else measured >= wanted)

    def row(self):
        measured = DASH if self.measured is None else f"{self.measured:.2f}"
        return (f"| {self.what} | {measured}{self.note} | {'≤' if self.at_most else '≥'} "
                f"{self.wanted:.2f} | {'yes' if self.met else '**no**'} |")


def ratios(timed, cases, backends, peers):
    """Time of the best peer over that of the best of `backends`, by case, where both were timed."""
    found = {}
    for case in cases:
        mine, theirs = fastest(timed, case, backends), fastest(timed, case, peers)
        if mine and theirs:
            found[case] = theirs[1] / mine[1]
    return found


def speed_bars(bars, machine, timed):
    speed = bars["speed"]
    found = ratios(timed, speed["cases"], bars["ours"], bars["peers"])
    whole = len(found) == len(speed["cases"])
    note = f" ({len(found)} of {len(speed['cases'])} cases)"
    least = min(found, key=found.get) if found else None
    if not spared(bars, machine):
        yield Bar("best of ours over best peer, geometric mean", geometric_mean(found.values())
                  if whole else None, speed["mean"], note="" if whole else note)
    yield Bar("best of ours over best peer, least case", found[least] if whole else None, speed["least"],
              note=f" ({least})" if whole else note)
    narrow = bars.get("narrow")
    if not narrow:
        return
    rungs = {rung["isa"]: rung[bars["peak"]] for rung in machine["ceilings"]["rungs"]}
    apart = 1 - rungs.get(narrow["backend"], 0) / peak_of(machine, bars["peak"])
    if apart > narrow["peaks_within"]:
        return
    found = ratios(timed, speed["cases"], [narrow["backend"]], bars["peers"])
    whole = len(found) == len(speed["cases"])
    yield Bar(f"{narrow['backend']} alone over best peer, geometric mean",
              geometric_mean(found.values()) if whole else None, narrow["mean"],
              note="" if whole else note)


def best_rate(timed, case, backends, work):
    """The best round of the best of `backends` in G`work`/s, and whose it is."""
    rates = {b: timed[case, b][work] / best_round(timed[case, b])
             for b in backends if (case, b) in timed}
    return max(rates.items(), key=lambda item: item[1]) if rates else (None, None)


def pair_bars(bars, timed, asked):
    """Time of the best of ours in f32 over that of the first backend of pairs that is there, by case."""
    pairs = bars["pairs"]
    names = pairs["backend"] if isinstance(pairs["backend"], list) else [pairs["backend"]]
    backend = next((name for name in names if name in asked), None)
    if not backend:
        return
    others = [b for b in bars["ours"] if b not in names]
    found = {}
    for case, in_f32 in pairs["cases"].items():
        mine, theirs = fastest(timed, case, [backend]), fastest(timed, in_f32, others)
        if mine and theirs:
            found[case] = theirs[1] / mine[1]
    whole = len(found) == len(pairs["cases"])
    least = f" (least {min(found.values()):.2f}, {min(found, key=found.get)})" if whole else \
        f" ({len(found)} of {len(pairs['cases'])} cases)"
    yield Bar(f"{backend} over f32 of ours, geometric mean",
              geometric_mean(found.values()) if whole else None, pairs["mean"], note=least)


def share_bars(bars, machine, timed):
    peak = 0 if spared(bars, machine) else peak_of(machine, bars.get("peak"))
    for kind, work, what, whole in (
            ("peak_shares", "flops", "FMA peak", peak),
            ("read_shares", "bytes", "read bandwidth", machine["ceilings"]["read_gbs"])):
        for case, wanted in bars.get(kind, {}).items() if whole else ():
            name, rate = best_rate(timed, case, bars["ours"], work)
            yield Bar(f"share of {what}, {case}", rate / whole if rate else None, wanted,
                      note=f" ({name})" if name else "")


def memory_bar(bars, out):
    _, timed, _, _ = read(os.path.join(out, "memory"))
    for backend in bars["ours"]:
        points = [(record["sizes"]["sq"], record["peak_bytes"])
                  for (_, name), record in timed.items() if name == backend]
        if points:
            yield Bar(f"slope of peak memory in S, {backend}", slope(points),
                      bars["memory"]["slope"], at_most=True)


def thread_bars(bars, out):
    """Speed-up by a second thread over that of the multiply-add loop, medians of the pairs."""
    for case in bars["threads"]["cases"]:
        found = []
        for pair in range(PAIRS):
            folder = os.path.join(out, f"threads-{case}-{pair}-")
            if not os.path.isdir(folder + "2"):
                break
            (one, alone, *_), (two, both, *_) = read(folder + "1"), read(folder + "2")
            mine = fastest(alone, case, bars["ours"])
            if mine and (case, mine[0]) in both:
                gain = best_round(alone[case, mine[0]]) / best_round(both[case, mine[0]])
                found.append(gain / (peak_of(two, bars["peak"]) / peak_of(one, bars["peak"])))
        yield Bar(f"two threads over twice one, of what the loops keep, {case}",
                  statistics.median(found) if found else None, bars["threads"]["kept"])


def all_bars(bars, out):
    machine, timed, _, asked = read(os.path.join(out, "main"))
    yield from speed_bars(bars, machine, timed)
    if "pairs" in bars:
        yield from pair_bars(bars, timed, asked)
    yield from share_bars(bars, machine, timed)
    if "memory" in bars:
        yield from memory_bar(bars, out)
    if "threads" in bars:
        yield from thread_bars(bars, out)


# ---- writing ----

def rate_table(bars, timed, order, asked):
    backends = [b for b in bars["ours"] + bars["peers"] if b in asked]
    rows = [f"| case | {' | '.join(backends)} | ours over best peer |",
            "|---|" + "---:|" * (len(backends) + 1)]
    for case in order:
        cells = [f"{timed[case, b]['gflops']:.1f}" if (case, b) in timed else DASH for b in backends]
        ratio = ratios(timed, [case], bars["ours"], bars["peers"]).get(case)
        rows.append(f"| {case} | {' | '.join(cells)} | {f'{ratio:.2f}' if ratio else DASH} |")
    return rows


def ceilings_line(machine):
    ceilings = machine["ceilings"]
    peaks = ", ".join(f"{rung['isa']} {key} {rung[key]:.0f}" for rung in ceilings["rungs"]
                      for key in ("f32", "f64", "f16", "bf16") if rung.get(key))
    reads = ", ".join(f"{level['level']} {level['gbs']:.0f}" for level in ceilings["reads"])
    gemm = "".join(f"; product of matrices, {item['backend']} {item['dtype']}: {item['gflops']:.0f} "
                   "GFLOP/s" for item in ceilings["gemm"])
    return f"multiply-add peaks: {peaks} GFLOP/s; reads: {reads} GB/s{gemm}"


def text_of(bars, out, results):
    machine, timed, order, asked = read(os.path.join(out, "main"))
    return "\n".join([
        f"{machine['cpu']['model']}, {machine['cpu']['cores']} cores, {machine['date'][:10]}, "
        f"{machine['attnbench']['commit']}, {machine['compiler']}. In this run, "
        f"{machine['threads']} thread: {ceilings_line(machine)}.", "",
        f"GFLOP/s, medians of {machine['protocol']['rounds']} interleaved rounds:", "",
        *rate_table(bars, timed, order, asked), "",
        "Shares are of the best round, as the peaks are the best of their trials; ratios and rates are of "
        "medians.", "",
        "| bar | measured | wanted | met |", "|---|---:|---:|---|", *(bar.row() for bar in results)])


def put_between(path, name, text):
    """Replaces what stands between the file's two markers of that name."""
    begin, end = f"<!-- bars {name}: begin -->", f"<!-- bars {name}: end -->"
    with open(path, encoding="utf-8") as file:
        old = file.read()
    if old.count(begin) != 1 or old.count(end) != 1 or old.index(begin) > old.index(end):
        raise Unfit(f"{path} does not have the markers '{begin}' and '{end}', once each")
    new = old[:old.index(begin) + len(begin)] + "\n" + text + "\n" + old[old.index(end):]
    with open(path, "w", encoding="utf-8") as file:
        file.write(new)


def load(path):
    with open(path, encoding="utf-8") as file:
        bars = json.load(file)
    here = os.path.dirname(os.path.abspath(path))
    for key in ("cases", "into"):
        bars[key] = os.path.normpath(os.path.join(here, bars[key]))
    return bars


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bars", nargs="?", default=os.path.join(ROOT, "cases", "bars", "f32.json"))
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--out", help="where the runs are left (default: a temporary folder)")
    parser.add_argument("--reuse", action="store_true", help="compute from the runs in --out")
    parser.add_argument("--no-write", action="store_true", help="print the table instead")
    parser.add_argument("--check", action="store_true", help="exit code 1 where a bar is missed")
    args = parser.parse_args()
    try:
        bars = load(args.bars)
        with tempfile.TemporaryDirectory(prefix="attnbench-bars-") as scratch:
            out = args.out or scratch
            if not args.reuse:
                measure(os.path.join(args.build, "bin", "attnbench"), bars, out)
            results = list(all_bars(bars, out))
            text = text_of(bars, out, results)
        if args.no_write:
            print(text)
        else:
            put_between(bars["into"], os.path.splitext(os.path.basename(args.bars))[0], text)
    except (Unfit, OSError) as reason:
        print(f"bars: {reason}", file=sys.stderr)
        return 2
    missed = [bar for bar in results if not bar.met]
    for bar in missed:
        print(f"missed: {bar.row()[2:-2]}", file=sys.stderr)
    print(f"{len(results) - len(missed)} of {len(results)} bars met", file=sys.stderr)
    return 1 if missed and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
