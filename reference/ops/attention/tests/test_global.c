/* SPDX-License-Identifier: Apache-2.0 */
/* test_global.c - global tokens, dilated windows, and projections of global rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/operands.h"
#include "reference/tests/kernels.h"
#include "reference/tests/results.h"

enum { SEEDS = 40 };

static const struct made_spec usual = {.b = 2,
                                       .hq = 4,
                                       .hkv = 2,
                                       .sq = 19,
                                       .dk = 5,
                                       .dv = 3,
                                       .features = MADE_WINDOW | MADE_GLOBAL | MADE_DILATION};

/* The definition, word by word. */
static bool is_seen(struct made *m, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct attn_problem *p = &m->problem;
    const struct attn_tensor *len = attn_tensor_find(p, ATTN_LEN);
    const struct attn_tensor *mask = attn_tensor_find(p, ATTN_MASK);
    const struct attn_tensor *global = attn_tensor_find(p, ATTN_GLOBAL);
    const struct attn_tensor *dilation = attn_tensor_find(p, ATTN_DILATION);
    const int64_t valid = !len             ? p->sk
                          : len->rank == 2 ? (int64_t)made_get(len, b * p->sq + i)
                                           : (int64_t)made_get(len, b);
    const int64_t off = p->flags & ATTN_FLAG_OFF_BR ? valid - p->sq : p->off;
    const int64_t far = i + off - j, d = dilation ? (int64_t)made_get(dilation, h) : 1;
    bool window = true;

    if (j >= valid || ((p->flags & ATTN_FLAG_CAUSAL) && far < 0))
        return false;
    if (mask && made_get(mask, ((b * p->hq + h) * p->sq + i) * p->sk + j) == 0.0)
        return false;
    if (p->flags & ATTN_FLAG_WINDOW)
        window = (p->window_left < 0 || far <= p->window_left * d) &&
                 (p->window_right < 0 || -far <= p->window_right * d) && far % d == 0;
    return window || (global && (made_get(global, b * p->sk + i) != 0.0 ||
                                 made_get(global, b * p->sk + j) != 0.0));
}

/* Other windows and offsets than those of made.c. */
static void vary(struct made *m, uint64_t seed)
{
    static const int64_t sides[] = {-1, 0, 1, 2, 3, 30, INT64_C(1) << 60};

    m->problem.window_left = sides[seed % 7];
    m->problem.window_right = sides[seed / 7 % 7];
    if (seed % 5 == 0)
        m->problem.off = (int64_t)(seed % 11) - 5;
}

/* Rows listed run by run, cells asked one by one, and their count. */
static void sight_is_the_definition(void **state)
{
    static const int features[] = {0,
                                   MADE_CAUSAL,
                                   MADE_LEN,
                                   MADE_LEN2D,
                                   MADE_BR | MADE_LEN | MADE_CAUSAL,
                                   MADE_MASK | MADE_LEN};

    (void)state;
    for (uint64_t seed = 0; seed < 6 * SEEDS; seed++) {
        struct made_spec spec = usual;
        struct ref_operands operands;
        struct made m;
        int64_t all = 0;
        spec.seed = seed;
        spec.features = features[seed % 6] | (seed % 3 ? usual.features : MADE_WINDOW) |
                        (seed % 4 ? 0 : MADE_GLOBAL);
        made_create(&m, &spec);
        vary(&m, seed);
        ref_operands_init(&operands, &m.problem);
        for (int64_t row = 0; row < 2 * 4 * 19; row++) {
            const int64_t b = row / 76, h = row / 19 % 4, i = row % 19;
            struct ref_sight sight;
            struct ref_run run;
            bool listed[19] = {false};
            int64_t last = -1;
            ref_sight_of(&operands, b, h, i, &sight);
            for (int64_t from = 0; ref_sight_next(&sight, from, &run); from = run.end)
                for (int64_t j = run.begin; j < run.end; j += run.step) {
                    assert_true(j > last && j < 19);
                    listed[last = j] = true;
                }
            for (int64_t j = 0; j < 19; j++) {
                const bool seen = is_seen(&m, b, h, i, j);
                assert_int_equal(ref_allowed(&m.problem, b, h, i, j), seen);
                if (spec.features & MADE_MASK)
                    assert_true(listed[j] || !seen);
                else
                    assert_int_equal(listed[j], seen);
                all += seen;
            }
        }
        assert_int_equal(ref_count_allowed(&m.problem), all);
        made_free(&m);
    }
}

