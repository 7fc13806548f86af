/* SPDX-License-Identifier: Apache-2.0 */
/* test_power.c - what a verdict is said to refuse, the judge must refuse, and where nothing could
 * be refused the verdict is not trusted. */
#include <math.h>

#include "examined.h"
#include "explain/power.h"
#include "explain/power_mistakes.h"

/* Every operator, score and feature whose answers are made from scores and values here. */
static const char *const lines[] = {
    "b=2 hq=4 hkv=2 s=40 d=16 mask=causal out=lse",
    "h=2 sq=30 sk=90 d=32 mask=causal_br+window:20:0",
    "h=3 s=70 dk=16 dv=9 mask=window:7:4",
    "b=3 h=2 sq=20 sk=50 d=32 mask=causal_br+len:50/17/30 out=lse",
    "b=3 h=2 s=50 d=32 mask=len2d:rand out=lse",
    "b=2 h=3 s=37 d=16 mask=bool:0.5",
    ("b=2 hq=6 hkv=2 sq=30 sk=77 dk=40 dv=24 mask=causal_br+window:40:0+len:rand+bool:0.9:bqk "
     "bias=normal:hqk+alibi sink=1 softcap=5 dropout=0.1 out=lse"),
    "h=6 sq=20 sk=60 d=32 bias=alibi mask=causal_br view=gaps+permuted layout=bshd",
    "b=2 hq=6 hkv=2 s=30 d=12 score=bilinear params=head mask=causal",
    "b=2 hq=4 hkv=2 s=30 d=12 dh=20 score=additive params=head mask=causal",
    "b=2 h=2 s=25 d=8 score=gaussian mask=len:rand",
    "op=mha b=2 h=4 s=33 d=16 mask=causal proj_bias=1",
    "op=mha b=2 h=4 sq=20 sk=27 dk=16 dv=24 e=40 kv=cross proj_bias=1",
    "op=mha b=2 hq=8 hkv=2 s=33 d=16 proj_bias=1 residual=1 e=128 prune=2",
    "op=mha b=2 h=4 s=33 d=8 wo=0 residual=1",
    "op=mha b=2 h=4 s=24 d=8 proj_bias=1 bias=alibi sink=1 softcap=3 dropout=0.1 mask=causal",
    "op=mha b=2 h=2 sq=12 sk=20 d=8 dh=16 kv=cross score=additive params=head",
    "b=2 h=2 s=60 d=16 mask=window:5:3+global:2 out=lse",
    "b=2 hq=4 hkv=2 s=70 d=16 mask=causal+window:3:0:1/2+global:rand:0.1+len:rand global_proj=1",
    "h=3 s=50 d=16 mask=window:4:4:3/1"};

static struct attn_numerics declared(double u_in)
{
    return (struct attn_numerics){.struct_size = sizeof(struct attn_numerics),
                                  .acc_type = ATTN_F32,
                                  .e_exp = 1e-7,
                                  .u_in = u_in};
}

/* The power of the verdict on the right answers of one instance. */
static struct attn_power power_of(const char *line, double u_in)
{
    char why[256];
    struct attn_judge *judge;
    struct attn_judgement v;
    struct attn_evidence evidence;
    struct attn_power power = {0};
    struct attn_power_trials *trials = NULL;
    const struct attn_numerics numerics = declared(u_in);
    struct attn_instance *in = instance_of(line);
    answer(in, &in->problem, attn_dtype_store);
    assert_int_equal(attn_judge_create(in, ATTN_FILL_BUDGET, 2, &judge, why, sizeof why), 0);
    attn_judge_outputs(judge, &numerics, false, &v);
    if (v.status != ATTN_PASS && v.status != ATTN_MISTRUSTED)
        fail_msg("%s: %s", line, v.reason);
    assert_true(attn_judge_evidence(judge, &evidence));
    attn_power_measure(&trials, &evidence, &numerics, &power);
    attn_power_trials_free(trials);
    attn_judge_free(judge);
    attn_instance_free(in);
    return power;
}

