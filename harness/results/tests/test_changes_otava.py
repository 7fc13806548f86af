#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_changes_otava.py - our change points against those of Apache Otava, on simulated series.

    test_changes_otava.py LIBRARY VENV [--write FILE | unittest options]

LIBRARY holds changes.c. VENV is the environment of scripts/build.sh that has apache-otava. Exit code
77, skipped, without it. --write makes the table that test_changes.c reads.
"""
import ctypes
import importlib.metadata
import json
import os
import sys
import unittest

LIBRARY, VENV = sys.argv[1:3]
try:
    import numpy as np
    import scipy
    from otava import analysis
except ImportError:
    python = os.path.join(VENV, "bin", "python3")
    if os.path.exists(python) and os.environ.get("ATTNBENCH_REENTERED") != "1":
        os.environ["ATTNBENCH_REENTERED"] = "1"
        os.execv(python, [python] + sys.argv)
    print("no apache-otava in %s: left out" % VENV)
    sys.exit(77)
del sys.argv[1:3]

WINDOW, P, MARGIN = 50, 0.001, 0.0  # Otava's own


class Rule(ctypes.Structure):
    _fields_ = [("window", ctypes.c_size_t), ("p", ctypes.c_double), ("margin", ctypes.c_double)]


class Change(ctypes.Structure):
    _fields_ = [("at", ctypes.c_size_t)] + [(name, ctypes.c_double) for name in (
        "before", "after", "p")]


def ours(values, window, p, margin):
    lib = ctypes.CDLL(LIBRARY)
    lib.attn_changes_find.restype = ctypes.c_size_t
    data = (ctypes.c_double * len(values))(*values)
    found = (Change * len(values))()
    rule = Rule(window, p, margin)
    count = lib.attn_changes_find(data, ctypes.c_size_t(len(values)), ctypes.byref(rule), found)
    return [(c.at, c.before, c.after, c.p) for c in found[:count]]


def figures(points):
    return [(int(c.index), float(c.stats.mean_1), float(c.stats.mean_2), float(c.stats.pvalue))
            for c in points]


def otava(values, window, p, margin):
    return figures(analysis.compute_change_points(list(values), window, p, margin)[0])


def mended(values, window, p, margin):
    """Otava's method, but the points on both sides of a dropped one are judged anew. Otava does so
    for the two points after it, and keeps old figures of the one before."""
    tester = analysis.TTestSignificanceTester(p)
    points = analysis.split(list(values), window, 10 * p)
    while points:
        worst = max(points, key=lambda c: c.stats.pvalue)
        if worst.stats.pvalue < p:
            worst = min(points, key=lambda c: c.stats.change_magnitude())
            if worst.stats.change_magnitude() > margin:
                break
        points.remove(worst)
        intervals = tester.get_intervals(points)
        points = [tester.change_point(c.to_candidate(), list(values), intervals) for c in points]
    return figures(points)


def steps(rng, n, changes, size, noise):
    """A series around 0.3 whose level changes at some places, with noise that has heavy tails."""
    level = np.full(n, 0.3)
    for at in rng.integers(1, n, changes):
        level[at:] *= np.exp(size * rng.standard_normal())
    return level * np.exp(noise * rng.standard_t(5, n))


def draw(rng, k):
    n = int(rng.integers(2, 40 if k % 3 else 260))
    values = steps(rng, n, int(rng.integers(0, 2 + n // 12)), rng.choice([0.02, 0.1, 0.5]),
                   rng.choice([0.001, 0.01, 0.05]))
    # Six digits: with few, two splits have the same divergence, and rounding decides.
    return [float("%.6g" % v) for v in values]


def rules(k):
    return [(WINDOW, P, MARGIN), (30, 0.001, 0.03), (10, 0.02, 0.0)][k % 3]


class AgainstOtava(unittest.TestCase):
    def same(self, got, want, label):
        self.assertEqual([c[0] for c in got], [c[0] for c in want], label)
        for mine, its in zip(got, want):
            np.testing.assert_allclose(mine[1:3], its[1:3], rtol=1e-12, err_msg=label)
            # Far out in the tail the p-values differ by the rounding of t, to a high power.
            np.testing.assert_allclose(mine[3], its[3], rtol=1e-6, atol=1e-30, err_msg=label)

    def test_series(self):
        rng = np.random.default_rng(20)
        changes = unmended = 0
        count = 2000
        for k in range(count):
            values, rule = draw(rng, k), rules(k)
            found = ours(values, *rule)
            self.same(found, mended(values, *rule), f"series {k}, {rule}")
            changes += len(found)
            unmended += [c[0] for c in found] == [c[0] for c in otava(values, *rule)]
        print(f"{count} series, {changes} changes; the same points as Otava itself in {unmended}")
        self.assertGreater(changes, count)
        self.assertGreater(unmended, 0.85 * count)

    def test_series_of_few_changes(self):
        rng = np.random.default_rng(5)
        for n, margin in ((20, 0.0), (60, 0.03), (150, 0.03)):
            same = 0
            for _ in range(300):
                values = list(steps(rng, n, int(rng.integers(0, 3)), 0.1, 0.01))
                found, its = (f(values, WINDOW, P, margin) for f in (ours, otava))
                same += [c[0] for c in found] == [c[0] for c in its]
            print(f"{n} values, up to 2 changes, margin {margin}: the same points in {same} of 300")
            self.assertGreater(same, 0.95 * 300)


class Rates(unittest.TestCase):
    """With the margin of 3 %, and noise of 1 %."""

    def test_no_change(self):
        rng = np.random.default_rng(7)
        for n in (5, 20, 50):
            false = sum(bool(ours(list(0.3 * np.exp(0.01 * rng.standard_normal(n))), WINDOW, P, 0.03))
                        for _ in range(2000))
            print(f"{n} values without a change: {false} of 2000 have one")
            self.assertLess(false, 10)

    def test_a_step_of_5_percent(self):
        rng = np.random.default_rng(8)
        for n, after, least in ((10, 3, 0.9), (20, 2, 0.9), (40, 5, 0.95)):
            found = 0
            for _ in range(500):
                values = 0.3 * np.exp(0.01 * rng.standard_normal(n))
                values[n - after:] *= 1.05
                found += n - after in [c[0] for c in ours(list(values), WINDOW, P, 0.03)]
            print(f"a step before the last {after} of {n} values: found there in {found} of 500")
            self.assertGreater(found, least * 500)


def write(path):
    """Series of each kind with the points that Otava itself finds, but for those in which its old
    figures decide. The figures of the points are made by Otava's test from the final sides."""
    rng = np.random.default_rng(21)
    table, left_out = [], 0
    for k in range(40):
        values, rule = draw(rng, k), rules(k)
        values = values[:160]
        changes = otava(values, *rule)
        if [c[0] for c in changes] == [c[0] for c in mended(values, *rule)]:
            table.append({"window": rule[0], "p": rule[1], "margin": rule[2], "values": values,
                          "changes": mended(values, *rule)})
        else:
            left_out += 1
    for values in ([1.0], [1.0] * 9, [1.0] * 5 + [2.0] * 5, [1.0, 2.0], [1.0, 1.0, 2.0]):
        table.append({"window": WINDOW, "p": P, "margin": MARGIN, "values": values,
                      "changes": otava(values, WINDOW, P, MARGIN)})
    made_by = "apache-otava %s, NumPy %s, SciPy %s" % (
        importlib.metadata.version("apache-otava"), np.__version__, scipy.__version__)
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"made_by": %s, "left_out": %d, "series": [\n' % (json.dumps(made_by), left_out))
        file.write(",\n".join(json.dumps(row) for row in table))
        file.write("\n]}\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write(sys.argv[2])
    else:
        unittest.main()
