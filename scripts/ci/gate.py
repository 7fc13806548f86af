#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Verifies a plugin in CI and compares it with the build before: the steps of action.yml and gitlab.yml.

    gate.py verify --plugin new.so
    gate.py compare --plugin new.so --base old.so

The table of what was found goes to $GITHUB_STEP_SUMMARY, or to RESULTS/summary.md. On GitHub each failure is an
annotation. The exit code is that of attnbench: 0 ok, 3 wrong numbers, 4 slower, 5 unclear (--strict), 6 crash,
7 nothing was checked, 8 not comparable.
"""
import argparse
import json
import os
import shlex
import subprocess
import sys

EXITS = {2: "the command or its input is wrong", 3: "numbers are wrong", 4: "slower than the base",
         5: "no verdict was reached", 6: "a crash, a timeout or too little memory", 7: "nothing was checked",
         8: "not comparable with the base"}
MOST = 10  # GitHub shows ten annotations of a step
SILENT = ("pass", "skip", "approx")


def on_github():
    return os.environ.get("GITHUB_ACTIONS") == "true"


def escape(text, also=""):
    """A workflow command is one line."""
    for character in "%\r\n" + also:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def annotate(level, title, text):
    if on_github():
        print(f"::{level} title={escape(title, ':,')}::{escape(text)}", flush=True)
    else:
        print(f"{level}: {title}: {text}", flush=True)


def cell(text):
    """Text in a cell of a Markdown table."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def summarise(arguments, text):
    path = os.environ.get("GITHUB_STEP_SUMMARY") or os.path.join(arguments.results, "summary.md")
    with open(path, "a", encoding="utf-8") as file:
        file.write(text + "\n")


def run(arguments, *words):
    """Runs attnbench and shows what it says on stderr. Returns its exit code and stdout."""
    command = [arguments.program, *words]
    print("+ " + shlex.join(command), flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    # A signal ended it: as a shell has it.
    return (done.returncode if done.returncode >= 0 else 128 - done.returncode), done.stdout


def records_of(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def verify(arguments):
    strict = ["--strict"] if arguments.strict else []
    code, out = run(arguments, "verify", "--plugin", "new=" + arguments.plugin, *strict, "--junit",
                    os.path.join(arguments.results, "verdicts.xml"), "--json", *shlex.split(arguments.verify_options),
                    *arguments.cases)
    records = [record for record in records_of(out) if record.get("type") == "verify"]
    counts = {}
    for record in records:
        counts[record["status"]] = counts.get(record["status"], 0) + 1
    bad = [r for r in records if r["status"] not in SILENT or (r["status"] == "skip" and not r.get("expected"))]
    if code == 0:  # a refusal of chosen cases is none that matters
        bad = []
    lines = [f"### attnbench verify: {'passed' if code == 0 else EXITS.get(code, 'failed')}", "",
             ", ".join(f"{n} {status}" for status, n in counts.items()) or "no verdict"]
    if bad:
        lines += ["", "| status | case | reason | rerun |", "|---|---|---|---|"]
        lines += [f"| {r['status']} | {cell(r['case'])} | {cell(r['reason'])} | `{cell(r['repro'])}` |" for r in bad]
    for r in bad[:MOST]:
        annotate("error", f"{r['status']} on {r['name'] or r['case']}", f"{r['reason']}\nrerun: {r['repro']}")
    if code and not bad:
        annotate("error", "attnbench verify", EXITS.get(code, f"exit code {code}"))
    summarise(arguments, "\n".join(lines) + "\n")
    return code


def compare(arguments):
    folder = os.path.join(arguments.results, "ab")
    code, _ = run(arguments, "bench", "--plugin", "base=" + arguments.base, "--plugin", "new=" + arguments.plugin, "-o",
                  folder, *shlex.split(arguments.bench_options), *arguments.cases)
    if code not in (0, 3, 6):  # what failed is in the run, and compare calls it broken
        annotate("error", "attnbench bench", EXITS.get(code, f"exit code {code}"))
        summarise(arguments, f"### attnbench bench: {EXITS.get(code, 'failed')}\n")
        return code
    within = ["compare", "--within", folder, "base", "new", "--margin", arguments.margin]
    within += ["--strict"] if arguments.strict else []
    compared, out = run(arguments, *within, "--json")
    found = json.loads(out) if out.startswith("{") else {"results": []}
    worse = [r for r in found["results"] if r["verdict"] in ("slower", "broke")]
    for r in worse[:MOST]:
        text = r["reason"] or f"{r['ratio']:.3f} times the time of the base, from {r['lo']:.3f} to {r['hi']:.3f}"
        annotate("error", f"{r['verdict']}: {r['label']}", text)
    if compared and not worse:
        annotate("error", "attnbench compare", EXITS.get(compared, f"exit code {compared}"))
    _, table = run(arguments, *within, "--markdown")
    summarise(arguments, f"### attnbench compare: {'passed' if compared == 0 else EXITS.get(compared, 'failed')}\n\n"
              + table)
    # Wrong numbers and crashes come before a verdict on times.
    return code or compared


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("step", choices=("verify", "compare"))
    parser.add_argument("--program", default="attnbench", help="attnbench itself")
    parser.add_argument("--plugin", required=True, help="the plugin to judge")
    parser.add_argument("--base", default="", help="the plugin to compare it with")
    parser.add_argument("--cases", default="", help="case files and quoted case lines, as in a shell")
    parser.add_argument("--margin", default="3", help="differences up to this many percent count as equal")
    parser.add_argument("--verify-options", default="", help="more options of attnbench verify")
    parser.add_argument("--bench-options", default="", help="more options of attnbench bench")
    parser.add_argument("--results", default="attnbench-results", help="where results go")
    parser.add_argument("--strict", default="false", choices=("true", "false"), help="what is not sure fails, too")
    arguments = parser.parse_args()
    arguments.cases = shlex.split(arguments.cases)
    arguments.strict = arguments.strict == "true"
    if arguments.step == "compare" and not arguments.base:
        parser.error("compare needs --base")
    os.makedirs(arguments.results, exist_ok=True)
    return {"verify": verify, "compare": compare}[arguments.step](arguments)


if __name__ == "__main__":
    sys.exit(main())
