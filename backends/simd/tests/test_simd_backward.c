/* SPDX-License-Identifier: Apache-2.0 */
/* test_simd_backward.c - gradients against their definition in double, with tiles so small that
 * every problem has many, and the same bits for any number of threads. cases/backward.cases has
 * what the harness judges. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../tests/problem.h"

enum { WITH_ALL = WITH_BIAS | WITH_ALIBI | WITH_SINK, MOST_THREADS = 5 };

static const struct test_spec specs[] = {
    {.name = "plain", .hq = 2, .sq = 33, .sk = 49, .dq = 20, .dv = 33},
    {.name = "one of each", .b = 1, .sq = 1, .sk = 1, .dq = 1},
    {.name = "wide", .b = 1, .sq = 13, .sk = 35, .dq = 150, .dv = 70},
    {.name = "causal, groups",
     .hq = 4,
     .hkv = 2,
     .sq = 40,
     .sk = 40,
     .dq = 16,
     .flags = ATTN_FLAG_CAUSAL},
    {.name = "other corner, fewer keys",
     .hq = 2,
     .sq = 50,
     .sk = 20,
     .dq = 17,
     .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR},
    {.name = "window",
     .hq = 2,
     .sq = 70,
     .sk = 60,
     .dq = 8,
     .left = 9,
     .right = 2,
     .flags = ATTN_FLAG_WINDOW},
    {.name = "length a row, keys that nobody sees",
     .sq = 20,
     .sk = 40,
     .dq = 8,
     .flags = ATTN_FLAG_CAUSAL,
     .with = WITH_LEN_2D | WITH_POISON},
    {.name = "mask", .hq = 3, .sq = 25, .sk = 38, .dq = 8, .dv = 5, .with = WITH_MASK | WITH_GAPS},
    {.name = "all",
     .hq = 4,
     .hkv = 2,
     .sq = 30,
     .sk = 41,
     .dq = 12,
     .softcap = 1.5,
     .dropout_p = 0.3,
     .flags = ATTN_FLAG_SOFTCAP | ATTN_FLAG_DROPOUT | ATTN_FLAG_CAUSAL,
     .off = 8,
     .with = WITH_ALL | WITH_KEEP | WITH_MASK | WITH_LEN | WITH_BSHD},
    {.name = "all heads, no batch in the bias",
     .hq = 2,
     .hkv = 1,
     .sq = 9,
     .sk = 41,
     .dq = 12,
     .with = WITH_ALL | WITH_BHDS},
    {.name = "a bias for all rows",
     .hq = 2,
     .hkv = 1,
     .sq = 20,
     .sk = 41,
     .dq = 12,
     .with = WITH_BIAS,
     .variant = 1},
    {.name = "negative scale",
     .sq = 9,
     .sk = 20,
     .dq = 6,
     .scale = -0.4,
     .flags = ATTN_FLAG_CAUSAL},
};

/* ---- A problem of gradients from one of attention ---- */

static struct attn_tensor *add(struct test_problem *made, uint32_t role,
                               const struct attn_tensor *like)
{
    const uint32_t t = made->problem.n_tensors++;
    struct attn_tensor *x = &made->tensors[t];
    size_t elements = 1;
    assert_true(t < TEST_TENSORS);
    *x = *like;
    x->role = role;
    for (uint32_t a = x->rank; a-- > 0; elements *= (size_t)x->shape[a]) {
        if (role == ATTN_GRAD_BIAS && like->stride[a] == 0)
            x->shape[a] = 1;
        x->stride[a] = (int64_t)elements;
    }
    made->bytes[t] = elements * sizeof(float);
    x->data = calloc(elements, sizeof(float));
    assert_non_null(x->data);
    return x;
}

static const struct attn_tensor *find(const struct test_problem *made, uint32_t role)
{
    return attn_tensor_find(&made->problem, role);
}

