/* SPDX-License-Identifier: Apache-2.0 */
/* test_onednn_speed.c - the onednn backend beside the library called directly, and its projections
 * beside sgemm: as ratios within one process, on one processor, calls of the two in turn.
 *
 * Times are of the processor, of all threads together (pace.h): on one processor that is the time
 * of an idle machine, whatever else this one does. */
#include <dlfcn.h>
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <oneapi/dnnl/dnnl_graph.h>

#include "../../tests/pace.h"
#include "../../tests/problem.h"
#include "../onednn.h"

enum { HEADS = 8, WIDTH = 64 };

static struct attn_services services; /* one thread */

static struct attn_onednn_library library;

/* The library called directly: softmax(q k^T * scale [+ mask]) v on dense [1,H,S,D], scores in f32.
 */
struct direct {
    dnnl_graph_compiled_partition_t compiled;
    dnnl_graph_tensor_t tensor[6], pad;
    int n_inputs;
    float scale, *mask;
    void *scratch;
};

static void declare(dnnl_graph_logical_tensor_t *tensor, size_t id, dnnl_data_type_t type, int rank,
                    int64_t heads, int64_t rows, int64_t columns)
{
    const dnnl_dims_t four = {1, heads, rows, columns}, one = {1};
    assert_int_equal(dnnl_graph_logical_tensor_init_with_dims(
                         tensor, id, type, rank, rank == 4 ? four : one,
                         dnnl_graph_layout_type_strided, dnnl_graph_tensor_property_undef),
                     0);
}

static void add_op(dnnl_graph_graph_t graph, dnnl_graph_op_kind_t kind, size_t id,
                   const dnnl_graph_logical_tensor_t *a, const dnnl_graph_logical_tensor_t *b,
                   const dnnl_graph_logical_tensor_t *to)
{
    dnnl_graph_op_t op;
    const uint8_t yes = 1;
    const int64_t last = -1;
    assert_int_equal(dnnl_graph_op_create(&op, id, kind, "op"), 0);
    assert_int_equal(dnnl_graph_op_add_input(op, a), 0);
    if (b)
        assert_int_equal(dnnl_graph_op_add_input(op, b), 0);
    else
        assert_int_equal(dnnl_graph_op_set_attr_s64(op, dnnl_graph_op_attr_axis, &last, 1), 0);
    if (a->id == 0)
        assert_int_equal(dnnl_graph_op_set_attr_bool(op, dnnl_graph_op_attr_transpose_b, &yes, 1),
                         0);
    assert_int_equal(dnnl_graph_op_add_output(op, to), 0);
    assert_int_equal(dnnl_graph_add_op(graph, op), 0);
    dnnl_graph_op_destroy(op);
}