/* Counted on paper. Six tokens, a window of one to each side, token 4 is global: 2+3+3+3+6+2, and 4
 * is seen by 0, 1 and 2. Steps of two: 2+2+3+3+6+2, and 4 is seen by 0, 1, 3 and 5. */
static void known_counts(void **state)
{
    (void)state;
    for (int steps = 1; steps <= 2; steps++) {
        struct made m;
        made_create(&m, &(struct made_spec){.sq = 6,
                                            .dk = 1,
                                            .features = MADE_WINDOW | MADE_GLOBAL | MADE_DILATION});
        m.problem.window_left = m.problem.window_right = 1;
        made_set(made_tensor(&m, ATTN_DILATION), 0, steps);
        for (int64_t j = 0; j < 6; j++)
            made_set(made_tensor(&m, ATTN_GLOBAL), j, j == 4);
        assert_int_equal(ref_count_allowed(&m.problem),
                         steps == 1 ? 2 + 3 + 3 + 3 + 6 + 2 + 3 : 2 + 2 + 3 + 3 + 6 + 2 + 4);
        made_free(&m);
    }
}

/* The sizes of a long document: nothing here may take time or memory by the square of them. */
static void long_rows_are_counted(void **state)
{
    enum { TOKENS = 16384, SIDE = 256, GLOBAL = 16 };
    struct made m;
    int64_t cells = 0;

    (void)state;
    made_create(&m,
                &(struct made_spec){.sq = TOKENS, .dk = 1, .features = MADE_WINDOW | MADE_GLOBAL});
    m.problem.window_left = m.problem.window_right = SIDE;
    for (int64_t j = 0; j < TOKENS; j++)
        made_set(made_tensor(&m, ATTN_GLOBAL), j, j < GLOBAL);
    for (int64_t i = GLOBAL; i < TOKENS; i++) {
        const int64_t begin = i - SIDE > 0 ? i - SIDE : 0;
        cells += (i + SIDE + 1 < TOKENS ? i + SIDE + 1 : TOKENS) - begin;
        cells += begin < GLOBAL ? begin : GLOBAL;
    }
    assert_int_equal(ref_count_allowed(&m.problem), cells + GLOBAL * TOKENS);
    made_free(&m);
}

static void drop(struct made *m, uint32_t role)
{
    struct attn_tensor *t = made_tensor(m, role);

    free(t->data);
    *t = m->tensors[--m->problem.n_tensors];
}

/* Without scores: then only the cells that a row sees are computed. */
static void compute(struct made *m, struct results *r)
{
    struct ref_request request = {.numerics = &results_f32, .threads = 1};
    struct ref_result result = {
        .output = {{r->out, r->out_bound}, {r->lse, r->lse_bound}, {r->weights, r->weights_bound}},
        .allowed = r->allowed};
    char why[256];

    memset(r, 0, sizeof(*r));
    ref_request_all(&m->problem, &request);
    if (ref_compute(&m->problem, &request, &result, why, sizeof(why)) != ATTN_OK)
        fail_msg("%s", why);
}

/* With scores, which are computed of every cell. */
static void compute_all(struct made *m, struct results *r)
{
    memset(r, 0, sizeof(*r));
    results_compute(m, &results_f32, r);
}

