/* SPDX-License-Identifier: Apache-2.0 */
/* test_lsh.c - lsh against the procedure as it is published, round by round; its identities; which
 * buckets are right; and its bound held against the published procedure with every operation
 * rounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "reference/dtype.h"
#include "reference/tests/sequence.h"

enum { MOST = 240, DK = 8, DV = 6, ROUNDS = 4, HALF = 4 };

/* One head, and what the reference says of it. */
static struct made {
    uint32_t dtype;
    int64_t steps, chunk, rounds, half;
    bool causal, plain;
    double scale;
    double q[MOST * DK], v[MOST * DV], rotations[DK * ROUNDS * HALF]; /* as the type has them */
    char stored[3][MOST * DK * sizeof(double)];                       /* in their type */
    int32_t buckets[ROUNDS * MOST];                                   /* what a backend computed */
    struct attn_problem problem;
    struct attn_tensor tensors[8];
    double out[MOST * DV], bound[MOST * DV], lse[MOST], lse_bound[MOST];
    double chosen[ROUNDS * MOST], implied[MOST * MOST];
} made;

static void add(uint32_t role, uint32_t dtype, void *data, uint32_t rank, const int64_t *shape)
{
    struct attn_tensor *t = &made.tensors[made.problem.n_tensors++];
    int64_t count = 1;
    *t = (struct attn_tensor){.role = role, .dtype = dtype, .rank = rank, .data = data};
    for (uint32_t a = rank; a-- > 0; count *= shape[a]) {
        t->shape[a] = shape[a];
        t->stride[a] = count;
    }
}

/* Rounds an input to the type of the problem. */
static void put(double *values, int64_t count, char *stored)
{
    for (int64_t n = 0; n < count; n++) {
        attn_dtype_store(made.dtype, stored, n, values[n]);
        values[n] = attn_dtype_load(made.dtype, stored, n);
    }
}

static void build(uint32_t buckets)
{
    const int64_t s = made.steps, r = made.rounds;
    const int64_t queries[] = {1, 1, s, DK}, values[] = {1, 1, s, DV}, rows[] = {1, 1, s};
    const int64_t rotations[] = {1, DK, r, made.half}, hashes[] = {1, 1, r, s};
    static double unread[1];
    made.problem = (struct attn_problem){.struct_size = sizeof made.problem,
                                         .op = ATTN_OP_LSH,
                                         .dtype = made.dtype,
                                         .flags = made.causal ? ATTN_FLAG_CAUSAL : 0,
                                         .b = 1,
                                         .hq = 1,
                                         .hkv = 1,
                                         .sq = s,
                                         .sk = s,
                                         .dq = DK,
                                         .dk = DK,
                                         .dv = DV,
                                         .scale = made.scale,
                                         .tensors = made.tensors,
                                         .variant = made.plain,
                                         .chunk = made.chunk,
                                         .rounds = r,
                                         .buckets = 2 * made.half};
    put(made.q, s * DK, made.stored[0]);
    put(made.v, s * DV, made.stored[1]);
    put(made.rotations, DK * r * made.half, made.stored[2]);
    add(ATTN_Q, made.dtype, made.stored[0], 4, queries);
    add(ATTN_V, made.dtype, made.stored[1], 4, values);
    add(ATTN_ROTATIONS, made.dtype, made.stored[2], 4, rotations);
    add(ATTN_OUT, made.dtype, unread, 4, values);
    add(ATTN_LSE, made.dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32, unread, 3, rows);
    if (buckets)
        add(buckets, ATTN_I32, made.buckets, 4, hashes);
}

static void compute(const struct attn_numerics *numerics, enum ref_fill_kind fill, bool stored)
{
    struct ref_request request = {
        .numerics = numerics, .fill = fill, .threads = 2, .stored = stored};
    struct ref_result result = {.output = {{made.out, numerics ? made.bound : NULL},
                                           {made.lse, numerics ? made.lse_bound : NULL},
                                           {made.chosen, NULL}},
                                .implied = made.implied};
    char why[256] = "";
    ref_request_all(&made.problem, &request);
    if (ref_compute(&made.problem, &request, &result, why, sizeof why) != ATTN_OK)
        fail_msg("%s", why);
}

