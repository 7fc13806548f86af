/* SPDX-License-Identifier: Apache-2.0 */
/* test_answers - the reference against the answers of every pack in a folder.
 * Usage: test_answers FOLDER */
#include "pack/pack.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *folder;

/* The rule of packs for numbers and infinities: an infinity agrees only with the same infinity. No
 * answer of these packs is NaN. */
static void compare(const char *path, const char *what, const struct attn_expected *expected,
                    const double *computed, const double *answer, int64_t count)
{
    if (answer == NULL)
        return;
    for (int64_t i = 0; i < count; i++) {
        const double bound = expected->atol + expected->rtol * fabs(answer[i]);
        const int agree =
            isinf(answer[i]) ? computed[i] == answer[i] : fabs(computed[i] - answer[i]) <= bound;
        if (!agree)
            fail_msg("%s: %s[%lld] is %.17g, expected %.17g", path, what, (long long)i, computed[i],
                     answer[i]);
    }
}

static double *room(int64_t count)
{
    double *values = calloc((size_t)count + 1, sizeof *values);
    assert_non_null(values);
    return values;
}

/* Results of multi-head attention are [B,Sq,Hq,n] where answers are [B,Hq,Sq,n]. */
static void heads_outwards(const struct attn_problem *p, int64_t n, double *values)
{
    if (p->op != ATTN_OP_MHA)
        return;
    double *moved = room(p->b * p->hq * p->sq * n);
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t i = 0; i < p->sq; i++)
            for (int64_t h = 0; h < p->hq; h++)
                memcpy(moved + ((b * p->hq + h) * p->sq + i) * n,
                       values + ((b * p->sq + i) * p->hq + h) * n, (size_t)n * sizeof *values);
    memcpy(values, moved, (size_t)(p->b * p->hq * p->sq * n) * sizeof *values);
    free(moved);
}

static void check_pack(const char *path)
{
    char why[512] = "";
    struct attn_case c;
    struct attn_instance *in = NULL;
    if (attn_pack_case(path, &c, why, sizeof why) != 0 ||
        attn_instance_create(&c, 2, &in, why, sizeof why) != 0)
        fail_msg("%s", why);
    const struct attn_problem *p = &in->problem;
    assert_non_null(in->expected.out);
    const struct ref_rows rows = {.count = ref_row_count(p)};
    const int64_t cells = p->b * p->hq * p->sq;
    struct ref_result result = {.out = room(rows.count * ref_row_width(p)),
                                .lse = room(cells),
                                .weights = room(cells * p->sk)};
    if (ref_compute(p, &rows, NULL, REF_FILL_STRUCTURED, 2, &result, why, sizeof why) != ATTN_OK)
        fail_msg("%s: %s", path, why);
    heads_outwards(p, 1, result.lse);
    heads_outwards(p, p->sk, result.weights);
    compare(path, "out", &in->expected, result.out, in->expected.out,
            rows.count * ref_row_width(p));
    compare(path, "lse", &in->expected, result.lse, in->expected.lse, cells);
    compare(path, "weights", &in->expected, result.weights, in->expected.weights, cells * p->sk);
    free(result.out);
    free(result.lse);
    free(result.weights);
    assert_non_null(strstr(in->source, "textbooks"));
    attn_instance_free(in);
    attn_case_free(&c);
}

static void reference_agrees(void **state)
{
    (void)state;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    int checked = 0;
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        char path[4096];
        if (strstr(entry->d_name, ".safetensors") == NULL)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        check_pack(path);
        checked++;
    }
    closedir(listing);
    assert_true(checked >= 5);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reference_agrees)};
    if (argc != 2) {
        fprintf(stderr, "usage: test_answers FOLDER\n");
        return 2;
    }
    folder = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
