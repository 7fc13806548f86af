/* SPDX-License-Identifier: Apache-2.0 */
/* power_mistakes.c - the table of mistakes, and what a problem must have for each. */
#include "explain/power_mistakes.h"

#include <math.h>

/* What a problem must have; all bits of a mistake. */
enum {
    CAUSAL = 1,
    WINDOW = 2,
    LEN = 4,
    MASK = 8,
    SOFTCAP = 16,
    BIAS = 32,
    ALIBI = 64,
    SINK = 128,
    DROPOUT = 256,
    GROUPS = 512, /* several key/value heads, each of several query heads */
    HEADS = 1024, /* several query heads */
    LSE = 2048,
    PROJECTED = 4096,
    B_V = 8192,
    B_O = 16384,
    RESIDUAL = 32768,
    PRUNED = 65536,
    SQUARE_O = 1 << 17,  /* W_o with as many rows as columns */
    POSITIONS = 1 << 18, /* causal or window */
    LEFT = 1 << 19,      /* a window with this side */
    RIGHT = 1 << 20,
    WIDTHS = 1 << 21, /* dk is not dv */
    B_QK = 1 << 22,
    KV_HEADS = 1 << 23, /* several key/value heads */
    GLOBAL = 1 << 24,   /* a window with global tokens */
    DILATION = 1 << 25
};

static const struct {
    const char *name;
    int needs;
    struct attn_wrong wrong;
} mistakes[] = {
    {"uniform_weights", 0, {.uniform = true}},
    {"first_key_dropped", 0, {.drop = ATTN_DROP_FIRST}},
    {"middle_key_dropped", 0, {.drop = ATTN_DROP_MIDDLE}},
    {"last_key_dropped", 0, {.drop = ATTN_DROP_LAST}},
    {"scale_1.02", 0, {.scale_less = -0.02}},
    {"scale_1.1", 0, {.scale_less = -0.1}},
    {"scale_2", 0, {.scale_less = -1}},
    {"scale_from_dv", WIDTHS, {.scale_less = NAN}}, /* set below */
    {"causal_plus_1", CAUSAL, {.causal_by = 1}},
    {"causal_minus_1", CAUSAL, {.causal_by = -1}},
    {"causal_lost", CAUSAL, {.no_causal = true}},
    {"other_alignment", POSITIONS, {.other_side = true}},
    {"window_left_plus_1", LEFT, {.left_by = 1}},
    {"window_left_minus_1", LEFT, {.left_by = -1}},
    {"window_right_plus_1", RIGHT, {.right_by = 1}},
    {"window_right_minus_1", RIGHT, {.right_by = -1}},
    {"window_lost", WINDOW, {.no_window = true}},
    {"len_plus_1", LEN, {.len_by = 1}},
    {"len_minus_1", LEN, {.len_by = -1}},
    {"len_lost", LEN, {.no_len = true}},
    {"mask_lost", MASK, {.no_mask = true}},
    {"mask_inverted", MASK, {.mask_turned = true}},
    {"heads_reversed", HEADS, {.of = ATTN_OF_HEADS_REVERSED}},
    {"heads_of_neighbours", HEADS, {.of = ATTN_OF_HEAD_NEIGHBOUR}},
    {"kv_heads_tiled", GROUPS, {.scores = ATTN_SCORES_TILED}},
    {"kv_head_0", KV_HEADS, {.scores = ATTN_SCORES_FIRST_HEAD}},
    {"values_of_next_key", 0, {.value_by = 1}},
    {"softcap_lost", SOFTCAP, {.cap = ATTN_CAP_NONE}},
    {"softcap_before_scale", SOFTCAP, {.cap = ATTN_CAP_FIRST}},
    {"bias_lost", BIAS, {.bias_less = 1}},
    {"bias_of_next_head", BIAS | HEADS, {.bias_head = 1}},
    {"alibi_lost", ALIBI, {.alibi_less = 1}},
    {"alibi_sign", ALIBI, {.alibi_less = 2}},
    {"sink_lost", SINK, {.sink_less = 1}},
    {"sink_twice", SINK, {.sink_less = -1}},
    {"dropout_unscaled", DROPOUT, {.keep = ATTN_KEEP_UNSCALED}},
    {"dropout_keeps_all", DROPOUT, {.keep = ATTN_KEEP_ALL}},
    {"dropout_of_next_key", DROPOUT, {.keep = ATTN_KEEP_NEXT}},
    {"empty_row_rule", 0, {.empty = true}},
    {"out_1.05", 0, {.out_less = -0.05}},
    {"out_of_next_row", 0, {.of = ATTN_OF_NEXT_ROW}},
    {"query_tiles_swapped", 0, {.of = ATTN_OF_OTHER_TILE}},
    {"lse_in_base_2", LSE, {.lse_less = -0.44269504088896340736}},
    {"w_q_w_k_exchanged", PROJECTED, {.scores = ATTN_SCORES_EXCHANGED}},
    {"b_q_lost", PROJECTED | B_QK, {.scores = ATTN_SCORES_NO_B_Q}},
    {"b_k_lost", PROJECTED | B_QK, {.scores = ATTN_SCORES_NO_B_K}},
    {"b_q_b_k_exchanged", PROJECTED | B_QK, {.scores = ATTN_SCORES_B_EXCHANGED}},
    {"b_v_lost", PROJECTED | B_V, {.b_v_more = -1}},
    {"b_v_twice", PROJECTED | B_V, {.b_v_more = 1}},
    {"b_o_lost", PROJECTED | B_O, {.b_o_more = -1}},
    {"w_o_transposed", PROJECTED | SQUARE_O, {.w_o_transposed = true}},
    {"head_slice_plus_1", PROJECTED, {.concat_by_one = true}},
    {"residual_lost", RESIDUAL, {.residual_more = -1}},
    {"residual_twice", RESIDUAL, {.residual_more = 1}},
    {"residual_before_w_o", RESIDUAL | SQUARE_O, {.residual_first = true}},
    {"pruned_head_counts", PRUNED, {.head_pruned_counts = true}},
    {"global_keys_lost", GLOBAL, {.no_global_keys = true}},
    {"global_rows_lost", GLOBAL, {.no_global_rows = true}},
    {"global_keys_twice", GLOBAL, {.global_twice = true}},
    {"global_keys_plus_1", GLOBAL, {.global_by = 1}},
    {"dilation_lost", DILATION, {.no_dilation = true}},
};
enum { COUNT = sizeof mistakes / sizeof *mistakes, SCORES = 9 };
_Static_assert(COUNT + SCORES <= 8 * sizeof(attn_power_set), "a set has a bit for each");

