#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""score.py - does `attnbench verify` find every planted bug.

    score.py BUILD_DIR            every bug in f32, one of each class in bf16: is it found
    score.py BUILD_DIR --share 3  a random third of these, and of the cases for what is right
    score.py BUILD_DIR --full     every bug in every type, with each fill alone: what finds it;
                                  the result must be MATRIX.md
    score.py BUILD_DIR --write    the same, and writes MATRIX.md

Exits with 1 where a correct backend is refused, a bug survives, a bug changes nothing, or the
matrix is not the one that is committed.
"""
import argparse
import concurrent.futures
import os
import random
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from scoring import (FOUND, LETTER, RULES, Program, complaint, keep_matrix,  # noqa: E402
                     letters, make_textbook, rounded, share, verdict_line)

OUTPUTS = ["out", "lse", "weights", "memory", "fresh", "crash"]
RACES = (71, 72)  # which fills see them is a matter of timing
UNSEEN = (67, 68, 69, 70) + RACES  # one run alone need not show them in any byte


class Bug:
    def __init__(self, match):
        self.name, number, types, cases, self.text = match.groups()
        self.number, self.types, self.cases = int(number), types.split(), cases.split()


def read_bugs():
    with open(os.path.join(HERE, "bugs.h"), encoding="utf-8") as file:
        return [Bug(m) for m in re.finditer(
            r'^    BUG\((\w+), (\d+), "(.*?)", "(.*?)", "(.*?)"\)', file.read(), re.M)]


def read_cases():
    with open(os.path.join(HERE, "mutants.cases"), encoding="utf-8") as file:
        lines = [line.split(":", 1) for line in file if line.strip() and line[0] != "#"]
    return {name: words.strip() for name, words in lines}


# ---- packs: what the case language has no words for ----

def make_packs(folder, dtype):
    """Two heads, 24 queries and keys, width 16. Returns {case name: case words}."""
    keys, width, kind = 24, 16, dtype.upper()
    infinity, cases = float("inf"), {}
    for name in ("nan_key", "inf_key", "bias_inf", "sink_large"):
        generator = random.Random(name)
        q, k, v = ([[make_textbook.normal_rows(generator, keys, width) for _ in range(2)]]
                   for _ in range(3))
        tensors, words = {}, "out=lse"
        if name == "nan_key":
            k[0][1][5][3] = float("nan")
        elif name == "inf_key":
            k[0][1][5][3] = infinity
        elif name == "bias_inf":
            words += " bias=tensor"
            tensors["bias"] = (kind, rounded([[[[-infinity if i % 7 == 2 else 0.25 * (j % 3)
                                                 for j in range(keys)] for i in range(keys)]]],
                                             dtype))
        else:
            words += " sink=tensor"
            tensors["sink"] = ("F32", [100.0, -3.0])
        for role, value in (("q", q), ("k", k), ("v", v)):
            tensors[role] = (kind, rounded(value, dtype))
        path = os.path.join(folder, f"{name}_{dtype}.safetensors")
        make_textbook.write_pack(path, {"case": words, "source": "made for a planted bug"}, tensors)
        cases[name] = f"data={path}"
    return cases


# ---- running ----

class Suite(Program):
    def __init__(self, build, folder):
        super().__init__(build, "mutant.so", folder)
        plain = read_cases()
        self.cases = {}  # type -> {name: words}
        for dtype in LETTER:
            self.cases[dtype] = {
                name: words if "dtype=" in words else f"{words} dtype={dtype}"
                for name, words in plain.items() if ("dtype=" in words) == (dtype == "f16")}
            if dtype != "f16":
                self.cases[dtype].update(make_packs(folder, dtype))
        self.known, self.fits = self.fills(), {}  # fills; (type, case) -> those that fit


def threads_of(case):
    return 2 if case.startswith("threads") else 1


def accept_correct(suite, wanted, n):
    """The code without a bug on the cases of the wanted bugs, and every backend on one in n cases, with all
    fills. Returns complaints."""
    complaints = []
    for dtype, cases in suite.cases.items():
        needed = {case for bug, bug_type in wanted if bug_type == dtype for case in bug.cases}
        shared = share(cases, n)
        for threads in (1, 2):
            for backend, names in (("mutant:bug=none", needed), (None, shared)):
                lines = {name: cases[name] for name in names if threads_of(name) == threads}
                if not lines:
                    continue
                path = suite.file(f"correct_{dtype}_{threads}", lines)
                _, records = suite.verify(backend, path, threads)
                for r in records:
                    complaints += complaint(r, may_skip=True)
                    if backend:
                        suite.fits[dtype, r["name"]] = [f for f in r["checks"] if f in suite.known]
    return complaints


def what_found(record, fill):
    """Names of the checks by which a record that is not a pass was found out."""
    if fill:
        return [fill]
    failed = [name for name, verdict in record["checks"].items()
              if verdict == "fail" and not name.startswith("placement")]
    if failed:
        return failed
    reason = record["reason"]
    if "earlier result" in reason:
        return ["fresh"]
    return ["memory" if re.search(r"reads|writes|written|modif", reason) else "crash"]


class Score:
    """One bug in one type."""

    def __init__(self, suite, bug, dtype, full):
        self.bug, self.dtype = bug, dtype
        threads = max(threads_of(c) for c in bug.cases)
        cases = {name: suite.cases[dtype][name] for name in bug.cases}
        filled = {f"{name}.{fill}": f"{words} fill={fill}"
                  for name, words in cases.items() for fill in suite.fits[dtype, name]}
        path = suite.file(f"{bug.name}_{dtype}", {**cases, **filled})
        self.ask_the_field(suite, path, threads, cases)
        if not full:  # verify tries the fills itself, until the first that finds the bug
            path = suite.file(f"{bug.name}_{dtype}_plain", cases)
        code, records = suite.verify(f"mutant:bug={bug.name}", path, threads,
                                     *(["--fills", "none"] if full else []))
        self.killed = code != 0
        self.found = set()
        for r in records:
            if r["status"] in FOUND:
                self.found.update(what_found(r, r["name"].partition(".")[2]))
        if bug.number in UNSEEN:  # the correct backend passed the same lines
            self.changed = self.killed

    def ask_the_field(self, suite, path, threads, cases):
        """Rules that reject the bug filled with N(0,1); does any line differ from the truth."""
        lines = suite.field(self.bug.name, path, threads)
        self.changed = any(line["changed"] for line in lines)
        plain = [line for line in lines if line["case"] in cases]
        crashed = len(plain) < len(cases)
        self.changed |= crashed
        self.rules = {rule for rule in RULES
                      if crashed or any(rule not in line["accepted"] for line in plain)}


def mutants_of(bugs, full):
    """Bugs with their types."""
    wanted, classes = [], set()
    for bug in bugs:
        for dtype in bug.types:
            first = bug.number not in classes
            if full or dtype == bug.types[0] or first:
                wanted.append((bug, dtype))
        classes.add(bug.number)
    return wanted


# ---- the matrix ----

def matrix(bugs, scores, fills):
    extra = sorted({name for s in scores for name in s.found} - set(OUTPUTS) - set(fills))
    checks = [c for c in OUTPUTS + extra + fills if any(c in s.found for s in scores)]
    timed = [s for s in scores if s.bug.number not in RACES]
    killed = sum(s.killed for s in scores)
    lines = [
        "# What finds which planted bug", "",
        "Written by `score.py --write`; do not edit. Rows: the bugs of [bugs.h](bugs.h). A letter says",
        "in which type a check finds the bug: f f32, b bf16, h f16. `out` `lse` `weights` `memory`",
        "`fresh` `crash`: the case itself, filled with N(0,1); then each fill made on purpose alone. On",
        "the right: in which types a rule of the field rejects what the bug gives for N(0,1), on the same",
        "cases ([README.md](README.md) says which rules). What sees a race is a matter of timing: ~.", "",
        f"**{len(bugs)} bugs of {len({b.number for b in bugs})} classes, {len(scores)} mutants with "
        f"their types: {killed} found, {len(scores) - killed} survive.** The rules of the field on the "
        f"{len(timed)} that are no races:", "",
        "| verdict | found | missed | of them f32 | bf16 and f16 |", "|---|---:|---:|---:|---:|",
        verdict_line("attnbench verify", timed, lambda s: s.killed),
        *(verdict_line(title, timed, lambda s, r=r: r in s.rules) for r, title in RULES.items()), "",
        "| | bug | " + " | ".join(checks) + " | | " + " | ".join(RULES.values()) + " |",
        "|---:|---" + "|---" * (len(checks) + 1 + len(RULES)) + "|"]
    for bug in bugs:
        mine = [s for s in scores if s.bug is bug]
        cells = [letters(mine, lambda s, c=c: c in s.found) for c in checks]
        rules = [letters(mine, lambda s, r=r: r in s.rules) for r in RULES]
        if bug.number in RACES:
            cells, rules = ["~"] * len(checks), ["~"] * len(RULES)
        survivors = letters(mine, lambda s: not s.killed)
        name = f"`{bug.name}` {bug.text}".replace("|", "\\|") + (f" **survives: {survivors}**" if survivors else "")
        lines.append(f"| {bug.number} | {name} | " + " | ".join(cells + [""] + rules) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--bug", action="append", help="these alone, with what finds them")
    args = parser.parse_args()
    full = args.full or args.write or bool(args.bug)
    bugs = read_bugs()
    with tempfile.TemporaryDirectory(prefix="attnbench-mutants-") as folder:
        suite = Suite(args.build, folder)
        chosen = [b for b in bugs if not args.bug or b.name in args.bug]
        wanted = share(mutants_of(chosen, full), args.share)
        complaints = accept_correct(suite, wanted, args.share)
        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            scores = list(pool.map(lambda w: Score(suite, *w, full), wanted))
    for s in scores:
        if args.bug:
            print(f"{s.bug.name} {s.dtype}: {' '.join(sorted(s.found)) or 'survives'}; field: "
                  f"{' '.join(sorted(s.rules)) or 'none'}")
        if not s.killed:
            complaints.append(f"{s.bug.name} in {s.dtype} survives ({s.bug.text})")
        if not s.changed:
            complaints.append(f"{s.bug.name} in {s.dtype} changes nothing")
    if not {b.number for b in bugs} >= set(range(1, 73)):
        complaints.append(f"classes without a bug: {set(range(1, 73)) - {b.number for b in bugs}}")
    if full and not args.bug:
        complaints += keep_matrix(HERE, matrix(bugs, scores, suite.known), args.write)
    print("\n".join(complaints))
    print(f"{sum(s.killed for s in scores)} of {len(scores)} mutants found")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
