/* SPDX-License-Identifier: Apache-2.0 */
/* statistics.c - order statistics, Student's t and the intervals built on them. */
#include "results/statistics.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "results/record.h"

/* From this many rounds on, the interval comes from order statistics: 6 is the least number for
 * which the extremes cover the median with 95 % (1 - 2 * 2^-6 = 0.969). */
#define ORDER_ROUNDS 6

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void attn_sort_doubles(double *values, size_t n)
{
    if (n > 1)
        qsort(values, n, sizeof *values, compare_doubles);
}

/* Hyndman and Fan, "Sample quantiles in statistical packages", The American Statistician 50(4),
 * 1996, definition 7: position q (n-1), counted from 0. */
double attn_quantile_sorted(const double *sorted, size_t n, double q)
{
    if (n == 0)
        return NAN;
    double position = q * (double)(n - 1);
    size_t below = (size_t)floor(position);
    if (below >= n - 1)
        return sorted[n - 1];
    double part = position - (double)below;
    return sorted[below] + part * (sorted[below + 1] - sorted[below]);
}

double attn_median(double *values, size_t n)
{
    attn_sort_doubles(values, n);
    return attn_quantile_sorted(values, n, 0.5);
}

/* Continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), evaluated by
 * the modified Lentz method. Converges in O(sqrt(max(a, b))) terms for x < (a+1)/(a+b+2). */
static double beta_fraction(double x, double a, double b)
{
    const double tiny = 1e-300; /* stands in for a denominator of 0 */
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double h = d;
    for (int m = 1; m < 20000; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        double step = 1;
        for (int half = 0; half < 2; half++) {
            double term = half == 0 ? even : odd;
            d = 1 + term * d;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = 1 + term / c;
            c = fabs(c) < tiny ? tiny : c;
            step = c * d;
            h *= step;
        }
        if (fabs(step - 1) < 1e-15)
            break;
    }
    return h;
}

/* Regularised incomplete beta function I_x(a, b), with the reflection I_x(a,b) = 1 - I_1-x(b,a)
 * where the fraction converges faster (Abramowitz and Stegun 26.5.2). */
static double beta_regularised(double x, double a, double b)
{
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(x, a, b) / a;
    return 1 - front * beta_fraction(1 - x, b, a) / b;
}

/* Density of Student's distribution. */
static double student_density(double t, double df)
{
    return exp(lgamma((df + 1) / 2) - lgamma(df / 2) - (df + 1) / 2 * log1p(t * t / df)) /
           sqrt(df * 3.14159265358979323846);
}

/* P(|T| > t) = I_x(df/2, 1/2), x = df / (df + t^2) (Abramowitz and Stegun 26.7.1): the tail itself,
 * and not 1 minus it, so that small tails keep their digits. Solved by Newton steps within a
 * bracket, halved where a step leaves it. */
double attn_student_tail(double tail, double df)
{
    if (!(df >= 1))
        df = 1;
    if (df > 1e7)
        df = 1e7; /* t differs from the normal's by less than 1e-6 of itself here */
    double lo = 0, hi = 2, t = 2;
    while (beta_regularised(df / (df + hi * hi), df / 2, 0.5) > tail && hi < 1e150) {
        lo = hi;
        t = hi *= 2;
    }
    for (int i = 0; i < 200 && hi - lo > 1e-14 * hi; i++) {
        const double over = beta_regularised(df / (df + t * t), df / 2, 0.5) - tail;
        *(over > 0 ? &lo : &hi) = t;
        const double next = t + over / (2 * student_density(t, df));
        if (fabs(next - t) <= 1e-14 * t)
            return next;
        t = next > lo && next < hi ? next : (lo + hi) / 2;
    }
    return t;
}

double attn_student_p(double t, double df)
{
    return t == 0 ? 1 : isinf(t) ? 0 : beta_regularised(df / (df + t * t), df / 2, 0.5);
}

double attn_student_t975(double df)
{
    return attn_student_tail(0.05, df);
}

/* Mean and variance (n-1) of the logarithms. */
static void log_moments(const double *x, size_t n, double *mean, double *variance)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += log(x[i]);
    *mean = sum / (double)n;
    for (size_t i = 0; i < n; i++) {
        double off = log(x[i]) - *mean;
        squares += off * off;
    }
    *variance = n > 1 ? squares / (double)(n - 1) : 0;
}

/* Distribution-free interval of the median from order statistics: [x_(k), x_(n+1-k)], with the
 * largest k for which 2 P(Bin(n, 1/2) < k) <= 0.05 (David and Nagaraja, "Order Statistics", 3rd
 * ed. 2003, section 7.1). Conservative: it covers with at least 95 %. */
