# SPDX-License-Identifier: Apache-2.0
"""The tests that ReFrame makes of cases: on this machine, with references of a baseline, and in the
queue of a real Slurm of one node.

    test_reframe.py BUILD_DIR VENV [unittest options]
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import one_slurm  # noqa: E402

BUILD, VENV = (os.path.abspath(path) for path in (sys.argv.pop(1), sys.argv.pop(1)))
PROGRAM = os.path.join(BUILD, "bin", "attnbench")
REFRAME = os.path.join(VENV, "bin", "reframe")
CHECKS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "reframe")
WRONG = os.path.join(BUILD, "tests", "plugins", "drops_tail.so")
CASES = ["sq=70 sk=145 d=24", "sq=71 sk=145 d=24"]  # the tail of keys that the wrong one drops
QUICK = ["--rounds", "1", "--samples", "1", "--min-time", "1ms", "--cache", "hot"]


def reframe(folder, partition, environment, **variables):
    """Returns the exit code, and {(case, backend): test case} of the report."""
    report = os.path.join(folder, "report.json")
    settings = dict(environment, ATTNBENCH=PROGRAM, ATTNBENCH_OPTIONS=" ".join(QUICK), **variables)
    done = subprocess.run(
        [REFRAME, "-C", os.path.join(CHECKS, "settings.py"), "-c",
         os.path.join(CHECKS, "attnbench_checks.py"), f"--system=attnbench:{partition}",
         f"--prefix={folder}", f"--report-file={report}", "--nocolor", "-r"], env=settings,
        capture_output=True, text=True, timeout=600, check=False, cwd=folder)
    try:
        with open(report, encoding="utf-8") as file:
            tests = json.load(file)["runs"][0]["testcases"]
    except OSError:
        raise AssertionError(done.stdout + done.stderr) from None
    return done, {(test["case"], test["backend"]): test for test in tests}


def output(test, folder):
    """What the job printed: of a test that fails ReFrame keeps the stage folder."""
    place = test["stagedir"] if test["result"] != "pass" else test["outputdir"]
    with open(os.path.join(folder, place, test["job_stdout"]), encoding="utf-8") as file:
        return file.read()


class ReFrame(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="attnbench-reframe-")
        self.addCleanup(shutil.rmtree, self.folder)
        done = subprocess.run([PROGRAM, "list", "cases", "--json", *CASES], capture_output=True,
                              text=True, check=True, timeout=60)
        self.ids = [case["id"] for case in json.loads(done.stdout)]
        self.quoted = " ".join(f"'{case}'" for case in CASES)

    def baseline(self, factors):
        """A run, with the times of each case multiplied."""
        run = os.path.join(self.folder, "base")
        subprocess.run([PROGRAM, "bench", "-b", "naive", *QUICK, "-o", run, *CASES], check=True,
                       capture_output=True, timeout=300)
        path = os.path.join(run, "results.ndjson")
        with open(path, encoding="utf-8") as file:
            found = [json.loads(line) for line in file]
        with open(path, "w", encoding="utf-8") as file:
            for record in found:
                if record["type"] == "bench":
                    record["time_ns"]["median"] *= factors[record["id"]]
                    record["gflops"] /= factors[record["id"]]
                file.write(json.dumps(record) + "\n")
        return run

    def test_references_come_from_a_baseline(self):
        # Far from any noise: one case is a hundred times as fast as it was, one as slow.
        faster, slower = self.ids
        run = self.baseline({faster: 100, slower: 0.01})
        done, tests = reframe(self.folder, "local", os.environ, ATTNBENCH_CASES=self.quoted,
                              ATTNBENCH_BACKENDS="naive", ATTNBENCH_BASELINE=run)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(tests[faster, "naive"]["result"], "pass", done.stdout)
        self.assertEqual(tests[slower, "naive"]["result"], "fail", done.stdout)
        self.assertEqual(tests[slower, "naive"]["fail_phase"], "performance")
        self.assertIn("time_hot", tests[slower, "naive"]["fail_reason"])

    def test_wrong_numbers_are_not_sane_in_a_queue(self):
        with one_slurm.OneSlurm(self.folder) as slurm:
            done, tests = reframe(self.folder, "slurm", slurm.environment,
                                  ATTNBENCH_CASES=f"'{CASES[0]}'",
                                  ATTNBENCH_PLUGINS=f"wrong={WRONG}",
                                  ATTNBENCH_BACKENDS="naive,wrong")
        right, wrong = tests[self.ids[0], "naive"], tests[self.ids[0], "wrong"]
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual((right["result"], wrong["result"]), ("pass", "fail"), done.stdout)
        self.assertEqual(wrong["fail_phase"], "sanity")
        self.assertIn("RC=3", output(wrong, self.folder))
        for test in (right, wrong): # and Slurm ran them
            self.assertEqual(test["scheduler"], "squeue")
            self.assertRegex(output(test, self.folder), r"(?m)^JOB=\d+$")


if __name__ == "__main__":
    reason = one_slurm.missing()
    if not reason and not os.path.exists(REFRAME):
        reason = f"no {REFRAME}: scripts/build.sh brings it"
    if reason:
        print(f"reframe: skipped: {reason}")
        sys.exit(77)
    unittest.main()
