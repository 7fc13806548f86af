/* SPDX-License-Identifier: Apache-2.0 */
/* test_variants.c - the elements that change between two timed runs. */
#include "run/variants.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "answered.h"
#include "reference/dtype.h"

/* The value that an element of a tensor changes to; 0: none of it changes. */
static double away_of(const struct attn_variants *v, uint32_t role)
{
    for (uint32_t s = 0; s < v->n_spots; s++) {
        const struct attn_tensor *tensor = &v->base->tensors[v->spots[s].tensor];
        if (tensor->role == role)
            return attn_dtype_load(tensor->dtype, &v->spots[s].away, 0);
    }
    return 0;
}

/* A weight of gradients is the exponential of its score, less an lse that stays. By how much a
 * score moves must not depend on the width, and no more than a normal number does. */
static void gradients_stay_in_range(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        double away;
    } cases[] = {{"s=50 h=3 d=16 dtype=f16", 16},
                 {"op=attention_backward s=50 h=3 d=16 dtype=f16", 4},
                 {"op=attention_backward s=50 h=3 d=64 dtype=bf16", 8},
                 {"op=attention_backward s=50 d=64 scale=0.5", 2},
                 {"op=attention_backward s=50 d=1024", 16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct attn_instance *in = instance_of(cases[i].line);
        struct attn_variants v;
        attn_variants_create(in, NULL, 1, &v);
        assert_true(away_of(&v, ATTN_Q) == cases[i].away);
        assert_true(away_of(&v, ATTN_K) == cases[i].away);
        assert_true(away_of(&v, ATTN_V) >= 16);
        attn_variants_free(&v);
        attn_instance_free(in);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_stay_in_range)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
