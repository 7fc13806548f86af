# SPDX-License-Identifier: Apache-2.0
"""Random cases of the whole case language on every exact backend: each one must pass or be refused,
as it was drawn and under every fill made on purpose that fits it.

    campaign.py BUILD_DIR [--seed N] [--cases N] [--seconds S] [--results N] [-b BACKEND]...
                [--keep FOLDER]

The cases depend on the seed alone; how many are run, on --cases, --seconds and --results.
"""
import argparse
import collections
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BATCH = 200
CELLS = 60000  # of b * hq * sq * sk * width, in units that keep a case within milliseconds
GOOD = {"pass", "skip"}
# The bound may be so wide that a pass proves nothing, or scores beyond the range of f32.
EXTREME = {"scale=3000", "scale=1e+08", "scale=1e+38", "softcap=1e+300"}


def some(rng, letters):
    """At least one of the letters, in their order."""
    mask = rng.randrange(1, 1 << len(letters))
    return "".join(c for i, c in enumerate(letters) if mask >> i & 1)


def axes(rng):
    return rng.choice(["", ":" + some(rng, "bhqk")])


def chance(rng, p):
    return rng.random() < p


def width(rng):
    return rng.choice([rng.randint(1, 9), rng.randint(1, 70), rng.choice([8, 16, 24, 32, 40, 64]),
                       rng.choice([63, 65, 72, 80, 96, 100, 128, 131, 192, 256])])


def length(rng):
    return rng.choice([rng.randint(1, 9), rng.randint(1, 40), rng.randint(1, 200),
                       rng.choice([15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 192,
                                   193, 255, 256, 257, 300, 511, 513])])


def draw_sizes(rng, case):
    """Sizes whose product stays small."""
    while True:
        hkv = rng.choice([1, 1, 2, 3, 4, 5])
        hq = hkv * rng.choice([1, 1, 1, 2, 3, 4, 8])
        b, sq = rng.choice([1, 1, 2, 3, 4]), length(rng)
        sk = 0 if chance(rng, 0.02) else length(rng) if chance(rng, 0.7) else sq
        sq = 1 if chance(rng, 0.08) else sq
        dk, dv = width(rng), width(rng)
        if b * hq * sq * max(sk, 1) * (dk + dv) <= CELLS * 100:
            break
    case.update(b=b, hq=hq, hkv=hkv, sq=sq, sk=sk, dk=dk, dv=dv if chance(rng, 0.4) else dk)


def draw_score(rng, case):
    score = rng.choice(["scaled_dot"] * 5 + ["dot", "bilinear", "gaussian", "additive"])
    if score == "scaled_dot":
        return
    case["score"] = score
    if score in ("bilinear", "additive"):
        if chance(rng, 0.5):
            case["dq"] = width(rng)
        if chance(rng, 0.5):
            case["params"] = "head"
        if score == "additive" and chance(rng, 0.6):
            case["dh"] = rng.randint(1, 70)
        while case["dk"] * case.get("dq", case["dk"]) > 4000:
            case["dk"] = width(rng)
        if score == "additive":  # hidden units times cells
            case["sq"], case["sk"] = min(case["sq"], 40), min(case["sk"], 40)


def draw_scale(rng, case):
    kind = rng.random()
    if kind < 0.55:
        return
    if kind < 0.85:
        value = rng.uniform(-1, 1)
    else:
        value = rng.choice([0.0, 1.0, -1.0, 5.0, -20.0, 100.0, 1e-4, 1e-20, -1e-40, 3e3, 1e8,
                            1e38])
    case["scale"] = repr(value)


def draw_mask(rng, case):
    parts, len2d = [], chance(rng, 0.12)
    offset = rng.random()
    if chance(rng, 0.4):
        parts.append("causal")
    if offset < 0.25 and not len2d:
        parts.append("br")
    elif offset < 0.4:
        parts.append(f"past:{rng.randint(0, 2 * case['sk'] + 3)}")
    if chance(rng, 0.2):
        reach = max(case["sk"], 4)
        left, right = (rng.choice([-1, 0, 1, rng.randint(0, reach), rng.randint(0, 8)])
                       for _ in "lr")
        parts.append(f"window:{left}:{right}")
    if len2d:
        parts.append("len2d:rand")
    elif chance(rng, 0.2):
        parts.append("len:rand")
    elif chance(rng, 0.15):
        count = rng.randint(1, case["b"])
        parts.append("len:" + "/".join(str(rng.choice([0, 1, case["sk"], rng.randint(0, case["sk"])])
                                           if case["sk"] else 0) for _ in range(count)))
    if chance(rng, 0.25):
        p = rng.choice(["0", "1", "0.02", "0.5", "0.9", f"{rng.random():.3f}"])
        parts.append(f"bool:{p}{axes(rng)}")
    if parts:
        rng.shuffle(parts)
        case["mask"] = "+".join(parts)


