# SPDX-License-Identifier: Apache-2.0
"""What build.sh says where something is missing, and the scripts of their arguments: in a copy of scripts/,
with programs made up for each test. Nothing is installed, configured or built.

    test_build.py [unittest options]
"""
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import unittest

SCRIPTS = os.path.dirname(os.path.abspath(__file__))
# What build.sh runs besides package managers, CMake and Python.
TOOLS = ("bash", "cat", "dirname", "env", "grep", "head", "mkdir", "paste", "rm", "sed", "sha256sum", "sort",
         "tail", "uname")
PIP = """#!/bin/sh
[ "$1" != --version ] || { echo Python 3.10.12; exit; }
echo "ERROR: Could not find a version that satisfies the requirement numpy (from versions: 1, 2)" >&2
echo "ERROR: No matching distribution found for numpy" >&2
exit 1
"""
# As apt-get speaks in English, to whoever asks without its lock.
APT = """#!/bin/sh
case "$*" in
*NoLocking=1*--assume-no*) [ "$LC_ALL" = C ] || { exit 1; }
    echo "Need to get 12.3 MB of archives."
    echo "After this operation, 45.6 MB of additional disk space will be used."; exit 1 ;;
*NoLocking=1*|update*) ;;
*--assume-no*|*-s*) exit 100 ;;
esac
"""


