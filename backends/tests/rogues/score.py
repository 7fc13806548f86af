#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""score.py - which of the rogue backend's bugs does attnbench find, at real sizes.

    score.py BUILD                one bug of each class: its first line, in its first type
    score.py BUILD --quick        every bug, one line and one type of it
    score.py BUILD --full         every bug, every type, every line: the result must be MATRIX.md
    score.py BUILD --write        the same, and writes MATRIX.md
    score.py BUILD --missed FILE  with any of them: writes which are missed

A bug is found in a type if `attnbench verify` refuses each of its lines in that type; for the
theme `time`, if verify or `attnbench bench` does. Exits with 1 if honest code is refused or a bug is
missed that KNOWN does not name.
"""
import argparse
import concurrent.futures
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from scoring import FOUND, LETTER, RULES, Program, letters, verdict_line  # noqa: E402

REFUSED = FOUND + ("suspect",)
FIELD_CELLS = 1 << 23  # the rules of the field ask for every row: cases up to so many cells
SLOW = ["--run-limit", "0", "--timeout", "600s"]


class Bug:
    def __init__(self, theme, match):
        self.theme = theme
        self.name, self.kind, self.op, types, cases, self.text, self.source = match.groups()
        self.types = types.split()
        self.groups = [group.strip() for group in cases.split("|")]

    def words(self, group, dtype):
        words = f"{group} dtype={dtype}"
        return words if self.op == "attention" else f"op={self.op} {words}"


def read_bugs():
    bugs = []
    for name in sorted(os.listdir(HERE)):
        theme = re.fullmatch(r"bugs_(\w+)\.h", name)
        if theme:
            with open(os.path.join(HERE, name), encoding="utf-8") as file:
                bugs += [Bug(theme[1], m) for m in re.finditer(
                    r'^ +BUG\((\w+), (\w+), (\w+), "(.*?)", "(.*?)", "(.*?)", "(.*?)"\)',
                    file.read(), re.M)]
    return bugs


def first_of_lists(words):
    """The words with the first value of each list and range, and with the first word of parts."""
    return " ".join(re.sub(r"[,].*", "", word) if "/" not in word.split("=")[0] else word
                    for word in words.split())


class Score:
    """One bug in one type, on some of its lines."""

    def __init__(self, program, bug, dtype, groups, field):
        self.bug, self.dtype = bug, dtype
        lines = {f"{bug.name}.{n}": bug.words(g, dtype) for n, g in enumerate(groups)}
        path = program.file(f"{bug.name}_{dtype}", lines)
        backend = f"rogue:bug={bug.name}"
        _, records = program.verify(backend, path, 1, *SLOW)
        self.missed = [r["case"] for r in records if r["status"] not in REFUSED]
        self.where = {"verify"} if not self.missed else set()
        if bug.theme == "time":
            if self.bench(program, backend, path):
                self.where.add("bench")
        self.found = bool(self.where)
        self.rules = None
        if field and all(self.cells(r) <= FIELD_CELLS for r in records):
            self.rules = self.ask_the_field(program, path)

    @staticmethod
    def cells(record):
        s = record["sizes"]
        return s["b"] * s["hq"] * s["sq"] * s["sk"] if s else 1 << 62

    def bench(self, program, backend, path):
        with tempfile.TemporaryDirectory(dir=program.folder) as out:
            code, _ = program.records("bench", backend, path, "-o", os.path.join(out, "run"),
                                      "--rounds", "3", "--threads", "1", accepted=(0, 3, 5, 6, 7))
        return code in (3, 6)

    def ask_the_field(self, program, path):
        lines = program.field(self.bug.name, path, 1)
        if not lines:  # it crashed
            return set(RULES)
        return {rule for rule in RULES if all(rule not in line["accepted"] for line in lines)}


def chosen_work(bugs, full, quick):
    """[(bug, type, groups)]. Quick: one type and one line of each bug, taken in turn."""
    work, kinds = [], set()
    for number, bug in enumerate(bugs):
        if full:
            work += [(bug, dtype, bug.groups) for dtype in bug.types]
        elif quick:
            work.append((bug, bug.types[number % len(bug.types)], [first_of_lists(bug.groups[0])]))
        elif (bug.theme, bug.kind) not in kinds:
            kinds.add((bug.theme, bug.kind))
            work.append((bug, bug.types[0], [first_of_lists(bug.groups[0])]))
    return work


def accept_honest(program, work, fills):
    """The honest kernel on the same lines. Returns complaints."""
    lines = {}
    for bug, dtype, groups in work:
        for n, group in enumerate(groups):
            words = bug.words(group, dtype)
            if words not in lines.values():
                lines[f"{bug.name}_{dtype}_{n}"] = words
    _, records = program.verify("rogue", program.file("honest", lines), 1, *SLOW, *fills)
    return [f"the honest kernel is {r['status']}: {r['reason']}\n    {r['repro']}"
            for r in records if r["status"] != "pass"]


def matrix(scores):
    found = sum(s.found for s in scores)
    judged = [s for s in scores if s.rules is not None]
    lines = [
        "# Which rogue is found", "",
        "Written by `score.py --write`; do not edit. A letter is a type: f f32, b bf16, h f16. `found`:",
        "every line of the bug is refused. `missed`: at least one line passes. `bench`: refused when",
        "timed, too. On the right: in which types a rule of the field refuses every line; `-` where",
        f"the lines have more than {FIELD_CELLS} cells or the bug is one of time.", "",
        f"**{len({s.bug.name for s in scores})} bugs, {len(scores)} mutants with their types: {found} "
        f"found, {len(scores) - found} missed.**", "",
        "| theme | class | found / all | f32 | f16 | bf16 |", "|---|---|---:|---:|---:|---:|"]
    for theme, kind in sorted({(s.bug.theme, s.bug.kind) for s in scores}):
        mine = [s for s in scores if (s.bug.theme, s.bug.kind) == (theme, kind)]
        cells = [share(mine)] + [share([s for s in mine if s.dtype == d])
                                 for d in ("f32", "f16", "bf16")]
        lines.append(f"| {theme} | {kind} | " + " | ".join(cells) + " |")
    lines += ["", f"The {len(judged)} mutants on which the rules of the field were tried:", "",
              "| verdict | found | missed | of them f32 | bf16 and f16 |", "|---|---:|---:|---:|---:|",
              verdict_line("attnbench verify", judged, lambda s: s.found),
              *(verdict_line(title, judged, lambda s, r=r: r in s.rules)
                for r, title in RULES.items()), "",
              "| theme | class | bug | found | missed | bench | " + " | ".join(RULES.values()) +
              " | report |", "|---|---|---|---|---|---|" + "---|" * (len(RULES) + 1)]
    for bug in dict.fromkeys(s.bug for s in scores):
        mine = [s for s in scores if s.bug is bug]
        tried = any(s.rules is not None for s in mine)
        rules = [letters(mine, lambda s, r=r: s.rules is not None and r in s.rules) if tried else "-"
                 for r in RULES]
        text = bug.text.replace("|", "\\|")
        lines.append(f"| {bug.theme} | {bug.kind} | `{bug.name}` {text} | "
                     f"{letters(mine, lambda s: s.found)} | {letters(mine, lambda s: not s.found)} | "
                     f"{letters(mine, lambda s: 'bench' in s.where)} | " + " | ".join(rules) +
                     f" | {bug.source} |")
    return "\n".join(lines) + "\n"


def share(scores):
    return f"{sum(s.found for s in scores)} / {len(scores)}" if scores else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--missed", help="file for the names of those that are missed")
    parser.add_argument("--theme", action="append", help="these themes alone")
    parser.add_argument("--bug", action="append", help="these bugs alone, in full")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    full = args.full or args.write or bool(args.bug)
    bugs = [b for b in read_bugs() if (not args.theme or b.theme in args.theme) and
            (not args.bug or b.name in args.bug)]
    work = chosen_work(bugs, full, args.quick)
    with tempfile.TemporaryDirectory(prefix="attnbench-rogues-") as folder:
        program = Program(args.build, "rogue.so", folder)
        complaints = accept_honest(program, work, [] if full else ["--fills", "census"])
        with concurrent.futures.ThreadPoolExecutor(max_workers=args.jobs) as pool:
            scores = list(pool.map(
                lambda w: Score(program, *w, full and w[0].theme != "time"), work))
    missed = [f"{s.bug.theme} {s.bug.name} {s.dtype}: {s.bug.text}: {case}"
              for s in scores if not s.found for case in s.missed]
    if args.missed:
        with open(args.missed, "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in missed)
    complaints += [f"missed: {line}" for line in missed]
    if full and not args.bug and not args.theme:
        complaints += compare(matrix(scores), args.write)
    print("\n".join(complaints))
    print(f"{sum(s.found for s in scores)} of {len(scores)} rogues found")
    return 1 if complaints else 0


def compare(text, write):
    path = os.path.join(HERE, "MATRIX.md")
    if write:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    elif open(path, encoding="utf-8").read() != text:
        return ["MATRIX.md is not what was measured: score.py --write"]
    return []


if __name__ == "__main__":
    sys.exit(main())
