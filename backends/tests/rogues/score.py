#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""score.py - which of the rogue backend's bugs does attnbench find, at real sizes.

    score.py BUILD                one bug of each class in seconds: without fills, first type and line
    score.py BUILD --quick        every bug with all fills, one line and one type of it
    score.py BUILD --full         every bug, every type, every line; cheap lines first
    score.py BUILD --full --write  and writes MATRIX.md; with --quick, of what was tried
    score.py BUILD --log FILE     appends each result to FILE, and skips what FILE has already
    score.py BUILD --seconds N    begins no line after N seconds
    score.py BUILD --full --log FILE --logged --write  writes what FILE has, and tries nothing
    score.py BUILD --missed FILE  appends what is missed as soon as it is seen

A line is refused if `attnbench verify` refuses it; for the theme `time`, if verify or `attnbench
bench` does. A bug is found in a type if each of its lines is refused. Exits with 1 if honest code
is refused or a bug is missed.
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import random
import re
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from scoring import (FOUND, LETTER, RULES, Program, letters, make_textbook, rounded,  # noqa: E402
                     verdict_line)

REFUSED = FOUND + ("suspect",)
FIELD_CELLS = 1 << 27  # the rules of the field ask for every row: cases up to so many cells
SLOW = ["--run-limit", "0", "--timeout", "600s"]
PLAIN = ["--fills", "none", "--checks", "none"]
# Not in the sample of the fast tier: what needs fills, minutes, or a second program.
NOT_SAMPLED = ("contract", "empty", "row", "bits12", "bits15", "bits16", "bits31")
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


def expand(words):
    """The cases of a line: every combination of the values of its lists."""
    keys, lists = [], []
    for word in words.split():
        key, _, values = word.partition("=")
        keys.append(key)
        lists.append([values] if key == "data" else values.split(","))
    return [" ".join(f"{k}={v}" for k, v in zip(keys, chosen))
            for chosen in itertools.product(*lists)]


def cells(words):
    """How many cells the weights of a case have; packs are small."""
    sizes = {"b": 1, "hq": 1, "sq": 1, "sk": 1}
    for word in words.split():
        key, _, value = word.partition("=")
        for name in {"h": ["hq"], "s": ["sq", "sk"], "hq/hkv": ["hq"]}.get(key, [key]):
            if name in sizes:
                sizes[name] = int(value.partition("/")[0])
    return sizes["b"] * sizes["hq"] * sizes["sq"] * sizes["sk"]


class Line:
    """One bug, or honest code (bug None), on one case. `entry` is what the log says of it."""

    def __init__(self, bug, dtype, words, field):
        self.bug, self.dtype, self.words = bug, dtype, words
        self.field = field  # the rules of the field are asked
        self.rules = None  # those that refuse it
        self.key = (bug.name if bug else "none", dtype, re.sub(r"data=.*/", "data=", words))
        self.cost = cells(words)
        self.entry = None

    def refused(self):
        """A declaration beyond its limits makes a pass mistrusted, which is all that can be said."""
        return (self.entry["status"] in REFUSED or self.entry["bench"] or
                (self.bug.theme == "declared" and self.entry["status"] == "mistrusted"))

    def measure(self, program, mode, seconds):
        """Asks verify, and bench where it has a say."""
        name = self.key[0]
        path = program.file("_".join(self.key[:2]) + f"_{abs(hash(self.words))}",
                            {"line": self.words})
        begun = time.monotonic()
        _, records = program.verify(f"rogue:bug={name}", path, 1, *SLOW,
                                    *(PLAIN if mode == "sample" else []), timeout=seconds)
        record = records[-1]
        self.entry = {"bug": name, "dtype": self.dtype, "case": self.key[2],
                      "status": record["status"], "reason": record["reason"],
                      "checks": len(record["checks"]), "bench": None}
        if self.bug and self.bug.theme == "time":
            if not self.refused() or (mode == "full" and self.dtype == self.bug.types[0]):
                self.entry["bench"] = benched(program, f"rogue:bug={name}", path)
        self.entry["seconds"] = round(time.monotonic() - begun, 1)


class Score:
    """One bug in one type, on the lines that were tried."""

    def __init__(self, bug, dtype, lines):
        self.bug, self.dtype = bug, dtype
        self.missed = [line for line in lines if not line.refused()]
        self.found = not self.missed
        self.benched = any(line.entry["bench"] for line in lines)
        asked = [line.rules for line in lines if line.rules is not None]
        self.rules = set(asked[0]) if asked else None