class Build(unittest.TestCase):
    def setUp(self):
        self.tree = tempfile.mkdtemp(prefix="attnbench-test-")
        self.addCleanup(shutil.rmtree, self.tree)
        shutil.copytree(SCRIPTS, os.path.join(self.tree, "scripts"))
        for tool in TOOLS:
            self.program(tool, f'#!/bin/sh\nexec {shutil.which(tool)} "$@"\n')
        self.program("id", "#!/bin/sh\necho 1000\n")
        self.program("cmake", "#!/bin/sh\necho cmake version 3.25.1\n")
        for venv in ("venv", "peers"):
            self.program("python3", PIP, f".deps/{venv}/bin")

    def program(self, name, text, folder="bin"):
        path = os.path.join(self.tree, folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def debian(self):
        """All of Debian's packages are missing, and sudo does nothing."""
        self.program("apt-get", APT)
        self.program("dpkg-query", "#!/bin/sh\nexit 1\n")
        self.program("sudo", "#!/bin/sh\n")

    def said(self, *options, release=None):
        """The lines of build.sh --install-only, which succeeds whatever could not be had."""
        system = {"ATTNBENCH_OS_RELEASE": release} if release else {}
        done = subprocess.run(
            [os.path.join(self.tree, "scripts/build.sh"), "--install-only", *options], text=True,
            env={"PATH": os.path.join(self.tree, "bin"), "LC_ALL": "C.UTF-8", **system},
            capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in done.stderr.splitlines():
            self.assertTrue(line.startswith("build: "), line)
        return done.stderr.splitlines()

    def one(self, lines, text):
        found = [line for line in lines if text in line]
        self.assertEqual(len(found), 1, "\n".join(lines))
        return found[0]

    def test_what_pip_does_not_find_is_left_out_in_one_line(self):
        line = self.one(self.said(), "peers in Python are left out")
        self.assertIn("pip of Python 3.10.12: No matching distribution found for numpy", line)
        with open(os.path.join(self.tree, ".deps/pip.log"), encoding="ascii") as log:
            self.assertIn("ERROR", log.read())

    def test_without_apt_that_is_said_once(self):
        self.one(self.said(), "no apt-get here: building with what is there")
        self.program("dnf", "#!/bin/sh\n")
        self.assertIn("libcmocka-devel", self.one(self.said(), "no apt-get here; on Fedora"))
        self.assertNotIn("libcmocka-devel", self.one(self.said("--no-tests"), "on Fedora"))

    def test_sizes_of_packages_are_told_to_users_and_in_any_language(self):
        self.debian()
        line = self.one(self.said(), "libcmocka-dev")
        self.assertIn("), 12.3 MB to fetch, 45.6 MB of disk", line)

    def test_packages_of_tests_are_for_tests(self):
        self.debian()
        line = self.one(self.said("--no-tests"), "libjansson-dev")
        self.assertNotIn("libcmocka-dev", line)
        self.assertNotIn("libmpfr-dev", line)
        self.assertNotIn("libbenchmark-tools", line)
        self.assertNotIn("python3-yaml", line)

    def test_where_the_libraries_of_sanitizers_are(self):
        """Debian split libclang-rt-14-dev off in 14.0.6; 22.04 has 14.0.0, 24.04's clang is 18."""
        self.debian()
        system = os.path.join(self.tree, "os-release")
        for name, version, package in (("debian", "12", "libclang-rt-14-dev"),
                                       ("ubuntu", "22.04", "libclang-common-14-dev"),
                                       ("ubuntu", "24.04", "libclang-rt-18-dev")):
            with open(system, "w", encoding="ascii") as file:
                file.write(f'ID={name}\nVERSION_ID="{version}"\n')
            line = self.one(self.said("fuzz", release=system), "libclang")
            self.assertEqual(re.findall(r"\blibclang[^ )]*", line), [package])

    def test_cmake_from_pypi_is_announced(self):
        self.assertNotIn("CMake", self.one(self.said(), "into .deps, from PyPI"))
        self.program("cmake", "#!/bin/sh\necho cmake version 3.22.1\n")
        lines = self.said()
        self.assertIn("CMake 0.1 GB", self.one(lines, "into .deps, from PyPI"))
        self.one(lines, "no CMake 3.25 (pip of")

    def stamp(self, name):
        """As if what NAME stands for had been made just now."""
        with open(os.path.join(SCRIPTS, "build.sh"), encoding="utf-8") as file:
            stamp, sources = re.search(rf'\[{name}\]="\.deps/(\S+) ([^"]+)"', file.read()).groups()
        whole = b""
        for source in sources.split():
            with open(os.path.join(self.tree, source), "rb") as file:
                whole += file.read()
        self.program(stamp, hashlib.sha256(whole).hexdigest() + "  -\n", ".deps")

    def test_what_is_fetched_again_is_announced(self):
        """Its requirements or scripts are others than what it was made by, whenever they were written."""
        self.program("uname", "#!/bin/sh\necho x86_64\n")
        things = {"onednn": ("oneDNN", "requirements-onednn.txt"),
                  "packs": ("sentence encoder", "formulas.py"),
                  "scipy": ("SciPy", "requirements-scipy.txt"),
                  "full": ("ReFrame", "requirements-full.txt")}
        for name in [*things, "peers", "onnx", "pytest"]:
            self.stamp(name)
        self.assertEqual([line for line in self.said() if "apt-get" not in line], [])
        for name, (what, source) in things.items():
            path = os.path.join(self.tree, "scripts", source)
            os.utime(path, (2000000000, 2000000000))
            self.assertEqual([line for line in self.said() if "apt-get" not in line], [])
            with open(path, "a", encoding="utf-8") as file:
                file.write("# changed\n")
            os.utime(path, (1, 1))
            lines = self.said()
            self.assertRegex(self.one(lines, "into .deps, from PyPI"), f"PyPI: [^,]*{what}[^,]* GB$")
            self.assertIn(what, self.one(lines, "build: fetching"))
            self.stamp(name)

    def test_kernels_of_a_gpu_are_not_for_those_who_want_the_program_alone(self):
        given = os.path.join(self.tree, "given")
        self.program("cmake", f'#!/bin/sh\necho cmake version 3.25.1\necho "$*" >>{given}\n')
        self.program("pkg-config", "#!/bin/sh\n")
        has_gpu = any(os.path.exists("/dev/" + name) for name in ("nvidiactl", "dxg"))
        for options, full in (([], True), (["--no-tests"], has_gpu),
                              (["--no-tests", "--with-cuda"], True), (["--fast-tier"], False),
                              (["--no-tests", "--fast-tier", "--with-cuda"], False)):
            subprocess.run([os.path.join(self.tree, "scripts/build.sh"), *options], check=True,
                           env={"PATH": os.path.join(self.tree, "bin"), "ATTNBENCH_NO_INSTALL": "1"},
                           stdout=subprocess.DEVNULL)
            with open(given, encoding="ascii") as file:
                configured = [line for line in file if "--preset release -D" in line]
            self.assertIn(f"-DATTNBENCH_FULL={'ON' if full else 'OFF'}", configured[-1], options)

    def script(self, name, *words):
        return subprocess.run([os.path.join(self.tree, "scripts", name), *words], text=True, cwd=self.tree,
                              env={"PATH": os.path.join(self.tree, "bin")}, capture_output=True, check=False)

    def test_help_is_the_head_of_a_script(self):
        """Before anything is done: no program but sed is there to do it with."""
        for tool in set(TOOLS) - {"bash", "env", "sed"}:
            os.remove(os.path.join(self.tree, "bin", tool))
        for name in ("build.sh", "coverage.sh", "fuzz.sh", "gpu.sh", "run.sh", "test.sh", "wheel.sh"):
            with open(os.path.join(SCRIPTS, name), encoding="ascii") as file:
                head = file.read().split("\nset -euo pipefail\n")[0].splitlines()[2:]
            for words in (["-h"], ["--help"], ["--fast-tier", "--help"]):
                done = self.script(name, *words)
                self.assertEqual((done.returncode, done.stderr), (0, ""), (name, words))
                self.assertEqual(["# " + line if line else "#" for line in done.stdout.splitlines()], head)
            self.assertRegex(done.stdout, f"^{name} - [^$]*\n  scripts/{name} ")

    def test_an_unknown_argument_is_no_tier_of_tests(self):
        for words in (["--ful"], ["release"], ["--full", "--fast"]):
            done = self.script("test.sh", *words)
            self.assertEqual((done.returncode, done.stderr),
                             (2, f"test: no argument '{words[-1]}' (--help says which there are)\n"))


if __name__ == "__main__":
    unittest.main()