static void draw(uint64_t seed)
{
    for (int64_t n = 0; n < made.steps * DK; n++)
        made.q[n] = sequence_normal(3 * seed, (uint64_t)n);
    for (int64_t n = 0; n < made.steps * DV; n++)
        made.v[n] = sequence_normal(3 * seed + 1, (uint64_t)n);
    for (int64_t n = 0; n < DK * ROUNDS * HALF; n++)
        made.rotations[n] = sequence_normal(3 * seed + 2, (uint64_t)n);
}

/* A form of the operator by number: rounds, chunks, masks. */
static void choose(uint32_t dtype, uint64_t seed)
{
    static const int64_t chunks[] = {0, 1, 4, 8, 12, 24};
    made.dtype = dtype;
    made.steps = 48;
    made.rounds = (int64_t[]){1, 2, 4}[seed % 3];
    made.chunk = chunks[seed / 3 % 6];
    made.half = seed / 5 % 2 ? HALF : 1;
    made.causal = seed / 7 % 2;
    made.plain = seed / 2 % 3 == 0;
    made.scale = seed % 4 ? 1 : 0.4;
    draw(seed);
}

/* ---- the published procedure, every operation rounded to the problem's type ---- */

static double rounded(double x)
{
    return sequence_rounded(made.dtype, x);
}

static double dot(const double *a, const double *b, int64_t step)
{
    double sum = 0;
    for (int64_t c = 0; c < DK; c++)
        sum = rounded(sum + rounded(a[c] * b[c * step]));
    return sum;
}

static struct {
    double key[MOST * DK], out[MOST * DV], lse[MOST];
    int64_t token[ROUNDS * MOST], place[ROUNDS * MOST];
} published;

static void hash(int64_t r)
{
    const int64_t row = made.rounds * made.half;
    int64_t n = r * made.steps;
    for (int64_t i = 0; i < made.steps; i++) {
        double most = -INFINITY;
        for (int64_t t = 0; t < 2 * made.half; t++) {
            const double *column = made.rotations + r * made.half + t % made.half;
            const double x = (t < made.half ? 1 : -1) * dot(made.q + i * DK, column, row);
            if (x > most)
                made.buckets[r * made.steps + i] = (int32_t)t;
            most = fmax(most, x);
        }
    }
    for (int64_t t = 0; t < 2 * made.half; t++)
        for (int64_t i = 0; i < made.steps; i++)
            if (made.buckets[r * made.steps + i] == t) {
                published.place[r * made.steps + i] = n;
                published.token[n++] = i;
            }
}

/* One round of one query: its softmax and lse. False: nothing is seen but itself. */
static bool attend(int64_t i, int64_t r, double out[DV], double *lse)
{
    const int64_t chunk = made.chunk ? made.chunk : made.steps;
    const int64_t pieces = made.rounds * made.steps / chunk;
    const int64_t own = published.place[r * made.steps + i] / chunk;
    double most = -INFINITY, sum = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t back = 0; back < (pieces > 1 ? 2 : 1); back++)
            for (int64_t n = 0; n < chunk; n++) {
                const int64_t piece = (own + pieces - back) % pieces;
                const int64_t j = published.token[piece * chunk + n];
                if ((made.causal && j > i) || (!made.plain && j == i))
                    continue;
                const double s =
                    rounded(made.scale * dot(made.q + i * DK, published.key + j * DK, 1));
                if (pass == 0) {
                    most = fmax(most, s);
                    continue;
                }
                const double p = rounded(exp(rounded(s - most)));
                sum = rounded(sum + p);
                for (int64_t c = 0; c < DV; c++)
                    out[c] = rounded(out[c] + rounded(p * made.v[j * DV + c]));
            }
    for (int64_t c = 0; c < DV; c++)
        out[c] = rounded(out[c] / sum);
    *lse = rounded(most + rounded(log(sum)));
    return sum > 0;
}

