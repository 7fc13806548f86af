# SPDX-License-Identifier: Apache-2.0
"""scoring.py - what the scores of planted bugs share (mutants/score.py, rogues/score.py): one call
of the program on a backend with a bug, the rules of the field, packs, and lines of a matrix."""
import json
import os
import random
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "scripts"))
import make_textbook  # noqa: E402  (writes packs)

make_textbook.FORMAT["BF16"] = "H"
random.seed(os.environ.get("ATTNBENCH_TEST_SEED"))  # None: another one in each run

RULES = {"allclose": "allclose 1e-2", "nmse": "ggml NMSE 5e-4", "flashinfer": "flashinfer-bench",
         "flash2x": "FlashAttention 2x", "onednn": "oneDNN SDPA"}
LETTER = {"f32": "f", "bf16": "b", "f16": "h"}
FOUND = ("fail", "crash", "timeout", "oom", "error")


def complaint(record, may_skip):
    """What is wrong with the verdict on a correct backend: one text in a list, or none. Sums in f16
    leave their range in the fills that are made for that, which no verdict can excuse."""
    status = record["status"]
    if (status == "pass" or may_skip and status == "skip" or
            status == "mistrusted" and record["numerics"].get("partial_type") == "f16" and
            "beyond the range of the declared types" in record["reason"]):
        return []
    return [f"{record['backend']} is {status}: {record['reason']}\n    {record['repro']}"]


def share(items, n):
    """One in n of them and at least one, from a random one on; all where n is 1."""
    items = list(items)
    return items[random.randrange(min(n, len(items))) if items else 0::n]


class Program:
    """attnbench of a build, with a test plugin."""

    def __init__(self, build, plugin, folder):
        self.build, self.folder = os.path.abspath(build), folder
        self.attnbench = os.path.join(self.build, "bin", "attnbench")
        self.plugin = os.path.join(self.build, "tests", "plugins", plugin)

    def file(self, name, lines):
        """A file of cases {name: words}; its path."""
        path = os.path.join(self.folder, name + ".cases")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{key}: {words}\n" for key, words in lines.items())
        return path

    def records(self, verb, backend, path, *more, accepted=(0, 3, 6), timeout=900):
        """Exit code and records of one `attnbench verify` or `attnbench bench`."""
        command = [self.attnbench, verb, "--json", *more, path]
        if backend:
            command[2:2] = ["--plugin", self.plugin, "-b", backend]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        if done.returncode not in accepted:
            sys.exit(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]

    def verify(self, backend, path, threads, *more, timeout=900):
        """Exit code and verdicts of one `attnbench verify`."""
        code, records = self.records("verify", backend, path, "--threads", str(threads), *more,
                                     timeout=timeout)
        return code, [r for r in records if r["type"] == "verify"]

    def fills(self):
        """Names of the fills that are made on purpose."""
        done = subprocess.run([self.attnbench, "list", "fills", "--json"], capture_output=True,
                              text=True, check=True)
        names = [entry["name"] for entry in json.loads(done.stdout)]
        return names[names.index("census"):]

    def field(self, bug, path, threads):
        """[{case, changed, accepted}] of each line, up to where the backend crashed."""
        done = subprocess.run([os.path.join(self.build, "tests", "mutant_field"), self.plugin, bug,
                               str(threads), path],
                              capture_output=True, text=True, timeout=900, check=False)
        if done.returncode > 0:
            sys.exit(f"mutant_field {bug} {path}: {done.stderr}")
        return [json.loads(line) for line in done.stdout.splitlines()]


def keep_matrix(folder, text, write):
    """Writes MATRIX.md, or compares it with what was measured. Returns complaints."""
    path = os.path.join(folder, "MATRIX.md")
    if write:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return []
    with open(path, encoding="utf-8") as file:
        same = file.read() == text
    return [] if same else ["MATRIX.md is not what was measured: score.py --write"]


def letters(scores, test):
    return "".join(LETTER[s.dtype] for s in scores if test(s))


def verdict_line(title, scores, found):
    missed = [s.dtype for s in scores if not found(s)]
    f32 = missed.count("f32")
    return (f"| {title} | {len(scores) - len(missed)} | {len(missed)} | {f32} | "
            f"{len(missed) - f32} |")


# ---- packs: what the case language has no words for ----

def bf16(value):
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    if value != value or abs(value) == float("inf"):
        return bits >> 16
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def rounded(value, dtype):
    if isinstance(value, list):
        return [rounded(entry, dtype) for entry in value]
    return value if dtype == "f32" else bf16(value)
