/* SPDX-License-Identifier: Apache-2.0 */
/* sum.c - the weighed sums of rows that make dQ, dK and dV, and their bounds. */
#include <string.h>

#include "reference/ops/attention_backward/attention_backward.h"
#include "reference/sums.h"

static int bin_of(double x, int bins)
{
    const double place = log2(x);

    return (int)fmin((place - floor(place)) * bins, bins - 1);
}

/* Orders the terms by bin of frac(log2 |weight|): weights that round alike. A counting sort. */
static void order_by_bin(const struct ref_backward_sum *x)
{
    memset(x->start, 0, (size_t)(x->bins + 1) * sizeof(*x->start));
    for (int64_t t = 0; t < x->n; t++)
        x->start[x->weight[t] != 0.0 ? bin_of(fabs(x->weight[t]), x->bins) + 1 : 0]++;
    /* Entry b + 1 counts bin b; weights of 0 come first, with what is lost near 0. */
    for (int b = 0; b < x->bins; b++)
        x->start[b + 1] += x->start[b];
    for (int64_t t = x->n; t-- > 0;)
        x->order[--x->start[x->weight[t] != 0.0 ? bin_of(fabs(x->weight[t]), x->bins) + 1 : 0]] = t;
}

/* What stored weights make of each column: their errors as they are, in `plain`, or if they are
 * many and unlike, lambda times the root of the squares of what each bin has. */
static void add_stored(const struct ref_arithmetic *a, const struct ref_backward_sum *x,
                       double *plain)
{
    double *bin = x->room + 3 * x->width, *squares = x->room + 4 * x->width;

    ref_add_magnitudes(x->stored, x->rows, x->width, x->index, x->n, x->width, plain);
    if (x->bins == 0 || (double)x->n <= a->lambda * a->lambda)
        return;
    order_by_bin(x);
    memset(squares, 0, (size_t)x->width * sizeof(*squares));
    for (int64_t first = 0, next; first < x->n; first = next) {
        const double weight = fabs(x->weight[x->order[first]]);
        memset(bin, 0, (size_t)x->width * sizeof(*bin));
        for (next = first; next < x->n; next++) {
            const int64_t t = x->order[next];
            const double *row = x->rows + x->index[t] * x->width;
            const double other = fabs(x->weight[t]);
            if ((weight == 0.0) != (other == 0.0) ||
                (weight != 0.0 && bin_of(weight, x->bins) != bin_of(other, x->bins)))
                break;
            for (int64_t c = 0; c < x->width; c++)
                bin[c] += x->stored[t] * fabs(row[c]);
        }
        for (int64_t c = 0; c < x->width; c++)
            squares[c] += bin[c] * bin[c];
    }
    for (int64_t c = 0; c < x->width; c++)
        plain[c] = fmin(plain[c], a->lambda * sqrt(squares[c]));
}

/* The sizes of the sums of single heads, which are stored before they are added up. */
static void add_parts(const struct ref_backward_sum *x, double *size)
{
    double *part = x->room + 3 * x->width;

    for (int64_t first = 0, next; first < x->n; first = next) {
        for (next = first; next < x->n && x->index[next] / x->part == x->index[first] / x->part;)
            next++;
        memset(part, 0, (size_t)x->width * sizeof(*part));
        ref_add_rows(x->weight + first, x->rows, x->width, x->index + first, next - first, x->width,
                     part);
        for (int64_t c = 0; c < x->width; c++)
            size[c] += x->u_part * fabs(part[c]) + x->eta_part;
    }
}

double ref_backward_bound(const struct ref_arithmetic *a, const struct ref_backward_sum *x,
                          double value, double off, double size, double rows)
{
    const double factor = fabs(x->factor), most = size * (1.0 + x->growth);
    double lost = (2.0 * (double)x->n + 2.0 + rows) * fmax(1.0, factor) * a->omega;

    lost += x->eta_kept * fmax(1.0, factor);
    if (a->partial > 0.0)
        lost += (double)x->n * fmax(1.0, factor) * a->partial_omega * (1.0 + a->partial);
    if (a->ftz)
        lost += size * fmax(1.0, factor) * a->omega;
    if (!isfinite(value) || !(off < REF_UNKNOWN))
        return ref_bound_final(a, x->dtype, value, INFINITY);
    if (!(fmax(1.0, factor) * most <= x->largest) ||
        (a->partial > 0.0 && !(most <= a->partial_largest)))
        return INFINITY;
    return ref_bound_final(a, x->dtype, value,
                           factor * (off + x->growth * size) * (1.0 + x->u_part) + lost);
}

/* A sum that is stored in a type with each of its tiles. */
static void keep(struct ref_backward_sum *sum, const struct ref_backward_kept *in, double tiles)
{
    sum->growth += (1.0 + sum->growth) * expm1(tiles * log1p(2.0 * in->u));
    sum->eta_kept = tiles * in->eta;
    sum->largest = in->largest;
}

void ref_backward_over_keys(const struct ref_backward_group *group, int64_t keys,
                            struct ref_backward_sum *sum)
{
    sum->growth = ref_backward_growth(group, ref_backward_chain(group, keys) + 3.0);
    keep(sum, &group->declared.dq, group->arithmetic.tiles);
}

void ref_backward_over_queries(const struct ref_backward_group *group, double more,
                               struct ref_backward_sum *sum)
{
    const struct ref_backward_declared *d = &group->declared;
    const double tiles = (double)group->heads * d->query_tiles;
    const double chain = d->chain > 0.0 ? d->chain : (double)sum->n;

    sum->growth = ref_backward_growth(group, chain + tiles + more);
    keep(sum, &d->dkv, tiles);
}

void ref_backward_add(const struct ref_arithmetic *a, const struct ref_backward_sum *x,
                      double *value, double *bound)
{
    double *off = x->room, *size = x->room + x->width, *rows = x->room + 2 * x->width;
    const double one = 1.0;
    bool known = true;

    for (int64_t t = 0; bound && t < x->n; t++)
        known = known && x->error[t] < REF_UNKNOWN;
    memset(value, 0, (size_t)x->width * sizeof(*value));
    ref_add_rows(x->weight, x->rows, x->width, x->index, x->n, x->width, value);
    if (bound) {
        memset(off, 0, 3 * (size_t)x->width * sizeof(*off));
        add_stored(a, x, off);
        if (x->part > 0 && x->u_part > 0.0)
            add_parts(x, off);
        ref_add_magnitudes(x->error, x->rows, x->width, x->index, x->n, x->width, off);
        ref_add_magnitudes(x->weight, x->rows, x->width, x->index, x->n, x->width, size);
        ref_add_magnitudes(x->error, x->rows, x->width, x->index, x->n, x->width, size);
        ref_add_magnitudes(x->stored, x->rows, x->width, x->index, x->n, x->width, size);
        for (int64_t t = 0; t < x->n; t++)
            ref_add_magnitudes(&one, x->rows, x->width, x->index + t, 1, x->width, rows);
    }
    for (int64_t c = 0; c < x->width; c++) {
        value[c] *= x->factor;
        if (bound)
            bound[c] =
                ref_backward_bound(a, x, value[c], known ? off[c] : REF_UNKNOWN, size[c], rows[c]);
    }
}
