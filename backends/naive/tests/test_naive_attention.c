/* SPDX-License-Identifier: Apache-2.0 */
/* test_naive_attention.c - compares the naive backend with a double loop, over the whole operator
 * and in all types. */
#include <stddef.h>
#include <stdint.h>

#include "../../tests/common.h"

/* Scores that no other backend has. */
static const struct test_spec own[] = {
    {.name = "gaussian", .score = ATTN_SCORE_GAUSSIAN, .scale = 1, .sq = 3, .sk = 9, .dq = 19},
    {.name = "bilinear",
     .score = ATTN_SCORE_BILINEAR,
     .hq = 2,
     .sq = 3,
     .sk = 9,
     .dq = 5,
     .dk = 10,
     .scale = 0.3,
     .with = ALL_OUT | WITH_HEAD_PARAMS},
    {.name = "additive, wide query, one set",
     .score = ATTN_SCORE_ADDITIVE,
     .dtype = ATTN_BF16,
     .hq = 2,
     .sq = 3,
     .sk = 9,
     .dq = 15,
     .dk = 4,
     .dh = 6,
     .scale = 1},
    {.name = "additive, f64, a set a head",
     .score = ATTN_SCORE_ADDITIVE,
     .dtype = ATTN_F64,
     .hq = 4,
     .hkv = 2,
     .sq = 3,
     .sk = 9,
     .dq = 3,
     .dk = 4,
     .dh = 6,
     .scale = 1,
     .with = ALL_OUT | WITH_HEAD_PARAMS | WITH_GAPS},
    {.name = "mha, gaussian heads, f16",
     .op = ATTN_OP_MHA,
     .score = ATTN_SCORE_GAUSSIAN,
     .dtype = ATTN_F16,
     .scale = 0.1,
     .hq = 2,
     .sq = 4,
     .sk = 4,
     .dq = 3,
     .e = 3,
     .with = WITH_W_O | WITH_PROJ_BIAS},
};

int main(void)
{
    const uint32_t dtypes[] = {ATTN_F32, ATTN_F64, ATTN_F16, ATTN_BF16, 0};
    struct test_subject naive = {.backend = attn_plugin.backends[0],
                                 .dtypes = dtypes,
                                 .own = own,
                                 .n_own = sizeof(own) / sizeof(own[0])};
    return test_common(&naive);
}