def benched(program, backend, path):
    """Does bench refuse it."""
    with tempfile.TemporaryDirectory(dir=program.folder) as out:
        code, _ = program.records("bench", backend, path, "-o", os.path.join(out, "run"),
                                  "--rounds", "3", "--threads", "1", accepted=(0, 3, 5, 6, 7))
    return code in (3, 6)


def ask_the_field(program, lines):
    """{bug: rules that refuse it} of lines with one case. A crash is a refusal by all."""
    path = program.file(f"field_{lines[0].dtype}_{abs(hash(lines[0].words))}",
                        {"line": lines[0].words})
    answers = program.field(",".join(line.bug.name for line in lines), path, 1)
    accepted = {answer["bug"]: answer["accepted"] for answer in answers}
    return {line.bug.name: sorted(set(RULES) - set(accepted.get(line.bug.name, ())))
            for line in lines}


def chosen_work(bugs, mode, folder):
    """The lines to try. Quick: one type and one case of each bug, types taken in turn. The field
    is asked on the smallest case of each."""
    work, kinds = [], set()
    for number, bug in enumerate(bugs):
        cases = [case for group in bug.groups for case in expand(group)]
        types = bug.types
        if mode == "sample":
            if ((bug.theme, bug.kind) in kinds or bug.theme not in SAMPLED or
                    bug.kind in NOT_SAMPLED):
                continue
            kinds.add((bug.theme, bug.kind))
        if mode != "full":
            cases = cases[:1]
            types = [types[0 if mode == "sample" else number % len(types)]]
        least = min(cells(case) for case in cases)
        asked = next(case for case in cases if cells(case) == least)
        work += [Line(bug, dtype, bug.words(case, dtype, folder),
                      case is asked and least <= FIELD_CELLS and
                      bug.theme not in ("time", "operators") and mode != "sample")
                 for dtype in types for case in cases]
    return work


def honest_work(work):
    """The same cases with the honest kernel, once each."""
    lines = {}
    for line in work:
        line = Line(None, line.dtype, line.words, False)
        lines.setdefault(line.key, line)
    return list(lines.values())


def matrix(scores, work, mode):
    """`work`: all lines, also those that were not tried."""
    found = sum(s.found for s in scores)
    tried = sum(line.entry is not None for line in work)
    judged = [s for s in scores if s.rules is not None]
    lines = [
        "# Which rogue is found", "",
        f"Written by `score.py --{mode} --write`; do not edit. " +
        (f"Every bug in every type: {tried} of {len(work)} cases were tried." if mode == "full" else
         f"One type and one case of each bug; {len({s.bug.name for s in scores})} of "
         f"{len(read_bugs())} bugs were tried."), "",
        "A letter is a type: f f32, b bf16, h f16. `found`: every case is refused. `missed`: at least",
        "one passes. `bench`: refused when timed, too. On the right: in which types a rule of the field",
        f"refuses the smallest case; `-` where it has over {FIELD_CELLS} cells, and for bugs of time.", "",
        f"**{len({s.bug.name for s in scores})} bugs, {len(scores)} mutants with their types: {found} "
        f"found, {len(scores) - found} missed.**", "",
        "| theme | class | found / all | f32 | f16 | bf16 |", "|---|---|---:|---:|---:|---:|"]
    for theme, kind in sorted({(s.bug.theme, s.bug.kind) for s in scores}):
        mine = [s for s in scores if (s.bug.theme, s.bug.kind) == (theme, kind)]
        shares = [share(mine)] + [share([s for s in mine if s.dtype == d])
                                  for d in ("f32", "f16", "bf16")]
        lines.append(f"| {theme} | {kind} | " + " | ".join(shares) + " |")
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
                     f"{letters(mine, lambda s: s.benched)} | " + " | ".join(rules) +
                     f" | {bug.source} |")
    return "\n".join(lines) + "\n"


