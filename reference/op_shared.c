/* SPDX-License-Identifier: Apache-2.0 */
/* op_shared.c - rows of operand tables that several operators have. */
#include "reference/op_shared.h"

const struct ref_operand ref_operands_score[] = {
    {ATTN_SCORE_M, "m", "hqk", "h", REF_TYPE_SIDE, 0, 0},
    {ATTN_SCORE_WQ, "score_w_q", "hdq", "h", REF_TYPE_SIDE, 0, 0},
    {ATTN_SCORE_WK, "score_w_k", "hdk", "h", REF_TYPE_SIDE, 0, 0},
    {ATTN_SCORE_WV, "score_w_v", "hd", "h", REF_TYPE_SIDE, 0, 0},
    {0}};

const struct ref_operand ref_operands_mask[] = {
    {ATTN_MASK, "mask", "bhij", "bhij", REF_TYPE_BOOL, 0, 0},
    {ATTN_BIAS, "bias", "bhij", "bhij", REF_TYPE_SIDE, 0, 0},
    {ATTN_LEN, "len", "bi", "", REF_TYPE_INDEX, REF_SHORT, 0},
    {ATTN_ALIBI, "alibi", "h", "", REF_TYPE_WIDE, 0, 0},
    {ATTN_SINK, "sink", "h", "", REF_TYPE_WIDE, 0, 0},
    {ATTN_KEEP, "keep", "bhij", "", REF_TYPE_BOOL, 0, 0},
    {0}};
