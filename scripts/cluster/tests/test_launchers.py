# SPDX-License-Identifier: Apache-2.0
"""The launchers that a user copies, as far as they can be checked without a cluster: syntax, the
schema and the fields of the Kubernetes job, and what the shell ones run, with a stand-in for attnbench. A real Slurm
runs slurm-array.sbatch in test_slurm.py; no test has a real Kubernetes, MPI or ssh.

    test_launchers.py [--full] [unittest options]      --full: also by the schema of Kubernetes
"""
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

FULL = "--full" in sys.argv and not sys.argv.remove("--full")
CLUSTER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Prints its arguments, one a line.
STAND_IN = "#!/bin/sh\nprintf '%s\\n' \"$@\"\n"


def read(name):
    with open(os.path.join(CLUSTER, name), encoding="utf-8") as file:
        return file.read()


class Kubernetes(unittest.TestCase):
    def setUp(self):
        import yaml # of Debian's python3-yaml, or of .deps/venv
        self.job = yaml.safe_load(read("kubernetes-job.yaml"))
        self.pod = self.job["spec"]["template"]["spec"]
        self.container, = self.pod["containers"]

    def test_the_schema_of_kubernetes_holds(self):
        if not FULL:
            self.skipTest("the test launchers_full has the schema")
        import kubernetes_validate
        kubernetes_validate.validate(self.job, "1.30", strict=True)
        self.pod["restartPolicies"] = "Never"
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(self.job, "1.30", strict=True)

    def test_it_is_an_indexed_job(self):
        spec = self.job["spec"]
        self.assertEqual((self.job["apiVersion"], self.job["kind"]), ("batch/v1", "Job"))
        self.assertEqual(spec["completionMode"], "Indexed")
        self.assertIn(self.pod["restartPolicy"], ("Never", "OnFailure"))
        self.assertGreaterEqual(spec["completions"], spec["parallelism"])

    def test_it_says_how_many_shards(self):
        self.assertEqual(self.container["env"], [{"name": "ATTNBENCH_SHARDS",
                                                  "value": str(self.job["spec"]["completions"])}])

    def test_a_pod_that_is_started_again_continues(self):
        """What the container runs, by a shell, with a stand-in."""
        with tempfile.TemporaryDirectory() as folder:
            stand_in(folder)
            done = subprocess.run([*self.container["command"], *self.container["args"]],
                                  env={"PATH": folder + ":" + os.environ["PATH"],
                                       "JOB_COMPLETION_INDEX": "7", "ATTNBENCH_SHARDS": "8"},
                                  capture_output=True, text=True, check=True, timeout=20)
        self.assertEqual(done.stdout.splitlines()[:6],
                         ["bench", "--shard", "auto", "--resume", "-o",
                          "/runs/attnbench/shard-8"])

    def test_names_agree(self):
        mount, = self.container["volumeMounts"]
        volume, = self.pod["volumes"]
        self.assertEqual(mount["name"], volume["name"])
        self.assertTrue(self.container["args"][0].split("-o ")[1].startswith(
            f'"{mount["mountPath"]}/'))
        alone, = self.pod["affinity"]["podAntiAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"]
        self.assertEqual(alone["labelSelector"]["matchLabels"],
                         self.job["spec"]["template"]["metadata"]["labels"])
        self.assertEqual(self.container["resources"]["requests"],
                         self.container["resources"]["limits"])


def stand_in(folder):
    path = os.path.join(folder, "attnbench")
    with open(path, "w", encoding="utf-8") as file:
        file.write(STAND_IN)
    os.chmod(path, 0o755)
    return path


class Shell(unittest.TestCase):
    def run_it(self, name, *arguments, **variables):
        keep = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
        with tempfile.TemporaryDirectory() as folder:
            return subprocess.run(["bash", os.path.join(CLUSTER, name), *arguments], cwd=folder,
                                  env=dict(keep, ATTNBENCH=stand_in(folder), **variables),
                                  capture_output=True, text=True, timeout=60, check=False)

    def test_syntax(self):
        for name in ("mpi.sh", "parallel.sh", "slurm-array.sbatch"):
            path = os.path.join(CLUSTER, name)
            subprocess.run(["bash", "-n", path], check=True, timeout=20)
            if shutil.which("shellcheck"):
                subprocess.run(["shellcheck", path], check=True, timeout=60)
            if name.endswith(".sh"):
                self.assertTrue(os.stat(path).st_mode & stat.S_IXUSR, name)

    def test_a_rank_is_a_shard(self):
        for variables in ({"OMPI_COMM_WORLD_RANK": "3"}, {"PMI_RANK": "3"}, {"SLURM_PROCID": "3"}):
            done = self.run_it("mpi.sh", "bench", "-b", "avx2", "a case=1", **variables)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.splitlines(),
                             ["bench", "--shard", "auto", "--resume", "-o",
                              "runs/attnbench/shard-4", "-b", "avx2", "a case=1"])
        self.assertIn("no rank", self.run_it("mpi.sh", "bench").stderr)

    def test_parallel_starts_each_shard_once(self):
        if not shutil.which("parallel") or b"GNU" not in subprocess.run(
                ["parallel", "--version"], capture_output=True, check=False, timeout=20).stdout:
            self.skipTest("no GNU parallel here: its syntax is checked alone")
        done = self.run_it("parallel.sh", "bench", "a case=1", ATTNBENCH_SHARDS="3")
        self.assertEqual(done.returncode, 0, done.stderr)
        calls = {}
        for line in done.stdout.splitlines():
            tag, _, word = line.partition("\t")
            calls.setdefault(tag, []).append(word)
        self.assertEqual(sorted(tuple(words[:5]) for words in calls.values()),
                         [("bench", "--shard", f"{i}/3", "--resume", "-o") for i in (1, 2, 3)])
        for words in calls.values():
            self.assertTrue(words[5].endswith("shard-" + words[2][0]))
            self.assertEqual(words[6:], ["a case=1"])


if __name__ == "__main__":
    unittest.main()
