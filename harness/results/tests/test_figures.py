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
ATTN_LOW_QUANTILE = 0.1
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


def doubles(values):
    return np.ascontiguousarray(values, dtype=np.float64)


class Interval(ctypes.Structure):
    _fields_ = [("value", ctypes.c_double), ("lo", ctypes.c_double), ("hi", ctypes.c_double),
                ("n", ctypes.c_size_t)]


class Look(ctypes.Structure):
    _fields_ = [("verdict", ctypes.c_int)] + [(name, ctypes.c_double) for name in (
        "estimate", "lo", "hi", "least")] + [("pairs", ctypes.c_size_t)]


class Ratio(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in ("ratio", "lo", "hi", "error", "df")]


lib.attn_paired_judge.restype = Look
lib.attn_paired_judge.argtypes = [DOUBLES, ctypes.c_size_t, ctypes.c_double]
lib.attn_student_p.restype = ctypes.c_double
lib.attn_student_p.argtypes = [ctypes.c_double, ctypes.c_double]
lib.attn_ratio_of.restype = Ratio
lib.attn_ratio_of.argtypes = [DOUBLES, ctypes.c_size_t, DOUBLES, ctypes.c_size_t]
lib.attn_ratio_p.restype = ctypes.c_double
lib.attn_ratio_p.argtypes = [ctypes.POINTER(Ratio), ctypes.c_double]
lib.attn_quantile_interval.restype = Interval
lib.attn_quantile_interval.argtypes = [DOUBLES, ctypes.c_size_t, ctypes.c_double]
lib.attn_low_summarise.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_size_t,
                                   ctypes.POINTER(Interval)]
lib.attn_false_discovery.argtypes = [DOUBLES, ctypes.c_size_t, DOUBLES]
lib.batch_quantile.argtypes = [DOUBLES, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_double,
                               ctypes.c_double, ctypes.c_void_p]
lib.batch_low.argtypes = [DOUBLES, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t,
                          ctypes.c_double, ctypes.c_void_p]


def low_summary(rounds):
    """attn_low_summarise of a list of lists."""
    rows = [doubles(r) for r in rounds]
    pointers = (ctypes.c_void_p * len(rows))(*[r.ctypes.data for r in rows])
    counts = (ctypes.c_size_t * len(rows))(*[len(r) for r in rows])
    found = Interval()
    if lib.attn_low_summarise(pointers, counts, len(rows), ctypes.byref(found)) != 0:
        raise MemoryError
    return found


