#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Searches for shapes on which our CPU kernels are behind a peer.

    scripts/shapes.py [--seed N] [--count N] [--budget TIME] [--rounds N] [--cases FILE] [--dry-run]
                      [--build DIR] [--out DIR] [--restart] [--check]

Draws `count` shapes from `seed` and writes them as a case file, OUT/shapes.cases. `attnbench bench` times
them: all backends of a case take turns, on one thread, and processor time is compared, so other work on
the machine hits both sides alike. Printed are the bars with the geometric mean, and the worst twenty with
the best peer and the share of the roof. --cases times a file of cases instead of drawing; --dry-run prints
the cases and stops. A search that was cut off goes on with the same command: OUT keeps each round.
Exit code 1 with --check where a bar is missed, 2 if nothing could be measured.
"""
import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys

import bars

# Seed 1 is what kernels are tuned on; 2 judges them. Another one proves more.
TUNED, JUDGE = 1, 2
DTYPES = ("f32", "bf16", "f16")
LEAST_WORK, MOST_WORK = 1e6, 4e9  # FLOPs, of the cells that the mask leaves
MOST_OPERANDS = 1 << 28           # elements; a bias of all cells may be the largest of them
OURS = ["amx_bf16", "avx512_bf16", "avx512", "avx2"]
PEERS = ["blas", "onednn", "torch_flash", "torch_math", "ort"]
# The multiply-adds with which a rung computes: rung of machine.json, and type.
ROOFS = {"amx_bf16": ("amx", "bf16"), "avx512_bf16": ("avx512", "bf16"), "avx512": ("avx512", "f32"),
         "avx2": ("avx2", "f32")}
# The bars: geometric means by kind, that of one rung alone, and what each shape must reach.
MEANS = {"f32": 1.5, "bf16": 1.7, "f16": 1.5, "mha": 1.15}
NARROW, NARROW_MEAN = "avx2", 1.2
AHEAD, LEAST = 0.95, 0.85
WORST = 20


# ---- drawing ----

class Draw:
    """Numbers from a seed. Only random() is used: its values are the same in every version of Python."""

    def __init__(self, seed):
        self.random = random.Random(seed).random

    def chance(self, share):
        return self.random() < share

    def one_of(self, *choices):
        return choices[int(self.random() * len(choices))]

    def size(self, low, high):
        """As many between 1 and 2 as between 1000 and 2000."""
        return min(high, int(low * math.exp(self.random() * math.log((high + 1) / low))))


def draw_width(draw):
    """16 to 256 in steps of 8, those of models more often; some odd ones."""
    if draw.chance(0.1):
        return 2 * int(draw.random() * 120) + 17
    return draw.one_of(64, 128, 80, 96) if draw.chance(0.4) else 8 * (2 + int(draw.random() * 31))


def draw_sequence(draw):
    length = draw.size(1, 8192)
    return (length + 63) // 64 * 64 if length > 64 and draw.chance(0.4) else length


def draw_mask(draw, shape):
    """The word, and about what part of the cells it leaves."""
    sq, sk = shape["sq"], shape["sk"]
    kind = draw.one_of("dense", "dense", "dense", "causal", "causal", "causal_br", "window", "window_causal",
                       "len:rand", "len2d:rand", "bool", "bool_rows")
    if kind == "causal":
        return kind, rows_left(sq, sk, 0, sk, 0)
    if kind == "causal_br" and sq <= sk:
        return kind, rows_left(sq, sk, sk - sq, sk, 0)
    if kind.startswith("window"):
        left, right = draw.size(8, max(sk, 8)), 0 if "causal" in kind else draw.size(8, max(sk, 8))
        return f"window:{left}:{right}", rows_left(sq, sk, 0, left, right)
    if kind.startswith("len"):
        return kind, 0.5
    if kind.startswith("bool"):
        share = draw.one_of(0.1, 0.5, 0.9)
        return f"bool:{share}" + (":qk" if kind == "bool_rows" else ""), share
    return "dense", 1.0


def rows_left(sq, sk, off, left, right):
    """The part of the cells within i + off - left <= j <= i + off + right."""
    seen = sum(max(0, min(sk, i + off + right + 1) - max(0, i + off - left)) for i in range(sq))
    return seen / (sq * sk)


def draw_shape(draw, dtype):
    """Keys of a case and the part of its cells that are allowed."""
    mha = draw.chance(0.15)
    group = draw.one_of(1, 1, 1, 1, 1, 2, 4, 8)
    heads = draw.size(1, 64 // group)
    shape = {"op": "mha"} if mha else {}
    shape.update({"b": draw.size(1, 64), "hq": heads * group, "hkv": heads, "sq": draw_sequence(draw)})
    shape["sk"] = shape["sq"] if draw.chance(0.6) else draw_sequence(draw)
    if draw.chance(0.1):
        shape["sq"] = 1
    if mha and shape["sk"] != shape["sq"]:
        shape["kv"] = "cross"
    shape["dk"] = shape["dv"] = draw_width(draw)
    if draw.chance(0.1):
        shape["dv"] = draw_width(draw)
    shape["dtype"] = dtype
    shape["mask"], left = draw_mask(draw, shape)
    if draw.chance(0.25):
        shape["bias"] = draw.one_of("normal", "normal:hqk", "normal:qk", "normal:bk", "alibi")
    if draw.chance(0.08):
        shape["softcap"] = draw.one_of(20, 50)
    return shape, left


def work_of(shape, left):
    """FLOPs by the convention of the operators: two for each multiply-add that the mask leaves."""
    b, hq, hkv, sq, sk, dk, dv = (shape[key] for key in ("b", "hq", "hkv", "sq", "sk", "dk", "dv"))
    work = 2.0 * b * hq * sq * sk * left * (dk + dv)
    if shape.get("op") == "mha":
        work += 2.0 * b * hq * dk * (sq * hq * (dk + dv) + sk * hkv * (dk + dv))
    return work


def elements_of(shape):
    b, hq, hkv, sq, sk, dk, dv = (shape[key] for key in ("b", "hq", "hkv", "sq", "sk", "dk", "dv"))
    count = b * (hq * sq * (dk + dv) + hkv * sk * (dk + dv))
    if shape.get("op") == "mha":
        count += b * hq * dk * (sq + sk) + hq * dk * (hq + hkv) * (dk + dv)
    axes = shape.get("bias", "")
    if axes.startswith("normal") or shape["mask"].startswith("bool"):
        count += b * hq * sq * sk
    return count


def fits(shape, left):
    return (LEAST_WORK <= work_of(shape, left) <= MOST_WORK and elements_of(shape) <= MOST_OPERANDS and
            left > 0)


def draw_cases(seed, count):
    """Lines of a case file. The types take turns."""
    draw, lines = Draw(seed), []
    while len(lines) < count:
        shape, left = draw_shape(draw, DTYPES[len(lines) % len(DTYPES)])
        if fits(shape, left):
            words = " ".join(f"{key}={value}" for key, value in shape.items())
            lines.append(f"shape{len(lines)}: {words}")
    return lines


# ---- measuring ----

def measure(program, args, path):
    names = bars.choose(program, args.ours + args.peers)
    if not set(names) & set(args.ours) or not set(names) & set(args.peers):
        raise bars.Unfit("needs a backend of ours and a peer")
    run = os.path.join(args.out, "run")
    if args.restart:
        shutil.rmtree(run, ignore_errors=True)
    command = [program, "bench", "-b", ",".join(names), "--cache", "hot", "--rounds", str(args.rounds),
               "--samples", "1", "--run-limit", "2s", "-o", run, path]
    command += ["--budget", args.budget] if args.budget else []
    command += ["--resume"] if os.path.exists(os.path.join(run, "results.ndjson")) else []
    stopped = bars.Unfit(f"stopped; the same command goes on from what {args.out} has")
    try:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    except KeyboardInterrupt:
        raise stopped from None
    if done.returncode in (130, -2, -15):
        raise stopped
    if done.returncode not in (0, 3, 6, 7):  # a peer's wrong or refused case is a figure that is missing
        raise bars.Unfit(f"attnbench bench ended with exit code {done.returncode}")
    return run


# ---- figures ----

class Shape:
    """A case with the times of its backends in turns, relative to one of them."""

    def __init__(self, name, records, ours, peers):
        self.name, any_one = name, records[0]
        self.ours, self.peers = ours, peers
        self.case, sizes = any_one["case"], any_one["sizes"]
        self.kind = "mha" if sizes["op"] == "mha" else sizes["dtype"]
        self.records = {r["backend"]: r for r in records}
        self.times = {r["backend"]: r["live"]["paired"]["ratio"] for r in records
                      if r.get("live") and r["live"].get("paired")}

    def best(self, backends):
        return min((b for b in backends if b in self.times), key=self.times.get, default=None)

    def ratio(self, ours=None):
        """Time of the best peer over that of the best of ours; None without either."""
        mine, theirs = self.best(ours or self.ours), self.best(self.peers)
        return self.times[theirs] / self.times[mine] if mine and theirs else None

    def share(self, ceilings):
        """The larger share of the roof that the best of ours reaches, and which roof it is."""
        mine = self.best(self.ours)
        record, ns = self.records[mine], self.records[mine]["live"]["low_ns"]["value"]
        isa, dtype = ROOFS.get(mine, (None, None))
        peak = next((rung[dtype] for rung in ceilings["rungs"] if rung["isa"] == isa), 0)
        shares = [(record["flops"] / ns / peak, "FMA")] if peak else []
        shares.append((record["bytes"] / ns / ceilings["read_gbs"], "memory"))
        return max(shares)


def shapes_of(run, ours, peers):
    machine, timed, order, _ = bars.read(run)
    by_case = {}
    for (name, _), record in timed.items():
        by_case.setdefault(name, []).append(record)
    return machine, [Shape(name, by_case[name], ours, peers) for name in order if name in by_case], len(order)


def all_bars(shapes, asked):
    """Those of a run of so many cases. A case that ours failed or refused has no ratio, and counts here."""
    computed = sum(any(backend in s.records for backend in s.ours) for s in shapes)
    yield bars.Bar("share of shapes that ours computed", computed / asked, 1.0)
    found = {s.name: s.ratio() for s in shapes if s.ratio()}
    for kind, mean in MEANS.items():
        some = [found[s.name] for s in shapes if s.kind == kind and s.name in found]
        if some:
            yield bars.Bar(f"{kind}, geometric mean of {len(some)}", bars.geometric_mean(some), mean)
    narrow = [r for s in shapes if s.kind != "mha" and (r := s.ratio((NARROW,)))]
    if narrow:
        yield bars.Bar(f"{NARROW} alone, geometric mean of {len(narrow)}", bars.geometric_mean(narrow),
                       NARROW_MEAN)
    yield bars.Bar("share of shapes at or above 1", sum(r >= 1 for r in found.values()) / len(found), AHEAD)
    least = min(found, key=found.get)
    yield bars.Bar("least", found[least], LEAST, note=f" ({least})")


def worst_table(shapes, ceilings):
    ranked = sorted((s for s in shapes if s.ratio()), key=Shape.ratio)[:WORST]
    rows = ["| shape | ratio | ours | best peer | share of roof | case |", "|---|---:|---|---|---:|---|"]
    for s in ranked:
        share, roof = s.share(ceilings)
        rows.append(f"| {s.name} | {s.ratio():.2f} | {s.best(s.ours)} | {s.best(s.peers)} | "
                    f"{share:.2f} {roof} | `{s.case}` |")
    return rows


def report(run, args, what):
    """Prints what a run has shown. Returns whether all bars are met."""
    machine, shapes, asked = shapes_of(run, args.ours, args.peers)
    compared = [s for s in shapes if s.ratio()]
    if not compared:
        raise bars.Unfit(f"{run}: no shape was timed beside a peer")
    results = list(all_bars(shapes, asked))
    print("\n".join([
        f"{machine['cpu']['model']}, {machine['date'][:10]}, {machine['attnbench']['commit']}, {what}; "
        f"{len(compared)} of {asked} shapes compared in turns. {bars.ceilings_line(machine)}.", "",
        "| bar | measured | wanted | met |", "|---|---:|---:|---|", *(bar.row() for bar in results), "",
        *worst_table(shapes, machine["ceilings"])]))
    return all(bar.met for bar in results)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=JUDGE, help="of the shapes (default %(default)s)")
    parser.add_argument("--count", type=int, default=200, help="shapes (default %(default)s)")
    parser.add_argument("--cases", help="time the cases of this file instead")
    parser.add_argument("--budget", help="end in this time (90s, 2h); shapes may lack turns then")
    parser.add_argument("--rounds", type=int, default=2, help="rounds; twice as many of turns (1: one)")
    parser.add_argument("--ours", type=lambda text: text.split(","), default=OURS, metavar="NAME,...")
    parser.add_argument("--peers", type=lambda text: text.split(","), default=PEERS, metavar="NAME,...")
    parser.add_argument("--dry-run", action="store_true", help="print the cases, and stop")
    parser.add_argument("--build", default=os.path.join(bars.ROOT, "build"))
    parser.add_argument("--out", help="folder of the cases and the run (default results/shapes-SEED-COUNT)")
    parser.add_argument("--restart", action="store_true", help="do not go on with what OUT has")
    parser.add_argument("--check", action="store_true", help="exit code 1 where a bar is missed")
    return parser.parse_args()


def main():
    args = arguments()
    what = os.path.basename(args.cases) if args.cases else f"seed {args.seed}"
    lines = [] if args.cases else draw_cases(args.seed, args.count)
    if args.dry_run:
        print(open(args.cases, encoding="utf-8").read() if args.cases else "\n".join(lines))
        return 0
    args.out = args.out or os.path.join(bars.ROOT, "results",
                                        f"shapes-{what.replace('seed ', '')}" +
                                        ("" if args.cases else f"-{args.count}"))
    os.makedirs(args.out, exist_ok=True)
    path = args.cases or os.path.join(args.out, "shapes.cases")
    if not args.cases:
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    try:
        met = report(measure(os.path.join(args.build, "bin", "attnbench"), args, path), args, what)
    except (bars.Unfit, OSError) as reason:
        print(f"shapes: {reason}", file=sys.stderr)
        return 2
    return 1 if args.check and not met else 0


if __name__ == "__main__":
    sys.exit(main())
