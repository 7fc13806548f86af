/* SPDX-License-Identifier: Apache-2.0 */
/* fill.c - what each fill does, and which cases it fits. */
#include <math.h>
#include <stdio.h>

#include "case/language.h"
#include "case/operator.h"

static const char *const meanings[ATTN_FILL_COUNT] = {
    [ATTN_FILL_NORMAL] = "N(0,1), the default",
    [ATTN_FILL_UNIFORM] = "uniform in [-1, 1)",
    [ATTN_FILL_ONES] = "every element of q, k, v (x_q, x_k, x_v) is 1",
    [ATTN_FILL_ZEROS] = "every element of q, k, v (x_q, x_k, x_v) is 0",
    [ATTN_FILL_SMOOTH] = "rows of q and of k change slowly along the sequence, as a model's do",
    [ATTN_FILL_CENSUS] = "k is 0 and v random signs: every key of every row is counted",
    [ATTN_FILL_SPIKE] = "keys that are not allowed have the largest scores and values",
    [ATTN_FILL_POISON] = "keys that no row may see hold NaN and Inf",
    [ATTN_FILL_EXACT] = "scores 0 or -200, small whole v: the answer is known to the bit",
    [ATTN_FILL_ONE_HOT] = "one key per row takes all the weight: out is its v",
    [ATTN_FILL_STAIR_UP] = "scores rise from tile to tile, most in the last",
    [ATTN_FILL_STAIR_DOWN] = "scores fall from tile to tile, beyond underflow",
    [ATTN_FILL_ROUNDING] = "v is positive: the mean of signed errors shows truncation",
    [ATTN_FILL_OVERFLOW] = "scores near 1e4, dot products beyond 65504",
    [ATTN_FILL_NEGATIVE] = "all scores near -2e5",
    [ATTN_FILL_CONSTANT] = "all keys of a head are alike, and all its values",
    [ATTN_FILL_CANCEL] = "keys in pairs of opposite v: out is near 0",
    [ATTN_FILL_TINY] = "v near 1e-6: subnormal in f16",
    [ATTN_FILL_WHOLE] = "projections add up small whole numbers: exact in every order",
    [ATTN_FILL_FEW_QUERIES] = "a few distinct queries: every row is judged at any length",
    [ATTN_FILL_STRONG_DECAY] = "some channels decay so fast that products leave the range of f32",
    [ATTN_FILL_TINY_PHI] = "random features whose exponentials are below the range of f32",
    [ATTN_FILL_CLUSTERS] = "queries of a few directions, some 0: large buckets, ties",
    [ATTN_FILL_CANCEL_DELTA] = "v near 1 and dout 1: dP - delta cancels",
    [ATTN_FILL_BIG_GRAD] = "dout near 1e4: dS beyond the range of f16",
    [ATTN_FILL_TINY_GRAD] = "dout near 1e-6: dS below the range of f16",
    [ATTN_FILL_SPARSE_GRAD] = "dout of most rows is 0: dk and dv of every key are judged",
    [ATTN_FILL_SPARSE_KEYS] = "k and v of most keys are 0: dq of every row is judged",
    [ATTN_FILL_ZERO_GRAD] = "dout is 0: so is every gradient, to the bit",
    [ATTN_FILL_TWO_HOT] = "two keys per row have half of the weight each: dS is a quarter",
};

const char *attn_fill_name(enum attn_fill fill)
{
    return attn_fill_choices[fill].name;
}

const char *attn_fill_meaning(enum attn_fill fill)
{
    return meanings[fill];
}

bool attn_fill_is_whole(enum attn_fill fill)
{
    return fill == ATTN_FILL_FEW_QUERIES || fill == ATTN_FILL_SPARSE_GRAD ||
           fill == ATTN_FILL_SPARSE_KEYS;
}

bool attn_fill_is_due(enum attn_fill fill, bool sampled)
{
    return sampled || fill == ATTN_FILL_SPARSE_GRAD || !attn_fill_is_whole(fill);
}

static bool has_mask(const struct attn_case *c)
{
    return c->causal || c->window || c->mask_bool || c->len != ATTN_LEN_NONE;
}

/* A feature that changes the weights, besides the scores that a fill chooses. */
static const char *weight_part(const struct attn_case *c)
{
    return c->bias_normal || c->bias_const ? "a bias"
           : c->alibi                      ? "ALiBi"
           : c->sink                       ? "a sink"
           : c->dropout                    ? "dropout"
                                           : NULL;
}

