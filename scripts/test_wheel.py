# SPDX-License-Identifier: Apache-2.0
"""The wheel as a user has it: built, installed from the file into an environment of its own, every verb
run from there, and the plugin for pytest.

    test_wheel.py SOURCE_DIR PYTHON_WITH_PACKAGES [WHEEL] [unittest options]

Without WHEEL it is built. PYTHON_WITH_PACKAGES has NumPy and pytest, which the environment sees too.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, PACKAGES = map(os.path.abspath, sys.argv[1:3])
del sys.argv[1:3]
WHEEL = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].endswith(".whl") else None
MINE = '''
import attnbench
import numpy as np

@attnbench.kernel(numerics=dict(e_exp=10 * 2.0**-24))
def mine(q, k, v, p):
    s = np.float32(p.scale) * (q @ k.swapaxes(-1, -2))
    e = np.exp(s - s.max(-1, keepdims=True))
    return e @ v / e.sum(-1, keepdims=True)

def wrong(q, k, v, p):
    return mine(q, k, v, p) * np.float32(1.01)

@attnbench.cases("b=2 s=5 d=4")
def test_mine(case):
    attnbench.verify(mine, case)

@attnbench.cases("b=2 s=5 d=4")
def test_wrong(case):
    attnbench.verify(wrong, case)
'''


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="attnbench-test-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.wheel = WHEEL
        if not cls.wheel:
            subprocess.run([os.path.join(SOURCE, "scripts/wheel.sh"), "-o", cls.folder + "/dist"],
                           check=True, env={**os.environ, "ATTNBENCH_NO_INSTALL": "1"})
            cls.wheel, = glob.glob(cls.folder + "/dist/*.whl")
            assert glob.glob(cls.folder + "/dist/*.tar.gz")
        cls.venv = os.path.join(cls.folder, "venv")
        subprocess.run(["/usr/bin/python3", "-m", "venv", cls.venv], check=True)
        site, = glob.glob(cls.venv + "/lib/python3*/site-packages")
        cls.package = os.path.join(site, "attnbench")
        cls.run_python(cls, "-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check", cls.wheel)
        cls.check = cls.run_python(cls, "-m", "pip", "check")  # before others' packages are seen
        more = subprocess.check_output([PACKAGES, "-c", "import numpy, os, pytest; print(os.path.dirname("
                                        "os.path.dirname(numpy.__file__)))"], text=True).strip()
        with open(os.path.join(site, "more.pth"), "w", encoding="utf-8") as file:
            file.write(more + "\n")
        with open(os.path.join(cls.folder, "test_mine.py"), "w", encoding="ascii") as file:
            file.write(MINE)

    def run_python(self, *words, code=0, **more):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("ATTNBENCH_", "PYTHON"))}
        environment.update(more)
        done = subprocess.run([self.venv + "/bin/python", *words], cwd=self.folder, capture_output=True,
                              text=True, check=False, stdin=subprocess.DEVNULL, timeout=280,
                              env=environment)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def attnbench(self, *words, **more):
        return self.run_python(self.venv + "/bin/attnbench", *words, **more)

    def test_what_the_file_is(self):
        self.assertRegex(os.path.basename(self.wheel), r"^attnbench-[0-9.]+-py3-none-manylinux_2_28_x86_64\.whl$")
        self.assertLess(os.path.getsize(self.wheel), 15e6)
        self.assertIn("No broken requirements", self.check)
        for file in ("py.typed", "lib/attnbench/attnbench-worker.dso", "share/attnbench/cases/smoke.cases",
                     "share/attnbench/reports/throughput.gp", "include/attnbench/backend.h",
                     "share/doc/attnbench/licenses/libopenblas-dev", "share/doc/attnbench/licenses/libc6-dev"):
            self.assertTrue(os.path.isfile(os.path.join(self.package, file)), file)

    def test_nothing_newer_than_glibc_2_28_is_asked_for(self):
        """As ELF has it, whatever the name says; and no C++ library, of which a process may have another."""
        read = 0
        for root, _, files in os.walk(self.package):
            for path in (os.path.join(root, name) for name in files):
                with open(path, "rb") as file:
                    if file.read(4) != b"\x7fELF":
                        continue
                said = subprocess.check_output(["readelf", "-dVW", path], text=True)
                newest = max(tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", said))
                self.assertLessEqual(newest, (2, 28), path)
                self.assertNotIn("libstdc++", said, path)
                read += 1
        self.assertGreater(read, 8)

    def test_no_file_knows_where_it_was_built(self):
        for root, _, files in os.walk(self.package):
            for name in files:
                with open(os.path.join(root, name), "rb") as file:
                    self.assertNotIn(SOURCE.encode() + b"/", file.read(), name)

    def test_backends(self):
        found = {b["name"]: b for b in json.loads(self.attnbench("list", "--json"))}
        for name in ("naive", "null", "blas", "numpy", "noop"):
            self.assertTrue(found[name]["available"], found[name]["reason"])
        self.assertIn("Python " + sys.version.split()[0] if sys.executable == "/usr/bin/python3" else "Python 3",
                      found["numpy"]["version"])
        if not found["onednn"]["available"]:
            self.assertIn("libdnnl", found["onednn"]["reason"])
        if not os.path.exists("/dev/nvidiactl"):
            self.assertEqual(found["torch_cuda"]["reason"],
                             "no CUDA driver is installed (libcuda.so.1 cannot be opened)")

    def test_onednn_is_found_where_pip_puts_it(self):
        """Its packages hold libraries for PREFIX/lib, as .deps/onednn has them. pip brings them by the extra."""
        with open(SOURCE + "/scripts/requirements-onednn.txt", encoding="ascii") as file:
            pinned = re.search("(?m)^onednn==.*", file.read())[0]
        wants = self.run_python("-c", "import importlib.metadata as m; print(m.requires('attnbench'))")
        self.assertRegex(wants, re.escape(pinned) + "; extra == .onednn.")
        there = glob.glob(SOURCE + "/.deps/onednn/lib/*")
        self.assertTrue(there, "scripts/build.sh brings oneDNN")
        for file in there:
            link = os.path.join(self.venv, "lib", os.path.basename(file))
            os.symlink(file, link)
            self.addCleanup(os.unlink, link)
        self.assertRegex(self.attnbench("verify", "-b", "onednn", "h=2 s=33 d=64"), "(?m)^pass .* onednn ")

    def test_cudnn_is_found_where_pip_puts_it(self):
        """A driver that knows one GPU, and a cuDNN that has nothing but its name."""
        place = os.path.join(os.path.dirname(self.package), "nvidia/cudnn/lib")
        for output, source in ((self.folder + "/libcuda.so.1", SOURCE + "/backends/python/tests/standin_driver.c"),
                               (place + "/libcudnn.so.9", "/dev/null")):
            os.makedirs(os.path.dirname(output), exist_ok=True)
            subprocess.run(["cc", "-shared", "-fPIC", "-o", output, "-xc", source], check=True)
        for there in (True, False):
            found = json.loads(self.attnbench("list", "--json", LD_LIBRARY_PATH=self.folder))
            reason = next(b for b in found if b["name"] == "cuda_cudnn")["reason"]
            self.assertEqual("libcudnn.so.9 lacks cudnn" in reason, there, reason)
            if there:
                shutil.rmtree(os.path.dirname(os.path.dirname(place)))

    def test_every_verb(self):
        verbs = set(re.findall(r"(?m)^ *(?:usage: )?attnbench ([a-z][a-z-]+)", self.attnbench("--help")))
        self.assertLessEqual({"list", "verify", "bench", "report", "run", "compare", "history", "doctor",
                              "new-backend"}, verbs)
        for verb in verbs:
            self.assertIn("attnbench " + verb, self.attnbench(verb, "--help"))
        quick = ("--rounds", "2", "--samples", "1", "--min-time", "200us", "--cache", "hot")
        self.attnbench("verify", "-b", "naive", "-b", "blas", "-b", "numpy", "s=9 d=8")
        self.attnbench("bench", "-b", "naive", *quick, "s=9 d=8", "-o", "one")
        self.attnbench("report", "one", "-o", "report")
        self.assertTrue(os.path.isfile(os.path.join(self.folder, "report", "index.html")))
        self.attnbench("run", "-b", "naive", *quick, "s=9 d=8", "-o", "two")
        self.attnbench("compare", "one", "one")
        with open(os.path.join(self.folder, "one.json"), "w", encoding="utf-8") as file:
            file.write(self.attnbench("export", "one", "--format", "google-benchmark"))
        self.attnbench("import", "one.json", "-o", "three")
        self.attnbench("bench", "-b", "naive", *quick, "--shard", "1/1", "s=9 d=8", "-o", "shard")
        self.attnbench("merge", "-o", "merged", "shard")
        self.attnbench("verify", "-b", "naive", "--statement", "naive.md", "s=9 d=8")
        self.attnbench("statement", "check", "naive.md")
        self.attnbench("verify", "test_mine.py::mine", "--statement", "mine.md", "s=9 d=8")
        self.attnbench("statement", "check", "mine.md", "test_mine.py::mine")
        self.attnbench("history", "rebuild", ".", "--index", "index.db")
        self.attnbench("doctor")
        self.attnbench("new-backend", "own", "-o", ".")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-I", self.package + "/include", "own/own.c", "-o",
                        "own/own.so", "-lm"], check=True, cwd=self.folder)
        self.assertRegex(self.attnbench("verify", "--plugin", "own/own.so", "s=9 d=8"), "(?m)^pass ")

    def test_a_function_of_a_file(self):
        self.assertRegex(self.attnbench("verify", "test_mine.py::mine", "s=9 d=8"), "(?m)^pass .* mine ")
        self.assertIn("times 1.01", self.attnbench("verify", "test_mine:wrong", "s=9 d=8", code=3))

    def test_pytest_finds_the_plugin(self):
        said = self.run_python("-m", "pytest", "-v", "-p", "no:cacheprovider", "test_mine.py", code=1)
        self.assertRegex(said, r"test_mine\[[0-9a-f]{16}\] PASSED")
        self.assertRegex(said, r"test_wrong\[[0-9a-f]{16}\] FAILED")
        self.assertIn("rerun: attnbench verify test_mine.py::wrong", said)


if __name__ == "__main__":
    unittest.main()