/* Everything but the scores of cells that are not allowed, to the bit. */
static void assert_same(const struct made *m, const struct results *a, const struct results *b)
{
    const struct attn_problem *p = &m->problem;
    const size_t rows = (size_t)(p->b * p->hq * p->sq);

    assert_memory_equal(a->out, b->out, rows * (size_t)p->dv * sizeof(double));
    assert_memory_equal(a->out_bound, b->out_bound, rows * (size_t)p->dv * sizeof(double));
    assert_memory_equal(a->lse, b->lse, rows * sizeof(double));
    assert_memory_equal(a->lse_bound, b->lse_bound, rows * sizeof(double));
    assert_memory_equal(a->weights, b->weights, rows * (size_t)p->sk * sizeof(double));
    assert_memory_equal(a->weights_bound, b->weights_bound, rows * (size_t)p->sk * sizeof(double));
    assert_memory_equal(a->allowed, b->allowed, rows * sizeof(int64_t));
}

/* A boolean mask of every cell that says the same. */
static void a_mask_says_the_same(void **state)
{
    static const int features[] = {MADE_MASK, MADE_MASK | MADE_CAUSAL | MADE_BIAS | MADE_SINK,
                                   MADE_MASK | MADE_LEN | MADE_ALIBI | MADE_SOFTCAP,
                                   MADE_MASK | MADE_LEN2D | MADE_PHILOX,
                                   MADE_MASK | MADE_KEEP | MADE_CAUSAL | MADE_BR};
    static struct results a, b;

    (void)state;
    for (uint64_t seed = 0; seed < 5 * SEEDS; seed++) {
        struct made_spec spec = usual;
        struct made m;
        spec.seed = seed;
        spec.features |= features[seed % 5];
        spec.score = (uint32_t)(1 + seed % 5);
        spec.dtype = (uint32_t)(1 + seed / 5 % 4);
        made_create(&m, &spec);
        vary(&m, seed);
        compute(&m, &a);
        compute_all(&m, &b);
        assert_same(&m, &a, &b);
        for (int64_t cell = 0; cell < 2 * 4 * 19 * 19; cell++) {
            const int64_t row = cell / 19;
            made_set(made_tensor(&m, ATTN_MASK), cell,
                     is_seen(&m, row / 76, row / 19 % 4, row % 19, cell % 19));
        }
        m.problem.flags &= ~(uint64_t)ATTN_FLAG_WINDOW;
        drop(&m, ATTN_GLOBAL);
        drop(&m, ATTN_DILATION);
        compute(&m, &b);
        assert_same(&m, &a, &b);
        made_free(&m);
    }
}

/* All tokens global: as without a window. No token global and steps of one key: as without both. */
static void identities(void **state)
{
    static struct results a, b;

    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (int all = 0; all < 2; all++) {
            struct made_spec spec = usual;
            struct made m;
            spec.seed = seed;
            spec.features |= seed % 2 ? MADE_CAUSAL : MADE_LEN;
            made_create(&m, &spec);
            for (int64_t j = 0; j < 2 * 19; j++)
                made_set(made_tensor(&m, ATTN_GLOBAL), j, all);
            for (int64_t h = 0; h < 4 && !all; h++)
                made_set(made_tensor(&m, ATTN_DILATION), h, 1);
            compute(&m, &a);
            drop(&m, ATTN_GLOBAL);
            drop(&m, ATTN_DILATION);
            if (all)
                m.problem.flags &= ~(uint64_t)ATTN_FLAG_WINDOW;
            compute(&m, &b);
            assert_same(&m, &a, &b);
            made_free(&m);
        }
}

/* Copies row (b,h,i) of every result. */
static void take_row(const struct attn_problem *p, int64_t row, const struct results *from,
                     struct results *to)
{
    const size_t dv = (size_t)p->dv, sk = (size_t)p->sk;

    memcpy(to->out + row * p->dv, from->out + row * p->dv, dv * sizeof(double));
    memcpy(to->out_bound + row * p->dv, from->out_bound + row * p->dv, dv * sizeof(double));
    memcpy(to->weights + row * p->sk, from->weights + row * p->sk, sk * sizeof(double));
    memcpy(to->weights_bound + row * p->sk, from->weights_bound + row * p->sk, sk * sizeof(double));
    to->lse[row] = from->lse[row];
    to->lse_bound[row] = from->lse_bound[row];
    to->allowed[row] = from->allowed[row];
}

