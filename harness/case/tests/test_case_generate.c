/* SPDX-License-Identifier: Apache-2.0 */
/* test_case_generate.c - what `verify --fuzz` draws: the whole language, its extremes included, in
 * cases that cost little. The counts are those of one seed, so that they never change by chance. */
#include "case/generate.h"

#include <math.h>

#include "case_test.h"

enum {
    CASES = 16000,
    OFTEN = 100, /* how many of them must show what is part of many problems, */
    SOME = 12,   /* and what is one choice of many */
    FEATURES_MAX = 256,
};

/* Lengths around tiles, widths that kernels are written for or end at. */
static const int64_t lengths[] = {1,   2,   15,  16,  17,  31,  32,  33,  63,  64,  65, 127,
                                  128, 129, 191, 192, 193, 255, 256, 257, 300, 511, 513};
static const int64_t widths[] = {1,  2,  8,  16, 24,  32,  40,  63,  64,
                                 65, 72, 80, 96, 100, 128, 131, 192, 256};

static struct feature {
    const char *key;
    int64_t value;
    int least, count;
} features[FEATURES_MAX];
static size_t n_features;

/* Counts a case towards a feature. Called for those that it has not, too, so that a feature that
 * never comes up is counted 0 times. */
static void seen(bool has, int least, const char *key, int64_t value)
{
    size_t i = 0;
    while (i < n_features && !(features[i].value == value && strcmp(features[i].key, key) == 0))
        i++;
    assert_true(i < FEATURES_MAX);
    if (i == n_features)
        features[n_features++] = (struct feature){key, value, least, 0};
    features[i].count += has;
}

/* One of the values from 0 to count - 1. */
static void choice(int64_t chosen, int64_t count, int least, const char *key)
{
    for (int64_t value = 0; value < count; value++)
        seen(chosen == value, least, key, value);
}

static void count_sizes(const struct attn_case *c)
{
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        seen(c->sq == lengths[i], SOME, "sq", lengths[i]);
        seen(c->sk == lengths[i], SOME, "sk", lengths[i]);
    }
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        seen(c->dk == widths[i], SOME, "dk", widths[i]);
        seen(c->dv == widths[i], SOME, "dv", widths[i]);
    }
    choice(c->b - 1, 4, OFTEN, "b - 1");
    choice(c->hkv - 1, 5, OFTEN, "hkv - 1");
    for (int64_t group = 1; group <= 8; group++)
        if (group <= 4 || group == 8)
            seen(c->hq == group * c->hkv, OFTEN, "hq / hkv", group);
    seen(c->sk == 0, SOME, "no keys", 0);
    seen(c->sk < c->sq, OFTEN, "sk < sq", 0);
    seen(c->sk > c->sq, OFTEN, "sk > sq", 0);
    seen(c->dv != c->dk, OFTEN, "dv of its own", 0);
    seen(c->dq != c->dk, OFTEN, "dq of its own", 0);
}

static void count_window(int64_t reach, int64_t sk, const char *key)
{
    seen(reach == -1, OFTEN, key, -1);
    seen(reach == 0, OFTEN, key, 0);
    seen(reach == 1, OFTEN, key, 1);
    seen(reach > 8 && reach < sk, SOME, key, 9);
    seen(reach >= sk, OFTEN, key, 999);
}

static void count_lengths(const struct attn_case *c)
{
    const bool list = c->len == ATTN_LEN_LIST;
    bool none = false, all = false;
    for (int i = 0; i < c->n_len; i++) {
        none = none || c->len_list->at[i] == 0;
        all = all || c->len_list->at[i] == c->sk;
    }
    seen(list && none, OFTEN, "len: none of the keys", 0);
    seen(list && all, OFTEN, "len: all of the keys", 0);
    seen(list && c->n_len < c->b, OFTEN, "len: repeated", 0);
    choice(list ? c->n_len - 1 : -1, 4, SOME, "lengths - 1");
}

static void count_mask(const struct attn_case *c)
{
    const int parts = c->causal + c->off_br + (c->off != 0) + c->window + c->mask_bool +
                      (c->len != ATTN_LEN_NONE);
    choice(parts, 4, OFTEN, "parts of a mask");
    seen(c->causal, OFTEN, "causal", 0);
    seen(c->off_br, OFTEN, "br", 0);
    seen(c->causal && c->off_br, OFTEN, "causal_br", 0);
    seen(c->off > 0 && c->off < c->sk, OFTEN, "past within the keys", 0);
    seen(c->off > c->sk, OFTEN, "past beyond the keys", 0);
    if (c->window) {
        count_window(c->window_left, c->sk, "window, left");
        count_window(c->window_right, c->sk, "window, right");
        seen(c->off_br || c->off, OFTEN, "window with an offset", 0);
    }
    if (c->window)
        seen(c->n_dilation > 0, OFTEN, "steps of a window", 0);
    choice(c->global, ATTN_GLOBAL_PACK, OFTEN, "global");
    seen(c->global && c->window && c->n_dilation > 0, SOME, "global tokens and steps", 0);
    seen(c->global_proj && c->window, SOME, "global_proj", 0);
    choice(c->len, ATTN_LEN_PACK, OFTEN, "len");
    count_lengths(c);
    seen(c->mask_bool && c->mask_p == 0, OFTEN, "bool:0", 0);
    seen(c->mask_bool && c->mask_p == 1, OFTEN, "bool:1", 0);
    seen(c->mask_bool && c->mask_p > 0 && c->mask_p < 1, OFTEN, "bool", 0);
    choice(c->mask_bool ? (int64_t)c->mask_axes - 1 : -1, ATTN_AXES_ALL, SOME, "bool axes - 1");
}