/* OUT and LSE by the oracle. */
static void derive(const struct test_problem *made)
{
    const struct attn_problem *p = &made->problem;
    double *row = calloc((size_t)(p->dv + p->sk), sizeof *row);
    assert_non_null(row);
    for (int64_t n = 0; n < p->b * p->hq * p->sq; n++) {
        const int64_t at[] = {n / p->sq / p->hq, n / p->sq % p->hq, n % p->sq};
        test_set(find(made, ATTN_LSE), at,
                 test_oracle_row(p, at[0], at[1], at[2], row, row + p->dv));
        for (int64_t c = 0; c < p->dv; c++)
            test_set(find(made, ATTN_OUT), (int64_t[]){at[0], at[1], at[2], c}, row[c]);
    }
    free(row);
}

/* One element of an operand that is NaN; of no operand if the role is 0. */
struct change {
    uint32_t role;
    int64_t at[4];
};

static void apply(const struct test_problem *made, const struct change *change)
{
    if (find(made, change->role))
        test_set(find(made, change->role), change->at, NAN);
}

/* Broadcasts the bias over batches, heads and queries. */
static void widen_bias(struct test_problem *made)
{
    for (uint32_t t = 0; t < made->problem.n_tensors; t++)
        for (uint32_t a = 0; made->tensors[t].role == ATTN_BIAS && a < 3; a++)
            made->tensors[t].stride[a] = 0;
}

/* dO is random; every gradient that the operands have is asked for. `variant` 1: widen_bias. */
static void make(const struct test_spec *spec, const struct change *change,
                 struct test_problem *made)
{
    struct test_spec forward = *spec;
    struct attn_problem *p = &made->problem;
    forward.with |= WITH_LSE;
    forward.variant = 0;
    test_problem_make(&forward, made);
    if (spec->variant)
        widen_bias(made);
    apply(made, change);
    derive(made);
    struct attn_tensor *dout = add(made, ATTN_GRAD_OUT, find(made, ATTN_OUT));
    for (size_t n = 0; n < made->bytes[p->n_tensors - 1] / sizeof(float); n++)
        ((float *)dout->data)[n] = (float)(n * 7919 % 1009) / 500 - 1;
    const uint32_t pairs[][2] = {{ATTN_Q, ATTN_GRAD_Q},       {ATTN_K, ATTN_GRAD_K},
                                 {ATTN_V, ATTN_GRAD_V},       {ATTN_BIAS, ATTN_GRAD_BIAS},
                                 {ATTN_SINK, ATTN_GRAD_SINK}, {ATTN_ALIBI, ATTN_GRAD_ALIBI}};
    for (size_t n = 0; n < sizeof pairs / sizeof *pairs; n++)
        if (find(made, pairs[n][0]))
            add(made, pairs[n][1], find(made, pairs[n][0]));
    apply(made, change);
    p->op = ATTN_OP_ATTENTION_BACKWARD;
}

static bool is_gradient(uint32_t role)
{
    return role >= ATTN_GRAD_Q && role <= ATTN_GRAD_ALIBI;
}

/* ---- The definition ---- */

/* Sums of one output, and what they would be without signs. */
struct sums {
    double *value, *size;
};

struct wanted {
    const struct test_problem *made;
    struct sums of[TEST_TENSORS]; /* by tensor */
    double *p, *dp, *cap;         /* [Sk] of a row; cap: the derivative of softcap */
};

static void add_to(struct wanted *w, uint32_t role, const int64_t *idx, double x, double size)
{
    for (uint32_t t = 0; t < w->made->problem.n_tensors; t++) {
        const struct attn_tensor *to = &w->made->tensors[t];
        int64_t at = 0;
        if (to->role != role)
            continue;
        for (uint32_t a = 0; a < to->rank; a++)
            at += to->shape[a] > 1 ? idx[a] * to->stride[a] : 0;
        w->of[t].value[at] += x;
        w->of[t].size[at] += size;
    }
}

static double element(const struct wanted *w, uint32_t role, int64_t b, int64_t h, int64_t i,
                      int64_t c)
{
    return test_at(find(w->made, role), (int64_t[]){b, h, i, c});
}

static bool allowed(const struct wanted *w, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return test_allowed(&w->made->problem, b, h, i, j) &&
           !(find(w->made, ATTN_BIAS) && element(w, ATTN_BIAS, b, h, i, j) == -INFINITY);
}