/* Ids 0 to 5: q, k, scale, mask, v, out; 9: the weights, which meet v in its type. */
static void direct_make(struct direct *d, dnnl_data_type_t type, int64_t s, int causal,
                        void *const operands[6])
{
    dnnl_graph_logical_tensor_t t[10], ports[5];
    const dnnl_graph_logical_tensor_t *in[5], *out = &t[5];
    dnnl_graph_graph_t graph;
    dnnl_graph_partition_t partition;
    size_t n = 0;
    for (size_t id = 0; id < 10; id++) {
        const int operand = id < 2 || id == 4 || id == 5;
        declare(&t[id], id, operand || id == 9 ? type : dnnl_f32, id == 2 ? 1 : 4,
                id == 3 ? 1 : HEADS, s, operand ? WIDTH : s);
    }
    assert_int_equal(dnnl_graph_graph_create(&graph, dnnl_cpu), 0);
    add_op(graph, dnnl_graph_op_matmul, 10, &t[0], &t[1], &t[6]);
    add_op(graph, dnnl_graph_op_multiply, 11, &t[6], &t[2], &t[7]);
    if (causal)
        add_op(graph, dnnl_graph_op_add, 12, &t[7], &t[3], &t[8]);
    add_op(graph, dnnl_graph_op_softmax, 13, &t[causal ? 8 : 7], NULL, &t[9]);
    add_op(graph, dnnl_graph_op_matmul, 14, &t[9], &t[4], &t[5]);
    assert_int_equal(dnnl_graph_graph_finalize(graph), 0);
    assert_int_equal(dnnl_graph_graph_filter(graph, dnnl_graph_partition_policy_fusion), 0);
    assert_int_equal(dnnl_graph_graph_get_partition_num(graph, &n), 0);
    assert_int_equal(n, 1);
    assert_int_equal(dnnl_graph_graph_get_partitions(graph, 1, &partition), 0);
    assert_int_equal(dnnl_graph_partition_get_input_ports_num(partition, &n), 0);
    assert_in_range(n, 4, 5);
    d->n_inputs = (int)n;
    assert_int_equal(dnnl_graph_partition_get_input_ports(partition, n, ports), 0);
    for (size_t i = 0; i < n; i++) {
        const dnnl_graph_logical_tensor_t *port = &ports[i];
        in[i] = port;
        assert_int_equal(
            dnnl_graph_tensor_create(&d->tensor[i], port, library.engine, operands[port->id]), 0);
    }
    assert_int_equal(dnnl_graph_compiled_partition_create(&d->compiled, partition), 0);
    assert_int_equal(
        dnnl_graph_partition_compile(partition, d->compiled, n, in, 1, &out, library.engine), 0);
    assert_int_equal(dnnl_graph_tensor_create(&d->tensor[5], &t[5], library.engine, operands[5]),
                     0);
#ifdef ATTNBENCH_ONEDNN_SCRATCHPAD
    assert_int_equal(
        dnnl_graph_compiled_partition_get_scratchpad_logical_tensor(d->compiled, &t[6]), 0);
    assert_int_equal(dnnl_graph_logical_tensor_get_mem_size(&t[6], &n), 0);
    d->scratch = services.alloc(services.context, n, 64);
    assert_int_equal(dnnl_graph_tensor_create(&d->pad, &t[6], library.engine, d->scratch), 0);
#endif
    dnnl_graph_partition_destroy(partition);
    dnnl_graph_graph_destroy(graph);
}

static void direct_run(void *context)
{
    struct direct *d = context;
    const_dnnl_graph_tensor_t in[5], out = d->tensor[5];
    for (int i = 0; i < d->n_inputs; i++)
        in[i] = d->tensor[i];
#ifdef ATTNBENCH_ONEDNN_SCRATCHPAD
    assert_int_equal(dnnl_graph_compiled_partition_execute_v2(
                         d->compiled, library.stream, (size_t)d->n_inputs, in, 1, &out, d->pad),
                     0);
#else
    assert_int_equal(dnnl_graph_compiled_partition_execute(d->compiled, library.stream,
                                                           (size_t)d->n_inputs, in, 1, &out),
                     0);
#endif
    assert_int_equal(dnnl_stream_wait(library.stream), 0);
}

static void direct_free(struct direct *d)
{
    for (int i = 0; i < d->n_inputs; i++)
        dnnl_graph_tensor_destroy(d->tensor[i]);
    dnnl_graph_tensor_destroy(d->tensor[5]);
    if (d->pad)
        dnnl_graph_tensor_destroy(d->pad);
    dnnl_graph_compiled_partition_destroy(d->compiled);
    services.free(services.context, d->scratch);
}

static void plugin_run(void *binding)
{
    char why[256] = "";
    assert_int_equal(attn_plugin.backends[0]->run(binding, why, sizeof(why)), ATTN_OK);
}

static float *causal_mask(int64_t s)
{
    float *mask = malloc((size_t)(s * s) * sizeof(*mask));
    assert_non_null(mask);
    for (int64_t i = 0; i < s; i++)
        for (int64_t j = 0; j < s; j++)
            mask[i * s + j] = j > i ? -INFINITY : 0;
    return mask;
}

