/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c - one computation of a head, exact or with random roundings. OP.md says what a rounding
 * is drawn from. */
#include <math.h>
#include <string.h>

#include "reference/ops/nystrom/nystrom.h"
#include "reference/philox.h"
#include "reference/sums.h"

#define ROOT3 1.7320508075688772

static const struct ref_arithmetic *arithmetic(const struct ref_nystrom_run *r)
{
    return &r->head->job->arithmetic;
}

/* ---- roundings ---- */

/* Uniform with mean 0 and variance 1. */
static double draw(struct ref_nystrom_run *r)
{
    const uint32_t n = r->drawn++;
    if (n % 4 == 0) {
        const int64_t heads = r->head->job->operands.problem->hq;
        const uint32_t counter[4] = {n / 4, r->row, (uint32_t)(r->head->b * heads + r->head->h)};
        const uint32_t key[2] = {(uint32_t)r->number, 0x6e797374};
        attn_philox4x32_inline(counter, key, r->words);
    }
    return ROOT3 * ((double)r->words[n % 4] * 0x1p-31 - 1.0);
}

/* A new step: in every second run of a structured fill all of its roundings are alike. */
static void begin_step(struct ref_nystrom_run *r)
{
    r->coherent = r->number % 2 && !arithmetic(r)->generic ? draw(r) : 0.0;
}

/* Numbers that were just computed; `spread` is of their roundings, and read if the run tracks. */
static void settle(struct ref_nystrom_run *r, double *y, const double *spread, int64_t count)
{
    if (!r->tape)
        return;
    for (int64_t n = 0; r->tracks && n < count; n++) {
        r->tape[n] = spread[n];
        r->most = ref_larger(r->most, fabs(y[n]));
    }
    for (int64_t n = 0; !r->tracks && n < count; n++)
        y[n] += r->tape[n] * (r->coherent != 0.0 ? r->coherent : draw(r));
    r->tape += count;
}

/* y += w x, and what the roundings of the product and of the sum add to the spread. Of a structured
 * fill they may all point one way. */
static void add_tracked(struct ref_nystrom_run *r, double w, const double *x, int64_t width,
                        double *y)
{
    const bool generic = arithmetic(r)->generic;
    for (int64_t c = 0; c < width; c++) {
        const double product = w * x[c];
        y[c] += product;
        r->partial[c] += generic ? product * product : fabs(product);
        r->spread[c] += generic ? y[c] * y[c] : fabs(y[c]);
    }
}

/* Turns what add_tracked gathered into spreads: of `terms` products each, whose inputs may be
 * rounded to u_in. */
static void spread_of_sums(struct ref_nystrom_run *r, int64_t terms, int64_t width, double u_in)
{
    const struct ref_arithmetic *a = arithmetic(r);
    const double of_products =
        sqrt(2.0 * a->u_op * a->u_op + a->partial * a->partial + 4.0 * u_in * u_in);
    for (int64_t c = 0; c < width; c++) {
        const double sums = a->generic ? sqrt(r->spread[c]) : r->spread[c];
        const double products = a->generic ? sqrt(r->partial[c]) : r->partial[c];
        r->spread[c] =
            a->u_op * sums + of_products * products + (a->omega + a->partial_omega) * (double)terms;
    }
}

static void begin_sums(struct ref_nystrom_run *r, int64_t width)
{
    memset(r->spread, 0, (size_t)width * sizeof(double));
    memset(r->partial, 0, (size_t)width * sizeof(double));
}

/* What a product of matrices is rounded to besides. */
struct store {
    double factor;          /* each result is multiplied by this; 1: it is not */
    double relative, least; /* the type in which it is stored */
    double u_in;            /* its inputs */
};

/* y = x w, row by row: [rows,inner] and [inner,width]. */
static void multiply(struct ref_nystrom_run *r, const double *x, const double *w, int64_t rows,
                     int64_t inner, int64_t width, const struct store *store, double *y)
{
    const double u = arithmetic(r)->u_op, size = fabs(store->factor);
    const double relative = store->relative + (store->factor != 1.0 ? u : 0.0);
    begin_step(r);
    for (int64_t i = 0; i < rows; i++, y += width) {
        memset(y, 0, (size_t)width * sizeof *y);
        if (r->tracks) {
            begin_sums(r, width);
            for (int64_t j = 0; j < inner; j++)
                add_tracked(r, x[i * inner + j], w + j * width, width, y);
            spread_of_sums(r, inner, width, store->u_in);
        } else {
            ref_add_rows(x + i * inner, w, width, NULL, inner, width, y);
        }
        for (int64_t c = 0; c < width; c++)
            y[c] *= store->factor;
        for (int64_t c = 0; r->tracks && c < width; c++)
            r->spread[c] = size * r->spread[c] + relative * fabs(y[c]) + store->least;
        settle(r, y, r->spread, width);
    }
}

