#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""score.py - does `attnbench verify` find every planted bug of the operators beyond attention.

    score.py BUILD_DIR            every bug, in one of its types, which take turns
    score.py BUILD_DIR --share 3  a random third of these bugs, and of the cases for what is right
    score.py BUILD_DIR --right    only what is right: it must pass
    score.py BUILD_DIR --full     in every type, each fill alone: the result must be MATRIX.md
    score.py BUILD_DIR --write    the same, and writes MATRIX.md
    score.py BUILD_DIR --bug NAME what finds one bug

Exits with 1 where a correct backend is refused, a bug survives, or the matrix is not the one that
is committed.
"""
import argparse
import concurrent.futures
import glob
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from scoring import FOUND, LETTER, Program, complaint, keep_matrix, letters, share  # noqa: E402


class Bug:
    def __init__(self, match):
        self.name, types, cases, self.text = match.groups()
        self.types, self.cases = types.split(), cases.split()

    def in_turn(self, n):
        return [self.types[n % len(self.types)]]


def read_bugs():
    bugs = []
    for path in sorted(glob.glob(os.path.join(HERE, "*_bugs.h"))):
        with open(path, encoding="utf-8") as file:
            bugs += [Bug(m) for m in re.finditer(
                r'^    BUG\((\w+), "(.*?)", "(.*?)", "(.*?)"\)', file.read(), re.M)]
    return bugs


def read_right():
    """Other ways to compute the same: name -> its cases."""
    right = {}
    for path in sorted(glob.glob(os.path.join(HERE, "*_bugs.h"))):
        with open(path, encoding="utf-8") as file:
            right.update({m[1]: m[2].split() for m in re.finditer(
                r'RIGHT\((\w+), "(.*?)", "(.*?)"\)', file.read())})
    return right


def read_cases():
    with open(os.path.join(HERE, "op_mutants.cases"), encoding="utf-8") as file:
        lines = [line.split(":", 1) for line in file if line.strip() and line[0] != "#"]
    return {name: words.strip() for name, words in lines}


class Suite(Program):
    def __init__(self, build, folder):
        super().__init__(build, "op_mutant.so", folder)
        plain = read_cases()
        self.cases = {dtype: {name: f"{words} dtype={dtype}" for name, words in plain.items()}
                      for dtype in LETTER}
        self.known, self.fits = self.fills(), {}  # fills; (type, case) -> those that fit

    def accept_correct(self, n):
        """Every correct backend on one in n cases, with all fills. Returns complaints."""
        complaints = []
        for dtype, all_cases in self.cases.items():
            cases = dict(share(all_cases.items(), n))
            path = self.file(f"correct_{dtype}", cases)
            for backend in ("op_mutant:bug=none", None):
                _, records = self.verify(backend, path, 1)
                for r in records:
                    complaints += complaint(r, may_skip=not backend)
                    if backend:
                        self.fits[dtype, r["name"]] = [f for f in r["checks"] if f in self.known]
            for name, right in read_right().items():
                path = self.file(f"{name}_{dtype}", {case: all_cases[case] for case in share(right, n)})
                _, records = self.verify(f"op_mutant:bug={name}", path, 1)
                complaints += [f"{name} is {r['status']}: {r['reason']}\n    {r['repro']}"
                               for r in records if r["status"] != "pass"]
        return complaints


OUTPUTS = {"out", "lse", "state_out", "buckets_out", "dq", "dk", "dv", "dbias", "dsink", "dalibi"}


class Score:
    """One bug in one type."""

    def __init__(self, suite, bug, dtype, full):
        self.bug, self.dtype = bug, dtype
        cases = {name: suite.cases[dtype][name] for name in bug.cases}
        if full:
            cases.update({f"{name}.{fill}": f"{words} fill={fill}" for name, words in cases.items()
                          for fill in suite.fits[dtype, name]})
        path = suite.file(f"{bug.name}_{dtype}", cases)
        _, records = suite.verify(f"op_mutant:bug={bug.name}", path, 1,
                                  *(["--fills", "none"] if full else []))
        wrong = [r for r in records if r["status"] in FOUND]
        self.killed, self.found = bool(wrong), set()
        for r in wrong:
            fill = r["name"].partition(".")[2]
            failed = {c for c, v in r["checks"].items() if v == "fail" and c != "placement_end"}
            if fill and failed & OUTPUTS:
                failed = {fill}
            self.found |= failed


def matrix(bugs, scores, fills):
    checks = sorted({c for s in scores for c in s.found} - set(fills))
    checks += [f for f in fills if any(f in s.found for s in scores)]
    killed = sum(s.killed for s in scores)
    lines = ["# What finds which planted bug of other operators", "",
             "Written by `score.py --write`; do not edit. A letter says in which type a check finds the",
             "bug: f f32, b bf16, h f16. First the checks of the case itself, filled with N(0,1); then",
             "each fill made on purpose alone.", "",
             f"**{len(bugs)} bugs, {len(scores)} mutants with their types: {killed} found, "
             f"{len(scores) - killed} survive.**", "",
             "| bug | | " + " | ".join(checks) + " |", "|---|---" + "|---" * len(checks) + "|"]
    for bug in bugs:
        mine = [s for s in scores if s.bug is bug]
        cells = [letters(mine, lambda s, c=c: c in s.found) for c in checks]
        lines.append(f"| `{bug.name}` | {bug.text} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--right", action="store_true")
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--bug", action="append", help="these alone, with what finds them")
    args = parser.parse_args()
    full = args.full or args.write or bool(args.bug)
    bugs = [b for b in read_bugs()
            if not args.right and (not args.bug or b.name in args.bug)]
    with tempfile.TemporaryDirectory(prefix="attnbench-op-mutants-") as folder:
        suite = Suite(args.build, folder)
        complaints = suite.accept_correct(args.share)
        wanted = [(bug, dtype) for n, bug in enumerate(bugs) for dtype in (bug.types if full else bug.in_turn(n))]
        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            scores = list(pool.map(lambda w: Score(suite, *w, full), share(wanted, args.share)))
    for s in scores:
        if args.bug:
            print(f"{s.bug.name} {s.dtype}: {' '.join(sorted(s.found)) or 'survives'}")
        if not s.killed:
            complaints.append(f"{s.bug.name} in {s.dtype} survives ({s.bug.text})")
    if full and not args.bug:
        complaints += keep_matrix(HERE, matrix(bugs, scores, suite.known), args.write)
    print("\n".join(complaints))
    print(f"{sum(s.killed for s in scores)} of {len(scores)} mutants found")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