static double kappa(const struct wanted *w, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct attn_problem *p = &w->made->problem;
    if (!(p->flags & ATTN_FLAG_DROPOUT))
        return 1;
    return element(w, ATTN_KEEP, b, h, i, j) != 0 ? 1 / (1 - p->dropout_p) : 0;
}

/* What a cell adds. `far`: the sum of p |dP| of the row. */
static void add_cell(struct wanted *w, const int64_t *at, int64_t j, double delta, double far)
{
    const struct attn_problem *p = &w->made->problem;
    const int64_t b = at[0], h = at[1], i = at[2], g = h / (p->hq / p->hkv);
    const double ds = w->p[j] * (w->dp[j] - delta), size = w->p[j] * (fabs(w->dp[j]) + far);
    const double dz = ds * w->cap[j] * p->scale, dz_size = size * fabs(p->scale);
    const double weight = w->p[j] * kappa(w, b, h, i, j);
    const double off = (double)(p->flags & ATTN_FLAG_OFF_BR ? p->sk - p->sq : p->off);
    const double apart = fabs((double)i + off - (double)j);
    for (int64_t c = 0; c < p->dk; c++) {
        const double q = element(w, ATTN_Q, b, h, i, c), k = element(w, ATTN_K, b, g, j, c);
        add_to(w, ATTN_GRAD_Q, (int64_t[]){b, h, i, c}, dz * k, dz_size * fabs(k));
        add_to(w, ATTN_GRAD_K, (int64_t[]){b, g, j, c}, dz * q, dz_size * fabs(q));
    }
    for (int64_t c = 0; c < p->dv; c++) {
        const double x = weight * element(w, ATTN_GRAD_OUT, b, h, i, c);
        add_to(w, ATTN_GRAD_V, (int64_t[]){b, g, j, c}, x, fabs(x));
    }
    add_to(w, ATTN_GRAD_BIAS, (int64_t[]){b, h, i, j}, ds, size);
    add_to(w, ATTN_GRAD_ALIBI, &h, -ds * apart, size * apart);
}

static void add_row(struct wanted *w, const int64_t *at, double *out)
{
    const struct attn_problem *p = &w->made->problem;
    const int64_t b = at[0], h = at[1], i = at[2], g = h / (p->hq / p->hkv);
    const double lse = test_oracle_row(p, b, h, i, out, w->p);
    double delta = 0, far = 0;
    int64_t seen = 0;
    for (int64_t j = 0; j < p->sk; j++) {
        double dot = 0;
        w->dp[j] = 0;
        w->cap[j] = 1;
        if (!allowed(w, b, h, i, j))
            continue;
        seen++;
        for (int64_t c = 0; kappa(w, b, h, i, j) > 0 && c < p->dv; c++)
            w->dp[j] += kappa(w, b, h, i, j) * element(w, ATTN_GRAD_OUT, b, h, i, c) *
                        element(w, ATTN_V, b, g, j, c);
        for (int64_t c = 0; c < p->dk; c++)
            dot += element(w, ATTN_Q, b, h, i, c) * element(w, ATTN_K, b, g, j, c);
        if (p->flags & ATTN_FLAG_SOFTCAP)
            w->cap[j] = 1 - pow(tanh(dot * p->scale / p->softcap), 2);
        delta += w->p[j] * w->dp[j];
        far += w->p[j] * fabs(w->dp[j]);
    }
    for (int64_t j = 0; j < p->sk; j++)
        if (allowed(w, b, h, i, j))
            add_cell(w, at, j, delta, far);
    if (find(w->made, ATTN_SINK) && seen > 0) {
        const double own = exp(test_at(find(w->made, ATTN_SINK), &h) - lse);
        add_to(w, ATTN_GRAD_SINK, &h, -own * delta, own * far);
    }
}