static void merge(int64_t i)
{
    double out[ROUNDS][DV] = {{0}}, lse[ROUNDS], most = -INFINITY, sum = 0;
    double *o = published.out + i * DV;
    for (int64_t r = 0; r < made.rounds; r++)
        if (attend(i, r, out[r], &lse[r]))
            most = fmax(most, lse[r]);
        else
            lse[r] = -INFINITY;
    memset(o, 0, DV * sizeof *o);
    for (int64_t r = 0; r < made.rounds; r++) {
        const double w = lse[r] == -INFINITY ? 0 : rounded(exp(rounded(lse[r] - most)));
        sum = rounded(sum + w);
        for (int64_t c = 0; w > 0 && c < DV; c++)
            o[c] = rounded(o[c] + rounded(w * out[r][c]));
    }
    for (int64_t c = 0; c < DV; c++)
        o[c] = sum > 0 ? rounded(o[c] / sum) : made.v[i * DV + c];
    published.lse[i] = sum > 0
                           ? rounded(most + rounded(log(sum)))
                           : rounded(made.scale * dot(made.q + i * DK, published.key + i * DK, 1));
}

static void publish(void)
{
    for (int64_t i = 0; i < made.steps; i++) {
        const double length = rounded(sqrt(dot(made.q + i * DK, made.q + i * DK, 1)));
        for (int64_t c = 0; c < DK; c++)
            published.key[i * DK + c] = length > 0 ? rounded(made.q[i * DK + c] / length) : 0;
    }
    for (int64_t r = 0; r < made.rounds; r++)
        hash(r);
    for (int64_t i = 0; i < made.steps; i++)
        merge(i);
}

/* ---- values ---- */

static void the_published_procedure_agrees(void **unused)
{
    (void)unused;
    for (uint64_t seed = 0; seed < 72; seed++) {
        choose(ATTN_F64, seed);
        build(ATTN_BUCKETS_OUT);
        publish();
        compute(NULL, REF_FILL_GENERIC, false);
        for (int64_t n = 0; n < made.rounds * made.steps; n++)
            assert_true(made.chosen[n] == made.buckets[n]);
        for (int64_t n = 0; n < made.steps * DV; n++)
            sequence_near(made.out[n], published.out[n], 1e-12);
        for (int64_t i = 0; i < made.steps; i++)
            sequence_near(made.lse[i], published.lse[i], 1e-12);
    }
}

static void implied_weights_times_v_are_out(void **unused)
{
    (void)unused;
    for (uint64_t seed = 0; seed < 18; seed++) {
        choose(ATTN_F64, seed);
        build(0);
        compute(NULL, REF_FILL_GENERIC, false);
        for (int64_t i = 0; i < made.steps; i++) {
            double total = 0;
            for (int64_t j = 0; j < made.steps; j++)
                total += made.implied[i * made.steps + j];
            sequence_near(total, 1, 1e-14);
            for (int64_t c = 0; c < DV; c++) {
                double sum = 0;
                for (int64_t j = 0; j < made.steps; j++)
                    sum += made.implied[i * made.steps + j] * made.v[j * DV + c];
                sequence_near(made.out[i * DV + c], sum, 1e-14);
            }
        }
    }
}

/* Two pieces in one round: each sees both. */
static void two_pieces_are_attention_without_the_diagonal(void **unused)
{
    double p[MOST];
    (void)unused;
    choose(ATTN_F64, 1);
    made.rounds = 1;
    made.chunk = made.steps / 2;
    made.causal = made.plain = false;
    build(0);
    compute(NULL, REF_FILL_GENERIC, false);
    for (int64_t i = 0; i < made.steps; i++) {
        double sum = 0;
        for (int64_t j = 0; j < made.steps; j++) {
            const double *k = made.q + j * DK;
            const double s = dot(made.q + i * DK, k, 1) / sqrt(dot(k, k, 1));
            p[j] = i == j ? 0 : exp(made.scale * s);
            sum += p[j];
        }
        sequence_near(made.lse[i], log(sum), 1e-13);
        for (int64_t c = 0; c < DV; c++) {
            double mean = 0;
            for (int64_t j = 0; j < made.steps; j++)
                mean += p[j] / sum * made.v[j * DV + c];
            sequence_near(made.out[i * DV + c], mean, 1e-13);
        }
    }
}

/* Queries of plus or minus one vector: the order is that of the sign in the list of buckets, then
 * of the position. */