static void exchange(struct made *m, uint32_t one, uint32_t other)
{
    struct attn_tensor *a = made_tensor(m, one), *b = made_tensor(m, other);
    void *data = a->data;

    a->data = b->data;
    b->data = data;
}

/* Global rows are those of a problem with q_global, k_global and v_global as q, k and v; others are
 * those without. What nobody may read holds NaN. */
static void global_rows_have_their_own_operands(void **state)
{
    static const uint32_t roles[][2] = {
        {ATTN_Q, ATTN_Q_GLOBAL}, {ATTN_K, ATTN_K_GLOBAL}, {ATTN_V, ATTN_V_GLOBAL}};
    static struct results own, local, global;

    (void)state;
    for (uint64_t seed = 0; seed < 5 * SEEDS; seed++) {
        struct made_spec spec = usual;
        struct made m;
        spec.seed = seed;
        spec.score = (uint32_t)(1 + seed % 5);
        spec.features |= MADE_PROJECTED | (seed % 3 ? MADE_LEN : MADE_CAUSAL);
        made_create(&m, &spec);
        for (int64_t j = 0; j < 19 && seed % 4 == 0; j++)
            made_set(made_tensor(&m, ATTN_GLOBAL), 19 + j, 0); /* none in batch 1 */
        const struct attn_tensor *tokens = made_tensor(&m, ATTN_GLOBAL);
        compute(&m, &local);
        for (int64_t row = 0; row < 2 * 4 * 19; row++)
            for (int64_t c = 0; c < 5; c++) {
                const bool is = made_get(tokens, row / 76 * 19 + row % 19) != 0.0;
                made_set(made_tensor(&m, is ? ATTN_Q : ATTN_Q_GLOBAL), row * 5 + c, (double)NAN);
            }
        for (int64_t x = 2 * 19; x < 2 * 2 * 19 && seed % 4 == 0; x++) {
            made_set(made_tensor(&m, ATTN_K_GLOBAL), x * 5, (double)NAN);
            made_set(made_tensor(&m, ATTN_V_GLOBAL), x * 3, (double)NAN);
        }
        compute(&m, &own);
        assert_same(&m, &own, &local);
        made_free(&m);
        made_create(&m, &spec);
        for (int64_t j = 0; j < 19 && seed % 4 == 0; j++)
            made_set(made_tensor(&m, ATTN_GLOBAL), 19 + j, 0);
        for (int n = 0; n < 3; n++)
            exchange(&m, roles[n][0], roles[n][1]);
        struct made plain = m;
        plain.problem.tensors = plain.tensors;
        plain.problem.n_tensors -= 3; /* q_global, k_global and v_global come last */
        compute(&plain, &global);
        for (int n = 0; n < 3; n++)
            exchange(&m, roles[n][0], roles[n][1]);
        plain = m;
        plain.problem.tensors = plain.tensors;
        plain.problem.n_tensors -= 3;
        compute(&plain, &local);
        tokens = made_tensor(&m, ATTN_GLOBAL);
        for (int64_t row = 0; row < 2 * 4 * 19; row++)
            if (made_get(tokens, row / 76 * 19 + row % 19) != 0.0)
                take_row(&m.problem, row, &global, &local);
        assert_same(&m, &own, &local);
        made_free(&m);
    }
}

