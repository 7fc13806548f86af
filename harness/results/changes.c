/* SPDX-License-Identifier: Apache-2.0 */
/* changes.c - E-divisive within windows, then the weakest points dropped. */
#include "results/changes.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "results/statistics.h"

/* Mean, and sum of squares around it. */
static void moments(const double *x, size_t n, double *mean, double *squares)
{
    double sum = 0, off = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    *mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        off += (x[i] - *mean) * (x[i] - *mean);
    *squares = off;
}

/* The change at values[at] between values[from..at) and values[at..to).
 *
 * As in Otava, Student's t test gets the standard deviation of each side with the divisor n in
 * place of n - 1. It then weights them by n - 1. */
static struct attn_change judge(const double *values, size_t from, size_t at, size_t to)
{
    const double n = (double)(at - from), m = (double)(to - at), df = n + m - 2;
    struct attn_change c = {.at = at, .p = 1};
    double left, right;
    moments(values + from, at - from, &c.before, &left);
    moments(values + at, to - at, &c.after, &right);
    if (df <= 0)
        return c;
    const double variance = ((n - 1) / n * left + (m - 1) / m * right) / df;
    const double t = (c.before - c.after) / sqrt(variance * (1 / n + 1 / m));
    if (!isnan(t)) /* 0 / 0: nothing varies, nothing has changed */
        c.p = attn_student_p(t, df);
    return c;
}

/* The larger of the relative changes forwards and backwards. */
static double size_of(const struct attn_change *c)
{
    return fmax(fabs(c->after / c->before - 1), fabs(c->before / c->after - 1));
}

/* The split of largest divergence: the left side begins at x[0], the right one may end before x[n],
 * where another change follows. With n and m values on the sides, the divergence is
 *     2/(n+m) (sum of |x_i - y_j|  -  m/(n-1) sum of |x_i - x_k|  -  n/(m-1) sum of |y_j - y_k|),
 * where the last two sums go over the pairs of a side. n >= 2. */
static double divide(const double *x, size_t n, size_t *at)
{
    double best = -INFINITY, within_left = 0;
    for (size_t cut = 1; cut < n; cut++) {
        double between = 0, within_right = 0;
        for (size_t i = 0; i + 1 < cut; i++)
            within_left += fabs(x[i] - x[cut - 1]);
        for (size_t end = cut + 1; end <= n; end++) {
            const double last = x[end - 1], left = (double)cut, right = (double)(end - cut);
            for (size_t i = 0; i < cut; i++)
                between += fabs(x[i] - last);
            for (size_t i = cut; i + 1 < end; i++)
                within_right += fabs(x[i] - last);
            double sum = between;
            if (cut > 1)
                sum -= right / (left - 1) * within_left;
            if (end > cut + 1)
                sum -= left / (right - 1) * within_right;
            sum *= 2 / (left + right);
            if (sum > best) {
                best = sum;
                *at = cut;
            }
        }
    }
    return best;
}

/* Puts a change where the order of the series wants it, unless it is there. */
static void insert(struct attn_change *changes, size_t *count, struct attn_change change)
{
    size_t k = 0;
    while (k < *count && changes[k].at < change.at)
        k++;
    if (k < *count && changes[k].at == change.at)
        return;
    memmove(changes + k + 1, changes + k, (*count - k) * sizeof *changes);
    changes[k] = change;
    (*count)++;
}

/* E-divisive on one window, 2 <= n <= ATTN_CHANGE_WINDOW_MAX. The points found, in order. */
static size_t search(const double *x, size_t n, double p, struct attn_change *found)
{
    size_t count = 0;
    for (;;) {
        double best = -INFINITY;
        size_t from = 0, at = 0, to = 0;
        for (size_t k = 0; k <= count; k++) {
            const size_t a = k ? found[k - 1].at : 0, b = k < count ? found[k].at : n;
            size_t cut = 0;
            const double divergence = b - a > 1 ? divide(x + a, b - a, &cut) : -INFINITY;
            if (divergence > best) {
                best = divergence;
                from = a, at = a + cut, to = b;
            }
        }
        if (at == 0)
            return count;
        const struct attn_change candidate = judge(x, from, at, to);
        if (!(candidate.p <= p))
            return count;
        insert(found, &count, candidate);
    }
}

/* Judges point k of a list anew, by the points beside it. */
static void refresh(const double *values, size_t n, struct attn_change *changes, size_t count,
                    size_t k)
{
    const size_t from = k ? changes[k - 1].at : 0, to = k + 1 < count ? changes[k + 1].at : n;
    changes[k] = judge(values, from, changes[k].at, to);
}

/* All points of all windows. */
static size_t split(const double *values, size_t n, const struct attn_change_rule *rule,
                    struct attn_change *changes)
{
    /* The first pass asks for less, because the sides are cut short by the window. */
    const double p = rule->p < 0.05 ? 10 * rule->p : rule->p < 0.5 ? 2 * rule->p : rule->p;
    struct attn_change found[ATTN_CHANGE_WINDOW_MAX];
    size_t count = 0, next;
    for (size_t start = 0; start < n; start = next) {
        const size_t length = n - start < rule->window ? n - start : rule->window;
        const size_t points = length > 1 ? search(values + start, length, p, found) : 0;
        next = start + rule->window / 2;
        for (size_t k = 0; k < points; k++) {
            found[k].at += start;
            insert(changes, &count, found[k]);
            if (found[k].at > next)
                next = found[k].at;
        }
    }
    for (size_t k = 0; k < count; k++)
        refresh(values, n, changes, count, k);
    return count;
}

/* The point to drop next, or `count`: all are good. */
static size_t weakest(const struct attn_change *changes, size_t count,
                      const struct attn_change_rule *rule)
{
    size_t likely = 0, small = 0;
    for (size_t k = 1; k < count; k++) {
        if (changes[k].p > changes[likely].p)
            likely = k;
        if (size_of(&changes[k]) < size_of(&changes[small]))
            small = k;
    }
    if (!(changes[likely].p < rule->p))
        return likely;
    return size_of(&changes[small]) > rule->margin ? count : small;
}

size_t attn_changes_find(const double *values, size_t n, const struct attn_change_rule *rule,
                         struct attn_change *changes)
{
    assert(rule->window >= 2 && rule->window <= ATTN_CHANGE_WINDOW_MAX);
    size_t count = split(values, n, rule, changes);
    while (count > 0) {
        const size_t drop = weakest(changes, count, rule);
        if (drop == count)
            break;
        count--;
        memmove(changes + drop, changes + drop + 1, (count - drop) * sizeof *changes);
        if (drop > 0)
            refresh(values, n, changes, count, drop - 1);
        if (drop < count)
            refresh(values, n, changes, count, drop);
    }
    return count;
}