static void of_two_buckets_the_order_is_known(void **unused)
{
    int64_t place[MOST], chunk = 6;
    (void)unused;
    choose(ATTN_F64, 4);
    made.rounds = 1;
    made.chunk = chunk;
    made.half = HALF;
    made.causal = made.plain = false;
    for (int64_t i = 0; i < made.steps; i++)
        for (int64_t c = 0; c < DK; c++)
            made.q[i * DK + c] = (i * i % 7 < 3 ? -0.125 : 0.125) * (c % 3 ? 1 : -1);
    build(0);
    compute(NULL, REF_FILL_STRUCTURED, false);
    const int64_t lower = made.chosen[0] < made.chosen[2] ? 1 : 0; /* is the bucket of sign - */
    int64_t next[2] = {0, 0};
    for (int64_t i = 0; i < made.steps; i++)
        next[1] += (i * i % 7 < 3) == lower;
    for (int64_t i = 0; i < made.steps; i++)
        place[i] = next[(i * i % 7 < 3) == lower ? 0 : 1]++;
    const int64_t pieces = made.steps / chunk;
    for (int64_t i = 0; i < made.steps; i++)
        for (int64_t j = 0; j < made.steps; j++) {
            const int64_t back = (place[i] / chunk - place[j] / chunk + pieces) % pieces;
            assert_true((made.implied[i * made.steps + j] > 0) == (back < 2 && i != j));
        }
}

static void given_buckets_are_taken(void **unused)
{
    static double before[MOST * DV];
    (void)unused;
    choose(ATTN_F64, 8);
    build(ATTN_BUCKETS);
    publish();
    compute(NULL, REF_FILL_GENERIC, false);
    for (int64_t n = 0; n < made.steps * DV; n++)
        sequence_near(made.out[n], published.out[n], 1e-12);
    memcpy(before, made.out, sizeof before);
    memset(made.buckets, 0, sizeof made.buckets);
    assert_int_equal(ref_op_find(ATTN_OP_LSH)->derive(&made.problem, "normal", 2), ATTN_OK);
    compute(NULL, REF_FILL_GENERIC, false);
    assert_memory_equal(before, made.out, (size_t)(made.steps * DV) * sizeof(double));

    /* Only those that are there: not -1, and not with the number of the round on top. */
    char why[256];
    const int32_t right = made.buckets[3], wrong[] = {-1, (int32_t)made.problem.buckets, 1 << 30};
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        made.buckets[3] = wrong[n];
        assert_int_equal(ref_check_problem(&made.problem, why, sizeof why), ATTN_INVALID);
        assert_non_null(strstr(why, "is outside 0.."));
    }
    made.buckets[3] = right;
    assert_int_equal(ref_check_problem(&made.problem, why, sizeof why), ATTN_OK);
}

/* ---- which buckets are right ---- */

/* Token 5 has two products that differ in their last bits. */
static void near_tie(double relative)
{
    choose(ATTN_F64, 4);
    made.dtype = ATTN_F32;
    made.rounds = 1;
    made.half = HALF;
    made.chunk = 4;
    for (int64_t c = 0; c < DK; c++) {
        made.q[5 * DK + c] = c == 0;
        made.rotations[c * HALF] = c == 0 ? 5 : 0.1 * (double)c;
        made.rotations[c * HALF + 1] = c == 0 ? 5 * (1 - relative) : -0.3 * (double)c;
    }
    build(ATTN_BUCKETS_OUT);
    publish();
}

static void a_bucket_within_the_margin_is_right(void **unused)
{
    static double before[MOST * DV];
    const struct ref_op *op = ref_op_find(ATTN_OP_LSH);
    char why[256];
    (void)unused;
    near_tie(1e-7);
    compute(&sequence_f32, REF_FILL_STRUCTURED, true);
    assert_true(made.chosen[5] == 0);
    memcpy(before, made.out, sizeof before);
    made.buckets[5] = 1;
    compute(&sequence_f32, REF_FILL_STRUCTURED, true);
    assert_true(made.chosen[5] == 1);
    assert_memory_not_equal(before, made.out, (size_t)(made.steps * DV) * sizeof(double));
    compute(NULL, REF_FILL_STRUCTURED, true); /* without numerics there is no margin */
    assert_true(made.chosen[5] == 0);
    compute(&sequence_f32, REF_FILL_STRUCTURED, false);
    assert_true(made.chosen[5] == 0);
    for (int32_t wrong = -1; wrong < 9; wrong++) {
        made.buckets[5] = wrong;
        compute(&sequence_f32, REF_FILL_STRUCTURED, true);
        assert_true(made.chosen[5] == (wrong == 1 ? 1 : 0));
    }
    assert_false(op->ambiguous(&made.problem, why, sizeof why)); /* they are shown */
    made.problem.n_tensors--;
    assert_true(op->ambiguous(&made.problem, why, sizeof why));
    near_tie(1e-3);
    made.buckets[5] = 1;
    compute(&sequence_f32, REF_FILL_STRUCTURED, true);
    assert_true(made.chosen[5] == 0);
    made.problem.n_tensors--;
    assert_false(op->ambiguous(&made.problem, why, sizeof why));
}