const char *attn_power_name(int m)
{
    return m < COUNT ? mistakes[m].name : attn_power_parameters(m - COUNT + 1);
}

static bool has(const struct attn_problem *p, uint32_t role)
{
    return attn_tensor_find(p, role) != NULL;
}

static int features_of(const struct attn_problem *p)
{
    const struct attn_tensor *w_o = attn_tensor_find(p, ATTN_W_O);
    const uint64_t f = p->flags;
    const bool window = f & ATTN_FLAG_WINDOW, projected = ref_op_is(p->op, REF_PROJECTED);
    const struct {
        int bit;
        bool has;
    } all[] = {{CAUSAL, f & ATTN_FLAG_CAUSAL},
               {WINDOW, window},
               {LEFT, window && p->window_left >= 0},
               {RIGHT, window && p->window_right >= 0},
               {POSITIONS, f & (ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW)},
               {LEN, has(p, ATTN_LEN)},
               {MASK, has(p, ATTN_MASK)},
               {SOFTCAP, f & ATTN_FLAG_SOFTCAP && p->scale != 0},
               {BIAS, has(p, ATTN_BIAS)},
               {ALIBI, has(p, ATTN_ALIBI)},
               {SINK, has(p, ATTN_SINK)},
               {DROPOUT, f & ATTN_FLAG_DROPOUT},
               {GROUPS, p->hkv > 1 && p->hq > p->hkv},
               {KV_HEADS, p->hkv > 1},
               {HEADS, p->hq > 1},
               {LSE, has(p, ATTN_LSE)},
               {WIDTHS, p->dk != p->dv},
               {PROJECTED, projected},
               {B_QK, has(p, ATTN_B_Q) && has(p, ATTN_B_K)},
               {B_V, has(p, ATTN_B_V)},
               {B_O, has(p, ATTN_B_O)},
               {RESIDUAL, projected && f & ATTN_FLAG_RESIDUAL},
               {PRUNED, has(p, ATTN_HEAD_MASK)},
               {GLOBAL, window && has(p, ATTN_GLOBAL)},
               {DILATION, window && has(p, ATTN_DILATION)},
               {SQUARE_O, w_o && w_o->shape[0] == w_o->shape[1]}};
    int features = 0;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        features |= all[k].has ? all[k].bit : 0;
    return features;
}

bool attn_power_wrong(int m, const struct attn_problem *p, struct attn_wrong *wrong)
{
    if (m >= COUNT) {
        *wrong = (struct attn_wrong){.scores = ATTN_SCORES_PARAMETERS + m - COUNT + 1};
        return true;
    }
    *wrong = mistakes[m].wrong;
    if (isnan(wrong->scale_less)) /* a default scale 1/sqrt(dv) */
        wrong->scale_less = 1 - sqrt((double)p->dk / (double)p->dv);
    return (mistakes[m].needs & ~features_of(p)) == 0;
}
