#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_adverse.py - what is done to a run from outside: it is stopped and goes on, signals arrive,
files may not be opened, descriptors are closed, inputs are pipes, names are hostile.

test_adverse.py PROGRAM PLUGIN PRELOAD [NAME...]
"""
import binascii
import itertools
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, PLUGIN, PRELOAD = sys.argv[1:4]
del sys.argv[1:4]
CASE = "h=1 s=8 d=8"
FEW = ("--fills", "none", "--checks", "none")
QUICK = ("verify", "-b", "naive", *FEW)
os.environ["ATTNBENCH_PYTHON_BACKENDS"] = "noop"


def descendants(pid):
    """All processes below, by the lists of their children."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
            for child in map(int, file.read().split()):
                found += [child] + descendants(child)
    return found


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="attnbench-adverse-")
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_it(self, code, *words, **options):
        done = subprocess.run((PROGRAM, *words), capture_output=True, text=True, errors="replace",
                              check=False, timeout=120, **options)
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}{done.stderr}")
        return done

    def records(self, run):
        with open(os.path.join(run, "results.ndjson"), encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]


class Stopped(Case):
    """Time in which it was stopped is nobody's."""

    def begin(self):
        """A run whose backend takes a second of the two that it has."""
        self.log = self.path("run/workers.log")
        program = subprocess.Popen((PROGRAM, "verify", "--plugin", PLUGIN, "-b", "faulty", "--timeout", "2s",
                                    *FEW, "-o", self.path("run"), CASE), stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, "ATTN_TEST_FAULT": "nap:run"},
                                   stderr=subprocess.STDOUT, start_new_session=True)
        while program.poll() is None and not (os.path.exists(self.log) and os.path.getsize(self.log)):
            time.sleep(0.01)
        return program

    def go_on(self, program, targets, seconds):
        for target in targets:
            os.kill(target, signal.SIGSTOP)
        time.sleep(seconds)
        for target in targets:
            os.kill(target, signal.SIGCONT)
        said = program.communicate(timeout=60)[0]
        self.assertEqual(program.returncode, 0, said)

    def test_the_program(self):
        program = self.begin()
        self.go_on(program, [program.pid], 2.5)

    def test_the_program_and_its_workers(self):
        program = self.begin()
        self.go_on(program, [program.pid, *descendants(program.pid)], 2.5)

    def test_a_worker(self):
        program = self.begin()
        self.go_on(program, descendants(program.pid), 1.6)

    def test_a_worker_for_ever(self):
        program = self.begin()
        for worker in descendants(program.pid):
            os.kill(worker, signal.SIGSTOP)
        self.assertIn("no answer within 2 s", program.communicate(timeout=60)[0])
        self.assertEqual(program.returncode, 6)


class Confined(Case):
    def test_a_worker_that_gets_no_namespace_is_not_started(self):
        """Where the kernel gives one and no second, the second of two workers has to say so."""
        def limited(most, *command):
            # A user namespace has a limit of its own for all below. In a second one the program is nobody's root,
            # and gets a third for each worker.
            return subprocess.run(
                ("unshare", "--user", "--map-root-user", "sh", "-c",
                 f'echo {1 + most} >/proc/sys/user/max_user_namespaces && '
                 'exec unshare --user --map-user=1000 --map-group=1000 -- "$@"', "sh", *command),
                capture_output=True, text=True, check=False, timeout=120)
        if limited(1, "true").returncode != 0:
            self.skipTest("no user namespaces here")
        live = (PROGRAM, "compare", "--live", "naive", "naive", CASE, "--budget", "1s")
        self.assertIn(limited(64, *live).returncode, (0, 5, 7))
        # The kernel takes a namespace back a little after its end. So the host may find none possible, when it
        # tries what it can have, and says so.
        for _ in range(10):
            done = limited(1, *live)
            if done.returncode == 6:
                break
        self.assertEqual(done.returncode, 6, done.stdout + done.stderr)
        self.assertIn("cannot start the worker: no user namespace of its own: No space left", done.stdout)