static void interval_by_order(const double *sorted, size_t n, double *lo, double *hi)
{
    double below = 0;
    size_t k = 0;
    for (; k < n / 2; k++) {
        double nn = (double)n, kk = (double)k;
        below += exp(lgamma(nn + 1) - lgamma(kk + 1) - lgamma(nn - kk + 1) - nn * log(2));
        if (2 * below > 0.05)
            break;
    }
    *lo = sorted[k - 1];
    *hi = sorted[n - k];
}

/* Fewer than ORDER_ROUNDS rounds have no distribution-free interval of 95 %. Times vary by factors
 * and lean to the right, so the interval is Student's t of their logarithms, whose mean is the
 * logarithm of the median where they are log-normal. */
static void interval_by_t(const double *medians, size_t n, double *lo, double *hi)
{
    double mean, variance;
    log_moments(medians, n, &mean, &variance);
    double half = attn_student_t975((double)(n - 1)) * sqrt(variance / (double)n);
    *lo = exp(mean - half);
    *hi = exp(mean + half);
}

int attn_summarise(const double *const *samples, const size_t *counts, size_t rounds,
                   struct attn_summary *out)
{
    size_t n = 0, used = 0;
    for (size_t r = 0; r < rounds; r++) {
        n += counts[r];
        used += counts[r] > 0;
    }
    if (n == 0 || n > SIZE_MAX / sizeof(double) / 2)
        return -1;
    double *all = malloc((n + used) * sizeof *all);
    if (!all) {
        attn_note_refusal();
        return -1;
    }
    double *medians = all + n;
    size_t filled = 0, m = 0;
    for (size_t r = 0; r < rounds; r++) {
        if (counts[r] == 0)
            continue;
        memcpy(all + filled, samples[r], counts[r] * sizeof *all);
        medians[m++] = attn_median(all + filled, counts[r]);
        filled += counts[r];
    }
    struct attn_summary s = {.n = n, .rounds = used, .lo = 0, .hi = INFINITY};
    s.median = attn_median(all, n);
    s.min = all[0];
    s.p10 = attn_quantile_sorted(all, n, 0.1);
    s.p90 = attn_quantile_sorted(all, n, 0.9);
    double centre = attn_median(medians, used);
    if (used >= ORDER_ROUNDS)
        interval_by_order(medians, used, &s.lo, &s.hi);
    else if (used >= 2)
        interval_by_t(medians, used, &s.lo, &s.hi);
    /* A skew handful can put its own median outside of t's interval; a reader would not believe
     * either number. Widening never lowers the coverage. */
    s.lo = fmin(s.lo, fmin(centre, s.median));
    s.hi = fmax(s.hi, fmax(centre, s.median));
    free(all);
    *out = s;
    return 0;
}

/* Welch, "The generalization of 'Student's' problem when several different population variances
 * are involved", Biometrika 34, 1947; degrees of freedom by Satterthwaite, Biometrics Bulletin 2,
 * 1946. On logarithms, so that swapping the sides inverts the interval. */
struct attn_ratio attn_ratio_of(const double *a, size_t na, const double *b, size_t nb)
{
    struct attn_ratio out = {NAN, 0, INFINITY, -1, 1};
    if (na == 0 || nb == 0)
        return out;
    double mean_a, mean_b, var_a, var_b;
    log_moments(a, na, &mean_a, &var_a);
    log_moments(b, nb, &mean_b, &var_b);
    double centre = mean_b - mean_a;
    out.ratio = exp(centre);
    if (na < 2 || nb < 2)
        return out;
    double ea = var_a / (double)na, eb = var_b / (double)nb;
    double half = 0;
    out.error = sqrt(ea + eb);
    if (ea + eb > 0) {
        out.df = (ea + eb) * (ea + eb) / (ea * ea / (double)(na - 1) + eb * eb / (double)(nb - 1));
        half = attn_student_t975(out.df) * out.error;
    }
    out.lo = exp(centre - half);
    out.hi = exp(centre + half);
    return out;
}

double attn_ratio_p(const struct attn_ratio *ratio, double margin)
{
    const double beyond = fabs(log(ratio->ratio)) - log1p(margin);
    if (ratio->error < 0 || !(beyond > 0))
        return 1;
    return attn_student_p(beyond / ratio->error, ratio->df);
}

double attn_loglog_slope(const double *x, const double *y, size_t n)
{
    double mean_x = 0, mean_y = 0, sxx = 0, sxy = 0;
    for (size_t i = 0; i < n; i++) {
        mean_x += log(x[i]) / (double)n;
        mean_y += log(y[i]) / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        double dx = log(x[i]) - mean_x;
        sxx += dx * dx;
        sxy += dx * (log(y[i]) - mean_y);
    }
    /* Equal x leave rounding noise in sxx; two sizes that differ at all are far above it. */
    return n >= 2 && sxx > 1e-18 ? sxy / sxx : NAN;
}
