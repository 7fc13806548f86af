/* SPDX-License-Identifier: Apache-2.0 */
/* test_cudnn_supports.c - what is put to cuDNN and what is refused before; where rows see keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../supports.h"
#include "specs.h"

static int answer(const struct test_spec *spec, char *why, size_t size)
{
    struct test_problem made;
    make(spec, &made);
    int status = attn_cudnn_supports(&made.problem, why, size);
    test_problem_free(&made);
    return status;
}

static void taken_are_taken(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof taken / sizeof *taken; s++) {
        char why[256] = "";
        if (answer(&taken[s], why, sizeof why) != ATTN_OK)
            fail_msg("%s: %s", taken[s].name, why);
    }
}

static void others_are_refused(void **state)
{
    (void)state;
    static const struct test_spec others[] = {
        {.name = "f32", .dtype = ATTN_F32},
        {.name = "multi-head attention", .op = ATTN_OP_MHA, .e = 64},
        {.name = "Gaussian scores", .score = ATTN_SCORE_GAUSSIAN},
        {.name = "weights", .with = WITH_WEIGHTS},
        {.name = "boolean mask", .with = WITH_MASK},
        {.name = "len of every query", .with = WITH_LEN_2D},
        {.name = "softcap", .softcap = 2, .flags = ATTN_FLAG_SOFTCAP},
        {.name = "dropout", .dropout_p = 0.5, .flags = ATTN_FLAG_DROPOUT},
        {.name = "d 20", .dq = 20},
        {.name = "d 264", .dq = 264},
        {.name = "rows off vectors", .with = WITH_GAPS},
        {.name = "elements apart", .with = WITH_BHDS},
        {.name = "scale below 0", .scale = -1},
        {.name = "no keys", .sk = -1, .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR},
        {.name = "rows without keys", .sq = 100, .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR},
        {.name = "rows past the window",
         .sq = 120,
         .left = 10,
         .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW},
        {.name = "another diagonal", .off = 7, .flags = ATTN_FLAG_CAUSAL},
        {.name = "ALiBi on both sides", .with = WITH_ALIBI},
        {.name = "ALiBi to the last key",
         .sq = 40,
         .with = WITH_ALIBI,
         .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR},
        {.name = "bias to the last key",
         .sq = 40,
         .with = WITH_BIAS,
         .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR},
        {.name = "a sink for one query", .sq = 1, .with = WITH_SINK},
        {GRADIENTS("gradients in f32"), .dtype = ATTN_F32},
        {GRADIENTS("the same bits on every run"), .flags = ATTN_FLAG_DETERMINISTIC},
        {GRADIENTS("a gradient of lse"), .with = WITH_GRAD_LSE},
        {GRADIENTS("a gradient of the bias"), .with = WITH_BIAS | WITH_GRAD_BIAS},
        {GRADIENTS("a gradient of the slopes"), .with = WITH_ALIBI | WITH_GRAD_ALIBI,
         .flags = ATTN_FLAG_CAUSAL},
        {GRADIENTS("gradients with a sink"), .with = WITH_SINK},
        {GRADIENTS("gradients under a softcap"), .softcap = 2, .flags = ATTN_FLAG_SOFTCAP},
        {GRADIENTS("gradients under dropout"), .dropout_p = 0.5, .flags = ATTN_FLAG_DROPOUT},
        {GRADIENTS("gradients of one query and key"), .sq = 1, .sk = 1},
        {GRADIENTS("gradients, more queries than keys, to the last key"), .sq = 100, .left = 1000,
         .right = 10, .flags = ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR},
        {GRADIENTS("gradients, rows without keys"), .sq = 100,
         .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR},
    };
    for (size_t s = 0; s < sizeof others / sizeof *others; s++) {
        char why[256] = "";
        if (answer(&others[s], why, sizeof why) != ATTN_UNSUPPORTED || !why[0])
            fail_msg("%s is not refused", others[s].name);
    }
}

/* Every operand is there, and rows on vectors, except for those of lse. */
static void gradients_need_operands(void **state)
{
    (void)state;
    static const struct test_spec spec = {GRADIENTS("gradients")};
    enum { MISSING, APART, BROADCAST, CHANGES };
    static const uint32_t roles[] = {ATTN_LSE, ATTN_GRAD_OUT, ATTN_GRAD_Q, ATTN_GRAD_K,
                                     ATTN_GRAD_V};
    for (size_t r = 0; r < sizeof roles / sizeof *roles; r++)
        for (int change = 0; change < CHANGES; change++) {
            char why[256] = "";
            struct test_problem made;
            make(&spec, &made);
            struct attn_tensor *x = made.tensors;
            while (x->role != roles[r])
                x++;
            if (change == MISSING)
                x->role = ATTN_ROTATIONS;
            else
                x->stride[2] = change == APART ? x->stride[2] + 1 : 0;
            const int right = change == APART && roles[r] == ATTN_LSE;
            assert_int_equal(attn_cudnn_supports(&made.problem, why, sizeof why),
                             right ? ATTN_OK : ATTN_UNSUPPORTED);
            test_problem_free(&made);
        }
}

