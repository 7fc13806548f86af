# SPDX-License-Identifier: Apache-2.0
"""Run folders that nobody measured, for tests of merge and for figures of scale.

    synthetic.py DIR --records N [--shards N] [--slower PERCENT]    DIR/shard-1, DIR/shard-2, ...
"""
import argparse
import binascii
import hashlib
import json
import os
import random

BACKENDS = ("avx2", "blas")
MACHINE = {
    "attnbench": {"version": "0.1.0", "commit": "0123456", "commit_date": "2026-01-01",
                  "build": "Release"},
    "date": "2026-01-01T00:00:00Z",
    "cpu": {"model": "synthetic", "vendor": "none", "family": "1", "number": "1", "stepping": "1",
            "cores": 2, "online": 2, "l1d": "32K", "l2": "1M", "l3": "32M", "flags": ["avx2"]},
    "memory_bytes": 1 << 34, "kernel": "6.1", "compiler": "cc", "compiler_flags": "-O3",
    "libc": "2.36", "threads": 1, "affinity": [0, 1], "governor": "", "thp": "always",
    "page_bytes": 4096, "throttled": 0,
    "protocol": {"rounds": 2, "samples": 1, "min_time_s": 0.005, "order": "random in each round",
                 "budget_s": 0.0},
    "ceilings": None, "harness_ns": None, "isolation": "none",
    "backends": [{"name": name, "plugin": "simd.so", "plugin_sha256": "", "version": "1",
                  "description": "", "options": "", "exactness": "exact", "available": True,
                  "reason": "", "device": False, "asked": True, "named": False}
                 for name in BACKENDS],
}


def line_of(number):
    return f"dk=64 hkv=4 hq=8 sq={number + 1}"


def id_of(line):
    return hashlib.sha256(line.encode()).hexdigest()[:16]


def records_of(number, slower=0.0):
    """Six records of each case: on each backend a verdict, a round and a timing."""
    line = line_of(number)
    dice = random.Random(number)
    for backend in BACKENDS:
        key = {"case": line, "name": f"sweep_{number % 7}", "id": id_of(line), "backend": backend,
               "options": "", "threads": 1, "status": "pass", "reason": "",
               "repro": f"attnbench verify -b {backend} --threads 1 '{line}'",
               "path": "tiles of 6 x 16, keys in blocks of 64", "sample_seed": 1}
        sizes = {"op": "attention", "score": "scaled_dot", "dtype": "f32", "b": 1, "hq": 8,
                 "hkv": 4, "sq": number + 1, "sk": number + 1, "dq": 64, "dk": 64, "dv": 64,
                 "causal": False}
        checks = {name: "pass" for name in ("out", "lse", "head", "tail", "fresh", "ties", "ramp",
                                            "census", "permute_keys", "gqa", "batch", "threads")}
        yield {"type": "verify", **key, "max_ratio": dice.random(), "median_ratio": dice.random(),
               "max_abs": 1e-6 * dice.random(), "max_rel": 1e-5 * dice.random(), "rms": 1e-7,
               "worst": "out[b0 h0 i0 c0]", "rows_checked": 8, "rows_total": 8, "checks": checks,
               "checks_made": 12, "checks_apply": 12, "exactness": "exact", "sizes": sizes,
               "protection": "guard pages", "delta": 1e-6,
               "power": {"refused": 17, "of": 17, "missed": []}}
        times = [1000 * (1 + dice.random() / 100) * (1 + slower) for _ in range(5)]
        yield {"type": "round", **key, "round": 0, "cache": "hot", "samples_ns": times[:1],
               "iterations": 100, "time": 1.5}
        yield {"type": "bench", **key, "cache": "hot",
               "time_ns": {"median": sorted(times)[2], "min": min(times), "p10": min(times),
                           "p90": max(times), "ci95": [min(times), max(times)], "n": 5},
               "samples_ns": [[time] for time in times], "flops": 1e6, "bytes": 1e5,
               "gflops": 1e6 / times[0], "gbs": 1e5 / times[0], "workspace_bytes": 0,
               "peak_bytes": 4096, "peak_reason": "", "sizes": sizes, "exactness": "exact",
               "threads_seen": 1, "overhead_marked": False, "live": None}


PER_CASE = 6


class Journal:
    """results.ndjson, as harness/results/journal.h has it."""

    def __init__(self, folder, machine, identity, ended=True):
        os.makedirs(folder)
        with open(os.path.join(folder, "machine.json"), "w", encoding="utf-8") as file:
            json.dump(machine, file)
        self.file = open(os.path.join(folder, "results.ndjson"), "w", encoding="utf-8")
        self.identity, self.lines, self.ended = identity, 0, ended
        origin = dict(machine, ceilings=None)
        self.put({"type": "run", "format": 2, "verb": "bench", "machine": origin,
                  "settings": {"cache": "hot", "fills": 0, "checks": 0, "run_limit_s": 5.0,
                               "count": False}})

    def put(self, record):
        self.lines += 1
        body = json.dumps({**record, "seq": self.lines, "run": self.identity},
                          separators=(",", ":"))[:-1]
        self.file.write(f'{body},"crc32":"{binascii.crc32(body.encode()):08x}"}}\n')

    def close(self):
        if self.ended:
            self.put({"type": "end"})
        self.file.close()


def selection(cases):
    ids = sorted({id_of(line_of(number)) for number in range(cases)})
    return {"cases": len(ids), "sha256": hashlib.sha256("".join(
        text + "\n" for text in ids).encode()).hexdigest()}


def make(folder, cases, shards, machine=None, slower=0.0):
    """Writes a run in shards; 0: a run that is not cut. Returns the folders."""
    chosen = selection(cases)
    folders, journals = [], []
    for i in range(max(shards, 1)):
        about = dict(machine or MACHINE, selection=chosen,
                     shard={"index": i + 1, "count": shards, "from": "--shard"} if shards else None)
        folders.append(os.path.join(folder, f"shard-{i + 1}"))
        journals.append(Journal(folders[-1], about, f"{random.getrandbits(64):016x}"))
    for number in range(cases):
        journal = journals[int(id_of(line_of(number)), 16) % max(shards, 1)]
        for record in records_of(number, slower):
            journal.put(record)
    for journal in journals:
        journal.close()
    return folders


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--shards", type=int, default=0)
    parser.add_argument("--slower", type=float, default=0.0)
    given = parser.parse_args()
    make(given.folder, given.records // PER_CASE, given.shards, slower=given.slower / 100)
