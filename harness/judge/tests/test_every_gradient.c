/* SPDX-License-Identifier: Apache-2.0 */
/* test_every_gradient.c - gradients of long sequences in which a few rows are wrong: each is
 * refused, whichever rows were sampled. Arguments: case lines, which get a fill. */
#include "answered.h"

#include <math.h>
#include <stdlib.h>

#include "judge/answers.h"
#include "tensor/operand.h"
#include "tensor/units.h"

enum { TILE = 64 };

static const struct attn_numerics numerics = TILED_NUMERICS;
static const struct attn_instance *spoiled;
static int n_lines;
static char **lines;

static double read(const struct attn_units *u, int64_t row, int64_t c)
{
    return attn_dtype_load(u->tensor->dtype, u->tensor->data,
                           attn_unit_element(u, attn_unit_base(u, row), c));
}

static void write(const struct attn_units *u, int64_t row, int64_t c, double value)
{
    attn_dtype_store(u->tensor->dtype, u->tensor->data,
                     attn_unit_element(u, attn_unit_base(u, row), c), value);
}

/* Row `to` becomes `factor` times row `from`. */
static void copy_row(const struct attn_units *u, int64_t to, int64_t from, double factor)
{
    for (int64_t c = 0; c < u->width; c++)
        write(u, to, c, factor * read(u, from, c));
}

/* A multiple of the tile, at five eighths of all rows. */
static int64_t middle(const struct attn_units *u)
{
    return u->count * 5 / 8 / TILE * TILE;
}

static void tile_off(const struct attn_units *u)
{
    for (int64_t r = middle(u); r < middle(u) + TILE; r++)
        copy_row(u, r, r, 1.03);
}

static void tile_stale(const struct attn_units *u)
{
    for (int64_t r = middle(u); r < middle(u) + TILE; r++)
        copy_row(u, r, r - TILE, 1);
}

static void one_row_missing(const struct attn_units *u)
{
    copy_row(u, middle(u) + 23, middle(u) + 23, 0);
}

static void one_row_wrong(const struct attn_units *u)
{
    copy_row(u, middle(u) + 23, middle(u) + 22, 1);
}

static void one_element_wrong(const struct attn_units *u)
{
    int64_t most = 0;
    for (int64_t c = 1; c < u->width; c++)
        if (fabs(read(u, middle(u) + 23, c)) > fabs(read(u, middle(u) + 23, most)))
            most = c;
    write(u, middle(u) + 23, most, 1.1 * read(u, middle(u) + 23, most));
}

static double operand(uint32_t role, int64_t row, int64_t c)
{
    const struct attn_tensor *t = attn_tensor_find(&spoiled->problem, role);
    return attn_dtype_load(t->dtype, t->data, row * t->stride[2] + c);
}

/* What query i of the first head of a group and key i add to one of the gradients; every mask here
 * lets query i see key i. Only under census, whose weights are the inverse of dout. */
static void one_pair_lost(const struct attn_units *u)
{
    const struct attn_problem *p = &spoiled->problem;
    const bool by_query = u->tensor->role == ATTN_GRAD_Q;
    const int64_t unit = middle(u) + 23, n = by_query ? p->sq : p->sk, i = unit % n;
    const int64_t heads = p->hq / p->hkv, group = by_query ? unit / n / heads : unit / n;
    const int64_t query = (by_query ? unit / n : group * heads) * p->sq + i,
                  key = group * p->sk + i;
    const double ds =
        operand(ATTN_GRAD_OUT, query, 0) < 0 ? -operand(ATTN_V, key, 0) : operand(ATTN_V, key, 0);
    for (int64_t c = 0; c < u->width; c++) {
        const double dout = operand(ATTN_GRAD_OUT, query, c < p->dv ? c : 0);
        const double term = by_query ? p->scale * ds * operand(ATTN_K, key, c)
                            : u->tensor->role == ATTN_GRAD_K
                                ? p->scale * ds * operand(ATTN_Q, query, c)
                                : dout / fabs(dout);
        write(u, unit, c, read(u, unit, c) - term);
    }
}

static const struct {
    const char *name;
    void (*spoil)(const struct attn_units *u);
    bool census; /* the fill that shows it; else a sparse one */
} attacks[] = {{"64 rows 3 % off", tile_off, false},
               {"a stale tile", tile_stale, false},
               {"one row is 0", one_row_missing, false},
               {"one row is its neighbour", one_row_wrong, false},
               {"one element is 10 % off", one_element_wrong, false},
               {"one pair is lost", one_pair_lost, true}};

/* Writes the right answer to every output. */
static void answer_all(const struct attn_instance *in)
{
    struct ref_request request = {.numerics = &numerics, .threads = 2, .given = in->given};
    struct ref_result result = {0};
    char why[256];
    ref_request_all(&in->problem, &request);
    assert_int_equal(attn_answers_allocate(&in->problem, &request, 7, &result), 0);
    if (ref_compute(&in->problem, &request, &result, why, sizeof why) != ATTN_OK)
        fail_msg("%s", why);
    for (int o = 0; o < 3; o++) {
        struct attn_units u;
        attn_units_of(&in->problem, o, &u);
        for (int64_t n = 0; n < u.count * u.width; n++)
            write(&u, n / u.width, n % u.width, result.output[o].value[n]);
    }
    attn_answers_free(&result);
}

static void attack(struct attn_judge *judge, const struct attn_units *u)
{
    const size_t bytes = attn_tensor_span(u->tensor);
    void *right = malloc(bytes);
    assert_non_null(right);
    memcpy(right, u->tensor->data, bytes);
    for (size_t n = 0; n < sizeof attacks / sizeof *attacks; n++) {
        struct attn_judgement v;
        if (attacks[n].census != spoiled->given)
            continue;
        attacks[n].spoil(u);
        attn_judge_outputs(judge, &numerics, false, &v);
        print_message("%-2s %-26s %8.3g  %s\n", u->output->name, attacks[n].name, v.max_ratio,
                      v.reason);
        if (v.status != ATTN_FAIL)
            fail_msg("%s, %s: not refused", u->output->name, attacks[n].name);
        memcpy(u->tensor->data, right, bytes);
    }
    free(right);
}

/* Outputs [from, end) under a fill that shows all their rows. */
static void attack_all(const char *line, const char *fill, int from, int end)
{
    char text[256], why[256];
    struct attn_judge *judge;
    struct attn_judgement v;
    snprintf(text, sizeof text, "%s fill=%s", line, fill);
    print_message("%s\n", text);
    struct attn_instance *in = instance_of(text);
    assert_int_equal(attn_judge_create(in, ATTN_FILL_BUDGET, 2, &judge, why, sizeof why), 0);
    spoiled = in;
    answer_all(in);
    attn_judge_outputs(judge, &numerics, false, &v);
    if (v.status != ATTN_PASS)
        fail_msg("the right answer: %s", v.reason);
    for (int o = from; o < end; o++) {
        struct attn_units u;
        attn_units_of(&in->problem, o, &u);
        assert_int_equal(o == 0 ? v.rows_every : v.keys_every, u.count);
        attack(judge, &u);
    }
    attn_judge_free(judge);
    attn_instance_free(in);
}

static void test_every_gradient(void **state)
{
    (void)state;
    for (int l = 0; l < n_lines; l++) {
        attack_all(lines[l], "sparse_keys", 0, 1);
        attack_all(lines[l], "sparse_grad", 1, 3);
        if (!strstr(lines[l], "dropout")) /* it leaves pairs out */
            attack_all(lines[l], "census", 0, 3);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_gradient)};
    n_lines = argc - 1;
    lines = argv + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
