/* SPDX-License-Identifier: Apache-2.0 */
/* test_every_row.c - answers of long sequences in which a few rows are wrong: each is refused.
 * Arguments: case lines, which get fill=few_queries. */
#include "answered.h"

#include <math.h>
#include <stdlib.h>

#include "reference/every.h"
#include "tensor/units.h"

enum { TILE = 64 };

static const struct attn_numerics numerics = TILED_NUMERICS;
static int n_lines;
static char **lines;

/* Out and lse of an instance, row by row. */
struct rows {
    struct attn_units out, lse;
    int64_t from, end; /* rows that are written */
};

static void read_row(const struct rows *r, int64_t unit, double *row)
{
    const int64_t base = attn_unit_base(&r->out, unit), width = r->out.width;
    for (int64_t c = 0; c < width; c++)
        row[c] = attn_dtype_load(r->out.tensor->dtype, r->out.tensor->data,
                                 attn_unit_element(&r->out, base, c));
    row[width] =
        attn_dtype_load(r->lse.tensor->dtype, r->lse.tensor->data, attn_unit_base(&r->lse, unit));
}

static void write_row(const struct rows *r, int64_t unit, const double *out, double lse)
{
    const int64_t base = attn_unit_base(&r->out, unit);
    for (int64_t c = 0; c < r->out.width; c++)
        attn_dtype_store(r->out.tensor->dtype, r->out.tensor->data,
                         attn_unit_element(&r->out, base, c), out[c]);
    attn_dtype_store(r->lse.tensor->dtype, r->lse.tensor->data, attn_unit_base(&r->lse, unit), lse);
}

static void write_answer(void *context, const struct ref_every_row *row)
{
    const struct rows *r = context;
    if (row->unit >= r->from && row->unit < r->end)
        write_row(r, row->unit, row->out, row->lse);
}

/* Writes the right answers of a problem to rows [from, end). */
static void answer_rows(const struct attn_problem *as, struct rows *r, int64_t from, int64_t end)
{
    const struct ref_request request = {.numerics = &numerics, .threads = 2};
    char why[256];
    r->from = from;
    r->end = end;
    if (ref_every_row(as, &request, write_answer, r, why, sizeof why) != ATTN_OK)
        fail_msg("%s", why);
}

static void copy_row(const struct rows *r, int64_t to, int64_t from)
{
    double row[512];
    read_row(r, from, row);
    write_row(r, to, row, row[r->out.width]);
}

/* A multiple of the tile, at five eighths of all rows. */
static int64_t middle(const struct rows *r)
{
    return r->out.count * 5 / 8 / TILE * TILE;
}

static void scale_doubled(struct attn_instance *in, struct rows *r)
{
    struct attn_problem as = in->problem;
    as.scale *= 2;
    answer_rows(&as, r, middle(r), middle(r) + TILE);
}

static void scale_2_percent_off(struct attn_instance *in, struct rows *r)
{
    struct attn_problem as = in->problem;
    as.scale *= 1.02;
    answer_rows(&as, r, middle(r), middle(r) + TILE);
}

static void tiles_swapped(struct attn_instance *in, struct rows *r)
{
    double row[512];
    (void)in;
    for (int64_t i = middle(r); i < middle(r) + TILE; i++) {
        read_row(r, i, row);
        copy_row(r, i, i + TILE);
        write_row(r, i + TILE, row, row[r->out.width]);
    }
}

static void tile_stale(struct attn_instance *in, struct rows *r)
{
    (void)in;
    for (int64_t i = middle(r); i < middle(r) + TILE; i++)
        copy_row(r, i, i - TILE);
}

static void one_row_wrong(struct attn_instance *in, struct rows *r)
{
    (void)in;
    copy_row(r, middle(r) + 23, middle(r) + 22);
}

static void one_element_0(struct attn_instance *in, struct rows *r)
{
    double row[512];
    (void)in;
    read_row(r, middle(r) + 23, row);
    for (int64_t c = 0; c < r->out.width; c++)
        if (fabs(row[c]) > 0.1) {
            row[c] = 0;
            break;
        }
    write_row(r, middle(r) + 23, row, row[r->out.width]);
}

static void one_lse_wrong(struct attn_instance *in, struct rows *r)
{
    double row[512];
    (void)in;
    read_row(r, middle(r) + 23, row);
    write_row(r, middle(r) + 23, row, row[r->out.width] * 1.01);
}

static void every_4th_row(struct attn_instance *in, struct rows *r)
{
    (void)in;
    for (int64_t i = 0; i < r->out.count; i++)
        copy_row(r, i, i - i % 4);
}

static const struct {
    const char *name;
    void (*spoil)(struct attn_instance *in, struct rows *r);
} attacks[] = {{"nothing", NULL},
               {"scale doubled in 64 rows", scale_doubled},
               {"scale 2 % off in 64 rows", scale_2_percent_off},
               {"two tiles swapped", tiles_swapped},
               {"a stale tile", tile_stale},
               {"one row is its neighbour", one_row_wrong},
               {"one element is 0", one_element_0},
               {"one lse is 1 % off", one_lse_wrong},
               {"only every 4th row", every_4th_row}};

static void attack(struct attn_instance *in, struct attn_judge *judge, struct rows *r, size_t n)
{
    struct attn_judgement v;
    if (attacks[n].spoil)
        attacks[n].spoil(in, r);
    attn_judge_outputs(judge, &numerics, false, &v);
    print_message("%-26s %8.3g  %s\n", attacks[n].name, v.max_ratio, v.reason);
    if (!attacks[n].spoil)
        assert_int_equal(v.rows_checked, r->out.count);
    if (v.status != (attacks[n].spoil ? ATTN_FAIL : ATTN_PASS))
        fail_msg("%s: %s", attacks[n].name, v.reason);
}

static void test_every_row(void **state)
{
    (void)state;
    for (int l = 0; l < n_lines; l++) {
        char text[256], why[256];
        struct attn_judge *judge;
        snprintf(text, sizeof text, "%s fill=few_queries out=lse", lines[l]);
        struct attn_instance *in = instance_of(text);
        struct rows r = {0};
        attn_units_of(&in->problem, 0, &r.out);
        attn_units_of(&in->problem, 1, &r.lse);
        print_message("%s\n", text);
        assert_int_equal(attn_judge_create(in, ATTN_FILL_BUDGET, 2, &judge, why, sizeof why), 0);
        answer_rows(&in->problem, &r, 0, r.out.count);
        const size_t out_bytes =
                         (size_t)(r.out.count * r.out.width) * attn_dtype_size(r.out.tensor->dtype),
                     lse_bytes = (size_t)r.out.count * attn_dtype_size(r.lse.tensor->dtype);
        void *out = malloc(out_bytes), *lse = malloc(lse_bytes);
        assert_non_null(out);
        assert_non_null(lse);
        memcpy(out, r.out.tensor->data, out_bytes);
        memcpy(lse, r.lse.tensor->data, lse_bytes);
        for (size_t n = 0; n < sizeof attacks / sizeof *attacks; n++) {
            attack(in, judge, &r, n);
            memcpy(r.out.tensor->data, out, out_bytes);
            memcpy(r.lse.tensor->data, lse, lse_bytes);
        }
        free(out);
        free(lse);
        attn_judge_free(judge);
        attn_instance_free(in);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_row)};
    n_lines = argc - 1;
    lines = argv + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