static struct wanted differentiate(const struct test_problem *made)
{
    const struct attn_problem *p = &made->problem;
    struct wanted w = {.made = made};
    double *room = calloc((size_t)(3 * p->sk + p->dv), sizeof *room);
    assert_non_null(room);
    w.p = room;
    w.dp = room + p->sk;
    w.cap = w.dp + p->sk;
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        w.of[t].value = calloc(made->bytes[t] / sizeof(float) + 1, sizeof(double));
        w.of[t].size = calloc(made->bytes[t] / sizeof(float) + 1, sizeof(double));
        assert_true(w.of[t].value && w.of[t].size);
    }
    for (int64_t n = 0; n < p->b * p->hq * p->sq; n++)
        add_row(&w, (int64_t[]){n / p->sq / p->hq, n / p->sq % p->hq, n % p->sq}, w.cap + p->sk);
    free(room);
    return w;
}

static void wanted_free(struct wanted *w)
{
    for (uint32_t t = 0; t < TEST_TENSORS; t++) {
        free(w->of[t].value);
        free(w->of[t].size);
    }
}

/* OUT and LSE are rounded: 2^-24 of |dO| |OUT| and of a score. */
static void check(const struct test_spec *spec, const struct wanted *w)
{
    for (uint32_t t = 0; t < w->made->problem.n_tensors; t++) {
        const struct attn_tensor *x = &w->made->tensors[t];
        for (size_t n = 0; is_gradient(x->role) && n < w->made->bytes[t] / sizeof(float); n++) {
            const double got = (double)((const float *)x->data)[n], want = w->of[t].value[n];
            if (isnan(want) ? !isnan(got) : !(fabs(got - want) <= 1e-5 * w->of[t].size[n]))
                fail_msg("%s: role %u at %zu: %.9g, expected %.9g (of %g)", spec->name, x->role, n,
                         got, want, w->of[t].size[n]);
        }
    }
}

/* ---- The runs ---- */

static void prime(struct test_problem *made)
{
    for (uint32_t t = 0; t < made->problem.n_tensors; t++)
        if (is_gradient(made->tensors[t].role))
            memset(made->tensors[t].data, TEST_NAN_BYTE, made->bytes[t]);
}

static void run(const struct attn_backend *backend, struct test_problem *made, uint32_t threads,
                const char *keys, const char *rows)
{
    const struct attn_option options[] = {{"key_block", keys}, {"item_rows", rows}};
    struct attn_services services = test_services_make(threads, &test_memory);
    void *plan = NULL, *binding = NULL;
    char why[256] = "";
    services.options = options;
    services.n_options = 2;
    test_memory.live = 0;
    made->problem.tensors = made->tensors;
    if (backend->supports(&made->problem, &services, why, sizeof why) != ATTN_OK)
        fail_msg("supports refuses: %s", why);
    assert_int_equal(backend->create(&made->problem, &services, &plan, why, sizeof why), ATTN_OK);
    assert_int_equal(
        backend->bind(plan, made->tensors, made->problem.n_tensors, &binding, why, sizeof why),
        ATTN_OK);
    for (int again = 0; again < 2; again++) {
        prime(made);
        assert_int_equal(backend->run(binding, why, sizeof why), ATTN_OK);
    }
    backend->release(binding);
    backend->destroy(plan);
    assert_int_equal(test_memory.live, 0);
}

/* With tiles by cache size, and with many small ones on more threads. */
static void run_and_check(const struct attn_backend *backend, const struct test_spec *spec,
                          const struct change *change)
{
    struct test_problem made;
    print_message("%s, role %u\n", spec->name, change->role);
    make(spec, change, &made);
    struct wanted w = differentiate(&made);
    run(backend, &made, 1, "0", "0");
    check(spec, &w);
    run(backend, &made, 3, "16", "6");
    check(spec, &w);
    wanted_free(&w);
    test_problem_free(&made);
}

static void matches_the_definition(void **state)
{
    for (size_t n = 0; n < sizeof specs / sizeof *specs; n++)
        run_and_check(*state, &specs[n], &(struct change){0});
}

/* Some rows see the element, others of the same tiles do not: 0 * NaN must not reach these. Rows 0
 * and 1 see no key. */
