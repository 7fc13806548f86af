/* SPDX-License-Identifier: Apache-2.0 */
/* looseness.c - how loose the bound is: a naive kernel in an instrumented arithmetic, where every
 * operation is exact (MPFR) and then rounded to nearest or at random, beside E. Random rounding is
 * stochastic rounding: up or down, with the mean of the exact result. It prints the table of
 * NOTES.md, and fails if an error exceeds E. */
#include <math.h>
#include <mpfr.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference/bound.h"
#include "reference/dtype.h"
#include "reference/tests/made.h"

enum { BITS = 160, RANDOM_RUNS = 5 };

/* The arithmetic: results are rounded to `bits` bits. */
struct machine {
    bool random;
    uint64_t state;
    mpfr_t x, y, z, low, high;
};

static void machine_init(struct machine *m)
{
    mpfr_inits2(BITS, m->x, m->y, m->z, (mpfr_ptr)NULL);
    mpfr_inits2(53, m->low, m->high, (mpfr_ptr)NULL);
}

static void machine_free(struct machine *m)
{
    mpfr_clears(m->x, m->y, m->z, m->low, m->high, (mpfr_ptr)NULL);
}

/* z, rounded to a type; the range of exponents has no limits. */
static double rounded(struct machine *m, uint32_t type)
{
    const int bits = (int)(-log2(attn_dtype_roundoff(type)));
    double low, high, share;

    mpfr_set_prec(m->low, bits);
    mpfr_set_prec(m->high, bits);
    if (!m->random) {
        mpfr_set(m->low, m->z, MPFR_RNDN);
        return mpfr_get_d(m->low, MPFR_RNDN);
    }
    mpfr_set(m->low, m->z, MPFR_RNDD);
    mpfr_set(m->high, m->z, MPFR_RNDU);
    low = mpfr_get_d(m->low, MPFR_RNDN);
    high = mpfr_get_d(m->high, MPFR_RNDN);
    if (low == high)
        return low;
    mpfr_sub(m->z, m->z, m->low, MPFR_RNDN);
    share = mpfr_get_d(m->z, MPFR_RNDN) / (high - low);
    return made_uniform(&m->state) < share ? high : low;
}

static double store(struct machine *m, uint32_t type, double a)
{
    mpfr_set_d(m->z, a, MPFR_RNDN);
    return rounded(m, type);
}

static double two(struct machine *m, uint32_t type, double a, double b,
                  int (*op)(mpfr_ptr, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t))
{
    mpfr_set_d(m->x, a, MPFR_RNDN);
    mpfr_set_d(m->y, b, MPFR_RNDN);
    op(m->z, m->x, m->y, MPFR_RNDN);
    return rounded(m, type);
}

static double one(struct machine *m, uint32_t type, double a,
                  int (*op)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t))
{
    mpfr_set_d(m->x, a, MPFR_RNDN);
    op(m->z, m->x, MPFR_RNDN);
    return rounded(m, type);
}

static double dot(struct machine *m, uint32_t type, const double *a, const double *b, int64_t n)
{
    double s = 0.0;

    for (int64_t c = 0; c < n; c++)
        s = two(m, type, s, two(m, type, a[c], b[c], mpfr_mul), mpfr_add);
    return s;
}

/* What is measured: an operator, its type, that of sums, that of p. */
struct setting {
    const char *name;
    uint32_t op, dtype, acc, p;
    int64_t hq, sq, sk;
};

enum { WIDTH = 64 };

static double *doubles(int64_t count)
{
    double *x = calloc((size_t)count + 1, sizeof(*x));

    if (!x)
        abort();
    return x;
}

static double *load(const struct attn_problem *p, uint32_t role)
{
    const struct attn_tensor *t = attn_tensor_find(p, role);
    double *x = doubles(made_count(t));

    for (int64_t c = 0; c < made_count(t); c++)
        x[c] = made_get(t, c);
    return x;
}

/* y[i, c] = x[i] . w[first + c], stored in the problem's type. */
static void project(struct machine *m, const struct setting *s, const double *x, const double *w,
                    int64_t rows, int64_t in, int64_t first, int64_t out, double *y)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < out; c++)
            y[i * out + c] =
                store(m, s->dtype, dot(m, s->acc, x + i * in, w + (first + c) * in, in));
}

