# SPDX-License-Identifier: Apache-2.0
"""attnbench history on made-up run folders: series, change points, hostile records and indexes.

    test_history.py BUILD_DIR yes|no [unittest options]

yes: this build has SQLite.
"""
import binascii
import copy
import json
import math
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
BUILT = sys.argv.pop(1) == "yes"
PROGRAM = os.path.join(BUILD, "bin", "attnbench")
CASE = {"id": "983d2961e9e6148a", "case": "dk=64 hq=4 sq=512", "name": "small"}
OTHER = {"id": "b9ecbdf600b157b6", "case": "dk=64 hq=4 sq=256", "name": "smaller"}


def attnbench(*args):
    return subprocess.run([PROGRAM, "history", *args], capture_output=True, text=True, timeout=280,
                          stdin=subprocess.DEVNULL, check=False, errors="replace")


def machine(day=1, **changes):
    """machine.json of a run on this day of a month."""
    backends = [{"name": name, "plugin": name, "plugin_sha256": f"{name}-{'0' * 50}", "version": "1",
                 "exactness": "none" if name == "null" else "exact", "available": True,
                 "reason": "", "options": ""} for name in ("null", "slow", "mine", "peer")]
    return {"attnbench": {"version": "0.1.0", "commit": f"c0ffee{day:02}", "build": "Release"},
            "date": f"2026-03-{day:02}T10:00:00Z", "cpu": {"model": "Model T", "online": 2},
            "threads": 1, "protocol": {"rounds": 5, "samples": 3}, "throttled": day,
            "ceilings": {"isa": "avx2", "rungs": [{"isa": "avx2", "f32": 100.0 + 9 * day}]},
            "backends": backends, **changes}


def bench(backend, rounds, case=None, **changes):
    return {"type": "bench", **(case or CASE), "backend": backend, "options": "", "threads": 1,
            "status": "pass", "reason": "", "repro": "", "cache": "hot",
            "samples_ns": [[t, t, t] for t in rounds], "time_ns": {"median": rounds[0]}, **changes}


def write_run(folder, machine_json, records):
    os.makedirs(folder)
    with open(os.path.join(folder, "machine.json"), "w", encoding="utf-8") as file:
        json.dump(machine_json, file)
    with open(os.path.join(folder, "results.ndjson"), "w", encoding="utf-8") as file:
        for record in records:
            body = json.dumps(record, separators=(",", ":"))[:-1]
            crc = binascii.crc32(body.encode())
            file.write(f'{body},"crc32":"{crc:08x}"}}\n')
    return folder


def timings(rng, speeds, case=None):
    """Five rounds in which the machine's speed wanders; each backend has its own factor."""
    drift = [math.exp(0.3 * rng.gauss(0, 1)) for _ in range(5)]
    return [bench(name, [1e6 * factor * d * math.exp(0.005 * rng.gauss(0, 1)) for d in drift], case)
            for name, factor in speeds.items()]


class Case(unittest.TestCase):
    def setUp(self):
        room = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = tempfile.mkdtemp(prefix="attnbench-test-", dir=room)
        self.addCleanup(shutil.rmtree, self.folder)
        self.index = self.path("index")

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def expect(self, code, *args, index=None):
        done = attnbench("--index", index or self.index, *args)
        self.assertEqual(done.returncode, code, f"{args}\n{done.stdout}\n{done.stderr}")
        return done

    def shown(self, *args, index=None):
        return json.loads(self.expect(0, "--json", *args, index=index).stdout)

    def series(self, *args):
        """The series of the one case that the arguments name, by backend."""
        cases = self.shown(*args)["cases"]
        self.assertEqual(len(cases), 1)
        return {one["backend"]: one for one in cases[0]["series"]}

    def runs(self, count, step=None, **changes):
        """Runs of a month; `mine` becomes slower by 5 % in run `step`. The machine's speed is
        another in each."""
        rng = random.Random(3)
        folders = []
        for day in range(1, count + 1):
            speeds = {"null": 0.01, "slow": 3, "peer": 0.9,
                      "mine": 1.05 if step and day >= step else 1.0}
            records = timings(rng, speeds) + timings(rng, speeds, OTHER)
            folders.append(write_run(self.path("runs", f"r{day:02}"), machine(day, **changes), records))
        return folders