static bool has(attn_power_set set, const char *name)
{
    for (int m = 0; attn_power_name(m); m++)
        if (!strcmp(attn_power_name(m), name))
            return set >> m & 1;
    fail_msg("no mistake is called %s", name);
    return false;
}

/* The right answers made here agree with the reference's, and mistakes differ from them. */
static void power_is_measured_with_every_feature(void **state)
{
    (void)state;
    static const char *const types[] = {"f32", "bf16", "f64"};
    for (size_t l = 0; l < sizeof lines / sizeof *lines; l++)
        for (size_t t = 0; t < 3; t++) {
            char line[512];
            snprintf(line, sizeof line, "%s dtype=%s", lines[l], types[t]);
            const struct attn_power power = power_of(line, 0);
            if (!power.measured || attn_power_of(&power) < 10)
                fail_msg("%s: %d mistakes apply", line, attn_power_of(&power));
            if (t != 1 && !has(power.refused, "uniform_weights"))
                fail_msg("%s: uniform weights would pass", line);
        }
}

/* Features bring their mistakes. */
static void mistakes_apply_where_they_differ(void **state)
{
    (void)state;
    const struct attn_power plain = power_of("h=1 sq=1 sk=1 d=8", 0);
    assert_false(has(plain.applies, "uniform_weights"));
    assert_false(has(plain.applies, "heads_reversed"));
    assert_false(has(plain.applies, "causal_lost"));
    assert_true(has(plain.applies, "out_1.05"));
    const struct attn_power rich = power_of(lines[6], 0);
    static const char *const names[] = {
        "causal_minus_1",     "other_alignment", "window_left_plus_1",   "len_minus_1",
        "mask_inverted",      "kv_heads_tiled",  "softcap_before_scale", "bias_of_next_head",
        "alibi_sign",         "sink_twice",      "dropout_unscaled",     "scale_from_dv",
        "values_of_next_key", "lse_in_base_2"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        if (!has(rich.applies, names[n]))
            fail_msg("%s does not apply", names[n]);
    const struct attn_power sparse = power_of(lines[18], 0);
    static const char *const of_sparse[] = {"global_keys_lost",  "global_rows_lost",
                                            "global_keys_twice", "global_keys_plus_1",
                                            "dilation_lost",     "global_projection_lost"};
    for (size_t n = 0; n < sizeof of_sparse / sizeof *of_sparse; n++)
        if (!has(sparse.applies, of_sparse[n]) || !has(sparse.refused, of_sparse[n]))
            fail_msg("%s: applies %d, refused %d", of_sparse[n], has(sparse.applies, of_sparse[n]),
                     has(sparse.refused, of_sparse[n]));
    const struct attn_power mha = power_of(lines[13], 0);
    static const char *const projected[] = {
        "b_v_twice",           "b_q_b_k_exchanged",  "w_o_transposed",    "residual_twice",
        "residual_before_w_o", "pruned_head_counts", "head_slice_plus_1", "b_o_lost"};
    for (size_t n = 0; n < sizeof projected / sizeof *projected; n++)
        if (strcmp(projected[n], "b_q_b_k_exchanged") != 0 && !has(mha.applies, projected[n]))
            fail_msg("%s does not apply", projected[n]);
    assert_true(has(power_of(lines[11], 0).applies, "b_q_b_k_exchanged"));
    assert_true(has(power_of(lines[11], 0).applies, "w_q_w_k_exchanged"));
}

/* The answer of a problem with this mistake, to be judged in full. */
static bool judge_refuses(const char *line, const char *name, double u_in)
{
    struct attn_instance *in = instance_of(line);
    struct attn_problem as = in->problem;
    if (!strcmp(name, "scale_1.02"))
        as.scale *= 1.02;
    else if (!strcmp(name, "scale_1.1"))
        as.scale *= 1.1;
    else if (!strcmp(name, "causal_plus_1"))
        as.off += 1;
    else if (!strcmp(name, "causal_minus_1"))
        as.off -= 1;
    else if (!strcmp(name, "causal_lost"))
        as.flags &= ~(uint64_t)ATTN_FLAG_CAUSAL;
    else
        as.scale = 1e-12; /* uniform weights */
    answer(in, &as, attn_dtype_store);
    return judge_declared(in, declared(u_in)).status == ATTN_FAIL;
}

/* With less and less that a plan promises, fewer mistakes would be refused. At each step the judge
 * refuses the wrong answers that it is said to refuse; here all rows have the mistake, so few of
 * them tell as much as all. */
static void what_would_be_refused_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"scale_1.02",     "scale_1.1",   "causal_plus_1",
                                        "causal_minus_1", "causal_lost", "uniform_weights"};
    static const double slack[] = {0, 1e-3, 1e-2, 0.1};
    static const char *const cases[] = {"h=2 s=96 d=16 mask=causal",
                                        "h=2 s=96 d=16 mask=causal dtype=bf16",
                                        "op=mha h=2 s=40 d=16 mask=causal"};
    int passed = 0;
    for (size_t c = 0; c < 3; c++)
        for (size_t u = 0; u < 4; u++) {
            const struct attn_power power = power_of(cases[c], slack[u]);
            for (size_t n = 0; n < 6; n++) {
                const bool refuses = judge_refuses(cases[c], names[n], slack[u]);
                passed += !refuses;
                if (has(power.refused, names[n]) && !refuses)
                    fail_msg("%s, u_in %g: %s passes", cases[c], slack[u], names[n]);
                if (!has(power.refused, names[n]) && refuses)
                    print_message("%s, u_in %g: %s is refused, but was not tried in those rows\n",
                                  cases[c], slack[u], names[n]);
            }
        }
    assert_true(passed > 5); /* there was something to miss */
}

