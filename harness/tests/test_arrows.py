#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_arrows.py - includes go one way: a folder of harness/ includes only folders above it in the
map of harness/README.md, and includes of reference/, harness/ and backends/ have no cycle, over any
number of steps. x.c and x.h count as one.

    test_arrows.py ROOT [unittest options]
"""
import collections
import os
import re
import sys
import unittest

ROOT = sys.argv.pop(1)
TOPS = ("reference", "harness", "backends")
SUFFIXES = (".c", ".h", ".cc", ".cpp", ".cu", ".cuh", ".h.in")
# The folders that an include path names, from the root of the tree.
ROOTS = ("", "harness", "harness/include", "harness/judge/tests", "harness/tests", "backends")
INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.M)


def sources(top):
    for folder, _, files in os.walk(os.path.join(ROOT, top)):
        for name in files:
            if name.endswith(SUFFIXES):
                yield os.path.relpath(os.path.join(folder, name), ROOT)


def module(path):
    return re.sub(r"\.(c|cc|cpp|cu|cuh|h|h\.in)$", "", path)


def includes(known, texts):
    """{module: modules that it includes}, and the includes that name no module, of {path: text}."""
    arrows, unknown = collections.defaultdict(set), []
    for path, text in texts.items():
        for name in INCLUDE.findall(text):
            places = [os.path.join(os.path.dirname(path), name)]
            places += [os.path.join(root, name) for root in ROOTS]
            found = [to for to in (module(os.path.normpath(p)) for p in places) if to in known]
            arrows[module(path)].update(set(found[:1]) - {module(path)})
            if not found:
                unknown.append(f"{path}: {name}")
    return arrows, unknown


def of_tree():
    """includes() of the files of this tree."""
    texts = {}
    for path in [p for top in TOPS for p in sources(top)]:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            texts[path] = file.read()
    return includes({module(path) for path in texts}, texts)


def circle(arrows):
    """Modules of which each includes the next and the last the first, or None."""
    done, way = set(), []

    def visit(node):
        if node in way:
            return way[way.index(node):] + [node]
        if node in done:
            return None
        way.append(node)
        for to in sorted(arrows.get(node, ())):
            found = visit(to)
            if found:
                return found
        done.add(way.pop())
        return None

    for node in sorted(arrows):
        found = visit(node)
        if found:
            return found
    return None


def folder_of(name):
    """The folder of the map that a module lies in; tests belong to nobody."""
    parts = name.split("/")
    return None if "tests" in parts[:-1] or parts[0] != "harness" else parts[1]


class Arrows(unittest.TestCase):
    def test_a_circle_is_seen(self):
        self.assertIsNone(circle({"a": {"b", "c"}, "b": {"c"}}))
        self.assertEqual(circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}), ["b", "c", "b"])

    def test_a_circle_over_sources_of_a_backend_is_seen(self):
        texts = {"backends/x/plan.h": '#include "gpu.h"',
                 "backends/x/gpu.h": '#include "attnbench/backend.h"',
                 "backends/x/plan.c": '#include "plan.h"\n#include "steps.h"',
                 "backends/x/steps.h": "",
                 "backends/x/steps.cu": '#include "steps.h"\n#include "../x/plan.h"'}
        arrows, unknown = includes({module(path) for path in texts}, texts)
        self.assertEqual(circle(arrows), ["backends/x/plan", "backends/x/steps", "backends/x/plan"])
        self.assertEqual(unknown, ["backends/x/gpu.h: attnbench/backend.h"])

    def test_every_include_is_followed(self):
        self.assertEqual(of_tree()[1], [])

    def test_no_file_includes_one_that_includes_it(self):
        arrows = of_tree()[0]
        for top in TOPS:
            self.assertGreater(sum(name.startswith(top + "/") for name in arrows), 30, top)
        found = circle(arrows)
        self.assertIsNone(found, found and " -> ".join(found))

    def test_folders_include_those_above_them_in_the_map(self):
        with open(os.path.join(ROOT, "harness", "README.md"), encoding="utf-8") as file:
            order = re.findall(r"^\| .*?\[(\w+)\]\(\1/\)", file.read(), re.M)
        self.assertEqual(set(order), {name for name in os.listdir(os.path.join(ROOT, "harness"))
                                      if os.path.isfile(os.path.join(ROOT, "harness", name,
                                                                     "CMakeLists.txt"))})
        for name, wanted in of_tree()[0].items():
            mine = folder_of(name)
            for to in wanted:
                with self.subTest(arrow=f"{name} -> {to}"):
                    if name.startswith("reference/") and "/tests/" not in name:
                        self.assertTrue(to.startswith(("reference/", "harness/include/")))
                    if mine and folder_of(to) not in (None, mine, "include"):
                        self.assertLess(order.index(folder_of(to)), order.index(mine))


if __name__ == "__main__":
    unittest.main()
