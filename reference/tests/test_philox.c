/* SPDX-License-Identifier: Apache-2.0 */
/* test_philox - known answers of Philox4x32-10, the dropout rule, and the parallel loop. */
#include "reference/parallel.h"
#include "reference/philox.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The vectors that the authors of the paper distribute with Random123 (kat_vectors). */
static void known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], answer[4];
    } vectors[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}},
        {{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u},
         {0xa4093822u, 0x299f31d0u},
         {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}},
    };
    for (size_t v = 0; v < sizeof vectors / sizeof vectors[0]; v++) {
        uint32_t out[4];
        attn_philox4x32(vectors[v].counter, vectors[v].key, out);
        assert_memory_equal(out, vectors[v].answer, sizeof out);
    }
}

static void dropout_follows_the_rule(void **state)
{
    (void)state;
    /* word 0 of counter 0 under key 0 is 0x6627e8d5: its top 24 bits as a fraction */
    const double fraction = (double)0x6627e8 / 0x1p24;
    assert_true(attn_dropout_keep(0, 0, fraction));
    assert_false(attn_dropout_keep(0, 0, nextafter(fraction, 1)));
    assert_true(attn_dropout_keep(0, 0, 0.0));

    int64_t kept = 0, high_index = 0, high_seed = 0;
    for (uint64_t i = 0; i < 100000; i++) {
        const int keep = attn_dropout_keep(7, i, 0.3);
        kept += keep;
        high_index += keep != attn_dropout_keep(7, i | 1ull << 32, 0.3);
        high_seed += keep != attn_dropout_keep(7 | 1ull << 32, i, 0.3);
    }
    /* 0.7 * 1e5 with a standard deviation of 145; two independent draws differ in 42 % */
    assert_in_range(kept, 69000, 71000);
    assert_in_range(high_index, 41000, 43000);
    assert_in_range(high_seed, 41000, 43000);
}

struct visits {
    _Atomic unsigned char *seen;
    int64_t grain;
    _Atomic int too_long;
};

static void visit(void *context, int64_t begin, int64_t end)
{
    struct visits *visits = context;
    if (end - begin > visits->grain || end <= begin)
        atomic_store(&visits->too_long, 1);
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&visits->seen[i], 1);
}

static void each_index_once(void **state)
{
    (void)state;
    static const int64_t counts[] = {0, 1, 2, 7, 64, 1000, 1001};
    static const int64_t grains[] = {1, 3, 64, 5000};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
        for (size_t g = 0; g < sizeof grains / sizeof grains[0]; g++)
            for (int threads = 0; threads <= 5; threads++) {
                struct visits visits = {.grain = grains[g]};
                visits.seen = calloc((size_t)counts[c] + 1, 1);
                assert_non_null(visits.seen);
                attn_parallel_for(threads, counts[c], grains[g], visit, &visits);
                for (int64_t i = 0; i < counts[c]; i++)
                    assert_int_equal(visits.seen[i], 1);
                assert_int_equal(visits.seen[counts[c]], 0);
                assert_int_equal(visits.too_long, 0);
                free((void *)visits.seen);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(dropout_follows_the_rule),
        cmocka_unit_test(each_index_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