static void count_scores(const struct attn_case *c)
{
    const double scale = fabs(c->scale);
    choice(c->op - 1, 2, OFTEN, "op - 1");
    choice(c->score - 1, 6, OFTEN, "score - 1");
    seen(c->params_head, OFTEN, "params=head", 0);
    seen(c->score == ATTN_SCORE_ADDITIVE && c->dh != c->dk, OFTEN, "dh", 0);
    if (c->scale_given) {
        seen(c->scale == 0, SOME, "scale: 0", 0);
        seen(c->scale < 0, OFTEN, "scale < 0", 0);
        seen(scale > 0 && scale < 1e-30, SOME, "scale: subnormal", 0);
        seen(scale > 1e-30 && scale < 1e-10, SOME, "scale: tiny", 0);
        seen(scale > 2 && scale <= 100, OFTEN, "scale: large", 0);
        seen(scale == 3e3, SOME, "scale: 3e3", 0);
        seen(scale == 1e8, SOME, "scale: 1e8", 0);
        seen(scale == 1e38, SOME, "scale: beyond the range of f32", 0);
    }
    seen(c->softcap > 0 && c->softcap < 1, OFTEN, "softcap: small", 0);
    seen(c->softcap >= 1 && c->softcap <= 60, OFTEN, "softcap", 0);
    seen(c->softcap == 1e4, OFTEN, "softcap: 1e4", 0);
    seen(c->softcap == 1e300, OFTEN, "softcap: beyond the range of f32", 0);
    seen(c->dropout, OFTEN, "dropout", 0);
    seen(c->dropout && c->dropout_p > 0.9, OFTEN, "dropout: nearly all", 0);
    seen(c->bias_normal, OFTEN, "bias=normal", 0);
    seen(c->bias_const, OFTEN, "bias=const", 0);
    choice(c->bias_normal ? (int64_t)c->bias_axes - 1 : -1, ATTN_AXES_ALL, SOME, "bias axes - 1");
    seen(c->alibi, OFTEN, "alibi", 0);
    seen(c->alibi && c->bias_normal, OFTEN, "alibi and bias", 0);
    seen(c->sink, OFTEN, "sink", 0);
}

static void count_placement(const struct attn_case *c)
{
    choice(c->dtype - 1, 4, OFTEN, "dtype - 1");
    choice(c->layout, 3, OFTEN, "layout");
    choice(c->fill, ATTN_FILL_CENSUS, OFTEN, "fill");
    choice(attn_case_asks(c, ATTN_LSE) + 2 * attn_case_asks(c, ATTN_WEIGHTS), 4, OFTEN, "out");
    for (unsigned view = 1; view <= ATTN_VIEW_HUGE; view *= 2)
        seen(c->view & view, view == ATTN_VIEW_HUGE ? SOME : OFTEN, "view", view);
    choice(__builtin_popcount(c->view), 5, SOME, "parts of a view");
    seen(c->seed < UINT64_C(1) << 32, OFTEN, "seed of 32 bits", 0);
    seen(c->seed >> 63, OFTEN, "seed of 64 bits", 0);
}

static void count_multi_head(const struct attn_case *c)
{
    seen(c->cross, OFTEN, "kv=cross", 0);
    seen(c->proj_bias, OFTEN, "proj_bias", 0);
    seen(c->residual && c->wo, OFTEN, "residual", 0);
    seen(!c->residual && !c->wo, OFTEN, "wo=0", 0);
    seen(c->residual && !c->wo, SOME, "residual and wo=0", 0);
    seen(c->weights == ATTN_WEIGHTS_STIEFEL, OFTEN, "stiefel", 0);
    seen(c->e != c->hq * c->dk, OFTEN, "e", 0);
    choice(c->n_prune, 4, SOME, "heads pruned");
    seen(c->n_prune == c->hq, SOME, "all heads pruned", 0);
}

static void test_the_whole_language_comes_up(void **state)
{
    (void)state;
    uint64_t seed = 1;
    int missing = 0;
    for (int i = 0; i < CASES; i++) {
        char line[TEST_LINE_MAX];
        attn_case_generate(&seed, false, line, sizeof line);
        struct attn_case c = parse_one(line);
        count_sizes(&c);
        count_mask(&c);
        count_scores(&c);
        count_placement(&c);
        if (c.op == ATTN_OP_MHA)
            count_multi_head(&c);
        attn_case_free(&c);
    }
    for (size_t i = 0; i < n_features; i++) {
        const struct feature *f = &features[i];
        if (f->count >= f->least)
            continue;
        print_error("%s %lld: %d of %d cases, expected %d\n", f->key, (long long)f->value, f->count,
                    CASES, f->least);
        missing++;
    }
    assert_int_equal(missing, 0);
    assert_true(n_features > 150);
}

/* Reference and bound take some milliseconds for each. */
static void test_a_case_costs_little(void **state)
{
    (void)state;
    uint64_t seed = 2;
    for (int i = 0; i < CASES; i++) {
        char line[TEST_LINE_MAX];
        attn_case_generate(&seed, false, line, sizeof line);
        struct attn_case c = parse_one(line);
        if (attn_case_flops(&c, c.b * c.hq * c.sq * c.sk) > 1.2e7)
            fail_msg("too large: %s", line);
        attn_case_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_whole_language_comes_up),
                                       cmocka_unit_test(test_a_case_costs_little)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