def share(scores):
    return f"{sum(s.found for s in scores)} / {len(scores)}" if scores else ""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--log")
    parser.add_argument("--logged", action="store_true", help="nothing but what the log has")
    parser.add_argument("--missed")
    parser.add_argument("--theme", action="append", help="these themes alone")
    parser.add_argument("--dtype", action="append", help="these types alone")
    parser.add_argument("--bug", action="append", help="these bugs alone, in full")
    parser.add_argument("--leave-out", action="append", default=[], help="not these bugs")
    parser.add_argument("--no-honest", action="store_true", help="without the honest kernel")
    parser.add_argument("--seconds", type=float, default=1e9, help="no line begins after this")
    parser.add_argument("--cells", type=float, default=1e18, help="no case has more")
    parser.add_argument("--jobs", type=int, default=2)
    return parser.parse_args()


def main():
    args = parse_arguments()
    mode = "full" if args.full or args.bug else "quick" if args.quick else "sample"
    bugs = [b for b in read_bugs() if (not args.theme or b.theme in args.theme) and
            (not args.bug or b.name in args.bug) and b.name not in args.leave_out]
    with tempfile.TemporaryDirectory(prefix="attnbench-rogues-") as folder:
        program = Program(args.build, "rogue.so", folder)
        work = [line for line in chosen_work(bugs, mode, folder)
                if not args.dtype or line.dtype in args.dtype]
        honest = [] if args.no_honest else honest_work(work)
        try_lines(program, work + honest, mode, args)
    refused = [f"the honest kernel is {line.entry['status']}: {line.entry['reason']}\n"
               f"    {line.words}" for line in honest
               if line.entry and line.entry["status"] not in ("pass", "mistrusted")]
    scores = [Score(bug, dtype, lines) for bug in bugs for dtype in bug.types
              if (lines := [l for l in work if l.bug is bug and l.dtype == dtype and l.entry])]
    missed = [describe(line) for s in scores for line in s.missed]
    if args.write:
        with open(os.path.join(HERE, "MATRIX.md"), "w", encoding="utf-8") as file:
            file.write(matrix(scores, work, mode))
    print("\n".join(refused + [f"missed: {line}" for line in missed]))
    print(f"{sum(s.found for s in scores)} of {len(scores)} rogues found, on "
          f"{sum(line.entry is not None for line in work)} of {len(work)} cases; honest on "
          f"{sum(line.entry is not None for line in honest)} of {len(honest)}")
    return 1 if refused or missed else 0


def describe(line):
    return (f"{line.bug.theme} {line.bug.name} {line.dtype}: {line.bug.text}: {line.key[2]}: "
            f"{line.entry['status']} {line.entry['reason']}")


def read_log(path):
    """{key of a line: entry} of earlier runs."""
    if not path or not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        entries = [json.loads(line) for line in file]
    return {(e["bug"], e["dtype"], e["case"], "rules" in e): e for e in entries}


def try_lines(program, lines, mode, args):
    """Cheap lines first, so that a run that is cut off has tried most of them."""
    known, lock, begun = read_log(args.log), threading.Lock(), time.monotonic()

    def append(path, text):
        with lock:
            if path:
                with open(path, "a", encoding="utf-8") as file:
                    file.write(text + "\n")

    def too_much(line):
        return (args.logged or line.cost > args.cells or
                time.monotonic() - begun > args.seconds)

    def attempt(line):
        line.entry = known.get((*line.key, False))
        if line.entry or too_much(line):
            return
        line.measure(program, mode, 1800)
        append(args.log, json.dumps(line.entry))
        if line.bug and not line.refused():
            append(args.missed, describe(line))

    def ask(alike):
        for line in alike:
            line.rules = known.get((*line.key, True), {}).get("rules")
        alike = [line for line in alike if line.rules is None]
        if not alike or too_much(alike[0]):
            return
        for name, rules in ask_the_field(program, alike).items():
            line = next(line for line in alike if line.bug.name == name)
            line.rules = rules
            append(args.log, json.dumps({"bug": name, "dtype": line.dtype, "case": line.key[2],
                                         "rules": rules}))

    lines = sorted(lines, key=lambda line: line.cost)
    asked = {}  # lines of one case, which share its reference
    for line in lines:
        if line.field:
            asked.setdefault(line.key[1:], []).append(line)
    with concurrent.futures.ThreadPoolExecutor(max_workers=args.jobs) as pool:
        list(pool.map(attempt, lines))
        list(pool.map(ask, asked.values()))


if __name__ == "__main__":
    sys.exit(main())