/* A fill chooses scores by dividing by the scale. */
static bool scale_is_usable(const struct attn_case *c)
{
    return fabs(c->scale) >= 1e-4 && fabs(c->scale) <= 1e4;
}

/* Can the columns of q and k tell the keys apart by their signs? Under two_hot, pairs of keys by
 * all columns but one. */
static bool keys_are_distinct(const struct attn_case *c, bool pairs)
{
    const int64_t columns = (c->dq < c->dk ? c->dq : c->dk) - pairs;
    const int64_t codes = pairs ? (c->sk + 1) / 2 : c->sk;
    return columns >= 31 || codes <= (int64_t)1 << columns;
}

/* Columns of x that a fill of multi-head attention needs: harness/tensor/fill_mha.c lays them out.
 */
static int64_t columns_needed(const struct attn_case *c, enum attn_fill fill)
{
    const int64_t free = 3; /* one each for q, k and v */
    int64_t bits = 1;

    while (c->sk > (int64_t)1 << bits)
        bits++;
    switch (fill) {
    case ATTN_FILL_WHOLE:
    case ATTN_FILL_CENSUS:
        return 1;
    case ATTN_FILL_ONE_HOT: /* codes of the keys, and of the key of one head */
        return 2 * bits + 1;
    case ATTN_FILL_EXACT:
    case ATTN_FILL_STAIR_UP:
    case ATTN_FILL_STAIR_DOWN:
    case ATTN_FILL_SPIKE:
        return 2 + free;
    case ATTN_FILL_OVERFLOW:
    case ATTN_FILL_NEGATIVE:
        return 1 + free;
    default:
        return free;
    }
}

/* Are the scores that a fill chooses those that make the weights of a softmax 0 or 1, or tiles of
 * them rise and fall? */
static bool needs_softmax(enum attn_fill fill)
{
    return fill == ATTN_FILL_EXACT || fill == ATTN_FILL_ONE_HOT || fill == ATTN_FILL_TWO_HOT ||
           fill == ATTN_FILL_STAIR_UP || fill == ATTN_FILL_STAIR_DOWN;
}

/* What operators draw by themselves a fill that only some of them have; NULL: others may fit it. */
static const char *operator_of(enum attn_fill fill)
{
    switch (fill) {
    case ATTN_FILL_STRONG_DECAY:
        return "an operator whose state decays";
    case ATTN_FILL_TINY_PHI:
        return "an operator with random features";
    case ATTN_FILL_CLUSTERS:
        return "an operator that hashes its queries";
    case ATTN_FILL_CANCEL_DELTA:
    case ATTN_FILL_BIG_GRAD:
    case ATTN_FILL_TINY_GRAD:
    case ATTN_FILL_SPARSE_GRAD:
    case ATTN_FILL_SPARSE_KEYS:
    case ATTN_FILL_ZERO_GRAD:
    case ATTN_FILL_TWO_HOT:
        return "an operator with dout";
    default:
        return NULL;
    }
}