class Lacking(Case):
    """What a run needs is not there."""

    def test_few_open_files(self):
        def limit(hard):
            return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (10, hard))
        words = (*QUICK, "-o", self.path("run"), CASE)
        done = self.run_it(1, *words, preexec_fn=limit(10))
        self.assertIn("'ulimit -n' allows 10 open files", done.stderr)
        self.assertFalse(os.path.exists(self.path("run")))
        self.run_it(0, *words, preexec_fn=limit(1000))

    def test_no_meminfo(self):
        env = {**os.environ, "LD_PRELOAD": PRELOAD, "ATTN_TEST_PRELOAD": "hidden:/proc/meminfo"}
        done = self.run_it(0, *QUICK, "-o", self.path("run"), CASE, env=env)
        self.assertRegex(done.stderr, "/proc/meminfo does not say .* [0-9.]+ GiB are assumed, unless --memory")
        self.assertNotIn(" 0.0 GiB", done.stderr)
        with open(self.path("run/machine.json"), encoding="utf-8") as file:
            self.assertGreater(json.load(file)["memory_bytes"], 1 << 20)
        done = self.run_it(0, *QUICK, "--memory", "1G", CASE, env=env)
        self.assertNotIn("assumed", done.stderr)

    def test_closed_descriptors(self):
        """In all eight combinations. What is written to a closed one must not land in the journal."""
        for closed in itertools.chain.from_iterable(itertools.combinations(range(3), n) for n in range(4)):
            run = self.path("run" + "".join(map(str, closed)))
            shell = f'exec "$@" {" ".join(f"{fd}>&-" for fd in closed)}'
            done = subprocess.run(("sh", "-c", shell, "sh", PROGRAM, *QUICK, "-o", run, CASE),
                                  capture_output=True, text=True, timeout=120, check=False)
            # Where nothing can be said, that is an error; the run is whole nevertheless.
            self.assertEqual(done.returncode, 1 if 1 in closed else 0, f"{closed}: {done.stderr}")
            self.assertEqual([r.get("status", r["type"]) for r in self.records(run)], ["run", "pass", "end"])
            done = self.run_it(0, "report", run, "--json")
            self.assertEqual(done.stderr, "", str(closed))

    def test_signals_at_a_high_rate(self):
        """Every call that waits is interrupted, in the program and in its workers."""
        env = {**os.environ, "LD_PRELOAD": PRELOAD, "ATTN_TEST_PRELOAD": "signals:200"}
        self.run_it(0, "verify", "-b", "naive", "-o", self.path("run"), CASE, env=env)
        self.run_it(0, "report", self.path("run"), "--json", env=env)


