/* SPDX-License-Identifier: Apache-2.0 */
/* schema.c - the table of operands. */
#include "tensor/schema.h"

#include <string.h>

/* The table's own shorthand. */
#define B      ATTN_EXT_B
#define HQ     ATTN_EXT_HQ
#define HKV    ATTN_EXT_HKV
#define SQ     ATTN_EXT_SQ
#define SK     ATTN_EXT_SK
#define DQ     ATTN_EXT_DQ
#define DK     ATTN_EXT_DK
#define DV     ATTN_EXT_DV
#define DH     ATTN_EXT_DH
#define ATT    ATTN_FOR_ATTENTION
#define MHA    ATTN_FOR_MHA
#define ALL    ATTN_FOR_BOTH
#define ANY    ATTN_AXES_ALL
#define FIRST  ATTN_AXIS_B
#define MAIN   ATTN_TYPE_MAIN
#define SIDE   ATTN_TYPE_SIDE
#define WIDE   ATTN_TYPE_WIDE
#define BOOL   ATTN_TYPE_BOOL
#define INDEX  ATTN_TYPE_INDEX
#define ANSWER ATTN_TYPE_ANSWER

const struct attn_schema attn_schemas[] = {
    /* role, name, ops, type, rank, min_rank, extents, axes that may be 1, activate, output */
    {ATTN_Q, "q", ATT, MAIN, 4, 0, {B, HQ, SQ, DQ}, 0, true, false},
    {ATTN_K, "k", ATT, MAIN, 4, 0, {B, HKV, SK, DK}, 0, true, false},
    {ATTN_V, "v", ATT, MAIN, 4, 0, {B, HKV, SK, DV}, 0, true, false},
    {ATTN_X_Q, "x_q", MHA, MAIN, 3, 0, {B, SQ, ATTN_EXT_EQ}, 0, true, false},
    {ATTN_X_K, "x_k", MHA, MAIN, 3, 0, {B, SK, ATTN_EXT_EK}, 0, true, false},
    {ATTN_X_V, "x_v", MHA, MAIN, 3, 0, {B, SK, ATTN_EXT_EV}, 0, true, false},
    {ATTN_W_Q, "w_q", MHA, MAIN, 2, 0, {ATTN_EXT_HQ_DQ, ATTN_EXT_EQ}, 0, false, false},
    {ATTN_W_K, "w_k", MHA, MAIN, 2, 0, {ATTN_EXT_HKV_DK, ATTN_EXT_EK}, 0, false, false},
    {ATTN_W_V, "w_v", MHA, MAIN, 2, 0, {ATTN_EXT_HKV_DV, ATTN_EXT_EV}, 0, false, false},
    {ATTN_W_O, "w_o", MHA, MAIN, 2, 0, {ATTN_EXT_EO, ATTN_EXT_HQ_DV}, 0, false, false},
    {ATTN_B_Q, "b_q", MHA, MAIN, 1, 0, {ATTN_EXT_HQ_DQ}, 0, false, false},
    {ATTN_B_K, "b_k", MHA, MAIN, 1, 0, {ATTN_EXT_HKV_DK}, 0, false, false},
    {ATTN_B_V, "b_v", MHA, MAIN, 1, 0, {ATTN_EXT_HKV_DV}, 0, false, false},
    {ATTN_B_O, "b_o", MHA, MAIN, 1, 0, {ATTN_EXT_EO}, 0, false, false},
    {ATTN_SCORE_M, "m", ALL, SIDE, 3, 0, {HQ, DQ, DK}, FIRST, false, false},
    {ATTN_SCORE_WQ, "score_w_q", ALL, SIDE, 3, 0, {HQ, DH, DQ}, FIRST, false, false},
    {ATTN_SCORE_WK, "score_w_k", ALL, SIDE, 3, 0, {HQ, DH, DK}, FIRST, false, false},
    {ATTN_SCORE_WV, "score_w_v", ALL, SIDE, 2, 0, {HQ, DH}, FIRST, false, false},
    {ATTN_MASK, "mask", ALL, BOOL, 4, 0, {B, HQ, SQ, SK}, ANY, false, false},
    {ATTN_BIAS, "bias", ALL, SIDE, 4, 0, {B, HQ, SQ, SK}, ANY, false, false},
    {ATTN_LEN, "len", ALL, INDEX, 2, 1, {B, SQ}, 0, false, false},
    {ATTN_ALIBI, "alibi", ALL, WIDE, 1, 0, {HQ}, 0, false, false},
    {ATTN_SINK, "sink", ALL, WIDE, 1, 0, {HQ}, 0, false, false},
    {ATTN_KEEP, "keep", ALL, BOOL, 4, 0, {B, HQ, SQ, SK}, 0, false, false},
    {ATTN_HEAD_MASK, "head_mask", MHA, BOOL, 1, 0, {HQ}, 0, false, false},
    {ATTN_OUT, "out", ATT, MAIN, 4, 0, {B, HQ, SQ, DV}, 0, true, true},
    {ATTN_OUT, "out", MHA, MAIN, 3, 0, {B, SQ, ATTN_EXT_EO}, 0, true, true},
    {ATTN_LSE, "lse", ALL, WIDE, 3, 0, {B, HQ, SQ}, 0, false, true},
    {ATTN_WEIGHTS, "weights", ALL, MAIN, 4, 0, {B, HQ, SQ, SK}, 0, false, true},
    {0, "scores", ALL, ANSWER, 4, 0, {B, HQ, SQ, SK}, 0, false, true},
};
const size_t attn_schema_count = sizeof attn_schemas / sizeof attn_schemas[0];