static void too_little_power_is_said(void **state)
{
    (void)state;
    char why[512];
    const struct attn_power good = power_of(lines[0], 0), none = power_of(lines[0], 0.4);
    assert_true(attn_power_enough(&good, 1, why, sizeof why));
    assert_false(attn_power_enough(&none, 1, why, sizeof why));
    assert_non_null(strstr(why, "uniform weights would have passed"));
    struct attn_power few = good;
    few.refused = good.applies & 3; /* uniform weights, and one more */
    assert_false(attn_power_enough(&few, 1, why, sizeof why));
    assert_non_null(strstr(why, " would have passed: middle_key_dropped"));
    struct attn_power blunt = good; /* all but the scale 2 % off */
    blunt.refused &= ~((attn_power_set)1 << ATTN_POWER_SCALE);
    assert_true(has(blunt.applies, "scale_1.02"));
    assert_string_equal(attn_power_name(ATTN_POWER_SCALE), "scale_1.02");
    assert_true(attn_power_enough(&blunt, ATTN_POWER_SLACK, why, sizeof why));
    assert_false(attn_power_enough(&blunt, 1.01 * ATTN_POWER_SLACK, why, sizeof why));
    assert_non_null(strstr(why, "a scale 2 % off would have passed"));
    attn_power_refuse_scales(&blunt);
    assert_true(attn_power_enough(&blunt, 1.01 * ATTN_POWER_SLACK, why, sizeof why));
    assert_true(attn_power_enough(&(struct attn_power){0}, 1e3, why, sizeof why));
}

/* With inputs rounded to two digits the bound does not tell one key of a hundred; census counts
 * them. */
static void exact_rules_of_fills_count(void **state)
{
    (void)state;
    const struct attn_power drawn = power_of("h=1 sq=8 sk=100 d=32", 0.02);
    const struct attn_power census = power_of("h=1 sq=8 sk=100 d=32 fill=census", 0.02);
    assert_false(has(drawn.refused, "middle_key_dropped"));
    assert_true(has(census.refused, "middle_key_dropped"));
    assert_false(has(census.applies, "uniform_weights"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(power_is_measured_with_every_feature),
                                       cmocka_unit_test(mistakes_apply_where_they_differ),
                                       cmocka_unit_test(what_would_be_refused_is_refused),
                                       cmocka_unit_test(too_little_power_is_said),
                                       cmocka_unit_test(exact_rules_of_fills_count)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