/* One head of attention; out has `stride` elements a row. */
static void attend(struct machine *m, const struct setting *s, const double *q, const double *k,
                   const double *v, double scale, double *out, int64_t stride)
{
    double *p = doubles(s->sk);

    for (int64_t i = 0; i < s->sq; i++) {
        double most = -INFINITY, sum = 0.0;
        for (int64_t j = 0; j < s->sk; j++) {
            p[j] = two(m, s->acc, scale, dot(m, s->acc, q + i * WIDTH, k + j * WIDTH, WIDTH),
                       mpfr_mul);
            most = fmax(most, p[j]);
        }
        for (int64_t j = 0; j < s->sk; j++) {
            p[j] = one(m, s->acc, two(m, s->acc, p[j], most, mpfr_sub), mpfr_exp);
            sum = two(m, s->acc, sum, p[j], mpfr_add);
            p[j] = store(m, s->p, p[j]);
        }
        for (int64_t c = 0; c < WIDTH; c++) {
            double o = 0.0;
            for (int64_t j = 0; j < s->sk; j++)
                o = two(m, s->acc, o, two(m, s->acc, p[j], v[j * WIDTH + c], mpfr_mul), mpfr_add);
            out[i * stride + c] = two(m, s->acc, o, sum, mpfr_div);
        }
    }
    free(p);
}

static void run(struct machine *m, const struct setting *s, const struct attn_problem *p,
                double *out)
{
    const int64_t e = s->hq * WIDTH;
    const double scale = store(m, s->acc, p->scale);

    if (s->op != ATTN_OP_MHA) {
        double *q = load(p, ATTN_Q), *k = load(p, ATTN_K), *v = load(p, ATTN_V);
        attend(m, s, q, k, v, scale, out, WIDTH);
        free(q), free(k), free(v);
        return;
    }
    double *x = load(p, ATTN_X_Q), *heads = doubles(s->sq * e), *part[3], *w[4];
    for (uint32_t t = 0; t < 4; t++)
        w[t] = load(p, ATTN_W_Q + t);
    for (int t = 0; t < 3; t++)
        part[t] = doubles(s->sk * WIDTH);
    for (int64_t h = 0; h < s->hq; h++) {
        for (int t = 0; t < 3; t++)
            project(m, s, x, w[t], s->sk, e, h * WIDTH, WIDTH, part[t]);
        attend(m, s, part[0], part[1], part[2], scale, heads + h * WIDTH, e);
    }
    for (int64_t c = 0; c < s->sq * e; c++)
        heads[c] = store(m, s->dtype, heads[c]);
    for (int64_t i = 0; i < s->sq; i++)
        for (int64_t c = 0; c < ref_output_width(p, 0); c++)
            out[i * ref_output_width(p, 0) + c] = dot(m, s->acc, heads + i * e, w[3] + c * e, e);
    for (int t = 0; t < 3; t++)
        free(part[t]);
    for (int t = 0; t < 4; t++)
        free(w[t]);
    free(x), free(heads);
}

static struct attn_numerics declaration(const struct setting *s)
{
    const double u = attn_dtype_roundoff(s->acc);

    /* Random rounding errs by up to a whole unit in the last place. */
    return (struct attn_numerics){
        .acc_type = s->acc, .p_type = s->p, .denominator = 1, .e_exp = 2.0 * u, .e_log = 2.0 * u};
}

