# SPDX-License-Identifier: Apache-2.0
"""merge as a user runs it, on synthetic runs and on shards that were run.

    test_merge.py BUILD_DIR [unittest options]
"""
import copy
import fcntl
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import synthetic  # noqa: E402

BUILD = os.path.abspath(sys.argv.pop(1))
PROGRAM = os.path.join(BUILD, "bin", "attnbench")
CASES = 24


def attnbench(*args):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=280,
                          stdin=subprocess.DEVNULL, check=False)


def contents(folder):
    """{path: bytes} of all files of a folder."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = file.read()
    return found


def read(run):
    with open(os.path.join(run, "results.ndjson"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Merge(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="attnbench-merge-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.made = 0
        self.dice = random.Random(1)

    def path(self, name):
        return os.path.join(self.folder, name)

    def shards(self, count, cases=CASES, **options):
        self.made += 1
        return synthetic.make(self.path(f"cut-{self.made}"), cases, count, **options)

    def merge(self, *runs, code=0):
        """Returns the folder of the merged run and what was said. code None: 0 or 6."""
        self.made += 1
        out = self.path(f"merged-{self.made}")
        done = attnbench("merge", "-o", out, *runs)
        code = done.returncode if code is None and done.returncode in (0, 6) else code
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(os.path.exists(out + "/results.ndjson"), code in (0, 6, 7))
        return out, done.stderr

    def rewrite(self, run, change):
        """Writes a run anew, its records as `change` makes them of the old."""
        lines = read(run)
        with open(run + "/machine.json", encoding="utf-8") as file:
            machine = json.load(file)
        shutil.rmtree(run)
        journal = synthetic.Journal(run, machine, lines[0]["run"])
        for record in lines[1:-1]:
            for field in ("seq", "run", "crc32"):
                del record[field]
            for changed in change(record):
                journal.put(changed)
        journal.close()

    def test_all_cuts_and_orders_have_the_same_bytes(self):
        whole = contents(self.merge(*self.shards(0))[0])
        self.assertEqual(len(read(self.path("merged-2"))), CASES * synthetic.PER_CASE + 2)
        for count in range(1, 65):
            runs = self.shards(count)
            self.dice.shuffle(runs)
            self.assertEqual(contents(self.merge(*runs)[0]), whole, count)

    def test_groups_do_not_matter(self):
        for count in (3, 8, 20):
            runs = self.shards(count)
            whole = contents(self.merge(*runs)[0])
            for _ in range(4):
                left = list(runs)
                while len(left) > 1: # merge some of them, with some once more, until one is left
                    self.dice.shuffle(left)
                    some, left = left[:3], left[3:]
                    again = self.dice.choice(runs)
                    left.append(self.merge(*some, again, code=None)[0])
                self.assertEqual(contents(left[0]), whole)
            self.assertEqual(contents(self.merge(left[0])[0]), whole)
            self.assertEqual(contents(self.merge(left[0], left[0], runs[0])[0]), whole)

    def test_a_folder_of_runs_stands_for_them(self):
        runs = self.shards(5)
        self.assertEqual(contents(self.merge(os.path.dirname(runs[0]))[0]),
                         contents(self.merge(*runs)[0]))
        os.mkdir(self.path("nothing"))
        self.assertIn("no run folder", self.merge(self.path("nothing"), code=2)[1])

    def test_missing_and_unfinished_shards_are_named(self):
        runs = self.shards(5)
        out, said = self.merge(runs[0], runs[2], runs[4], code=6)
        self.assertIn("shard 2 of 5 is missing, shard 4 of 5 is missing", said)
        self.assertNotIn("end", [record["type"] for record in read(out)])
        whole = contents(self.merge(*runs)[0])
        self.assertEqual(contents(self.merge(out, runs[3], runs[1])[0]), whole)
        with open(runs[1] + "/results.ndjson", "rb+") as file: # without its last line
            text = file.read()
            file.truncate(text[:-1].rindex(b"\n") + 1)
        out, said = self.merge(*runs, code=6)
        self.assertIn("shard 2 of 5 is unfinished", said)
        self.assertNotIn("missing", said)
        done = attnbench("compare", out, out)
        self.assertIn("unfinished", done.stderr) # the run itself says so
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(attnbench("compare", self.path("merged-3"), self.path("merged-4")).returncode,
                         0)

    def test_counts_of_shards_are_only_read(self):
        """A file may claim any number of them: no time or memory is spent on it."""
        run, = self.shards(0)
        with open(run + "/machine.json", encoding="utf-8") as file:
            machine = json.load(file)
        machine["shard"] = {"index": 3, "count": 2**62, "from": "--shard"}
        with open(run + "/machine.json", "w", encoding="utf-8") as file:
            json.dump(machine, file)
        self.assertIn(f"shard 9 of {2**62} is missing, and {2**62 - 9} more",
                      self.merge(run, code=6)[1])

    def test_shards_without_cases_count(self):
        runs = self.shards(40, cases=3)
        empty = [run for run in runs if len(read(run)) == 2]
        self.assertGreater(len(empty), 30)
        whole = contents(self.merge(*runs)[0])
        left = [run for run in runs if run != empty[0]]
        number = empty[0].rpartition("-")[2]
        self.assertIn(f"shard {number} of 40 is missing", self.merge(*left, code=6)[1])
        self.assertEqual(whole, contents(self.merge(*self.shards(0, cases=3))[0]))

    def test_different_records_under_one_key_are_refused(self):
        first, second = self.shards(0), self.shards(0)
        self.merge(*first, *second)
        self.rewrite(second[0], lambda record: [dict(record, rms=2e-7)
                                                if record["type"] == "verify" else record])
        said = self.merge(*first, *second, code=2)[1]
        self.assertIn("different records under one key: verify of dk=64", said)
        self.assertEqual(self.merge(*second, *first, code=2)[1].count("different records"), 1)

    def test_of_one_run_the_last_record_of_a_key_counts(self):
        run, = self.shards(0)
        whole = contents(self.merge(run)[0])
        self.rewrite(run, lambda record: [dict(record, reason="cut off", cut=True), record]
                     if record["type"] == "bench" else [record])
        self.assertEqual(contents(self.merge(run)[0]), whole)

    def test_other_machines_and_commits_are_refused_by_name(self):
        base = self.shards(2)
        for field, value, word in (("attnbench.commit", "89abcde", "commit"),
                                   ("cpu.model", "another", "CPU model"),
                                   ("compiler_flags", "-O1", "compiler flags"),
                                   ("threads", 2, "threads"),
                                   ("protocol.rounds", 3, "rounds"),
                                   ("protocol.samples", 3, "samples")):
            machine = copy.deepcopy(synthetic.MACHINE)
            *path, last = field.split(".")
            place = machine
            for name in path:
                place = place[name]
            place[last] = value
            other = self.shards(2, machine=machine)
            for runs in ([base[0], other[1]], [other[1], base[0]]):
                self.assertIn(word, self.merge(*runs, code=8)[1])

    def test_what_differs_by_chance_is_united(self):
        def ceilings(rate):
            return {"isa": "avx2", "read_gbs": rate, "gemm": [
                {"backend": "blas", "case": f"sq={round(rate)}", "dtype": "f32", "gflops": rate}],
                "rungs": [{"isa": "avx2", "f32": 50 - rate}, {"isa": "avx512", "f32": rate}],
                "reads": [{"level": "memory", "bytes": 0, "gbs": rate}]}
        runs = []
        for i, rate in enumerate((10.0, 12.0, 11.0)):
            machine = dict(copy.deepcopy(synthetic.MACHINE), affinity=[i, i + 4], throttled=i,
                           date=f"2026-01-0{3 - i}T00:00:00Z", kernel=f"6.{i}",
                           ceilings=ceilings(rate))
            runs.append(self.shards(3, machine=machine)[i])
        whole = contents(self.merge(*runs)[0])
        for order in ((2, 1, 0), (1, 2, 0), (0, 2, 1)):
            self.assertEqual(contents(self.merge(*[runs[i] for i in order])[0]), whole)
            pair = self.merge(runs[order[0]], runs[order[1]], code=6)[0]
            self.assertEqual(contents(self.merge(runs[order[2]], pair)[0]), whole)
        machine = json.loads(whole["machine.json"])
        self.assertEqual((machine["affinity"], machine["throttled"], machine["date"]),
                         ([0, 1, 2, 4, 5, 6], 2, "2026-01-01T00:00:00Z"))
        united = machine["ceilings"]
        self.assertEqual([rung["f32"] for rung in united["rungs"]], [40, 12])
        self.assertEqual((united["read_gbs"], len(united["gemm"])), (12, 3))

    def test_different_selections_are_kept_apart(self):
        small, large = self.shards(2, cases=10), self.shards(2)
        out, said = self.merge(small[0], large[0], large[1], code=6)
        self.assertIn("shard 2 of 2 is missing", said)
        self.assertEqual(contents(self.merge(out, small[1])[0]),
                         contents(self.merge(*large, *small)[0]))

    def test_a_backend_that_no_shard_checked(self):
        runs = self.shards(3)
        for run in runs:
            self.rewrite(run, lambda record: [
                {**record, "status": "skip", "expected": True}
                if record["backend"] == "blas" and record["type"] == "verify" else record])
        self.assertIn("blas was checked on nothing", self.merge(*runs, code=7)[1])

    def test_damage_is_refused(self):
        runs = self.shards(2)
        with open(runs[1] + "/results.ndjson", "rb+") as file:
            lines = file.read().splitlines(keepends=True)
            del lines[3]
            file.seek(0)
            file.truncate()
            file.write(b"".join(lines))
        self.assertIn("line 4", self.merge(*runs, code=2)[1])
        os.unlink(runs[1] + "/results.ndjson")
        self.assertIn("no run folder", self.merge(*runs, code=2)[1])

    def test_kept_weights_come_along(self):
        runs = self.shards(2)
        for run, name, text in zip(runs, "ab", (b"first", b"second")):
            os.mkdir(run + "/tensors")
            with open(f"{run}/tensors/{name}.safetensors", "wb") as file:
                file.write(text)
        self.assertEqual({name: text for name, text in contents(self.merge(*runs)[0]).items()
                          if name.startswith("tensors")},
                         {"tensors/a.safetensors": b"first", "tensors/b.safetensors": b"second"})
        shutil.copy(runs[0] + "/tensors/a.safetensors", runs[1] + "/tensors/b.safetensors")
        os.rename(runs[1] + "/tensors/b.safetensors", runs[1] + "/tensors/a.safetensors")
        self.merge(*runs)
        with open(runs[1] + "/tensors/a.safetensors", "ab") as file:
            file.write(b"?")
        self.assertIn("differs", self.merge(*runs, code=2)[1])

    def test_nothing_is_overwritten(self):
        runs = self.shards(2)
        out = self.merge(*runs)[0]
        before = contents(out)
        done = attnbench("merge", "-o", out, *runs)
        self.assertEqual(done.returncode, 2)
        self.assertIn("holds a run already", done.stderr)
        self.assertEqual(contents(out), before)
        # One merge at a time.
        other = self.path("other")
        os.mkdir(other)
        folder = os.open(other, os.O_RDONLY)
        self.addCleanup(os.close, folder)
        fcntl.flock(folder, fcntl.LOCK_EX)
        done = attnbench("merge", "-o", other, *runs)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"another merge writes into '{other}'", done.stderr)
        self.assertEqual(os.listdir(other), [])
        fcntl.flock(folder, fcntl.LOCK_UN)
        self.assertEqual(attnbench("merge", "-o", other, *runs).returncode, 0)
        for arguments in (["merge", *runs], ["merge", "-o", self.path("x")]):
            self.assertEqual(attnbench(*arguments).returncode, 2)

    def test_shards_that_were_run(self):
        """verify on the merged run as its baseline finds all results."""
        runs = []
        for i in (1, 2, 3):
            runs.append(self.path(f"run-{i}"))
            done = attnbench("verify", "-b", "naive", "--fills", "none", "--checks", "none",
                             "--shard", f"{i}/3", "-o", runs[-1], "s=8:14:+1 d=8")
            self.assertEqual(done.returncode, 0, done.stderr)
        out = self.merge(*runs)[0]
        self.assertEqual(contents(out), contents(self.merge(*reversed(runs))[0]))
        self.assertEqual([record["case"] for record in read(out)[1:-1]],
                         [f"dk=8 sq={s}" for s in range(8, 15)]) # 8 before 10
        self.assertIn("shard 2 of 3", self.merge(runs[0], runs[2], code=6)[1])
        done = attnbench("verify", "-b", "naive", "--fills", "none", "--checks", "none",
                         "--baseline", out, "s=8:14:+1 d=8")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("no counterpart", done.stderr)


if __name__ == "__main__":
    unittest.main()
