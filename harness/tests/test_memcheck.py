#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_memcheck.py - valgrind's memcheck finds nothing: no invalid access, no use of what was never
written, no memory that nothing points to any more.

    test_memcheck.py BUILD_DIR [NAME...]

NAME: of a test, or `program`; default: every test program in C without a label, and `program`, the
verbs, with their workers and the plugins naive and simd. A test may fail under valgrind, whose
processor has no AVX-512 and no flags of exceptions, and which is slow: that is said, and only reports
count. Exit status 77: no valgrind.
"""
import concurrent.futures
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import small_tree

BUILD = os.path.abspath(sys.argv[1])
CHOSEN = sys.argv[2:]
VALGRIND = ["valgrind", "-q", "--leak-check=full", "--show-leak-kinds=definite",
            "--errors-for-leak-kinds=definite", "--num-callers=20", "--suppressions=" +
            os.path.join(os.path.dirname(os.path.abspath(__file__)), "memcheck.supp")]
LONGEST_S = 1800
# A report has frames; what valgrind says of itself has none.
FRAME = re.compile(r"^==\d+==    at 0x", re.MULTILINE)
CASES = ["h=2 s=20 d=16 mask=causal", "hq=4 hkv=2 sq=9 sk=40 d=8 dtype=bf16 out=lse mask=window:3:3",
         "h=1 s=12 d=8 bias=normal dropout=0.1", "op=mha h=2 s=9 dk=4",
         "op=attention_backward h=1 s=10 d=8"]


class Checked:
    """A command that has been run under memcheck, in the folder; how many reports it has."""

    def __init__(self, folder, name, command, children=False, planted=False):
        logs = os.path.join(folder, name)
        begun = time.monotonic()
        with open(logs + ".said", "w+", encoding="utf-8", errors="replace") as said:
            try:
                self.code = subprocess.run(
                    [*VALGRIND, f"--trace-children={'yes' if children else 'no'}", f"--log-file={logs}.%p",
                     *command], cwd=folder, stdin=subprocess.DEVNULL, stdout=said,
                    stderr=subprocess.STDOUT, timeout=LONGEST_S, check=False).returncode
            except subprocess.TimeoutExpired:
                self.code = f"none within {LONGEST_S} s"
            said.seek(0)
            self.tail = said.read()[-600:]
        found = []
        for path in glob.glob(glob.escape(logs) + ".[0-9]*"):
            with open(path, encoding="utf-8", errors="replace") as file:
                found.append(file.read())
        # A test that fails jumps out of its function, and leaves what that held.
        lost = re.compile(r"are definitely lost" if self.code else r"(?!)")
        found = [report for log in found for report in re.split(r"(?m)^==\d+== \n", log)
                 if FRAME.search(report) and not lost.search(report)]
        self.reports = len(found)
        print(f"{name}: {self.reports} reports, {time.monotonic() - begun:.0f} s",
              *found if not planted else (), sep="\n", flush=True)


def check_tests(folder):
    """Each test program; how many have reports, of how many. Their workers are not under valgrind:
    time and memory would be no measure."""
    listed = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"],
                            capture_output=True, check=True)
    jobs = []
    for test in json.loads(listed.stdout)["tests"]:
        labelled = any(p["name"] == "LABELS" and p["value"] for p in test["properties"])
        command = test.get("command", [""])
        if os.path.dirname(command[0]) == os.path.join(BUILD, "tests") and \
                (test["name"] in CHOSEN if CHOSEN else not labelled):
            jobs.append((test["name"], command))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        done = list(pool.map(lambda job: Checked(folder, *job), jobs))
    failed = [f"{name} ({test.code})" for (name, _), test in zip(jobs, done) if test.code != 0]
    if failed:
        print("fail under valgrind, which does not count:", ", ".join(failed))
    return sum(test.reports > 0 for test in done), len(done)


def check_program(folder):
    """The verbs; how many have reports or fail, of how many."""
    program = small_tree.make(BUILD, os.path.join(folder, "tree"), "naive", "simd")
    # Confined workers could not write valgrind's logs.
    judge = [program, "verify", "-b", "naive,avx2", "--confine", "off", "--timeout", "20m"]
    planted = Checked(folder, "planted", [
        "env", "ATTN_TEST_FAULT=free_twice:run:", program, "verify", "--plugin",
        os.path.join(BUILD, "tests/plugins/faulty.so"), "--confine", "off", "--fills", "none",
        "--checks", "none", "h=1 s=8 d=8"], children=True, planted=True)
    bad = 0 if planted.reports else 1
    if bad:
        print("planted: memory freed twice has not been found\n" + planted.tail)
    subprocess.run([program, "bench", "-b", "naive,avx2", "--rounds", "2", "--samples", "1",
                    "--min-time", "100us", "-o", "timed", *CASES], cwd=folder, capture_output=True,
                   check=True)
    # Exit 3 of verify: it takes memory that valgrind itself maps for a leak of plans.
    verbs = [
        ("verify-1", [*judge, "--shard", "1/2", "-o", "a", *CASES], (0, 3)),
        ("verify-2", [*judge, "--shard", "2/2", "-o", "b", *CASES], (0, 3)),
        ("list", [program, "list", "backends", "--json"], (0,)),
        ("cases", [program, "list", "cases", "--json", *CASES], (0,)),
        ("merge", [program, "merge", "a", "b", "-o", "whole"], (0,)),
        ("compare", [program, "compare", "timed", "timed", "--json"], (0,)),
        ("report", [program, "report", "timed"], (0,)),
        ("report-against", [program, "report", "timed", "--against", "timed"], (0,)),
        ("export", [program, "export", "timed", "--format", "junit"], (0,)),
        ("history", [program, "history", "rebuild", "."], (0,))]
    for name, command, expected in verbs:
        done = Checked(folder, name, command, children=name.startswith("verify"))
        if done.code not in expected:
            print(f"{name}: exit {done.code}: {done.tail}")
        bad += done.reports > 0 or done.code not in expected
    return bad, 1 + len(verbs)


def main():
    if not shutil.which("valgrind"):
        print("memcheck: no valgrind")
        return 77
    os.environ["ATTNBENCH_PYTHON_BACKENDS"] = "noop"
    bad = ran = 0
    with tempfile.TemporaryDirectory(prefix="attnbench-memcheck-") as folder:
        for part in (check_program, check_tests):
            if part is check_tests or not CHOSEN or "program" in CHOSEN:
                found, of = part(folder)
                bad, ran = bad + found, ran + of
    print(f"memcheck: {ran} commands, {bad} bad")
    return bad > 0 or ran == 0


if __name__ == "__main__":
    sys.exit(main())