struct comparison {
    const char *name;
    uint32_t dtype;
    int64_t s;
    int causal, pairs;
    size_t attempts;
};

/* All memory is new in each attempt: where in the caches it comes to lie is worth several percent,
 * and it is not the same for both. What an earlier attempt has freed is taken out of the way. */
static double beside_direct(void *context)
{
    struct comparison *c = context;
    const struct attn_backend *backend = attn_plugin.backends[0];
    const struct test_spec spec = {.name = c->name,
                                   .dtype = c->dtype,
                                   .flags = c->causal ? ATTN_FLAG_CAUSAL : 0,
                                   .b = 1,
                                   .hq = HEADS,
                                   .sq = c->s,
                                   .sk = c->s,
                                   .dq = WIDTH};
    size_t bytes = (size_t)(HEADS * c->s * WIDTH) * (size_t)attn_element_bytes(c->dtype);
    void *earlier = services.alloc(services.context, ++c->attempts * 3 * bytes, 64);
    struct test_problem made;
    struct direct direct = {0};
    void *plan = NULL, *binding = NULL;
    char why[256] = "";
    test_problem_make(&spec, &made);
    const struct attn_problem *p = &made.problem;
    float scale = (float)p->scale, *mask = causal_mask(c->s);
    char *out = services.alloc(services.context, bytes, 64);
    assert_true(earlier && out);
    void *const operands[6] = {attn_tensor_find(p, ATTN_Q)->data,
                               attn_tensor_find(p, ATTN_K)->data,
                               &scale,
                               mask,
                               attn_tensor_find(p, ATTN_V)->data,
                               out};
    direct_make(&direct, attn_onednn_type(c->dtype), c->s, c->causal, operands);
    assert_int_equal(backend->create(p, &services, &plan, why, sizeof(why)), ATTN_OK);
    assert_int_equal(backend->bind(plan, made.tensors, p->n_tensors, &binding, why, sizeof(why)),
                     ATTN_OK);
    const struct pace_work ours = {plugin_run, binding}, peer = {direct_run, &direct};
    double ratio = pace_ratio(&ours, &peer, c->pairs, NULL);
    print_message("%s: %.3f of the peer's speed\n", c->name, ratio);
    assert_memory_equal(out, attn_tensor_find(p, ATTN_OUT)->data, bytes);
    backend->release(binding);
    backend->destroy(plan);
    direct_free(&direct);
    free(mask);
    services.free(services.context, out);
    services.free(services.context, earlier);
    test_problem_free(&made);
    return ratio;
}

static void the_fused_path_is_as_fast_as_the_library(void **state)
{
    (void)state;
    struct comparison comparisons[] = {
        {"h8 s512 d64", ATTN_F32, 512, 0, 41, 0},
        {"h8 s512 d64 causal", ATTN_F32, 512, 1, 41, 0},
        {"h8 s1024 d64", ATTN_F32, 1024, 0, 15, 0},
        {"h8 s2048 d64 causal", ATTN_F32, 2048, 1, 7, 0},
        {"h8 s512 d64 bf16", ATTN_BF16, 512, 0, 41, 0},
        {"h8 s512 d64 bf16 causal", ATTN_BF16, 512, 1, 41, 0},
    };
    for (size_t n = 0; n < sizeof(comparisons) / sizeof(comparisons[0]); n++)
        if (comparisons[n].dtype == ATTN_F32 || attn_onednn_multiplies(comparisons[n].dtype))
            pace_hold(beside_direct, &comparisons[n], 0.95);
}

typedef void sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                   const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);

/* x [m,k] w^T with w [n,k], both ways. */
struct product {
    const char *name;
    int m, n, k;
    float *x, *w, *y;
    struct attn_onednn_product *product;
    struct attn_onednn_weights weights;
    sgemm *blas;
};

static void product_run(void *context)
{
    const struct product *p = context;
    assert_int_equal(attn_onednn_product_run(p->product, &p->weights, 0, p->x, p->y), 0);
}