def draw_extras(rng, case):
    bias = []
    if chance(rng, 0.2):
        bias.append("normal" + axes(rng))
    if chance(rng, 0.15):
        bias.append("alibi")
    if bias:
        case["bias"] = "+".join(bias)
    if chance(rng, 0.2):
        case["sink"] = 1
    if chance(rng, 0.2):
        case["softcap"] = rng.choice(["0.05", "1", "3.5", "30", "1e4", "1e300"])
    if chance(rng, 0.2):
        case["dropout"] = rng.choice(["0", "0.1", "0.5", "0.97", f"{rng.random() * 0.9:.3f}"])
    if chance(rng, 0.6):
        case["out"] = rng.choice(["lse", "weights", "lse+weights"])
    if chance(rng, 0.4):
        case["layout"] = rng.choice(["bshd", "bhds"])
    if chance(rng, 0.35):
        case["view"] = "+".join(v for v in ("gaps", "permuted", "broadcast", "offset1", "huge")
                                if chance(rng, 0.03 if v == "huge" else 0.45)) or "gaps"
    if chance(rng, 0.3):
        case["fill"] = rng.choice(["uniform", "ones", "zeros"])
    if chance(rng, 0.35):
        case["dtype"] = rng.choice(["f64", "f16", "bf16"])
    case["seed"] = rng.choice([rng.randint(0, 99), rng.getrandbits(32), rng.getrandbits(64)])


def draw_mha(rng, case):
    case["op"] = "mha"
    case["dk"], case["dv"] = min(case["dk"], 32), min(case["dv"], 32)
    case["sq"], case["sk"] = min(case["sq"], 48), min(case["sk"], 48)
    if "dq" in case:
        case["dq"] = min(case["dq"], 32)
    if case["sk"] != case["sq"]:
        if case["sk"] == 0 or chance(rng, 0.7):
            case["kv"] = "cross"
        else:
            case["sk"] = case["sq"]
    if chance(rng, 0.5):
        case["e"] = rng.randint(1, 100)
    if chance(rng, 0.5):
        case["proj_bias"] = 1
    if chance(rng, 0.25):
        case["weights"] = "stiefel"
    if chance(rng, 0.3):
        case["residual"] = 1
    if chance(rng, 0.25):
        case["wo"] = 0
    if case.get("residual") and case.get("wo", 1) == 0:
        case["e"] = case["hq"] * case["dv"]
    if chance(rng, 0.3):
        heads = rng.sample(range(case["hq"]), rng.randint(1, min(3, case["hq"])))
        case["prune"] = "/".join(map(str, heads))


def draw_case(rng):
    """One case as the words of its line, in random order."""
    case = {}
    draw_sizes(rng, case)
    draw_score(rng, case)
    if chance(rng, 0.2):
        draw_mha(rng, case)
    draw_scale(rng, case)
    draw_mask(rng, case)
    draw_extras(rng, case)
    words = [f"{key}={value}" for key, value in case.items()]
    rng.shuffle(words)
    return " ".join(words)


def verify(program, backends, path, threads):
    """The records of one file of cases; exits where the program itself fails."""
    command = [program, "verify", "--json", "--threads", str(threads), "--run-limit", "0", path]
    for backend in backends:
        command += ["-b", backend]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)
    if done.returncode not in (0, 3, 6):
        sys.exit(f"{' '.join(command)}\nexit code {done.returncode}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


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
    parser.add_argument("--cases", type=int, default=10**6)
    parser.add_argument("--seconds", type=float, default=1e9, help="no batch begins after this")
    parser.add_argument("--results", type=int, default=10**9,
                        help="no batch begins after so many have held")
    parser.add_argument("-b", "--backend", action="append", default=[])
    parser.add_argument("--keep", help="folder for the case files")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    program = os.path.join(os.path.abspath(arguments.build), "bin", "attnbench")
    folder = arguments.keep or tempfile.mkdtemp(prefix="attnbench-campaign-")
    rng, tally = random.Random(arguments.seed), Tally(fill_names(program))
    done, begun = 0, time.monotonic()
    while (done < arguments.cases and time.monotonic() - begun < arguments.seconds
           and tally.results.total() < arguments.results):
        count, threads = min(BATCH, arguments.cases - done), 1 + done // BATCH % 2
        path = os.path.join(folder, f"random_{arguments.seed}_{done}.cases")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"c{done + i}: {draw_case(rng)}\n" for i in range(count))
        for record in verify(program, arguments.backend, path, threads):
            tally.add(record)
        done += count
    if not arguments.keep:
        shutil.rmtree(folder)
    print(f"seed {arguments.seed}: {done} cases")
    tally.report()
    passes = tally.statuses["pass"]
    return 0 if passes > 0 and not tally.bad else 1


if __name__ == "__main__":
    sys.exit(main())
