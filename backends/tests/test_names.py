# SPDX-License-Identifier: Apache-2.0
"""One rule for where tests lie and what they are called, so that a reader finds them.

    test_names.py BUILD_DIR [unittest options]

A test of the backend NAME is backends/NAME/tests/test_NAME_WHAT, and NAME_WHAT to ctest. Other
tests lie in a folder `tests`, too, as test_WHAT.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
ROOT = pathlib.Path(__file__).resolve().parents[2]
OWN = re.compile(r"/backends/(?!tests/)(\w+)/")  # in a path: which backend's folder


def registered():
    """(name, the CMakeLists.txt that added it) of each test."""
    done = subprocess.run(["ctest", "--show-only=json-v1"], cwd=BUILD, capture_output=True,
                          text=True, check=True)
    told = json.loads(done.stdout)
    files, nodes = (told["backtraceGraph"][key] for key in ("files", "nodes"))
    for test in told["tests"]:
        node = nodes[test["backtrace"]]
        while not files[node["file"]].endswith("CMakeLists.txt"):
            node = nodes[node["parent"]]
        yield test["name"], files[node["file"]]


class Names(unittest.TestCase):
    def test_files(self):
        found = [path for folder in ("backends", "harness", "reference")
                 for path in (ROOT / folder).rglob("test_*.*")
                 if path.suffix in (".c", ".py", ".sh")]
        self.assertGreater(len(found), 50)
        for path in found:
            self.assertEqual(path.parent.name, "tests", path)
            backend = OWN.search(str(path))
            if backend:
                self.assertTrue(path.name.startswith(f"test_{backend[1]}_"), path)

    def test_programs_of_tests(self):
        for folder in ("backends", "harness", "reference"):
            for path in (ROOT / folder).rglob("tests/*.c"):
                if path.name == "common_checks.c":  # runs the tests that all backends share
                    continue
                if "cmocka_run_group_tests" in path.read_text(encoding="utf-8"):
                    self.assertTrue(path.name.startswith("test_"), path)

    def test_names_of_tests(self):
        of_backends = 0
        for name, file in registered():
            backend = OWN.search(file)
            if backend:
                of_backends += 1
                self.assertTrue(name.startswith(backend[1] + "_"), f"{name}, of {file}")
        self.assertGreater(of_backends, 10)


if __name__ == "__main__":
    unittest.main()
