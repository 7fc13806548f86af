# SPDX-License-Identifier: Apache-2.0
"""The Debian packages, unpacked into a scratch root (dpkg -x: nothing is installed on this machine, and
no maintainer script exists to run), and the bill of materials of that root.

    test_package.py BUILD_DIR CMAKE CC [unittest options]
"""
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, CMAKE, CC = os.path.abspath(sys.argv.pop(1)), sys.argv.pop(1), sys.argv.pop(1)
HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ("attnbench", "attnbench-plugins", "attnbench-dev")
# Checks of lintian that a package outside of Debian's archive cannot meet.
NOT_OURS = ("bogus-mail-host",)


def execute(*command, code=0, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)
    if done.returncode != code:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="attnbench-deb-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cpack = os.path.join(os.path.dirname(shutil.which(CMAKE)), "cpack")
        execute(cpack, "--config", os.path.join(BUILD, "CPackConfig.cmake"), "-B", cls.folder,
                cwd=BUILD)
        cls.debs = {}
        for path in glob.glob(os.path.join(cls.folder, "*.deb")):
            cls.debs[execute("dpkg-deb", "-f", path, "Package").strip()] = path
        cls.root = os.path.join(cls.folder, "root")
        for path in cls.debs.values():
            execute("dpkg", "-x", path, cls.root)
        cls.program = os.path.join(cls.root, "usr", "bin", "attnbench")

    def contents(self, package):
        return [line.split()[5].lstrip(".") for line in
                execute("dpkg-deb", "-c", self.debs[package]).splitlines()
                if not line.startswith("d")]

    def field(self, package, name):
        return execute("dpkg-deb", "-f", self.debs[package], name).strip()

    def test_each_file_is_in_one_package(self):
        self.assertEqual(sorted(self.debs), sorted(PACKAGES))
        found = {package: self.contents(package) for package in PACKAGES}
        every = sum(found.values(), [])
        self.assertEqual(len(every), len(set(every)))
        place = {os.path.basename(path): package for package, paths in found.items()
                 for path in paths}
        for name, package in (("attnbench.1", None), ("attnbench", "attnbench"),
                              ("attnbench-worker", "attnbench"), ("smoke.cases", "attnbench"),
                              ("naive.so", "attnbench-plugins"),
                              ("naive.skips", "attnbench-plugins"),
                              ("backend.h", "attnbench-dev"), ("attnbench.pc", "attnbench-dev"),
                              ("attnbench-config.cmake", "attnbench-dev")):
            if package:
                self.assertEqual(place.get(name), package, name)
        self.assertFalse([path for path in every if not path.startswith("/usr/")])

    def test_dependencies(self):
        version = self.field("attnbench", "Version")
        self.assertIn("libjansson4", self.field("attnbench", "Depends"))
        self.assertIn(f"attnbench (= {version})", self.field("attnbench-plugins", "Depends"))
        self.assertNotIn("libc6", self.field("attnbench-dev", "Depends"))

    def test_the_program_works_from_its_packages(self):
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith("ATTNBENCH")}
        environment["ATTNBENCH_PYTHON_BACKENDS"] = "noop"
        names = [entry["name"] for entry in json.loads(
            execute(self.program, "list", "backends", "--json", env=environment))]
        self.assertIn("naive", names)
        execute(self.program, "verify", "-b", "naive", "--filter", "*",
                os.path.join(self.root, "usr/share/attnbench/cases/smoke.cases"), "--fills", "none",
                "--checks", "none", env=environment)
        made = os.path.join(self.folder, "made")
        execute(self.program, "new-backend", "mine", "-o", made, "--lang", "c", env=environment)
        plugin = os.path.join(self.folder, "mine.so")
        flags = execute("pkg-config", "--cflags", "attnbench", env=dict(
            environment, PKG_CONFIG_PATH=os.path.dirname(glob.glob(
                self.root + "/usr/lib/**/attnbench.pc", recursive=True)[0]))).split()
        execute(CC, "-O1", "-shared", "-fPIC", *flags, os.path.join(made, "mine", "mine.c"), "-o",
                plugin, "-lm")
        execute(self.program, "verify", "--plugin", plugin, "s=24 dk=8", env=environment)

    def test_lintian(self):
        if not shutil.which("lintian"):
            self.skipTest("no lintian here (apt-get install lintian)")
        done = subprocess.run(["lintian", "--allow-root", "--fail-on", "none", *self.debs.values()],
                              capture_output=True, text=True, timeout=300, check=False)
        found = [line for line in done.stdout.splitlines() if line[:2] in ("E:", "W:")
                 and not any(tag in line for tag in NOT_OURS)]
        self.assertEqual(found, [])

    def test_the_bill_of_materials(self):
        out = os.path.join(self.folder, "sbom.json")
        prefix = os.path.join(self.root, "usr")
        command = [sys.executable, os.path.join(HERE, "sbom.py"), prefix, "-o", out]
        execute(*command)
        with open(out, encoding="utf-8") as file:
            text = file.read()
        execute(*command)
        with open(out, encoding="utf-8") as file:
            self.assertEqual(file.read(), text)
        bill = json.loads(text)
        for field in ("spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace",
                      "creationInfo"):
            self.assertTrue(bill[field], field)
        known = [bill["SPDXID"]] + [item["SPDXID"] for item in bill["packages"] + bill["files"]]
        self.assertEqual(len(known), len(set(known)))
        for link in bill["relationships"]:
            self.assertIn(link["spdxElementId"], known)
            self.assertIn(link["relatedSpdxElement"], known)
        listed = {item["fileName"] for item in bill["files"]}
        there = {"./" + os.path.relpath(os.path.join(place, name), prefix)
                 for place, _, names in os.walk(prefix) for name in names
                 if not os.path.islink(os.path.join(place, name))}
        self.assertEqual(listed, there)
        one = next(item for item in bill["files"] if item["fileName"] == "./bin/attnbench")
        with open(self.program, "rb") as file:
            self.assertEqual(one["checksums"][1]["checksumValue"],
                             hashlib.sha256(file.read()).hexdigest())
        packages = {item["name"].split(":")[0] for item in bill["packages"]}
        self.assertLessEqual({"attnbench", "libjansson4", "libc6"}, packages)


if __name__ == "__main__":
    if not shutil.which("dpkg-deb"):
        print("package: skipped: no dpkg here")
        sys.exit(77)
    unittest.main()
