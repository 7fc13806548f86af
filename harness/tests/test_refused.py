#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_refused.py - each verb, with each of its allocations refused in turn: no crash, a sentence
where it fails, and where it does not fail the output of an undisturbed run.

test_refused.py BUILD_DIR PRELOAD [SHARE [VERB...]]   SHARE: of the allocations, one in so many (default: all)
"""
import binascii
import concurrent.futures
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

import small_tree

BUILD, PRELOAD = map(os.path.abspath, sys.argv[1:3])
SHARE = int(sys.argv[3]) if len(sys.argv) > 3 else 1
CHOSEN = sys.argv[4:]
CASES = ["h=1 s=8 d=8", "s=9 d=8 mask=causal out=lse"]
FEW = ["--fills", "none", "--checks", "none"]
SEED = ["--sample-seed", "1"]
# Of a record, what differs from run to run; and how much a verdict has proven, which is measured as
# far as there is memory, and never makes a pass.
LEFT_OUT = {"seconds", "verifying_s", "time", "crc32", "run", "power", "grade", "slack"}
MOST_SHOWN = 20


class Tree:
    def __init__(self, folder):
        self.folder = folder
        self.program = small_tree.make(BUILD, folder, "naive")
        self.place = os.path.join(folder, "place") # where it runs, and writes nothing
        os.mkdir(self.place)

    def call(self, words, n, count=""):
        # Without gnuplot: pictures are another program's work.
        env = {"PATH": "/nonexistent", "LD_PRELOAD": PRELOAD, "LC_ALL": "C.UTF-8",
               "ATTN_TEST_PRELOAD": f"memory:{n}" + (f":{count}" if count else "")}
        return subprocess.run((self.program, *words), capture_output=True, env=env, timeout=300, check=False,
                              cwd=self.place)

    def make(self, *words):
        done = self.call(words, 0)
        if done.returncode:
            sys.exit(f"refused: {words}: {done.stderr.decode()}")


def verdicts(path):
    """The records of a run without times; what is wrong with its lines raises ValueError."""
    found = []
    with open(path, "rb") as file:
        for line in file.read().splitlines(keepends=True):
            if not line.endswith(b"\n"):
                continue
            body, _, seal = line.rpartition(b',"crc32":"')
            if int(seal[:8], 16) != binascii.crc32(body):
                raise ValueError("a line is not sealed right")
            record = json.loads(line)
            if record["type"] == "verify":
                found.append({key: value for key, value in record.items() if key not in LEFT_OUT})
            elif record["type"] == "run":
                found.append({"type": "run", "keys": sorted(record), "machine": sorted(record["machine"])})
            elif record["type"] not in ("turns", "resume"):
                found.append({key: record.get(key) for key in ("type", "id", "backend", "cache", "round", "status")})
    return found


def outputs(folder):
    """What a verb has written, file by file."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            key = os.path.relpath(path, folder)
            if name == "results.ndjson":
                found[key] = verdicts(path)
            elif name.endswith(".log"):  # of gnuplot or of workers: another program's words, if it began
                continue
            elif name not in ("machine.json", "index"):
                with open(path, "rb") as file:
                    found[key] = file.read()
            else:
                found[key] = b""
    return found


def held(folder, name, run, lines=None):
    """A folder that holds the run as `timed`, with so many lines of its journal."""
    place = os.path.join(folder, name)
    if not os.path.exists(place):
        shutil.copytree(run, os.path.join(place, "timed"))
        with open(os.path.join(place, "timed/results.ndjson"), "r+b") as file:
            kept = file.readlines()[:lines]
            file.seek(0)
            file.truncate()
            file.writelines(kept)
    return place