/* Products of zeros are exact: the lowest bucket, not any. */
static void an_exact_tie_goes_to_the_lowest(void **unused)
{
    (void)unused;
    near_tie(0.5);
    memset(made.q + 5 * DK, 0, DK * sizeof *made.q);
    build(ATTN_BUCKETS_OUT);
    publish();
    assert_true(made.buckets[5] == 0);
    made.buckets[5] = 2;
    compute(&sequence_f32, REF_FILL_STRUCTURED, true);
    assert_true(made.chosen[5] == 0);
}

/* ---- the bound ---- */

static struct {
    double most, *all;
    size_t count, room;
} ratios;

static void compare(double got, double want, double bound)
{
    const double ratio = got == want ? 0 : fabs(got - want) / bound;
    if (!(ratio <= 1))
        fail_msg("%.9g is %.9g, bound %.3g", got, want, bound);
    ratios.most = fmax(ratios.most, ratio);
    if (ratios.count < ratios.room)
        ratios.all[ratios.count++] = ratio;
}

static void hold(enum ref_fill_kind fill)
{
    const double u = attn_dtype_roundoff(made.dtype);
    const struct attn_numerics numerics = {.struct_size = sizeof numerics,
                                           .acc_type = made.dtype,
                                           .score_type = made.dtype,
                                           .p_type = made.dtype,
                                           .splits = made.rounds,
                                           .e_exp = u,
                                           .e_log = u};
    build(ATTN_BUCKETS_OUT);
    publish();
    compute(&numerics, fill, true);
    for (int64_t n = 0; n < made.rounds * made.steps; n++)
        assert_true(made.chosen[n] == made.buckets[n]);
    for (int64_t n = 0; n < made.steps * DV; n++)
        compare(published.out[n], made.out[n], made.bound[n]);
    for (int64_t i = 0; i < made.steps; i++)
        compare(published.lse[i], made.lse[i], made.lse_bound[i]);
}

static void the_bound_holds(void **unused)
{
    static const uint32_t types[] = {ATTN_F32, ATTN_F16, ATTN_BF16};
    static double kept[1 << 20];
    (void)unused;
    for (int t = 0; t < 3; t++) {
        ratios.most = 0;
        ratios.all = kept;
        ratios.count = 0;
        ratios.room = sizeof kept / sizeof *kept;
        for (uint64_t seed = 0; seed < 96; seed++) {
            choose(types[t], seed);
            made.steps = seed % 8 ? 48 : MOST;
            draw(seed);
            hold(REF_FILL_GENERIC);
            for (int64_t n = 0; n < made.steps * DK; n++) /* few directions, and zeros */
                made.q[n] = n / DK % 5 == 4 ? 0 : n / DK * (n % DK + 1) % 5 < 2 ? -0.5 : 0.5;
            hold(REF_FILL_STRUCTURED);
        }
        sequence_sort(kept, ratios.count);
        printf("%s: largest error over bound %.3f, median %.4f\n", attn_dtype_name(types[t]),
               ratios.most, kept[ratios.count / 2]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_procedure_agrees),
        cmocka_unit_test(implied_weights_times_v_are_out),
        cmocka_unit_test(two_pieces_are_attention_without_the_diagonal),
        cmocka_unit_test(of_two_buckets_the_order_is_known),
        cmocka_unit_test(given_buckets_are_taken),
        cmocka_unit_test(a_bucket_within_the_margin_is_right),
        cmocka_unit_test(an_exact_tie_goes_to_the_lowest),
        cmocka_unit_test(the_bound_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
