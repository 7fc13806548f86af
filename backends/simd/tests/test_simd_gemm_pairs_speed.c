/* SPDX-License-Identifier: Apache-2.0 */
/* test_simd_gemm_pairs_speed.c - projections in bf16 beside oneDNN's matmul, which has its weights
 * in its own layout beforehand, as ours are, and the same instructions: no AMX tiles. */
#include <sched.h>

#include "../../onednn/onednn.h"
#include "../../tests/problem.h"
#include "gemm_speed.h"

struct matmul {
    struct attn_onednn_product *product;
    struct attn_onednn_weights weights;
};

static void matmul(const struct product_pair *pair)
{
    const struct matmul *m = pair->context;
    assert_int_equal(attn_onednn_product_run(m->product, &m->weights, 0, pair->x, pair->theirs), 0);
}

static void matmul_open(const struct attn_onednn_library *library, const struct product_pair *pair,
                        struct matmul *m)
{
    const struct shape *shape = pair->shape;
    const struct attn_onednn_product_spec spec = {.rows = shape->rows,
                                                  .inner = shape->inner,
                                                  .width = shape->columns,
                                                  .row_stride = shape->inner,
                                                  .column_stride = 1,
                                                  .out_stride = shape->columns,
                                                  .in = ATTN_BF16,
                                                  .out = ATTN_BF16};
    const struct attn_tensor w = {.data = pair->w, .dtype = ATTN_BF16, .rank = 2};
    const int64_t stride[] = {0, 1, shape->inner}; /* of heads, of the inner extent, of columns */
    assert_int_equal(attn_onednn_product_create(library, &spec, &m->product), 0);
    assert_int_equal(attn_onednn_product_pack(m->product, &w, stride, 1, NULL, &m->weights), 0);
}

static void reaches_the_rate_of_the_library(void **state)
{
    (void)state;
    struct attn_onednn_library library;
    char why[256];
    if (!__builtin_cpu_supports("avx512bf16"))
        skip();
    assert_int_equal(attn_onednn_open(&library, &test_services, why, sizeof why), ATTN_OK);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        struct matmul m;
        struct product_pair pair = {.isa = &attn_flash_avx512_bf16,
                                    .shape = &shapes[s],
                                    .dtype = ATTN_BF16,
                                    .library = matmul,
                                    .name = "oneDNN",
                                    .context = &m};
        pair_open(&pair);
        matmul_open(&library, &pair, &m);
        hold_rate(&pair, 0.95, 1e-2);
        attn_onednn_weights_free(&test_services, &m.weights);
        attn_onednn_product_destroy(m.product);
        pair_close(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reaches_the_rate_of_the_library)};
    char why[256];
    int cpu = sched_getcpu();
    cpu_set_t here; /* the library takes a thread for each processor it may use */
    CPU_ZERO(&here);
    CPU_SET(cpu < 0 ? 0 : (size_t)cpu, &here);
    if (sched_setaffinity(0, sizeof here, &here) ||
        dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16) != dnnl_success ||
        attn_onednn_prepare(why, sizeof why) != ATTN_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