/* Blocks that are not full get a padding mask, which they need in gradients. */
static void partial_blocks_are_padded(void **state)
{
    (void)state;
    static const struct {
        uint32_t op;
        int64_t sq, sk;
        int padded;
    } cases[] = {
        {ATTN_OP_ATTENTION, 100, 100, 0},          {ATTN_OP_ATTENTION_BACKWARD, 128, 256, 0},
        {ATTN_OP_ATTENTION_BACKWARD, 1, 128, 1},   {ATTN_OP_ATTENTION_BACKWARD, 128, 192, 1},
        {ATTN_OP_ATTENTION_BACKWARD, 192, 128, 1},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct attn_problem p = {.op = cases[c].op, .sq = cases[c].sq, .sk = cases[c].sk};
        assert_int_equal(attn_cudnn_is_padded(&p), cases[c].padded);
    }
}

/* The band allows what the oracle allows, and some row loses its last key below `least`. */
static void band_is_that_of_the_problem(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof taken / sizeof *taken; s++) {
        struct test_spec spec = filled(&taken[s]);
        struct test_problem made;
        spec.with &= ~(uint32_t)WITH_LEN;
        test_problem_make(&spec, &made);
        const struct attn_problem *p = &made.problem;
        const struct attn_cudnn_band band = attn_cudnn_band(p);
        const int64_t off = band.bottom_right ? p->sk - p->sq : 0;
        for (int64_t i = 0; i < p->sq; i++)
            for (int64_t j = 0; j < p->sk; j++) {
                const int in = (band.left < 0 || j + band.left >= i + off) &&
                               (band.right < 0 || j <= i + off + band.right);
                if (in != test_allowed(p, 0, 0, i, j))
                    fail_msg("%s: row %d, key %d", spec.name, (int)i, (int)j);
            }
        test_problem_free(&made);
    }
}

static int sees_all(const struct attn_problem *p)
{
    for (int64_t i = 0; i < p->sq; i++) {
        int keys = 0;
        for (int64_t j = 0; j < p->sk; j++)
            keys += test_allowed(p, 0, 0, i, j);
        if (keys == 0)
            return 0;
    }
    return 1;
}

static void least_is_the_fewest_keys(void **state)
{
    (void)state;
    static const uint64_t flags[] = {0,
                                     ATTN_FLAG_CAUSAL,
                                     ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR,
                                     ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW,
                                     ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR,
                                     ATTN_FLAG_WINDOW,
                                     ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR};
    for (size_t f = 0; f < sizeof flags / sizeof *flags; f++)
        for (int64_t sk = 1; sk < 14; sk++) {
            const struct test_spec spec = {.name = "least",
                                           .b = 1,

                                           .dtype = ATTN_F16,
                                           .sq = 9,
                                           .sk = sk,
                                           .dq = 8,
                                           .left = 3,
                                           .right = 1,
                                           .flags = flags[f]};
            struct test_problem made;
            test_problem_make(&spec, &made);
            const struct attn_cudnn_band band = attn_cudnn_band(&made.problem);
            if ((sk >= band.least) != sees_all(&made.problem))
                fail_msg("flags %u, %d keys: %d", (unsigned)flags[f], (int)sk, (int)band.least);
            test_problem_free(&made);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken_are_taken),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(gradients_need_operands),
        cmocka_unit_test(partial_blocks_are_padded),
        cmocka_unit_test(band_is_that_of_the_problem),
        cmocka_unit_test(least_is_the_fewest_keys),
    };
    return cmocka_run_group_tests_name("cudnn_supports", tests, NULL, NULL);
}
