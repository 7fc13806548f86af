# SPDX-License-Identifier: Apache-2.0
"""A run that is killed again and again, and resumed, ends with the results of one that was not:
nothing is lost, nothing is there twice.

    test_kills.py BUILD_DIR [--kills N] [--seconds S] [--seed N]

Kills with SIGKILL at random moments: after up to 5 further lines of the journal, or a random time
after the last of them. The target is the host, or one of its workers. Without --kills: one run of two
cases; with it: runs of these, until there were so many kills of hosts, and as many of workers. Most
runs begin with the ceilings of an earlier one, which take seconds.
"""
import argparse
import collections
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

CASES = ["h=2 s=24 d=8 mask=causal", "s=33 d=16"]
BACKENDS = ["-b", "naive", "-b", "null"]
OPTIONS = ["--rounds", "2", "--samples", "1", "--min-time", "100us"]
OF_JOURNAL = ("run", "resume", "end")
LINES_MOST = 5


def read(folder):
    """All whole lines of the journal."""
    path = os.path.join(folder, "results.ndjson")
    if not os.path.exists(path):
        return b""
    with open(path, "rb") as file:
        text = file.read()
    return text[:text.rfind(b"\n") + 1]


def results(text):
    records = [json.loads(line) for line in text.splitlines()]
    return [record for record in records if record["type"] not in OF_JOURNAL]


def key(record):
    return tuple(str(record.get(field, "")) for field in
                 ("type", "id", "backend", "options", "threads", "cache", "round"))


def keys(records):
    """How often each key is there. Rounds of turns may be put off, so their number is left open."""
    return collections.Counter(key(r) for r in records if r["type"] != "turns")


def turns(records):
    """The rounds of turns of each case and backend."""
    return collections.Counter((r["id"], side["backend"], r["round"])
                               for r in records if r["type"] == "turns" for side in r["sides"])


def is_own(record):
    """Did the harness itself fail, because the machine was short of something?"""
    return record["status"] == "error" and re.search("cannot (start the worker|make the operands): ",
                                                     record["reason"])


def lacks(text):
    """Is a verdict missing for that reason? --resume makes it."""
    last = {(r["id"], r["backend"]): r for r in results(text) if r["type"] == "verify"}
    return any(is_own(record) for record in last.values())


def workers_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


class Campaign:
    def __init__(self, build, seed):
        self.program = os.path.join(build, "bin", "attnbench")
        self.random = random.Random(seed)
        self.folder = tempfile.mkdtemp(prefix="attnbench-kills-",
                                       dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.hosts = self.workers = self.runs = self.commands = 0
        self.end = float("inf")  # of the campaign
        self.most = (8, 4)  # kills of the host and of workers
        self.share = 0.3  # of the kills of a host, before which a worker is killed

    def start(self, run, resume):
        self.commands += 1
        return subprocess.Popen([self.program, "bench", *BACKENDS, *OPTIONS, "-o", run,
                                 *(["--resume"] if resume else []), *CASES],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def check(self, right, what):
        if not right:
            sys.exit(f"kills: seed {self.random_seed}: {what}; the run is {self.folder}")

    def undisturbed(self):
        run = os.path.join(self.folder, "whole")
        with self.start(run, False) as program:
            errors = program.communicate()[1]
        self.check(program.returncode == 0, f"exit code {program.returncode}: {errors}")
        return keys(results(read(run)))

    def begin(self, run):
        """A run that was killed after its first line, but has machine.json. Returns that line."""
        whole = os.path.join(self.folder, "whole")
        first = read(whole).splitlines(keepends=True)[0]
        os.mkdir(run)
        shutil.copy(os.path.join(whole, "machine.json"), run)
        with open(os.path.join(run, "results.ndjson"), "wb") as file:
            file.write(first)
        return first

    def wait(self, program, run):
        """Until the journal has some more lines, and then for a moment."""
        least = len(read(run).splitlines()) + self.random.randint(0, LINES_MOST)
        while program.poll() is None and len(read(run).splitlines()) < least:
            time.sleep(0.002)
        end = time.monotonic() + self.random.choice((0, 0.001, 0.01, 0.1)) * self.random.random()
        while program.poll() is None and time.monotonic() < end:
            time.sleep(0.0005)

    def strike(self, program, run):
        """Kills the host, or first some worker."""
        if self.workers < self.most[1] and self.random.random() < self.share:
            self.wait(program, run)
            workers = workers_of(program.pid)
            if workers:
                try:
                    os.kill(self.random.choice(workers), signal.SIGKILL)
                    self.workers += 1
                except ProcessLookupError:
                    pass
        self.wait(program, run)
        if self.hosts < self.most[0] and program.poll() is None:
            program.kill()
            self.hosts += 1

    def is_enough(self):
        return time.monotonic() > self.end or \
            (self.hosts >= self.most[0] and self.workers >= self.most[1])

    def disturbed(self):
        """One run to its end. Returns its records."""
        run = os.path.join(self.folder, f"run{self.runs}")
        self.runs += 1
        before, resume, struck = b"", False, self.workers
        if self.random.random() < 0.9:
            before, resume = self.begin(run), True
        while True:
            with self.start(run, resume) as program:
                if not self.is_enough():
                    self.strike(program, run)
                errors = program.communicate()[1]
            text = read(run)
            self.check(text.startswith(before), "a record was lost")
            if program.returncode != -signal.SIGKILL and not lacks(text):
                break
            before, resume = text, True
        struck = self.workers - struck
        self.check(program.returncode == 0 or (struck and program.returncode == 6),
                   f"exit code {program.returncode}: {errors}")
        done = subprocess.run([self.program, "report", run, "--json"], capture_output=True, text=True,
                              check=False)
        self.check(done.returncode == 0, f"its report: {done.stderr}")
        records = results(text)
        shutil.rmtree(run)
        return records, struck

    def run(self, once):
        whole = self.undisturbed()
        while True:
            records, struck = self.disturbed()
            records = [record for record in records if not is_own(record)]
            found = keys(records)
            twice = [k for k, n in (found + turns(records)).items() if n > 1]
            # A worker that was killed is a verdict, `crash`, and what follows from it is missing.
            crashed = {(r["id"], r["backend"]): r for r in records if r["status"] in ("crash", "error")}
            # One that was killed while it told what a plugin offers is a crash in each case.
            self.check(len(crashed) <= struck * len(CASES), f"{len(crashed)} crashes of {struck} workers killed:\n" +
                       "\n".join(map(json.dumps, crashed.values())))
            lost = [k for k in whole if k not in found and (k[1], k[2]) not in crashed]
            more = [k for k in found if k not in whole and (k[1], k[2]) not in crashed]
            again = [k for k in twice if k[0] != "verify" or (k[1], k[2]) not in crashed]
            self.check(not lost, f"lost: {lost}")
            self.check(not more, f"more than undisturbed: {more}")
            self.check(not again, f"twice: {again}")
            if once or self.is_enough():
                break
        shutil.rmtree(self.folder)
        print(f"{self.hosts} kills of the host and {self.workers} of workers, {self.runs} runs in "
              f"{self.commands - 1} commands: 0 records lost, 0 twice, the keys of an undisturbed run")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--seconds", type=float, default=None, help="after which no run is begun")
    asked = parser.parse_args()
    seed = random.randrange(1 << 32) if asked.seed is None else asked.seed
    campaign = Campaign(asked.build, seed)
    campaign.random_seed = seed
    if asked.seconds:
        campaign.end = time.monotonic() + asked.seconds
    if asked.kills:
        campaign.most, campaign.share = (asked.kills, asked.kills), 1
    campaign.run(not asked.kills)


main()