static void sgemm_run(void *context)
{
    const struct product *p = context;
    enum { ROW_MAJOR = 101, AS_IT_IS = 111, TRANSPOSED = 112 };
    p->blas(ROW_MAJOR, AS_IT_IS, TRANSPOSED, p->m, p->n, p->k, 1, p->x, p->k, p->w, p->k, 0, p->y,
            p->n);
}

static float *some(size_t n)
{
    float *x = malloc(n * sizeof(*x));
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(i % 97) / 97 - 0.5f;
    return x;
}

static double beside_sgemm(void *context)
{
    struct product *p = context;
    const struct pace_work ours = {product_run, p}, peer = {sgemm_run, p};
    double ratio = pace_ratio(&ours, &peer, 41, NULL);
    print_message("%s: %.3f of the peer's speed\n", p->name, ratio);
    return ratio;
}

static void compare_with_sgemm(const char *name, sgemm *blas, int m, int n, int k)
{
    struct product p = {.name = name, .m = m, .n = n, .k = k, .blas = blas};
    p.x = some((size_t)m * (size_t)k);
    p.w = some((size_t)n * (size_t)k);
    p.y = some((size_t)m * (size_t)n);
    const struct attn_onednn_product_spec spec = {.rows = m,
                                                  .inner = k,
                                                  .width = n,
                                                  .row_stride = k,
                                                  .column_stride = 1,
                                                  .out_stride = n,
                                                  .in = ATTN_F32,
                                                  .out = ATTN_F32};
    const struct attn_tensor w = {.data = p.w, .dtype = ATTN_F32, .rank = 2};
    assert_int_equal(attn_onednn_product_create(&library, &spec, &p.product), 0);
    assert_int_equal(
        attn_onednn_product_pack(p.product, &w, (int64_t[]){0, 1, k}, 1, NULL, &p.weights), 0);
    pace_hold(beside_sgemm, &p, 0.9);
    attn_onednn_weights_free(&services, &p.weights);
    attn_onednn_product_destroy(p.product);
    free(p.x);
    free(p.w);
    free(p.y);
}

static void projections_are_as_fast_as_sgemm(void **state)
{
    (void)state;
    void *blas = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!blas) {
        print_message("no OpenBLAS to compare with\n");
        skip();
    }
    sgemm *function;
    void (*set_threads)(int);
    /* object pointers as function pointers: POSIX has it so, ISO C only through memcpy */
    void *symbol = dlsym(blas, "cblas_sgemm"), *threads = dlsym(blas, "openblas_set_num_threads");
    assert_true(symbol && threads);
    memcpy(&function, &symbol, sizeof(function));
    memcpy(&set_threads, &threads, sizeof(set_threads));
    set_threads(1);
    compare_with_sgemm("BERT-base, 512 tokens", function, 512, 768, 768);
    compare_with_sgemm("BERT-base, 128 tokens", function, 128, 768, 768);
    compare_with_sgemm("ViT-B/16, 197 patches", function, 197, 768, 768);
    dlclose(blas);
}

/* One processor, before the library's runtime looks. */
static int set_up(void)
{
    cpu_set_t processors;
    char why[256] = "";
    int cpu = sched_getcpu();
    services = test_services;
    services.threads = 1;
    CPU_ZERO(&processors);
    CPU_SET(cpu < 0 ? 0 : (size_t)cpu, &processors);
    if (sched_setaffinity(0, sizeof(processors), &processors) == 0 &&
        attn_plugin.init(NULL, why, sizeof(why)) == ATTN_OK &&
        attn_onednn_open(&library, &services, why, sizeof(why)) == ATTN_OK)
        return 0;
    print_error("%s\n", why);
    return -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fused_path_is_as_fast_as_the_library),
        cmocka_unit_test(projections_are_as_fast_as_sgemm),
    };
    if (set_up() != 0)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed;
}