/* E, without the store of out. Returns the root of its mean square. */
static double bound_of(const struct attn_problem *p, const struct attn_numerics *numerics,
                       double *value, double *e)
{
    struct ref_request request = {.numerics = numerics, .threads = 1};
    struct ref_result result = {.output[0].value = value, .output[0].bound = e};
    double sum = 0.0;
    char why[256];
    int64_t count;

    ref_request_all(p, &request);
    if (ref_compute(p, &request, &result, why, sizeof why) != ATTN_OK)
        abort();
    count = ref_output_units(p, 0) * ref_output_width(p, 0);
    for (int64_t x = 0; x < count; x++) {
        e[x] -= 0.5 * attn_dtype_ulp(p->dtype, fabs(value[x]) + e[x]);
        sum += e[x] * e[x];
    }
    return sqrt(sum / (double)count);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The share of E that goes if a part of the declaration does. */
static double share(const struct attn_problem *p, const struct attn_numerics *without, double all,
                    double *value, double *e)
{
    return 100.0 * (1.0 - bound_of(p, without, value, e) / all);
}

static double measure(const struct setting *s)
{
    struct made made;
    struct machine m = {.state = 3};
    const struct attn_numerics numerics = declaration(s);
    struct attn_numerics without[4] = {numerics, numerics, numerics, numerics};
    double ratio[2][2], worst = 0.0;

    made_create(&made, &(struct made_spec){.op = s->op,
                                           .dtype = s->dtype,
                                           .hq = s->hq,
                                           .sq = s->sq,
                                           .sk = s->sk,
                                           .dk = WIDTH,
                                           .seed = 9});
    const struct attn_problem *p = &made.problem;
    const int64_t count = ref_output_units(p, 0) * ref_output_width(p, 0);
    double *value = doubles(count), *e = doubles(count), *out = doubles(count);
    double *all = doubles(count * RANDOM_RUNS), *other = doubles(count);
    const double size = bound_of(p, &numerics, value, e);
    machine_init(&m);
    for (int random = 0; random < 2; random++) {
        const int runs = random ? RANDOM_RUNS : 1;
        m.random = random;
        for (int r = 0; r < runs; r++) {
            run(&m, s, p, out);
            for (int64_t x = 0; x < count; x++)
                all[r * count + x] = fabs(out[x] - value[x]) / e[x];
        }
        qsort(all, (size_t)(count * runs), sizeof(*all), ascending);
        ratio[random][0] = all[count * runs / 2];
        ratio[random][1] = all[count * runs - 1];
        worst = fmax(worst, ratio[random][1]);
    }
    without[0].chain = 1; /* sums over keys do not grow */
    without[1].p_type = s->acc;
    without[2].proj_type = s->acc;
    without[3].e_exp = 0.0;
    printf("| %s | %.4f %.3f | %.4f %.3f |", s->name, ratio[0][0], ratio[0][1], ratio[1][0],
           ratio[1][1]);
    double rest = 100.0;
    for (int t = 0; t < 4; t++) {
        const double part = share(p, &without[t], size, value, other);
        printf(" %.0f |", part);
        rest -= part;
    }
    printf(" %.0f |\n", fmax(rest, 0.0));
    fflush(stdout);
    machine_free(&m);
    made_free(&made);
    free(value), free(e), free(out), free(all), free(other);
    return worst;
}

int main(void)
{
    static const struct setting settings[] = {
        {"attention f32", ATTN_OP_ATTENTION, ATTN_F32, ATTN_F32, ATTN_F32, 1, 4, 512},
        {"attention bf16, p in bf16", ATTN_OP_ATTENTION, ATTN_BF16, ATTN_F32, ATTN_BF16, 1, 4, 512},
        {"attention f16, p in f16", ATTN_OP_ATTENTION, ATTN_F16, ATTN_F32, ATTN_F16, 1, 4, 512},
        {"attention f16, all in f16", ATTN_OP_ATTENTION, ATTN_F16, ATTN_F16, ATTN_F16, 1, 4, 512},
        {"mha f32", ATTN_OP_MHA, ATTN_F32, ATTN_F32, ATTN_F32, 2, 64, 64},
        {"mha f16, p in f16", ATTN_OP_MHA, ATTN_F16, ATTN_F32, ATTN_F16, 2, 64, 64},
        {"mha bf16, p in bf16", ATTN_OP_MHA, ATTN_BF16, ATTN_F32, ATTN_BF16, 2, 64, 64},
    };
    int failures = 0;

    printf(
        "| | nearest: median, largest | random: median, largest | sums over keys | stored p | "
        "stored projections | exp | scores and the rest |\n|---|---|---|---:|---:|---:|---:|---:|"
        "\n");
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++)
        failures += !(measure(&settings[s]) <= 1.0);
    mpfr_free_cache();
    return failures > 0;
}