class Verb:
    def __init__(self, tree, name, words, out="", copied=""):
        """out: what it writes; copied: the folder that it works in is a copy of this one."""
        self.tree, self.name, self.words, self.out, self.copied = tree, name, words, out, copied
        self.expected = self.count = None

    def begin(self):
        """Undisturbed: what is expected, of how many allocations."""
        counted = os.path.join(self.tree.folder, self.name + ".count")
        self.expected = self.meet(0, counted)
        with open(counted, encoding="ascii") as file:
            self.count = int(file.read())

    def meet(self, n, count=""):
        """Exit code, output and files with allocation n refused."""
        place = os.path.join(self.tree.folder, f"{self.name}-{n}")
        if self.copied:
            shutil.copytree(self.copied, place)
        done = self.tree.call([word.replace("@", place) for word in self.words], n, count)
        name = place.encode()
        met = (done.returncode, re.sub(b"  (power|grade): .*", b"", done.stdout.replace(name, b"@")), done.stderr, None)
        try:
            if self.out:
                met = (*met[:3], outputs(self.out.replace("@", place)))
        except ValueError as error:
            met = (*met[:3], error)
        shutil.rmtree(place, ignore_errors=True)
        return met

    def wrong(self, n):
        """What is wrong with allocation n refused, or None."""
        code, said, errors, files = self.meet(n)
        if code < 0 or code > 8:
            return f"ended with {code}: {errors[-300:]}"
        if isinstance(files, Exception):
            return f"exit {code}, {files}"
        if code != self.expected[0]:
            if not errors:
                return f"exit {code} without a word"
            whole = {key for record in self.expected[3].get("results.ndjson", [])
                     for key in record} if self.out else set()
            for record in files.get("results.ndjson", []) if self.out else []:
                if record.get("status") == "pass" and not whole >= set(record) or \
                        record.get("status") == "pass" and record not in self.expected[3]["results.ndjson"]:
                    return f"exit {code}, with a pass that lacks something"
            return None
        if said != self.expected[1]:
            return f"exit {code}, another output"
        for name, content in self.expected[3].items() if self.out else ():
            if files.get(name) != content:
                return f"exit {code}, another {name}"
        return None


def main():
    bad = ran = 0
    with tempfile.TemporaryDirectory(prefix="attnbench-refused-") as folder:
        tree = Tree(os.path.join(folder, "tree"))
        a, b, timed = (os.path.join(folder, name) for name in ("a", "b", "timed"))
        for run, shard in ((a, "1/2"), (b, "2/2")):
            tree.make("verify", *SEED, *FEW, "--shard", shard, "-o", run, *CASES)
        bench = ["bench", *SEED, *FEW, "--rounds", "2", "--samples", "1", "--min-time", "100us"]
        tree.make(*bench, "-o", timed, *CASES)
        verbs = [
            Verb(tree, "list", ["list", "backends", "--json"]),
            Verb(tree, "cases", ["list", "cases", "--json", *CASES]),
            Verb(tree, "verify", ["verify", *SEED, *FEW, "-o", "@", *CASES], "@"),
            # With ceilings, which take seconds, from an earlier command; with all the work before it, and
            # with none.
            Verb(tree, "bench", [*bench, "--resume", "-o", "@/timed", *CASES], "@/timed",
                 held(folder, "begun", timed, 1)),
            Verb(tree, "resume", [*bench, "--resume", "-o", "@/timed", *CASES], "@/timed",
                 held(folder, "whole", timed)),
            Verb(tree, "compare", ["compare", timed, timed]),
            Verb(tree, "compare_json", ["compare", timed, timed, "--json"]),
            Verb(tree, "report", ["report", "@/timed"], "@/timed/report",
                 held(folder, "whole", timed)),
            Verb(tree, "report_json", ["report", timed, "--json"]),
            Verb(tree, "merge", ["merge", a, b, "-o", "@"], "@"),
            *(Verb(tree, "export_" + f, ["export", timed, "--format", f])
              for f in ("csv", "junit", "google-benchmark", "bencher")),
        ]
        first = random.Random(os.environ.get("ATTNBENCH_TEST_SEED")).randrange(SHARE)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for verb in (verb for verb in verbs if not CHOSEN or verb.name in CHOSEN):
                verb.begin()
                met = list(range(1 + first, verb.count + 1, SHARE))
                found = [(n, what) for n, what in zip(met, pool.map(verb.wrong, met)) if what]
                ran += len(met)
                bad += len(found)
                print(f"{verb.name}: exit {verb.expected[0]}, {verb.count} allocations, {len(met)} refused, "
                      f"{len(found)} wrong", flush=True)
                for n, what in found[:MOST_SHOWN]:
                    print(f"  {n}: {what}")
        stray = os.listdir(tree.place)
        if stray:
            print(f"written where it ran: {stray}")
            bad += 1
    print(f"refused: {ran} allocations of {len(verbs)} verbs (every {SHARE}. from the {first + 1}.), {bad} wrong")
    return 1 if bad or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
