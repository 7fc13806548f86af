#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""score.py - which of the rogue backend's bugs does attnbench find, at real sizes.

    score.py BUILD                one bug of each class in seconds: without fills, first type and line
    score.py BUILD --quick        every bug with all fills, one line and one type of it
    score.py BUILD --full         every bug, every type, every line
    score.py BUILD --full --write  and writes MATRIX.md; with --quick, of what was tried
    score.py BUILD --log FILE     appends each result to FILE, and skips what FILE has already
    score.py BUILD --quick --log FILE --logged --write  writes what FILE has, and tries nothing
    score.py BUILD --missed FILE  writes what is missed

A bug is found in a type if `attnbench verify` refuses each of its lines in that type; for the
theme `time`, if verify or `attnbench bench` does. Exits with 1 if honest code is refused or a bug is
missed.
"""
import argparse
import concurrent.futures
import json
import os
import random
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from scoring import (FOUND, LETTER, RULES, Program, letters, make_textbook, rounded,  # noqa: E402
                     verdict_line)

REFUSED = FOUND + ("suspect",)
FIELD_CELLS = 1 << 23  # the rules of the field ask for every row: cases up to so many cells
SLOW = ["--run-limit", "0", "--timeout", "600s"]
PLAIN = ["--fills", "none", "--checks", "none"]
# Not in the sample of the fast tier: what needs fills, minutes, or a second program.
NOT_SAMPLED = ("contract", "empty", "bits12", "bits15", "bits16", "bits31")
SAMPLED = ("behaviour", "mha", "paths", "sizes")


class Bug:
    def __init__(self, theme, match):
        self.theme = theme
        self.name, self.kind, self.op, types, cases, self.text, self.source = match.groups()
        self.types = types.split()
        self.groups = [group.strip() for group in cases.split("|")]

    def words(self, group, dtype, folder):
        if group.startswith("pack="):
            return f"data={make_pack(group.partition('=')[2], dtype, folder)}"
        words = f"{group} dtype={dtype}"
        return words if self.op == "attention" else f"op={self.op} {words}"


def make_pack(name, dtype, folder):
    """keep: attention with an explicit mask of dropout; x_v: mha with x_k and x_v of their own."""
    path = os.path.join(folder, f"{name}_{dtype}.safetensors")
    generator, size, heads, width = random.Random(name), 96, 2, 64
    names = ["q", "k", "v"] if name == "keep" else ["x_q", "x_k", "x_v", "w_q", "w_k", "w_v", "w_o"]
    tensors = {}
    for tensor in names:
        weight = tensor.startswith("w_")
        rows = [make_textbook.normal_rows(generator, heads * width if weight else size,
                                          width if name == "keep" else heads * width,
                                          0.09 if weight else 1.0) for _ in range(heads)]
        value = [rows] if name == "keep" else rows[0] if weight else rows[:1]
        tensors[tensor] = (dtype.upper(), rounded(value, dtype))
    if name == "keep":
        tensors["keep"] = ("BOOL", [[[[generator.random() > 0.3 for _ in range(size)]
                                      for _ in range(size)] for _ in range(heads)]])
    case = "dropout=0.3" if name == "keep" else f"op=mha hq={heads}"
    make_textbook.write_pack(path, {"case": case, "source": "made for a planted bug"}, tensors)
    return path


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
    """One bug in one type, on some of its lines; or what a log says of it."""

    def __init__(self, bug, dtype, missed, where, rules):
        self.bug, self.dtype, self.missed, self.where = bug, dtype, missed, where
        self.rules = None if rules is None else set(rules)
        self.found = bool(where)

    def line(self):
        rules = None if self.rules is None else sorted(self.rules)
        return json.dumps({"bug": self.bug.name, "dtype": self.dtype, "missed": self.missed,
                           "where": self.where, "rules": rules})


def measure(program, bug, dtype, groups, mode):
    lines = {f"{bug.name}.{n}": bug.words(g, dtype, program.folder) for n, g in enumerate(groups)}
    path = program.file(f"{bug.name}_{dtype}", lines)
    backend = f"rogue:bug={bug.name}"
    plain = PLAIN if mode == "sample" else []
    _, records = program.verify(backend, path, 1, *SLOW, *plain)
    missed = [r["case"] for r in records if r["status"] not in REFUSED]
    where = [] if missed else ["verify"]
    if bug.theme == "time" and (missed or mode == "full") and benched(program, backend, path):
        where.append("bench")
    rules = None
    if mode != "sample" and bug.theme != "time" and all(cells(r) <= FIELD_CELLS for r in records):
        rules = ask_the_field(program, bug, path)
    return Score(bug, dtype, missed, where, rules)


def cells(record):
    s = record["sizes"]
    return s["b"] * s["hq"] * s["sq"] * s["sk"] if s else 1 << 62


def benched(program, backend, path):
    """Does bench refuse it."""
    with tempfile.TemporaryDirectory(dir=program.folder) as out:
        code, _ = program.records("bench", backend, path, "-o", os.path.join(out, "run"),
                                  "--rounds", "3", "--threads", "1", accepted=(0, 3, 5, 6, 7))
    return code in (3, 6)


def ask_the_field(program, bug, path):
    lines = program.field(bug.name, path, 1)
    if not lines:  # it crashed
        return set(RULES)
    return {rule for rule in RULES if all(rule not in line["accepted"] for line in lines)}


def chosen_work(bugs, mode):
    """[(bug, type, groups)]. Quick: one type and one line of each bug, types taken in turn."""
    work, kinds = [], set()
    for number, bug in enumerate(bugs):
        if mode == "full":
            work += [(bug, dtype, bug.groups) for dtype in bug.types]
        elif mode == "quick":
            work.append((bug, bug.types[number % len(bug.types)], [first_of_lists(bug.groups[0])]))
        elif ((bug.theme, bug.kind) not in kinds and bug.theme in SAMPLED and
              bug.kind not in NOT_SAMPLED):
            kinds.add((bug.theme, bug.kind))
            work.append((bug, bug.types[0], [first_of_lists(bug.groups[0])]))
    return work


def accept_honest(program, work, mode):
    """The honest kernel on the same lines: complaints if it is refused. A verdict may say that it
    proves too little (mistrusted); that is no refusal."""
    lines = {}
    for bug, dtype, groups in work:
        for n, group in enumerate(groups):
            words = bug.words(group, dtype, program.folder)
            if words not in lines.values():
                lines[f"{bug.name}_{dtype}_{n}"] = words
    plain = PLAIN if mode == "sample" else []
    _, records = program.verify("rogue", program.file("honest", lines), 1, *SLOW, *plain)
    return [f"the honest kernel is {r['status']}: {r['reason']}\n    {r['repro']}"
            for r in records if r["status"] not in ("pass", "mistrusted")]


def matrix(scores, mode):
    found = sum(s.found for s in scores)
    judged = [s for s in scores if s.rules is not None]
    lines = [
        "# Which rogue is found", "",
        f"Written by `score.py --{mode} --write`; do not edit. " +
        ("Every bug in every type, on all its lines." if mode == "full" else
         f"One type and one line of each bug; {len({s.bug.name for s in scores})} of "
         f"{len(read_bugs())} bugs were tried."), "",
        "A letter is a type: f f32, b bf16, h f16. `found`: every line is refused. `missed`: at least",
        "one passes. `bench`: refused when timed, too. On the right: in which types a rule of the field",
        f"refuses every line; `-` where a line has over {FIELD_CELLS} cells, and for bugs of time.", "",
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
    parser.add_argument("--log")
    parser.add_argument("--logged", action="store_true", help="nothing but what the log has")
    parser.add_argument("--missed")
    parser.add_argument("--theme", action="append", help="these themes alone")
    parser.add_argument("--bug", action="append", help="these bugs alone, in full")
    parser.add_argument("--leave-out", action="append", default=[], help="not these bugs")
    parser.add_argument("--no-honest", action="store_true", help="without the honest kernel")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    mode = "full" if args.full or args.bug else "quick" if args.quick else "sample"
    bugs = [b for b in read_bugs() if (not args.theme or b.theme in args.theme) and
            (not args.bug or b.name in args.bug) and b.name not in args.leave_out]
    work = chosen_work(bugs, mode)
    if args.logged:
        known = read_log(args.log, {b.name: b for b in bugs})
        work = [(b, dtype, b.groups) for b in bugs for dtype in b.types if (b.name, dtype) in known]
    with tempfile.TemporaryDirectory(prefix="attnbench-rogues-") as folder:
        program = Program(args.build, "rogue.so", folder)
        complaints = [] if args.no_honest or args.logged else accept_honest(program, work, mode)
        scores = score_all(program, work, mode, args)
    missed = [f"{s.bug.theme} {s.bug.name} {s.dtype}: {s.bug.text}: {case}"
              for s in scores if not s.found for case in s.missed]
    if args.missed:
        with open(args.missed, "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in missed)
    if args.write:
        with open(os.path.join(HERE, "MATRIX.md"), "w", encoding="utf-8") as file:
            file.write(matrix(scores, mode))
    print("\n".join(complaints + [f"missed: {line}" for line in missed]))
    print(f"{sum(s.found for s in scores)} of {len(scores)} rogues found")
    return 1 if complaints or missed else 0


def read_log(path, bugs):
    """{(bug, type): score} of an earlier run."""
    if not path or not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        entries = [json.loads(line) for line in file]
    return {(e["bug"], e["dtype"]): Score(bugs[e["bug"]], e["dtype"], e["missed"], e["where"],
                                          e["rules"])
            for e in entries if e["bug"] in bugs}


def score_all(program, work, mode, args):
    known = read_log(args.log, {w[0].name: w[0] for w in work})

    def score(entry):
        bug, dtype, groups = entry
        if (bug.name, dtype) in known:
            return known[bug.name, dtype]
        result = measure(program, bug, dtype, groups, mode)
        if args.log:
            with open(args.log, "a", encoding="utf-8") as file:
                file.write(result.line() + "\n")
        return result

    with concurrent.futures.ThreadPoolExecutor(max_workers=args.jobs) as pool:
        return list(pool.map(score, work))


if __name__ == "__main__":
    sys.exit(main())
