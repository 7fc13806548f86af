#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two builds of one source, one after the other in one place, install the same bytes in every file. (In two
places all but onednn.so are the same: the linker sums up its search path, which has the place in it.)

    test_identical.py SOURCE_DIR
"""
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

LEFT_OUT = shutil.ignore_patterns(".git", ".deps", "build", "build-*", "results")


def built(source, folder):
    """{path: digest} of what a build of a copy of the source installs."""
    tree = os.path.join(folder, "source")
    shutil.copytree(source, tree, symlinks=True,
                    ignore=lambda at, names: LEFT_OUT(at, names) if at == source else ())
    if os.path.isdir(os.path.join(source, ".deps")):
        os.symlink(os.path.join(source, ".deps"), os.path.join(tree, ".deps"))
    subprocess.run(["cmake", "--preset", "release", "-DATTNBENCH_FULL=OFF", "-DATTNBENCH_TESTS=OFF"],
                   cwd=tree, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", "release", "--target", "attnbench_product"], cwd=tree,
                   check=True, stdout=subprocess.DEVNULL)
    prefix = os.path.join(folder, "installed")
    subprocess.run(["cmake", "--install", "build", "--prefix", prefix], cwd=tree, check=True,
                   stdout=subprocess.DEVNULL)
    digests = {}
    for root, _, files in os.walk(prefix):
        for name in files:
            path = os.path.join(root, name)
            with open(path, "rb") as file:
                digests[os.path.relpath(path, prefix)] = hashlib.sha256(file.read()).hexdigest()
    return digests


def main(source):
    with tempfile.TemporaryDirectory(prefix="attnbench-test-") as folder:
        tree = os.path.join(folder, "tree")
        first = built(source, tree)
        shutil.rmtree(tree)
        second = built(source, tree)
    differ = sorted(path for path in first.keys() | second.keys() if first.get(path) != second.get(path))
    print(f"{len(first)} files, {len(differ)} differ")
    for path in differ:
        print("differs:", path)
    return int(bool(differ) or os.path.join("bin", "attnbench") not in first)


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
