/* SPDX-License-Identifier: Apache-2.0 */
/* examined.c - what is said of the outputs of an instance. */
#include "examined.h"

struct attn_judgement judge_declared(struct attn_instance *in, struct attn_numerics numerics)
{
    struct attn_judge *j;
    struct attn_judgement v;
    char why[256];
    numerics.struct_size = sizeof numerics;
    assert_int_equal(attn_judge_create(in, ATTN_FILL_BUDGET, 2, &j, why, sizeof why), 0);
    attn_examine_outputs(j, &numerics, false, &v);
    attn_judge_free(j);
    attn_instance_free(in);
    return v;
}

struct attn_judgement judge(struct attn_instance *in)
{
    return judge_declared(in, (struct attn_numerics){.acc_type = ATTN_F32, .e_exp = 1e-7});
}

void expect(struct attn_judgement v, const char *words)
{
    assert_int_equal(v.status, ATTN_FAIL);
    if (strncmp(v.reason, words, strlen(words)) != 0)
        fail_msg("expected \"%s\", got \"%s\"", words, v.reason);
}

void expect_within(struct attn_judgement v, const char *words)
{
    assert_int_equal(v.status, ATTN_FAIL);
    if (!strstr(v.reason, words))
        fail_msg("expected \"...%s...\", got \"%s\"", words, v.reason);
}