class Hostile(Case):
    """Files that others have made."""

    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory(prefix="attnbench-adverse-")
        cls.addClassCleanup(cls.made.cleanup)
        cls.whole = os.path.join(cls.made.name, "run")
        subprocess.run((PROGRAM, *QUICK, "-o", cls.whole, CASE), capture_output=True, check=True)

    def refuses(self, *words, **options):
        """Soon, in one sentence, with the exit code of bad input."""
        done = self.run_it(2, *words, **options)
        self.assertRegex(done.stderr, "(not a|no) regular file")
        self.assertEqual(done.stderr.count("\n"), 1)

    def pipe(self, name):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        if os.path.exists(self.path(name)):
            os.unlink(self.path(name))
        os.mkfifo(self.path(name))
        return self.path(name)

    def test_a_pipe_as_input(self):
        self.refuses("verify", self.pipe("p.cases"))
        self.refuses("list", "cases", self.path("p.cases"))
        self.refuses("verify", "-b", "naive", "data=" + self.pipe("p.safetensors"))
        self.refuses("verify", self.path("p.safetensors"))
        self.refuses("verify", "--plugin", self.pipe("p.so"), CASE)
        self.refuses("import", self.pipe("p.json"), "-o", self.path("out"))
        self.refuses("statement", "check", self.path("p.json"))
        self.refuses("statement", "check", self.pipe("p.md"))
        self.refuses("history", "--index", self.path("p.json"))
        self.refuses("history", "add", "--index", self.path("p.json"), self.whole)
        shutil.copy(PLUGIN, self.path("plugin.so"))
        self.pipe("plugin.skips")
        self.refuses("verify", "--plugin", self.path("plugin.so"), CASE)

    def test_a_pipe_in_a_run(self):
        for name in ("results.ndjson", "machine.json", "matrix.json"):
            run = shutil.copytree(self.whole, self.path(name))
            self.pipe(f"{name}/{name}")
            self.refuses("report", run)
            self.refuses("compare", run, self.whole)
            self.refuses("compare", self.whole, run)
            self.refuses("merge", run, "-o", self.path("merged"))
            self.refuses("export", run, "--format", "csv")
            self.refuses("history", "add", "--index", self.path("index"), run)
        log = self.pipe("log/workers.log")
        done = self.run_it(6, *QUICK, "-o", self.path("log"), CASE)
        self.assertIn(f"cannot start the worker: {log}: No such device", done.stdout)
        # Nor is a link in a folder of somebody else followed.
        log, target = self.path("link/workers.log"), self.path("target")
        os.mkdir(self.path("link"))
        os.symlink(target, log)
        done = self.run_it(6, *QUICK, "-o", self.path("link"), CASE)
        self.assertIn(f"cannot start the worker: {log}: Too many levels of symbolic links", done.stdout)
        self.assertFalse(os.path.exists(target))

    # A terminal obeys the first two, the third turns the text, the rest is for HTML, Markdown, XML.
    EVIL = "\x1b]0;owned\x07\x9b2J\u202e\u2028</td><script>alert(1)</script>|`[x](javascript:1)&\x7f"
    # Values that are compared with known words; all others are anybody's.
    WORDS = {"type", "status", "cache", "run", "id", "crc32", "time_unit", "aggregate_name", "run_type"}

    def poison(self, value, key=""):
        if isinstance(value, dict):
            poisoned = {k: self.poison(v, k) for k, v in value.items()}
            poisoned[self.EVIL] = self.EVIL
            return poisoned
        if isinstance(value, list):
            return [self.poison(v, key) for v in value]
        return "=" + value + self.EVIL if isinstance(value, str) and key not in self.WORDS else value

    def hostile_run(self, run):
        """A copy in which every text is hostile, with seals that are right."""
        results, machine = os.path.join(run, "results.ndjson"), os.path.join(run, "machine.json")
        records = self.records(run)
        with open(results, "w", encoding="utf-8") as file:
            for record in records:
                del record["crc32"]
                record = self.poison(record) if record["type"] != "end" else record
                body = json.dumps(record, separators=(",", ":"), ensure_ascii=False)[:-1]
                file.write(f'{body},"crc32":"{binascii.crc32(body.encode()):08x}"}}\n')
        with open(machine, encoding="utf-8") as file:
            poisoned = self.poison(json.load(file))
        with open(machine, "w", encoding="utf-8") as file:
            json.dump(poisoned, file, ensure_ascii=False)

    def looks_clean(self, text, where):
        found = re.search("[^\n\t -~\xa0-\u061b\u061d-\u200d\u2010-\u2027\u202f-\u2065\u206a-\uffff]", text)
        self.assertIsNone(found, f"{where}: {found and text[max(0, found.start() - 60):found.end() + 20]!r}")

    def test_hostile_names(self):
        with open(self.path("benchmarks.json"), "w", encoding="utf-8") as file:
            json.dump({"context": {}, "benchmarks": [
                {"name": f"f/{n}", "run_type": "iteration", "repetition_index": k, "iterations": 9,
                 "real_time": 100 + n + k, "cpu_time": 99, "time_unit": "ns"}
                for n in range(2) for k in range(4)]}, file)
        for name in ("a", "b"):
            self.run_it(0, "import", self.path("benchmarks.json"), "-o", self.path(name))
        shutil.copytree(self.whole, self.path("c"))
        for name in "bc":
            self.hostile_run(self.path(name))
        verbs = [(verb, *more, self.path(run)) for run in "bc" for verb, *more in (
            ("report",), ("report", "--json"), ("compare", self.path("a")), ("compare", "--cross", self.path("a")),
            ("compare", self.path("a"), "--json"), ("export", "--format", "csv"),
            ("export", "--format", "junit"), ("export", "--format", "google-benchmark"),
            ("merge", "-o", self.path("m" + run)), ("history", "add", "--index", self.path("index")))]
        verbs.append(("history", "--index", self.path("index")))
        said = 0
        for words in verbs:
            done = subprocess.run((PROGRAM, *words), capture_output=True, timeout=120, check=False)
            self.assertIn(done.returncode, (0, 2, 6, 7, 8), (words, done.stderr))
            for text in (done.stdout, done.stderr):
                said += b"script" in text
                self.looks_clean(text.decode().replace("\r\n", "\n"), words)
        for run in "bc":
            for folder, _, names in os.walk(self.path(run + "/report")):
                for name in names:
                    if not name.endswith((".png", ".gz")):
                        with open(os.path.join(folder, name), encoding="utf-8") as file:
                            text = file.read()
                        said += "script" in text
                        self.looks_clean(text, name)
                        if name.endswith(".html"):
                            self.assertNotIn("<script>alert", text)
        self.assertGreater(said, 9)  # it did arrive


if __name__ == "__main__":
    unittest.main()