static void spreads_nan_to_what_sees_it(void **state)
{
    static const struct change changes[] = {
        {ATTN_Q, {0, 1, 11, 3}},        {ATTN_K, {0, 0, 12, 3}},       {ATTN_V, {0, 0, 12, 3}},
        {ATTN_GRAD_OUT, {0, 1, 11, 3}}, {ATTN_GRAD_OUT, {0, 1, 0, 3}}, {ATTN_Q, {0, 0, 1, 3}}};
    const struct test_spec spec = {.name = "not finite",
                                   .b = 1,
                                   .hq = 2,
                                   .hkv = 1,
                                   .sq = 24,
                                   .sk = 24,
                                   .dq = 8,
                                   .off = -2,
                                   .left = 15,
                                   .right = 0,
                                   .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW};
    for (size_t n = 0; n < sizeof changes / sizeof *changes; n++)
        run_and_check(*state, &spec, &changes[n]);
}

/* Units of a head wait for each other, and heads for the room of those before them. */
static void repeat(const struct attn_backend *backend, const struct test_spec *spec)
{
    unsigned char *first[TEST_TENSORS] = {0};
    struct test_problem made;
    make(spec, &(struct change){0}, &made);
    for (uint32_t trial = 0; trial < 4 * MOST_THREADS; trial++) {
        run(backend, &made, 1 + trial % MOST_THREADS, "16", "12");
        for (uint32_t t = 0; t < made.problem.n_tensors; t++) {
            if (trial > 0) {
                assert_memory_equal(first[t], made.tensors[t].data, made.bytes[t]);
                continue;
            }
            first[t] = malloc(made.bytes[t]);
            assert_non_null(first[t]);
            memcpy(first[t], made.tensors[t].data, made.bytes[t]);
        }
    }
    for (uint32_t t = 0; t < made.problem.n_tensors; t++)
        free(first[t]);
    test_problem_free(&made);
}

/* Batches add to the same dbias in the last two. */
static void threads_change_no_bit(void **state)
{
    struct test_spec spec = {.name = "threads",
                             .b = 4,
                             .hq = 6,
                             .hkv = 3,
                             .sq = 61,
                             .sk = 90,
                             .dq = 16,
                             .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR,
                             .with = WITH_ALIBI | WITH_SINK | WITH_LEN};
    repeat(*state, &spec);
    spec.with = WITH_BIAS;
    repeat(*state, &spec);
    spec.hkv = spec.variant = 1;
    repeat(*state, &spec);
}

static void refuses_what_has_no_gradient(void **state)
{
    const struct attn_backend *backend = *state;
    const struct test_spec spec = {.name = "refused", .sq = 3, .sk = 5, .dq = 8};
    struct test_problem made;
    make(&spec, &(struct change){0}, &made);
    made.problem.score = ATTN_SCORE_GAUSSIAN;
    test_problem_refused(backend, &made.problem);
    made.problem.score = ATTN_SCORE_DOT;
    made.problem.flags = ATTN_FLAG_WEIGHT;
    made.problem.weight_fn = ATTN_WEIGHT_SIGMOID;
    test_problem_refused(backend, &made.problem);
    test_problem_free(&made);
}

/* Tests all rungs of floats that this machine has. */
int main(void)
{
    char why[256];
    int failed = 0;
    for (uint32_t n = 0; n < attn_plugin.n_backends; n++) {
        const struct attn_backend *backend = attn_plugin.backends[n];
        const bool floats =
            strcmp(backend->name, "avx2") == 0 || strcmp(backend->name, "avx512") == 0;
        void *state = (void *)(uintptr_t)backend;
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(matches_the_definition, state),
            cmocka_unit_test_prestate(spreads_nan_to_what_sees_it, state),
            cmocka_unit_test_prestate(threads_change_no_bit, state),
            cmocka_unit_test_prestate(refuses_what_has_no_gradient, state),
        };
        if (floats && backend->probe(&test_services, why, sizeof why) == ATTN_OK)
            failed += cmocka_run_group_tests_name(backend->name, tests, NULL, NULL);
    }
    return failed;
}