/* ---- the bound ---- */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Kernels that round every operation stay within the bound. */
static void the_bound_holds(void **state)
{
    static const struct kernel kernels[] = {
        {.name = "f32, tiles of 4", .acc = ATTN_F32, .tile = 4},
        {.name = "f32, normalised", .acc = ATTN_F32, .normalised = true},
        {.name = "f16 in f32", .acc = ATTN_F32, .p_type = ATTN_F16, .tile = 8},
        {.name = "bf16 in f32", .acc = ATTN_F32, .p_type = ATTN_BF16, .tile = 8},
        {.name = "bf16", .acc = ATTN_BF16, .tile = 8}};
    static const uint32_t types[] = {ATTN_F32, ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_BF16};
    enum { CASES = 60, ROWS = 2 * 31 };
    static double got[3][ROWS * 31], worst[CASES];
    static struct results r;

    (void)state;
    for (size_t k = 0; k < sizeof(kernels) / sizeof(*kernels); k++) {
        const struct attn_numerics numerics = kernel_numerics(&kernels[k]);
        for (uint64_t seed = 0; seed < CASES; seed++) {
            struct made_spec spec = {.hq = 2, .sq = 31, .dk = 8, .dtype = types[k], .seed = seed};
            struct made m;
            spec.features =
                usual.features | (seed % 3 ? MADE_CAUSAL : 0) | (seed % 4 ? 0 : MADE_SINK);
            made_create(&m, &spec);
            memset(got, 0, sizeof(got));
            kernel_run(&kernels[k], &m, got[0], got[1], got[2]);
            memset(&r, 0, sizeof(r));
            results_compute(&m, &numerics, &r);
            worst[seed] = 0.0;
            for (int64_t x = 0; x < ROWS * 8; x++) {
                if (got[0][x] != r.out[x])
                    worst[seed] = fmax(worst[seed], fabs(got[0][x] - r.out[x]) / r.out_bound[x]);
            }
            for (int64_t x = 0; x < ROWS; x++)
                if (got[1][x] != r.lse[x])
                    worst[seed] = fmax(worst[seed], fabs(got[1][x] - r.lse[x]) / r.lse_bound[x]);
            if (!(worst[seed] <= 1.0))
                fail_msg("%s, seed %llu: %.3g of the bound", kernels[k].name,
                         (unsigned long long)seed, worst[seed]);
            made_free(&m);
        }
        qsort(worst, CASES, sizeof(*worst), by_size);
        print_message("%s: largest %.3f, median %.3f of the bound\n", kernels[k].name,
                      worst[CASES - 1], worst[CASES / 2]);
        assert_true(worst[CASES / 2] > 1e-3);
    }
}

/* ---- what does not go together ---- */

static void assert_refused(struct made *m, const char *word)
{
    char why[256] = "";

    assert_int_equal(ref_check_problem(&m->problem, why, sizeof(why)), ATTN_INVALID);
    if (!strstr(why, word))
        fail_msg("'%s' does not say '%s'", why, word);
    made_free(m);
}

static void refusals(void **state)
{
    struct made_spec spec = usual;
    struct made m;

    (void)state;
    spec.features |= MADE_PROJECTED;
    made_create(&m, &spec);
    drop(&m, ATTN_K_GLOBAL);
    assert_refused(&m, "go together");
    made_create(&m, &spec);
    drop(&m, ATTN_GLOBAL);
    assert_refused(&m, "need global tokens");
    made_create(&m, &usual);
    m.problem.flags = 0;
    assert_refused(&m, "needs a window");
    made_create(&m, &usual);
    made_set(made_tensor(&m, ATTN_DILATION), 2, 0);
    assert_refused(&m, "dilation of head 2");
    spec = usual;
    spec.sk = 20;
    made_create(&m, &spec);
    assert_refused(&m, "sq = sk");
    spec =
        (struct made_spec){.op = ATTN_OP_MHA, .hq = 2, .sq = 3, .dk = 2, .features = MADE_GLOBAL};
    made_create(&m, &spec);
    assert_refused(&m, "no place");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sight_is_the_definition),
        cmocka_unit_test(known_counts),
        cmocka_unit_test(long_rows_are_counted),
        cmocka_unit_test(a_mask_says_the_same),
        cmocka_unit_test(identities),
        cmocka_unit_test(global_rows_have_their_own_operands),
        cmocka_unit_test(the_bound_holds),
        cmocka_unit_test(refusals),
    };

    return cmocka_run_group_tests_name("attention_global", tests, NULL, NULL);
}
