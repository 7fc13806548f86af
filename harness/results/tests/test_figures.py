#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_figures.py - our statistics against SciPy, and the rates of wrong verdicts and of intervals that
miss, on simulated samples with fixed seeds.

    test_figures.py LIBRARY VENV [--full] [unittest options]

LIBRARY holds the statistics and tests/batch.c. VENV is the environment of scripts/build.sh that has
SciPy. --full simulates many more samples, and asks for less. Exit code 77, skipped, without SciPy.
"""
import ctypes
import os
import sys
import unittest

LIBRARY, VENV = sys.argv[1:3]
try:
    import numpy as np
    from scipy import stats
except ImportError:
    python = os.path.join(VENV, "bin", "python3")
    if os.path.exists(python) and os.environ.get("ATTNBENCH_REENTERED") != "1":
        os.environ["ATTNBENCH_REENTERED"] = "1"
        os.execv(python, [python] + sys.argv)
    print("no SciPy in %s: left out" % VENV)
    sys.exit(77)
del sys.argv[1:3]
FULL = "--full" in sys.argv
if FULL:
    sys.argv.remove("--full")

lib = ctypes.CDLL(LIBRARY)
lib.attn_student_tail.restype = ctypes.c_double
lib.attn_student_tail.argtypes = [ctypes.c_double, ctypes.c_double]
DOUBLES = np.ctypeslib.ndpointer(np.float64, flags="C")


def trimmed_location(quantile, cut=1 / 8):
    """What a trimmed mean of many samples is, of the distribution with this quantile function."""
    return quantile(np.linspace(cut, 1 - cut, 200001)).mean()


def normal(rng, shape):
    return rng.standard_normal(shape)


def heavy(rng, shape):
    return rng.standard_t(3, shape)


def skewed(rng, shape):
    """Log-normal, skewness 1.75, its trimmed mean at 0."""
    centre = trimmed_location(lambda u: np.exp(0.5 * stats.norm.ppf(u)))
    return np.exp(0.5 * rng.standard_normal(shape)) - centre


def contaminated(rng, shape):
    """One sample in ten has ten times the spread."""
    return rng.standard_normal(shape) * np.where(rng.random(shape) < 0.1, 10, 1)


def one_sided(rng, shape):
    """One sample in ten is 10 standard deviations too high. The others are the truth."""
    return rng.standard_normal(shape) + np.where(rng.random(shape) < 0.1, 10, 0)


SHAPES = [normal, heavy, skewed, contaminated]


class Student(unittest.TestCase):
    def test_quantiles(self):
        for tail in (0.5, 0.1, 0.05, 0.01, 0.001, 1e-6, 1e-12):
            for df in (1, 1.5, 2, 3, 5, 7.25, 11, 30, 120, 1e4, 1e6):
                got, want = lib.attn_student_tail(tail, df), stats.t.isf(tail / 2, df)
                within = 1e-9 if df <= 1e4 else 1e-7  # differences of lgamma lose digits
                self.assertLess(abs(got / want - 1), within, (tail, df, got, want))


class Paired(unittest.TestCase):
    """The decision rule of paired.h over its whole sequence of looks."""

    ROWS = 40000 if FULL else 1000

    def sequence(self, shape, spread, effect, margin):
        """Share of series of which any look misses, share of each verdict, mean pairs."""
        rng = np.random.default_rng(7)
        rows = np.ascontiguousarray(effect + spread * shape(rng, (self.ROWS, 32)))
        missed, verdicts = ctypes.c_size_t(), (ctypes.c_size_t * 5)()
        pairs = ctypes.c_double()
        call = lib.batch_paired
        call.argtypes = [DOUBLES, ctypes.c_size_t, ctypes.c_double, ctypes.c_double] + \
            [ctypes.c_void_p] * 3
        call(rows, self.ROWS, effect, margin, ctypes.byref(missed), verdicts, ctypes.byref(pairs))
        names = ("go on", "same", "faster", "slower", "unclear")
        shares = {name: count / self.ROWS for name, count in zip(names, verdicts)}
        self.assertEqual(shares["go on"], 0)
        return missed.value / self.ROWS, shares, pairs.value

    def at_most(self, share, rate, what):
        """`rate`, and three standard errors of the simulation."""
        self.assertLessEqual(share, rate + 3 * (rate * (1 - rate) / self.ROWS) ** 0.5, what)

    def test_looks_together(self):
        """All looks of a series hold the truth in 99 %."""
        for shape in SHAPES + [one_sided]:
            missed, _, _ = self.sequence(shape, 1, 0, 0)
            print("looks that miss, %s: %.3f %%" % (shape.__name__, 100 * missed))
            self.at_most(missed, 0.01, shape.__name__)

    def test_no_effect(self):
        """At no effect: false verdicts in 1 % at most, whatever the spread, even with no margin."""
        margin = np.log(1.03)
        for shape in SHAPES:
            for spread, allowed in ((0.003, margin), (0.02, margin), (1, margin), (1, 0)):
                _, shares, pairs = self.sequence(shape, spread, 0, allowed)
                print("no effect, %s, spread %g: same %.4f unclear %.4f false %.5f, %.1f pairs" %
                      (shape.__name__, spread, shares["same"], shares["unclear"],
                       shares["slower"] + shares["faster"], pairs))
                self.at_most(shares["slower"] + shares["faster"], 0.01, shape.__name__)
                if spread == 0.003:
                    self.assertGreater(shares["same"], 0.97, shape.__name__)

    def test_at_the_margin(self):
        """An effect of exactly the margin is neither slower nor the same: 1 % at most says so."""
        margin = np.log(1.03)
        for shape in SHAPES:
            _, shares, _ = self.sequence(shape, 0.01, margin, margin)
            self.at_most(1 - shares["unclear"], 0.01, shape.__name__)

    def test_planted(self):
        """A slowdown of 5 % is found where the spread of pairs is a hundredth."""
        margin = np.log(1.03)
        for shape, spread in ((normal, 0.01), (normal, 0.003), (heavy, 0.006), (skewed, 0.012),
                              (contaminated, 0.006)):
            _, shares, pairs = self.sequence(shape, spread, np.log(1.05), margin)
            print("5 %% planted, %s, spread %g: slower %.4f unclear %.4f same %.5f, %.1f pairs" %
                  (shape.__name__, spread, shares["slower"], shares["unclear"], shares["same"],
                   pairs))
            self.assertGreater(shares["slower"], 0.95, shape.__name__)
            self.at_most(shares["same"] + shares["faster"], 0.01, shape.__name__)


if __name__ == "__main__":
    unittest.main()