class AgainstSciPy(unittest.TestCase):
    def close(self, got, want, within=1e-9):
        self.assertLessEqual(abs(got - want), within * max(1, abs(want)), (got, want))

    def test_p_values(self):
        for t in (0, 1e-3, 0.7, -2.1, 5, 80):
            for df in (1, 2.5, 7, 30, 1000):
                self.close(lib.attn_student_p(t, df), 2 * stats.t.sf(abs(t), df))

    def test_one_sample(self):
        """Two to five rounds: the interval of the mean of logarithms, by ttest_1samp."""
        rng = np.random.default_rng(5)
        for n in (2, 3, 5):
            times = np.exp(0.1 * rng.standard_normal(n))
            found = low_summary([[t] for t in times])
            interval = stats.ttest_1samp(np.log(times), 0).confidence_interval(0.95)
            self.close(found.lo, np.exp(interval.low))
            self.close(found.hi, np.exp(interval.high))
            self.close(found.value, np.median(times))

    def test_two_samples(self):
        """The ratio of two results, its interval and its p-value, by ttest_ind."""
        rng = np.random.default_rng(6)
        for na, nb, spread in ((5, 5, 0.02), (3, 9, 0.3), (12, 4, 0.001)):
            a = np.exp(0.05 * rng.standard_normal(na))
            b = 1.1 * np.exp(spread * rng.standard_normal(nb))
            found = lib.attn_ratio_of(doubles(a), na, doubles(b), nb)
            want = stats.ttest_ind(np.log(b), np.log(a), equal_var=False)
            interval = want.confidence_interval(0.95)
            self.close(found.lo, np.exp(interval.low))
            self.close(found.hi, np.exp(interval.high))
            self.close(lib.attn_ratio_p(found, 0), want.pvalue)
            shifted = stats.ttest_ind(np.log(b) - np.log(1.03), np.log(a), equal_var=False)
            if found.ratio > 1.03:
                self.close(lib.attn_ratio_p(found, 0.03), shifted.pvalue)
            # The p-value and the interval say the same.
            self.assertEqual(lib.attn_ratio_p(found, 0.03) < 0.05,
                             found.lo > 1.03 or found.hi < 1 / 1.03)

    def test_false_discoveries(self):
        rng = np.random.default_rng(8)
        for n in (1, 2, 7, 300):
            p = doubles(np.where(rng.random(n) < 0.3, 1e-4, 1) * rng.random(n))
            p[n // 2] = p[0]  # equal ones
            found = np.zeros(n)
            self.assertEqual(lib.attn_false_discovery(p, n, found), 0)
            np.testing.assert_allclose(found, stats.false_discovery_control(p), rtol=1e-13)
            self.assertEqual(lib.attn_false_discovery(p, n, p), 0)  # in place
            np.testing.assert_allclose(p, found, rtol=0)

    def test_intervals_beside_the_bootstrap(self):
        """Of 400 values: both limits within a quarter of the bootstrap's width."""
        rng = np.random.default_rng(9)
        for q in (0.1, 0.5):
            values = np.sort(np.exp(0.3 * rng.standard_normal(400)))
            found = lib.attn_quantile_interval(doubles(values), 400, q)
            want = stats.bootstrap((values,), lambda x, axis: np.quantile(x, q, axis=axis),
                                   method="percentile", n_resamples=2000,
                                   rng=np.random.default_rng(1)).confidence_interval
            width = want.high - want.low
            self.close(found.value, np.quantile(values, q))
            self.assertLess(abs(found.lo - want.low), width / 4)
            self.assertLess(abs(found.hi - want.high), width / 4)

    def test_limits_of_few_values(self):
        values = doubles(np.arange(1.0, 41))
        for n, q, low, high in ((5, 0.5, False, False), (6, 0.5, True, True),
                                (35, 0.1, False, True), (36, 0.1, True, True)):
            found = lib.attn_quantile_interval(values, n, q)
            self.assertEqual((np.isfinite(found.lo), np.isfinite(found.hi)), (low, high), (n, q))
        # Hettmansperger and Sheather's interpolation, for the median of ten.
        found = lib.attn_quantile_interval(values, 10, 0.5)
        below = stats.binom.cdf([1, 2], 10, 0.5)
        share = (0.025 - below[0]) / (below[1] - below[0])
        part = (10 - 2) * share / (2 + (10 - 2 * 2) * share)
        self.close(found.lo, (1 - part) * 2 + part * 3)
        self.close(found.hi, 11 - found.lo)


class Coverage(unittest.TestCase):
    """Intervals of 95 % hold the truth in 93 to 97 %, whatever the distribution."""

    ROWS = 40000 if FULL else 2500

    def covers(self, out, rows, what, most=0.97):
        share = 1 - (out[0] + out[1]) / rows
        print("coverage, %s: %.2f %%" % (what, 100 * share))
        self.assertTrue(0.93 <= share <= most, (what, share))

    def test_quantiles(self):
        for shape in SHAPES:
            many = shape(np.random.default_rng(1), 400000)
            for q, sizes in ((0.5, (6, 8, 15)), (ATTN_LOW_QUANTILE, (36, 60, 200))):
                truth = np.quantile(many, q)
                for n in sizes:
                    rows = doubles(shape(np.random.default_rng(n), (self.ROWS, n)))
                    out = (ctypes.c_size_t * 2)()
                    lib.batch_quantile(rows, self.ROWS, n, q, truth, out)
                    self.covers(out, self.ROWS, "%g-quantile of %d, %s" % (q, n, shape.__name__))

    def test_low_quantiles_of_rounds(self):
        """Rounds drift by 2 %, and batches in them vary by 1 %."""
        def draw(shape, seed, rounds, n):
            rng = np.random.default_rng(seed)
            drift = 0.02 * shape(rng, (rounds, 1))
            return doubles(np.exp(drift + 0.01 * np.abs(shape(rng, (rounds, n)))))
        for shape in SHAPES:
            lows = np.quantile(draw(shape, 1, 20000, 20), ATTN_LOW_QUANTILE, axis=1)
            for rounds in (5, 6, 9):
                rows = self.ROWS // 2
                out = (ctypes.c_size_t * 2)()
                lib.batch_low(draw(shape, rounds, rounds * rows, 20), rows, rounds, 20,
                              np.median(lows), out)
                # Student's t of a few rounds with heavy tails is wider than it need be.
                self.covers(out, rows, "%d rounds, %s" % (rounds, shape.__name__),
                            0.98 if rounds < 6 else 0.97)


class Student(unittest.TestCase):
    def test_quantiles(self):
        for tail in (0.5, 0.1, 0.05, 0.01, 0.001, 1e-6, 1e-12):
            for df in (1, 1.5, 2, 3, 5, 7.25, 11, 30, 120, 1e4, 1e6):
                got, want = lib.attn_student_tail(tail, df), stats.t.isf(tail / 2, df)
                within = 1e-9 if df <= 1e4 else 1e-7  # differences of lgamma lose digits
                self.assertLess(abs(got / want - 1), within, (tail, df, got, want))


class Paired(unittest.TestCase):
    """The decision rule of paired.h over its whole sequence of looks."""

    ROWS = 40000 if FULL else 600

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
            spreads = ((0.003, margin), (1, 0), (0.02, margin), (1, margin))
            for spread, allowed in spreads if FULL else spreads[:2]:
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

    def test_least_effect(self):
        """The mean of `least` at 16 pairs is found in 95 %, in 90 % with heavy tails."""
        margin = np.log(1.03)
        for shape, share in ((normal, 0.95), (heavy, 0.9), (contaminated, 0.9)):
            rng = np.random.default_rng(11)
            series = (doubles(0.03 * shape(rng, 16)) for _ in range(500))
            least = np.mean([lib.attn_paired_judge(s, 16, margin).least for s in series])
            _, shares, _ = self.sequence(shape, 0.03, least, margin)
            print("effect of %.1f %%, the least to be found, %s: %.4f" %
                  (100 * np.expm1(least), shape.__name__, shares["slower"]))
            self.assertLess(abs(shares["slower"] - share), 0.03, shape.__name__)

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