/* ---- the steps ---- */

static struct store as_projection(const struct ref_nystrom_run *r, double u_in)
{
    const struct ref_arithmetic *a = arithmetic(r);
    return (struct store){1.0, a->u_proj, a->eta_proj, u_in};
}

static struct store as_score(const struct ref_nystrom_run *r)
{
    const struct ref_arithmetic *a = arithmetic(r);
    const double scale = r->head->job->operands.problem->scale;
    return (struct store){scale, a->u_s * fmax(a->score_stores, 1.0), a->eta_s, a->u_in};
}

/* Means of the rows of each segment. */
static void average(struct ref_nystrom_run *r, const double *x, double *mean)
{
    const struct ref_nystrom_head *s = r->head;
    const struct ref_arithmetic *a = arithmetic(r);
    begin_step(r);
    for (int64_t l = 0; l < s->segments; l++, mean += s->dk) {
        const int64_t begin = l * s->steps / s->segments, end = (l + 1) * s->steps / s->segments;
        const double share = 1.0 / (double)(end - begin);
        memset(mean, 0, (size_t)s->dk * sizeof *mean);
        begin_sums(r, s->dk);
        for (int64_t i = begin; i < end; i++)
            add_tracked(r, 1.0, x + i * s->dk, s->dk, mean);
        spread_of_sums(r, end - begin, s->dk, 0.0);
        for (int64_t c = 0; c < s->dk; c++) {
            mean[c] *= share;
            r->spread[c] =
                share * r->spread[c] + (2.0 * a->u_op + a->u_proj) * fabs(mean[c]) + a->eta_proj;
        }
        settle(r, mean, r->spread, s->dk);
    }
}

/* Scores of `rows` rows become weights. */
static void soften(struct ref_nystrom_run *r, double *s, int64_t rows, int64_t width)
{
    const struct ref_arithmetic *a = arithmetic(r);
    begin_step(r);
    for (int64_t i = 0; i < rows; i++, s += width) {
        double most = -INFINITY, sum = 0, partial = 0, factor = 1;
        for (int64_t j = 0; j < width; j++)
            most = ref_larger(s[j], most);
        for (int64_t j = 0; j < width; j++) {
            const double x = s[j] - most;
            s[j] = exp(x);
            sum += s[j];
            partial += a->generic ? sum * sum : sum;
            r->spread[j] = a->e_exp + (a->e_arg + a->u_op) * fabs(x) + 2.0 * a->u_op + a->u_p;
        }
        for (int64_t j = 0; j < width; j++) {
            s[j] /= sum;
            r->spread[j] = s[j] * r->spread[j] + a->omega + a->eta_p;
        }
        partial = a->u_op * (a->generic ? sqrt(partial) : partial) / sum;
        settle(r, &factor, &partial, 1);
        settle(r, s, r->spread, width);
        for (int64_t j = 0; j < width; j++)
            s[j] *= factor;
    }
}

/* t = c I - x */
static void complement(struct ref_nystrom_run *r, double c, const double *x, double *t)
{
    const struct ref_arithmetic *a = arithmetic(r);
    const int64_t m = r->head->segments;
    begin_step(r);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < m; j++) {
            const double y = (i == j ? c : 0.0) - x[i * m + j];
            t[i * m + j] = y;
            r->spread[j] = (a->u_op + a->u_proj) * fabs(y) + a->omega + a->eta_proj;
        }
        settle(r, t + i * m, r->spread, m);
    }
}

static double largest_column(const double *a, int64_t m)
{
    double most = 0;
    for (int64_t j = 0; j < m; j++) {
        double sum = 0;
        for (int64_t i = 0; i < m; i++)
            sum += a[i * m + j];
        most = ref_larger(sum, most);
    }
    return most;
}