@unittest.skipIf(BUILT, "this build has SQLite")
class WithoutSQLite(Case):
    def test_the_verb_says_what_is_missing(self):
        for args in (["add", "x"], ["rebuild", "x"], ["x"], []):
            self.assertIn("libsqlite3-dev", self.expect(2, *args).stderr)


@unittest.skipIf(not BUILT, "this build has no SQLite")
class Series(Case):
    def test_a_step_is_found_at_its_place_and_nothing_else(self):
        self.expect(0, "add", *self.runs(24, step=16))
        found = self.series("small")
        self.assertEqual(set(found), {"mine", "peer"})  # null computes nothing
        mine = found["mine"]
        self.assertEqual(len(mine["points"]), 24)
        self.assertEqual([c["at"] for c in mine["changes"]], [15])
        change = mine["changes"][0]
        self.assertAlmostEqual(change["change"], 0.05, delta=0.01)
        self.assertAlmostEqual(change["before"], 1 / 3, delta=0.005)
        self.assertEqual(change["commit"], "c0ffee16")
        self.assertLess(change["p"], 0.001)
        self.assertEqual(found["peer"]["changes"], [])
        point = mine["points"][3]
        self.assertEqual(point["source"], "rounds")
        self.assertTrue(point["low"] < point["ratio"] < point["high"])
        # As a table, by the name of the case, its id and its line in another order of words.
        table = self.expect(0, "small").stdout
        self.assertEqual(table.count(">>"), 1)
        lines = table.splitlines()
        at = next(i for i, line in enumerate(lines) if ">>" in line)
        self.assertRegex(lines[at], r">> [45]\.\d % slower from here on: mean ratio 0\.33")
        self.assertIn("c0ffee16", lines[at + 1])
        self.assertIn("anchor slow: chosen", table)
        for word in (CASE["id"], CASE["case"], "sq=512 hq=4 dk=64"):
            self.assertEqual(self.expect(0, word).stdout, table)
        self.assertEqual(self.series("small", "--margin", "10")["mine"]["changes"], [])

    def test_no_commit_is_cut_off(self):
        commits = ["c0ffee1234", "c0ffee123456-dirty", "c0ffee12" * 5]
        for day, commit in enumerate(commits, 1):
            about = machine(day)
            about["attnbench"]["commit"] = commit
            write_run(self.path("runs", str(day)), about, [bench("mine", [1.0]), bench("slow", [2.0])])
        self.expect(0, "rebuild", self.path("runs"))
        lines = self.expect(0, "small").stdout.splitlines()
        columns = [line.split()[2] for line in lines if line.startswith("2026-")]
        self.assertEqual(columns, commits)
        self.assertEqual(len({line.index("/") for line in lines if line.startswith("2026-")}), 1)

    def test_anchor(self):
        self.expect(0, "add", *self.runs(6))
        self.assertEqual(set(self.series("small", "--anchor", "peer")), {"mine", "slow"})
        self.assertEqual(set(self.series("small", "-b", "slow")), {"slow"})  # the next slowest is chosen
        self.assertEqual(set(self.series("small", "-b", "mine", "-b", "peer")), {"mine", "peer"})
        self.assertIn("has the anchor 'none'", self.expect(7, "small", "--anchor", "none").stderr)
        self.assertIn("backends asked for", self.expect(7, "small", "-b", "none").stderr)
        self.expect(7, "small", "--cache", "cold")
        self.assertEqual(len(self.series("small", "--cache", "hot")), 2)

    def test_the_ratio_of_batches_in_alternation_is_used_where_it_is_to_the_anchor(self):
        paired = {"paired": {"anchor": "slow", "anchor_options": "tile=4", "ratio": 0.3,
                             "ci95": [0.29, 0.31]}}
        slow = bench("slow", [2.0, 4.0], options="tile=4")
        for day, live in ((1, None), (2, paired), (3, {"paired": {"anchor": "slow", "ratio": "x"}})):
            write_run(self.path("runs", str(day)), machine(day),
                      [bench("mine", [1.0, 2.0], live=live), slow, bench("peer", [4.0, 4.0])])
        self.expect(0, "rebuild", self.path("runs"))
        points = self.series("small")["mine"]["points"]  # the anchor is what records name
        self.assertEqual([p["source"] for p in points], ["rounds", "paired", "rounds"])
        self.assertEqual([p["ratio"] for p in points], [0.5, 0.3, 0.5])
        self.assertEqual((points[1]["low"], points[1]["high"]), (0.29, 0.31))
        self.assertIn("(paired)", self.expect(0, "small").stdout)
        points = self.series("small", "--anchor", "peer")["mine"]["points"]
        self.assertEqual([p["source"] for p in points], ["rounds"] * 3)

    def test_turns_count_in_both_directions_and_across(self):
        def live(ratio, lo, hi):
            return {"paired": {"anchor": "slow", "ratio": ratio, "ci95": [lo, hi]}}
        write_run(self.path("runs", "a"), machine(1),
                  [bench("mine", [1.0, 2.0], live=live(0.25, 0.2, 0.4)),
                   bench("peer", [3.0, 4.0], live=live(0.5, 0.4, 0.8)), bench("slow", [2.0, 4.0])])
        self.expect(0, "rebuild", self.path("runs"))
        point = self.series("small", "--anchor", "mine")["slow"]["points"][0]
        self.assertEqual([point[k] for k in ("ratio", "low", "high", "source")], [4, 2.5, 5, "paired"])
        point = self.series("small", "--anchor", "peer")["mine"]["points"][0]
        self.assertEqual([point[k] for k in ("ratio", "low", "high", "source")], [0.5, 0.25, 1, "paired"])

    def test_a_change_is_of_one_method_and_beyond_the_intervals(self):
        def live(ratio, width):
            return {"paired": {"anchor": "slow", "ratio": ratio,
                               "ci95": [ratio / (1 + width), ratio * (1 + width)]}}

        def changes(name, lives):
            for day, paired in enumerate(lives, 1):
                noise = 1 + 1e-4 * (day % 3)
                write_run(self.path(name, str(day)), machine(day),
                          [bench("mine", [1.0 * noise, 2.0 * noise], live=paired),
                           bench("slow", [2.0, 4.0])])
            self.expect(0, "rebuild", self.path(name))
            return [c["at"] for c in self.series("small")["mine"]["changes"]]

        ratios = [0.2, 0.2001, 0.2002, 0.3, 0.3001, 0.3002]
        self.assertEqual(changes("narrow", [live(r, 0.02) for r in ratios]), [3])
        self.assertEqual(changes("wide", [live(r, 1) for r in ratios]), [])
        self.assertEqual(changes("methods", [None] * 4 + [live(0.3 + i / 1e4, 0.02) for i in range(4)]), [])

    def test_a_measurement_counts_once_however_many_runs_have_it(self):
        runs = self.runs(2)
        # as `merge` does it: the same measurements, other bytes
        with open(os.path.join(runs[0], "results.ndjson"), encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        for record in records:
            del record["crc32"]
        self.expect(0, "add", *runs, write_run(self.path("merged"), machine(1), records[::-1]))
        self.assertEqual(len(self.series("small")["mine"]["points"]), 2)

    def test_machines_are_not_mixed(self):
        base = [bench("mine", [1.0, 1.0]), bench("slow", [2.0, 2.0])]
        other = [bench("mine", [1.0, 1.0]), bench("slow", [4.0, 4.0])]
        write_run(self.path("runs", "a"), machine(1), base)
        write_run(self.path("runs", "b"), machine(2, cpu={"model": "Model S", "online": 2}), other)
        write_run(self.path("runs", "c"), machine(3), base)
        write_run(self.path("runs", "d"), machine(4, protocol={"rounds": 9, "samples": 4}), other)
        newer = machine(5, protocol={"rounds": 9, "samples": 3})  # more rounds are no other protocol
        for backend in newer["backends"]:  # what a history is about
            backend["plugin_sha256"] = backend["version"] = "2"
        write_run(self.path("runs", "e"), newer, base)
        self.expect(0, "rebuild", self.path("runs"))
        case = self.shown("small")["cases"][0]
        self.assertEqual({s["machine"]: [p["date"][8:10] for p in s["points"]] for s in case["series"]},
                         {"1": ["01", "03", "05"], "2": ["02"], "3": ["04"]})
        self.assertEqual([p["anchor_changed"] for p in case["series"][0]["points"]],
                         [False, False, True])
        text = self.expect(0, "small").stdout
        self.assertIn('machine 2 is another: CPU model "Model S", on machine 1 "Model T"', text)
        self.assertIn("machine 3 is another: protocol's samples 4, on machine 1 3", text)
        self.assertIn("(the anchor has changed)", text)

    def test_what_went_wrong_is_a_point_without_a_ratio(self):
        good = [bench("mine", [1.0, 1.0]), bench("slow", [2.0, 2.0])]
        verify = {**good[0], "type": "verify", "status": "fail"}
        write_run(self.path("runs", "a"), machine(1), good)
        write_run(self.path("runs", "b"), machine(2), [verify, good[1]])
        write_run(self.path("runs", "c"), machine(3), [good[0]])
        write_run(self.path("runs", "d"), machine(4), [{**verify, "status": "skip"}, good[1]])
        self.expect(0, "rebuild", self.path("runs"))
        points = self.series("small", "--anchor", "slow")["mine"]["points"]
        self.assertEqual([(p["status"], p["ratio"]) for p in points],
                         [("pass", 0.5), ("fail", None), ("pass", None)])
        text = self.expect(0, "small", "--anchor", "slow").stdout
        self.assertIn("(fail)", text)
        self.assertIn("(no anchor in the same rounds)", text)


@unittest.skipIf(not BUILT, "this build has no SQLite")
class Index(Case):
    def content(self, index):
        """All rows without the numbers that only join them."""
        with sqlite3.connect(index) as db:
            return db.execute("SELECT path, digest, date, commit_id, identity, id, name, line, backend,"
                              " plugin, version, threads, cache, status, anchor, ratio, low, high,"
                              " rounds FROM result JOIN run USING (run) JOIN machine USING (machine)"
                              " ORDER BY path, id, backend, cache").fetchall()

    def test_a_rebuilt_index_equals_one_that_was_added_to(self):
        folders = self.runs(9, step=5)
        random.Random(4).shuffle(folders)
        for folder in folders[:5]:
            self.assertEqual(self.expect(0, "add", folder).stdout, f"1 run added to '{self.index}'\n")
        self.assertEqual(self.expect(0, "add", *folders[3:]).stdout,  # two of them again
                         f"6 runs added to '{self.index}'\n")
        self.expect(0, "rebuild", self.path("runs"), index=self.path("rebuilt"))
        added = self.content(self.index)
        self.assertEqual(len(added), 9 * 2 * 3)
        self.assertEqual(self.content(self.path("rebuilt")), added)
        for word in ([], ["small"], ["smaller"]):
            self.assertEqual(self.shown(*word, index=self.path("rebuilt")), self.shown(*word))
        self.assertEqual(self.expect(0).stdout.splitlines()[1:],
                         ["983d2961e9e6148a      9  small: dk=64 hq=4 sq=512",
                          "b9ecbdf600b157b6      9  smaller: dk=64 hq=4 sq=256"])

    def test_copies_count_once_and_what_changed_is_read_again(self):
        folders = self.runs(3)
        self.expect(0, "add", *folders)
        moved = shutil.copytree(folders[0], self.path("moved"))
        self.assertIn("takes its place", self.expect(0, "add", moved).stderr)
        self.assertEqual({row[0] for row in self.content(self.index)}, {moved, *folders[1:]})
        shutil.rmtree(folders[1])
        write_run(folders[1], machine(2), [bench("mine", [7.0, 7.0]), bench("slow", [7.0, 7.0])])
        self.expect(0, "add", folders[1])
        self.assertEqual(self.series("small")["mine"]["points"][1]["ratio"], 1.0)
        # A link and a relative path name the same folder.
        os.symlink(folders[2], self.path("link"))
        before = self.content(self.index)
        self.expect(0, "add", self.path("link"), os.path.relpath(folders[2]))
        self.assertEqual(self.content(self.index), before)

    def test_several_add_at_once(self):
        folders = self.runs(6)
        adding = [subprocess.Popen([PROGRAM, "history", "--index", self.index, "add", folder],
                                   stderr=subprocess.PIPE) for folder in folders]
        for one in adding:
            self.assertEqual(one.communicate()[1], b"")
            self.assertEqual(one.returncode, 0)
        self.assertEqual(len(self.series("small")["mine"]["points"]), 6)

    def test_all_runs_are_added_or_none(self):
        folders = self.runs(2)
        self.assertIn("machine.json", self.expect(2, "add", *folders, self.folder).stderr)
        self.expect(7, "small")
        untimed = write_run(self.path("verified"), machine(9), [
            {**bench("mine", [1.0]), "type": "verify"}])
        self.assertIn("has no timings", self.expect(2, "add", untimed).stderr)

    def test_rebuild_names_what_it_leaves_out(self):
        folders = self.runs(4)
        self.expect(0, "rebuild", *folders)
        write_run(self.path("runs", "below", "deep"), machine(9), [
            bench("mine", [1.0]), bench("slow", [2.0])])
        write_run(self.path("runs", ".trash"), machine(9), [bench("mine", [1.0])])
        write_run(self.path("runs", "verified"), machine(9), [])
        os.symlink(folders[0], self.path("runs", "link"))
        with open(os.path.join(folders[1], "results.ndjson"), "r+b") as file:
            file.seek(200)
            file.write(b"!")
        done = self.expect(6, "rebuild", self.path("runs"))
        self.assertIn(f"left out: {folders[1]}/results.ndjson: line 1 does not match", done.stderr)
        self.assertIn("4 runs in the index " + self.index + "; 1 without timings", done.stderr)
        self.assertEqual(len(self.series("small")["mine"]["points"]), 4)
        self.expect(2, "rebuild", self.path("nowhere"))
        self.assertEqual(len(self.series("small")["mine"]["points"]), 4)  # the earlier index stays

    def test_no_file_of_others_is_replaced(self):
        folders = self.runs(1)
        for content in (b"my notes\n", b"SQLite format 3\0" + b"\0" * 500):
            with open(self.index, "wb") as file:
                file.write(content)
            self.expect(2, "rebuild", self.path("runs"))
            self.assertNotEqual(attnbench("--index", self.index, "add", *folders).returncode, 0)
            with open(self.index, "rb") as file:
                self.assertEqual(file.read(), content)
        with sqlite3.connect(self.path("foreign")) as db:
            db.execute("CREATE TABLE run(x)")
        self.assertIn("no index of attnbench",
                      self.expect(2, "add", *folders, index=self.path("foreign")).stderr)
        self.expect(2, "rebuild", *folders, index=self.path("foreign"))

    def test_usage(self):
        self.assertIn("there is no index", self.expect(2, "small").stderr)
        self.assertIn("there is no index", self.expect(2).stderr)
        self.expect(2, "add")
        self.expect(2, "rebuild")
        self.expect(2, "small", "smaller")
        self.expect(2, "add", "x", "--anchor", "slow")
        self.expect(2, "small", index=self.path("no", "such", "folder"))
        self.expect(2, "add", "x", index="")
        self.expect(0, "add", *self.runs(1))
        self.assertIn("did you mean 'small'", self.expect(7, "smal").stderr)
        self.expect(7, "s=1 d=1")


@unittest.skipIf(not BUILT, "this build has no SQLite")
class Hostile(Case):
    def survives(self, *args):
        done = attnbench("--index", self.index, *args)
        self.assertIn(done.returncode, (0, 1, 2, 6, 7), f"{args}\n{done.stderr[-2000:]}")
        return done

    def show_all(self):
        for args in ([], ["--json"], ["small"], ["small", "--json"], ["small", "--anchor", "slow"]):
            done = self.survives(*args)
            self.assertFalse(set(done.stdout) & {"\x1b", "\x07"}, args)
            if "--json" not in args:
                self.assertNotIn("\x9b", done.stdout)
        return done

    @staticmethod
    def fields(value, path=()):
        """The places of all values in a JSON value."""
        yield path
        if isinstance(value, (dict, list)):
            for key in (value if isinstance(value, dict) else range(len(value))):
                yield from Hostile.fields(value[key], path + (key,))

    @staticmethod
    def replaced(value, path, new):
        value = copy.deepcopy(value)
        place = value
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = new
        return value

    def test_every_field_of_records_and_machines(self):
        values = [None, True, -1e308, "\x1b[2J\u009bé\x07" * 30, [], {}, [[0.0]]]
        live = {"paired": {"anchor": "slow", "anchor_options": "", "ratio": 0.5, "ci95": [0.4, 0.6]}}
        good = [bench("mine", [1.0, 2.0], live=live), bench("slow", [2.0, 3.0])]
        day = 0
        for path in list(self.fields(good[0])) + list(self.fields(machine())):
            in_record = path and path[0] in good[0]
            for value in values if path else []:
                day += 1
                machine_json, records = machine(day % 28 + 1), good
                if in_record:
                    records = [self.replaced(good[0], path, value), good[1]]
                else:
                    machine_json = self.replaced(machine_json, path, value)
                # Each has records of its own, so that none is taken for a copy.
                records = records + [bench("peer", [float(day)])]
                write_run(self.path("runs", f"{day:04}"), machine_json, records)
        self.assertGreater(day, 300)
        self.survives("rebuild", self.path("runs"))
        self.show_all()
        self.assertGreater(len(self.shown()), 1)
        series = self.shown("983d2961e9e6148a", "-b", "mine")["cases"][0]["series"]
        self.assertGreater(sum(len(one["points"]) for one in series), 200)

    def test_sizes(self):
        folder = write_run(self.path("runs", "a"), machine(1), [
            bench("mine", [1.0] * 5000), bench("slow", [2.0] * 5000),  # too many rounds
            bench("x" * 5000, [1.0]), bench("mine", [1.0], {**CASE, "id": "i" * 9000}),
            bench("mine", [1.0], {**OTHER, "case": "é" * 9000, "name": "n" * 9000})])
        self.expect(0, "add", folder)
        self.show_all()
        self.expect(7, "small")
        with open(os.path.join(folder, "machine.json"), "w", encoding="utf-8") as file:
            json.dump(machine(1, compiler="x" * 100000), file)
        self.assertIn("too long", self.expect(2, "add", folder).stderr)
        with open(os.path.join(folder, "machine.json"), "w", encoding="utf-8") as file:
            json.dump(machine(1, compiler="x" * (5 << 20)), file)
        self.assertIn("larger than 4 MB", self.expect(2, "add", folder).stderr)
        os.remove(os.path.join(folder, "machine.json"))
        os.mkfifo(os.path.join(folder, "machine.json"))
        self.assertIn("no regular file", self.expect(2, "add", folder).stderr)

    def test_an_edited_index(self):
        self.expect(0, "add", *self.runs(6))
        shutil.copy(self.index, self.path("good"))
        for edit in ("UPDATE result SET rounds=randomblob(40)", "UPDATE result SET rounds=x'0102'",
                     "UPDATE result SET rounds='text', threads='many', ratio=x'00', low=-1, high=9e999",
                     "UPDATE result SET backend=randomblob(300), name=x'ff1b5b', cache=9, anchor=3.5",
                     "UPDATE machine SET identity='[1'", "UPDATE machine SET identity=randomblob(9)",
                     "UPDATE run SET date=7, path=randomblob(90), machine='x'", "DELETE FROM machine",
                     "DROP TABLE run", "PRAGMA user_version=2",
                     "UPDATE result SET id='983d2961e9e6148a', backend=backend || rowid"):
            shutil.copy(self.path("good"), self.index)
            with sqlite3.connect(self.index) as db:
                db.execute(edit)
            db.close()
            with self.subTest(edit=edit):
                self.show_all()
                self.survives("add", self.path("runs", "r01"))

    def test_a_damaged_index_is_made_anew(self):
        self.expect(0, "add", *self.runs(6))
        with open(self.index, "rb") as file:
            good = file.read()
        rng = random.Random(6)
        for attempt in range(8):
            data = bytearray(good[:rng.randrange(100, len(good))] if attempt % 4 == 0 else good)
            for _ in range(40 if attempt % 4 else 0):
                data[rng.randrange(100, len(data))] = rng.randrange(256)
            with open(self.index, "wb") as file:
                file.write(data)
            self.survives("small")
            self.survives("small", "--json")
        self.expect(0, "rebuild", self.path("runs"))
        self.assertEqual(len(self.series("small")["mine"]["points"]), 6)


if __name__ == "__main__":
    unittest.main()
