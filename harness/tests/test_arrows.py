#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_arrows.py - includes go one way: a folder of harness/ includes only folders above it in the
map of harness/README.md, and includes have no cycle, over any number of steps. x.c and x.h count as
one.

    test_arrows.py ROOT [unittest options]
"""
import collections
import os
import re
import sys
import unittest

ROOT = sys.argv.pop(1)
SUFFIXES = (".c", ".h", ".cc", ".h.in")
INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.M)


def sources(top):
    for folder, _, files in os.walk(os.path.join(ROOT, top)):
        for name in files:
            if name.endswith(SUFFIXES):
                yield os.path.relpath(os.path.join(folder, name), ROOT)


def module(path):
    return re.sub(r"\.(c|cc|h|h\.in)$", "", path)


def includes():
    """{module: modules that it includes}, of reference/ and harness/."""
    known = {module(path) for top in ("reference", "harness") for path in sources(top)}
    arrows = collections.defaultdict(set)
    for path in [p for top in ("reference", "harness") for p in sources(top)]:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            names = INCLUDE.findall(file.read())
        for name in names:
            places = (name, "harness/" + name, os.path.join(os.path.dirname(path), name))
            found = [module(p) for p in places if module(p) in known]
            arrows[module(path)].update(set(found[:1]) - {module(path)})
    return arrows


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

    def test_no_file_includes_one_that_includes_it(self):
        arrows = includes()
        self.assertGreater(len(arrows), 100)
        found = circle(arrows)
        self.assertIsNone(found, found and " -> ".join(found))

    def test_folders_include_those_above_them_in_the_map(self):
        with open(os.path.join(ROOT, "harness", "README.md"), encoding="utf-8") as file:
            order = re.findall(r"^\| .*?\[(\w+)\]\(\1/\)", file.read(), re.M)
        self.assertEqual(set(order), {name for name in os.listdir(os.path.join(ROOT, "harness"))
                                      if os.path.isfile(os.path.join(ROOT, "harness", name,
                                                                     "CMakeLists.txt"))})
        for name, wanted in includes().items():
            mine = folder_of(name)
            for to in wanted:
                with self.subTest(arrow=f"{name} -> {to}"):
                    if name.startswith("reference/") and "/tests/" not in name:
                        self.assertTrue(to.startswith("reference/"))
                    if mine and folder_of(to) not in (None, mine, "include"):
                        self.assertLess(order.index(folder_of(to)), order.index(mine))


if __name__ == "__main__":
    unittest.main()