/* Z_0 = A^T / norm. A norm of all heads has the errors of another head's A. */
static void start(struct ref_nystrom_run *r)
{
    const struct ref_nystrom_head *s = r->head;
    const struct ref_arithmetic *a = arithmetic(r);
    const int64_t m = s->segments;
    double norm = s->norm > 0.0 || isnan(s->norm) ? s->norm : largest_column(r->a, m);
    double spread = a->u_op * (sqrt((double)m) + 8.0 * sqrt((double)s->dk)) + a->u_p;
    begin_step(r);
    spread *= norm;
    settle(r, &norm, &spread, 1);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < m; j++)
            r->z[i * m + j] = r->a[j * m + i] / norm;
}

/* Z <- Z (13 I - A Z (15 I - A Z (7 I - A Z))) / 4 */
static void improve(struct ref_nystrom_run *r)
{
    const int64_t m = r->head->segments;
    const struct ref_arithmetic *a = arithmetic(r);
    const struct store stored = as_projection(r, fmax(a->u_in, a->u_pv));
    double *z = r->z;
    multiply(r, r->a, r->z, m, m, m, &stored, r->x);
    complement(r, 7.0, r->x, r->t);
    multiply(r, r->x, r->t, m, m, m, &stored, r->y);
    complement(r, 15.0, r->y, r->t);
    multiply(r, r->x, r->t, m, m, m, &stored, r->y);
    complement(r, 13.0, r->y, r->t);
    multiply(r, r->z, r->t, m, m, m, &stored, r->y);
    for (int64_t n = 0; n < m * m; n++)
        r->y[n] *= 0.25;
    r->z = r->y;
    r->y = z;
}

static void landmarks(struct ref_nystrom_run *r)
{
    const struct ref_nystrom_head *s = r->head;
    const int64_t m = s->segments;
    const struct store score = as_score(r);
    average(r, s->q, r->ql);
    average(r, s->k, r->kl);
    ref_transpose(r->kl, m, s->dk, 0, m, r->klt);
    multiply(r, r->ql, r->klt, m, s->dk, m, &score, r->a);
    soften(r, r->a, m, m);
}

double ref_nystrom_norm(struct ref_nystrom_run *r)
{
    landmarks(r);
    return largest_column(r->a, r->head->segments);
}

/* Requested row `n` of out. */
static void finish_row(struct ref_nystrom_run *r, int64_t n)
{
    const struct ref_nystrom_head *s = r->head;
    const int64_t m = s->segments;
    const int64_t i = ref_row_index(s->job, s->first + n) % s->job->operands.problem->sq;
    const struct store score = as_score(r), last = {.factor = 1.0, .u_in = arithmetic(r)->u_pv};
    r->row = (uint32_t)i + 1;
    r->drawn = 0;
    multiply(r, s->q + i * s->dk, r->klt, 1, s->dk, m, &score, r->f + n * m);
    soften(r, r->f + n * m, 1, m);
    multiply(r, r->f + n * m, r->zgv, 1, m, s->dv, &last, r->out + n * s->dv);
}

void ref_nystrom_run(struct ref_nystrom_run *r)
{
    const struct ref_nystrom_head *s = r->head;
    const struct ref_arithmetic *a = arithmetic(r);
    const int64_t m = s->segments;
    const struct store score = as_score(r), stored = as_projection(r, a->u_pv);
    landmarks(r);
    start(r);
    for (int64_t n = 0; n < s->job->operands.problem->iterations; n++)
        improve(r);
    multiply(r, r->ql, s->kt, m, s->dk, s->steps, &score, r->g);
    soften(r, r->g, m, s->steps);
    multiply(r, r->g, s->v, m, s->steps, s->dv, &stored, r->gv);
    multiply(r, r->z, r->gv, m, m, s->dv, &stored, r->zgv);
    for (int64_t n = 0; n < s->rows; n++)
        finish_row(r, n);
}

int64_t ref_nystrom_tape(const struct ref_nystrom_head *s)
{
    const int64_t m = s->segments, n = s->job->operands.problem->iterations;
    const int64_t landmarks = 2 * m * s->dk + 2 * m * m + m + 1;
    int64_t iterated, most;
    if (__builtin_mul_overflow(7 * m * m, n, &iterated) ||
        __builtin_add_overflow(landmarks + 2 * m * s->steps + m + 2 * m * s->dv, iterated, &most))
        return -1;
    return most + s->rows * (2 * m + 1 + s->dv);
}
