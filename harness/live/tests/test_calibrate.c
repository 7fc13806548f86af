/* SPDX-License-Identifier: Apache-2.0 */
/* test_calibrate.c - what a calibration says of counts that are given. test_compare_live.py makes
 * one. */
#include "live/calibrate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define AA      ATTN_CALIBRATE_AA
#define PLANTED ATTN_CALIBRATE_PLANTED

static void near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("got %.12g, want %.12g", got, want);
}

/* n verdicts of a kind. */
static void add(struct attn_calibration *c, size_t part, enum attn_calibration_kind kind,
                enum attn_paired_verdict verdict, size_t n)
{
    c->parts[part].kinds[kind].done += n;
    c->parts[part].kinds[kind].of[verdict] += n;
}

static struct attn_calibration good(void)
{
    struct attn_calibration c = {.margin = 0.03, .seconds = 100};
    add(&c, 0, AA, ATTN_PAIRED_SAME, 24);
    add(&c, 0, PLANTED, ATTN_PAIRED_SLOWER, 21);
    return c;
}

static void judged(const struct attn_calibration *c, enum attn_level level, const char *text)
{
    const struct attn_finding finding = attn_calibration_judge(c);
    if (!strstr(finding.text, text))
        fail_msg("'%s' does not say '%s'", finding.text, text);
    assert_int_equal(finding.level, level);
    assert_int_equal(*finding.hint == 0, level == ATTN_LEVEL_OK);
}

static void promises(void **state)
{
    (void)state;
    struct attn_calibration c = good();
    judged(&c, ATTN_LEVEL_OK, "as promised");
    /* Of 24 with a probability of 95 %, 21 or fewer are found in 12 %; of 25, in 3.4 %. */
    add(&c, 0, PLANTED, ATTN_PAIRED_UNCLEAR, 3);
    judged(&c, ATTN_LEVEL_OK, "as promised");
    add(&c, 0, PLANTED, ATTN_PAIRED_UNCLEAR, 1);
    judged(&c, ATTN_LEVEL_FAIL, "21 of 25 planted slowdowns were found");
}

static void wrong_verdicts(void **state)
{
    (void)state;
    /* One wrong verdict of 46 happens in 37 %, two in 7.8 %, three in 1.2 %. */
    struct attn_calibration c = good();
    add(&c, 0, AA, ATTN_PAIRED_SLOWER, 1);
    judged(&c, ATTN_LEVEL_OK, "as promised");
    c = good();
    add(&c, 0, AA, ATTN_PAIRED_SLOWER, 1);
    add(&c, 1, AA, ATTN_PAIRED_FASTER, 1);
    add(&c, 1, PLANTED, ATTN_PAIRED_SAME, 1);
    judged(&c, ATTN_LEVEL_FAIL, "3 of 48 verdicts are wrong");
    assert_int_equal(attn_calibration_wrong(&c.parts[1].kinds[PLANTED], PLANTED), 1);
}

/* A slowdown that is not found when decoding is told, but was not promised. */
static void decoding(void **state)
{
    (void)state;
    struct attn_calibration c = good();
    add(&c, 1, PLANTED, ATTN_PAIRED_UNCLEAR, 20);
    judged(&c, ATTN_LEVEL_OK, "as promised");
}

static void too_few(void **state)
{
    (void)state;
    struct attn_calibration c = {.margin = 0.03, .seconds = 100};
    add(&c, 0, AA, ATTN_PAIRED_SAME, 1);
    add(&c, 1, PLANTED, ATTN_PAIRED_SLOWER, 1);
    judged(&c, ATTN_LEVEL_FAIL, "too few comparisons in 100 s");
}

/* 5 % on top, pairs 0.1 % to both sides of it. */
static void entered(void **state)
{
    (void)state;
    struct attn_calibration c = {.margin = 0.03};
    struct attn_paired paired;
    attn_paired_begin(&paired, log1p(0.03));
    for (size_t i = 0; paired.verdict == ATTN_PAIRED_GO_ON; i++)
        attn_paired_add(&paired, log1p(0.05) + (i % 2 ? 0.001 : -0.001));
    assert_int_equal(attn_calibration_enter(&c, 0, PLANTED, &paired, 2.5), 0);
    const struct attn_calibration_part *part = &c.parts[0];
    assert_int_equal(part->kinds[PLANTED].of[ATTN_PAIRED_SLOWER], 1);
    near(part->kinds[PLANTED].logs, log1p(0.05), 1e-12);
    near(part->kinds[PLANTED].seconds, 2.5, 0);
    assert_int_equal(part->n_off, 12); /* both series */
    for (size_t i = 0; i < part->n_off; i++)
        near(fabs(part->off[i]), 0.001 * sqrt(6.0 / 5), 1e-12);
    const double resolves = attn_calibration_resolves(&c, 0);
    assert_true(resolves > 1.03 && resolves < 1.04);
    assert_true(isnan(attn_calibration_resolves(&c, 1)));
    attn_calibration_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(promises), cmocka_unit_test(wrong_verdicts),
                                       cmocka_unit_test(decoding), cmocka_unit_test(too_few),
                                       cmocka_unit_test(entered)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