static bool serves(const struct attn_schema *schema, uint32_t op)
{
    return schema->ops & (op == ATTN_OP_MHA ? ATTN_FOR_MHA : ATTN_FOR_ATTENTION);
}

const struct attn_schema *attn_schema_of_role(uint32_t op, uint32_t role)
{
    for (size_t s = 0; s < attn_schema_count; s++)
        if (attn_schemas[s].role == role && serves(&attn_schemas[s], op))
            return &attn_schemas[s];
    return NULL;
}

const struct attn_schema *attn_schema_of_name(uint32_t op, const char *name)
{
    for (size_t s = 0; s < attn_schema_count; s++)
        if (strcmp(attn_schemas[s].name, name) == 0 && serves(&attn_schemas[s], op))
            return &attn_schemas[s];
    return NULL;
}

const char *attn_role_name(uint32_t role)
{
    for (size_t s = 0; s < attn_schema_count; s++)
        if (role != 0 && attn_schemas[s].role == role)
            return attn_schemas[s].name;
    return "?";
}

const char *attn_extent_name(enum attn_extent extent)
{
    static const char *const names[ATTN_EXT_COUNT] = {
        "B",  "Hq", "Sq", "Sk", "Hkv",   "Dq",     "Dk",     "Dv",   "Dh",
        "Eq", "Ek", "Ev", "Eo", "Hq*Dq", "Hkv*Dk", "Hkv*Dv", "Hq*Dv"};
    return names[extent];
}

int attn_extents_of_case(const struct attn_case *c, int64_t extents[ATTN_EXT_COUNT])
{
    extents[ATTN_EXT_B] = c->b;
    extents[ATTN_EXT_HQ] = c->hq;
    extents[ATTN_EXT_SQ] = c->sq;
    extents[ATTN_EXT_SK] = c->sk;
    extents[ATTN_EXT_HKV] = c->hkv;
    extents[ATTN_EXT_DQ] = c->dq;
    extents[ATTN_EXT_DK] = c->dk;
    extents[ATTN_EXT_DV] = c->dv;
    extents[ATTN_EXT_DH] = c->dh;
    extents[ATTN_EXT_EQ] = c->e;
    extents[ATTN_EXT_EK] = c->e;
    extents[ATTN_EXT_EV] = c->e;
    if (__builtin_mul_overflow(c->hq, c->dq, &extents[ATTN_EXT_HQ_DQ]) ||
        __builtin_mul_overflow(c->hkv, c->dk, &extents[ATTN_EXT_HKV_DK]) ||
        __builtin_mul_overflow(c->hkv, c->dv, &extents[ATTN_EXT_HKV_DV]) ||
        __builtin_mul_overflow(c->hq, c->dv, &extents[ATTN_EXT_HQ_DV]))
        return -1;
    extents[ATTN_EXT_EO] = c->wo ? c->e : extents[ATTN_EXT_HQ_DV];
    return 0;
}