/* What a fill needs and the case does not have; some needs are written into `text`. */
static const char *why_not(const struct attn_case *c, enum attn_fill fill, char text[64])
{
    const struct ref_score *score = attn_case_score(c);
    const bool product = score->traits & REF_SCORE_PRODUCT;
    if (fill <= ATTN_FILL_ZEROS)
        return NULL;
    if (c->data)
        return "drawn tensors, not a pack's";
    if (fill == ATTN_FILL_SMOOTH)
        return ref_operand_of(attn_case_op(c), ATTN_Q) ? NULL : "an operator with q";
    if (c->sk == 0)
        return "keys";
    if (attn_op_fills(attn_case_op(c), attn_fill_name(fill)))
        return NULL;
    const bool crafted = attn_op_crafts(attn_case_op(c), attn_fill_name(fill));
    if (operator_of(fill) && !crafted)
        return operator_of(fill);
    /* Where queries are their own keys, somebody sees every key. */
    const bool shared =
        ref_operand_of(attn_case_op(c), ATTN_Q) && !ref_operand_of(attn_case_op(c), ATTN_K);
    if (fill == ATTN_FILL_POISON)
        return shared ? "keys of their own" : has_mask(c) || c->global_proj ? NULL : "a mask";
    const bool projected = ref_op_is(c->op, REF_PROJECTED);
    if (!ref_op_is(c->op, REF_QKV) && !projected && !crafted)
        return "an operator with q, k and v";
    if (projected && c->e < columns_needed(c, fill)) {
        snprintf(text, 64, "e of at least %lld", (long long)columns_needed(c, fill));
        return text;
    }
    if (fill == ATTN_FILL_WHOLE)
        return projected ? NULL : "projections";
    if (fill == ATTN_FILL_FEW_QUERIES && projected)
        return "op=" ATTN_DEFAULT_OP ": projections mix what it puts into q, k and v";
    if (fill == ATTN_FILL_FEW_QUERIES && ref_op_is(c->op, REF_ROWS_ALIKE))
        return c->causal || c->len == ATTN_LEN_RAND_2D ? "rows that see the same keys" : NULL;
    if (fill == ATTN_FILL_ROUNDING || (fill >= ATTN_FILL_CONSTANT && fill <= ATTN_FILL_TINY))
        return NULL;
    if (needs_softmax(fill) && attn_case_weighs(c))
        return "the weights of a softmax";
    if (fill == ATTN_FILL_FEW_QUERIES && !attn_case_is_softmax(c))
        return "a softmax without a gate";
    if (fill == ATTN_FILL_CENSUS && attn_case_weighs(c))
        return NULL;
    if (!ref_op_is(c->op, REF_SOFTMAX) && !crafted)
        return "an operator whose softmax is over the keys themselves";
    if (fill == ATTN_FILL_CENSUS || fill == ATTN_FILL_EXACT || fill == ATTN_FILL_ONE_HOT)
        if (weight_part(c))
            return "weights that scores alone decide: no bias, ALiBi, sink or dropout";
    if (fill == ATTN_FILL_TWO_HOT && (c->bias_normal || c->bias_const || c->alibi || c->sink))
        return "weights that scores alone decide: no bias, ALiBi or sink";
    if (fill == ATTN_FILL_CENSUS)
        return ref_op_is(c->op, REF_SOFTMAX) || ref_op_is(c->op, REF_UNIFORM)
                   ? NULL
                   : "an operator in which keys of 0 weigh alike";
    if (!ref_op_is(c->op, REF_SOFTMAX) && !crafted)
        return "a softmax of scores";
    if (!scale_is_usable(c))
        return "a scale between 1e-4 and 1e4";
    if ((fill == ATTN_FILL_EXACT || fill == ATTN_FILL_ONE_HOT || fill == ATTN_FILL_TWO_HOT) &&
        c->softcap > 0)
        return "scores without softcap";
    if (projected && !product && fill != ATTN_FILL_ONE_HOT)
        return "a score that is a product";
    switch (fill) {
    case ATTN_FILL_FEW_QUERIES: /* every row must see few ranges of keys */
        if (score->traits & REF_SCORE_PLACES)
            return "a score that does not depend on distances";
        if (c->global_proj)
            return "global tokens without projections of their own";
        return c->mask_bool || c->bias_normal || c->bias_const || c->alibi || c->dropout
                   ? "rows that see ranges of keys: no boolean mask, bias, ALiBi or dropout"
                   : NULL;
    case ATTN_FILL_SPIKE:
        return !product ? "a score that is a product" : has_mask(c) ? NULL : "a mask";
    case ATTN_FILL_OVERFLOW:
    case ATTN_FILL_NEGATIVE:
        return product ? NULL : "a score that is a product";
    case ATTN_FILL_ONE_HOT:
        if (!product && !(score->traits & REF_SCORE_DISTANCE)) {
            snprintf(text, 64, "a score other than %s", score->name);
            return text;
        }
        return keys_are_distinct(c, false) ? NULL : "at most 2^dk keys";
    case ATTN_FILL_TWO_HOT:
        return keys_are_distinct(c, true) ? NULL : "at most 2^dk keys";
    default:
        return NULL;
    }
}

bool attn_fill_fits(const struct attn_case *c, enum attn_fill fill, char *why, size_t size)
{
    char text[64];
    const char *needs = why_not(c, fill, text);
    if (needs && why)
        snprintf(why, size, "fill=%s needs %s", attn_fill_name(fill), needs);
    return !needs;
}
