/* SPDX-License-Identifier: Apache-2.0 */
/* test_answers - the reference against the answers of every pack in a folder.
 * Usage: test_answers FOLDER */
#include "pack/make.h"
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
    assert_non_null(in->expected.output[0]);
    const struct ref_units rows = {.count = ref_output_units(p, 0)};
    const int64_t cells = p->b * p->hq * p->sq;
    struct ref_result result = {.output[0].value = room(rows.count * ref_output_width(p, 0)),
                                .output[1].value = room(cells),
                                .output[2].value = room(cells * p->sk)};
    if (ref_compute(
            p, &(struct ref_request){.units = {rows}, .fill = REF_FILL_STRUCTURED, .threads = 2},
            &result, why, sizeof why) != ATTN_OK)
        fail_msg("%s: %s", path, why);
    heads_outwards(p, 1, result.output[1].value);
    heads_outwards(p, p->sk, result.output[2].value);
    compare(path, "out", &in->expected, result.output[0].value, in->expected.output[0],
            rows.count * ref_output_width(p, 0));
    compare(path, "lse", &in->expected, result.output[1].value, in->expected.output[1], cells);
    compare(path, "weights", &in->expected, result.output[2].value, in->expected.output[2],
            cells * p->sk);
    free(result.output[0].value);
    free(result.output[1].value);
    free(result.output[2].value);
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
