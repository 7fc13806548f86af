#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_onnx_conformance.py - every Attention case of ONNX, through the reference and the backend
naive.

Usage: test_onnx_conformance.py BUILD PACKS

PACKS is what scripts/make_onnx_packs.py wrote. For each pack the reference must give ONNX's
expected answers and naive what the reference gives. The last line is the number of cases that did,
of all. Exit code 77, skipped, where there are no packs.
"""
import json
import os
import re
import subprocess
import sys

SKIPPED = 77


def verdicts(build, files):
    """Of each pack, by file name: who judged it -> (status, reason)."""
    command = [os.path.join(build, "bin", "attnbench"), "verify", "--json", "-b", "naive", *files]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode != 0:
        print(done.stderr)
    found = {}
    for line in done.stdout.splitlines():
        record = json.loads(line)
        if record["type"] == "verify":
            pack = re.search(r"([^/]+\.safetensors)", record["case"]).group(1)
            found.setdefault(pack, {})[record["backend"]] = record["status"], record["reason"]
    return found, done.returncode


def complaints(packs, found):
    """What is wrong with the packs of one case."""
    wrong = []
    for pack in packs:
        seen = found.get(pack, {})
        for judge in ("reference", "naive"):
            status, reason = seen.get(judge, ("no verdict", ""))
            if status != "pass":
                wrong.append("%s on %s: %s %s" % (pack, judge, status, reason))
    return wrong


def main():
    build, folder = sys.argv[1:]
    index = os.path.join(folder, "cases.json")
    if not os.path.exists(index):
        print("no packs of ONNX's cases in %s: left out" % folder)
        return SKIPPED
    with open(index, encoding="utf-8") as file:
        listed = json.load(file)
    cases = listed["cases"]
    files = [os.path.join(folder, pack) for case in cases for pack in case["packs"]]
    found, code = verdicts(build, files)
    covered, failed = 0, code != 0
    for case in cases:
        wrong = complaints(case["packs"], found)
        for line in wrong:
            print("%s: %s" % (case["name"], line))
        if not case["packs"]:
            print("%s: left out: %s" % (case["name"], case["left_out"]))
        covered += bool(case["packs"]) and not wrong
        failed = failed or bool(wrong)
    print("onnx %s, cases of Attention that reference and naive agree with:" % listed["onnx"])
    print("%d/%d" % (covered, len(cases)))
    return 1 if failed or covered == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
