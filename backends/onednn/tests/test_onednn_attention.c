/* SPDX-License-Identifier: Apache-2.0 */
/* test_onednn_attention.c - the onednn backend against a double loop on each of its paths, what
 * it makes of NaN and infinities, the library's exp, and what it refuses. */
#include <dirent.h>
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../tests/common.h"
#include "../onednn.h"

static const struct test_spec refused[] = {
    {.name = "f64", .dtype = ATTN_F64, .sq = 2, .sk = 2, .dq = 2},
    {.name = "determinism on two threads",
     .flags = ATTN_FLAG_DETERMINISTIC,
     .sq = 2,
     .sk = 2,
     .dq = 2},
};

static int is_attention(const struct test_spec *spec)
{
    return spec->op != ATTN_OP_MHA;
}

/* Without lse or weights, softcap, sink and dropout: a graph's. */
static int is_plain(const struct test_spec *spec)
{
    return is_attention(spec) && !(spec->with & (ALL_OUT | WITH_SINK)) &&
           !(spec->flags & (ATTN_FLAG_SOFTCAP | ATTN_FLAG_DROPOUT));
}

/* What only a softmax in C does. */
static int needs_softmax_in_c(const struct test_spec *spec)
{
    return is_attention(spec) && !is_plain(spec);
}

static const struct attn_backend *onednn(void)
{
    return attn_plugin.backends[0];
}

/* The same backend with an option set. */
static struct attn_option option;
static struct attn_services with_option;

static int create_with_option(const struct attn_problem *problem,
                              const struct attn_services *services, void **plan, char *why,
                              size_t size)
{
    with_option = *services;
    with_option.options = &option;
    with_option.n_options = 1;
    return onednn()->create(problem, &with_option, plan, why, size);
}

static struct attn_backend told(const char *key, const char *value)
{
    struct attn_backend backend = *onednn();
    option = (struct attn_option){key, value};
    backend.create = create_with_option;
    return backend;
}

/* Processors that this program may use: one fewer than it was given, so that a runtime that looks
 * at the machine and not at the process shows. */
static cpu_set_t processors;

static int set_up(void)
{
    char why[256] = "";
    if (sched_getaffinity(0, sizeof(processors), &processors) != 0)
        return -1;
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&processors) > 1; cpu++)
        if (CPU_ISSET(cpu, &processors)) {
            CPU_CLR(cpu, &processors);
            break;
        }
    if (sched_setaffinity(0, sizeof(processors), &processors) != 0)
        return -1;
    if (attn_plugin.init(NULL, why, sizeof(why)) == ATTN_OK &&
        onednn()->probe(NULL, why, sizeof(why)) == ATTN_OK)
        return 0;
    print_error("%s\n", why);
    return -1;
}

static void primitives_match_the_oracle(void **state)
{
    (void)state;
    struct attn_backend backend = told("path", "primitives");
    test_cases_run(&backend, is_plain, ATTN_F32);
    if (attn_onednn_multiplies(ATTN_BF16))
        test_cases_run(&backend, is_plain, ATTN_BF16);
}

/* Projected heads are stored in bf16, which is more than the oracle's tolerance; the suite's bound
 * knows it. */
static void attention_matches_the_oracle_in_bf16(void **state)
{
    (void)state;
    if (attn_onednn_multiplies(ATTN_BF16))
        test_cases_run(onednn(), is_attention, ATTN_BF16);
}

/* f16, which few processors multiply, is put to this path alone. */
static void a_softmax_in_c_matches_the_oracle_in_f16(void **state)
{
    (void)state;
    if (attn_onednn_multiplies(ATTN_F16))
        test_cases_run(onednn(), needs_softmax_in_c, ATTN_F16);
}

static void narrow_scores_match_the_oracle(void **state)
{
    (void)state;
    struct attn_backend backend = told("scores", "as_q");
    if (attn_onednn_multiplies(ATTN_BF16))
        test_cases_run(&backend, is_plain, ATTN_BF16);
}

/* The path that a plan takes begins, as it says itself, with `path`. */
static void expect_path(const struct attn_backend *backend, const struct test_spec *spec,
                        const char *path)
{
    struct test_problem made;
    char why[256] = "", text[256] = "";
    void *plan = NULL;
    test_problem_make(spec, &made);
    assert_int_equal(backend->create(&made.problem, &test_services, &plan, why, sizeof(why)),
                     ATTN_OK);
    backend->describe(plan, text, sizeof(text));
    if (strncmp(text, path, strlen(path)) != 0)
        fail_msg("%s: path \"%s\", expected \"%s\"", spec->name, text, path);
    backend->destroy(plan);
    test_problem_free(&made);
}

static void says_which_path_it_takes(void **state)
{
    (void)state;
    const struct test_spec dense = {.name = "dense", .hq = 4, .hkv = 2, .sq = 9, .sk = 9, .dq = 8};
    struct test_spec causal = dense, len = dense, lse = dense;
    causal.flags = ATTN_FLAG_CAUSAL;
    len.with = WITH_LEN;
    lse.with = WITH_LSE;
    expect_path(onednn(), &dense, "graph_sdpa_fused");
    expect_path(onednn(), &causal, "graph_sdpa_fused, mask made once");
    expect_path(onednn(), &len, "graph_sdpa_fused, mask made in each run");
    expect_path(onednn(), &lse, "primitives: matmul, softmax in C");
    struct attn_backend backend = told("path", "primitives");
    expect_path(&backend, &dense, "primitives: matmul, softmax, matmul");
}

static void a_forced_graph_refuses_what_it_has_no_place_for(void **state)
{
    (void)state;
    const struct test_spec spec = {.sq = 4, .sk = 4, .dq = 4, .with = WITH_LSE};
    struct attn_backend backend = told("path", "graph");
    struct test_problem made;
    char why[256] = "";
    void *plan = NULL;
    test_problem_make(&spec, &made);
    assert_int_equal(backend.create(&made.problem, &test_services, &plan, why, sizeof(why)),
                     ATTN_UNSUPPORTED);
    assert_true(strlen(why) > 0 && !plan);
    test_problem_free(&made);
}

/* Rows of k or v, or columns that lie apart in their place, that the library's code cannot reach. A
 * plan fails for some shapes, and aborts for others. What is copied may lie anywhere. */
static void refuses_keys_that_lie_too_far_apart(void **state)
{
    (void)state;
    const struct test_spec spec = {.name = "far", .hq = 1, .sq = 4, .sk = 4, .dq = 4};
    const int64_t far = INT64_C(1) << 25;
    const struct {
        uint32_t role;
        int64_t rows, columns;
        int status;
    } layouts[] = {{ATTN_K, far, 1, ATTN_UNSUPPORTED}, {ATTN_V, far, 1, ATTN_UNSUPPORTED},
                   {ATTN_V, 1, far, ATTN_UNSUPPORTED}, {ATTN_V, 2, far, ATTN_OK},
                   {ATTN_K, far - 1, 1, ATTN_OK},      {ATTN_Q, far, 1, ATTN_OK}};
    for (size_t n = 0; n < sizeof(layouts) / sizeof(layouts[0]); n++) {
        struct test_problem made;
        char why[256] = "";
        test_problem_make(&spec, &made);
        for (uint32_t t = 0; t < made.problem.n_tensors; t++)
            if (made.tensors[t].role == layouts[n].role) {
                made.tensors[t].stride[2] = layouts[n].rows;
                made.tensors[t].stride[3] = layouts[n].columns;
            }
        assert_int_equal(onednn()->supports(&made.problem, &test_services, why, sizeof(why)),
                         layouts[n].status);
        assert_true(layouts[n].status == ATTN_OK || strstr(why, "33554432 elements apart"));
        test_problem_free(&made);
    }
}

static void primitives_keep_nan_to_their_rows(void **state)
{
    (void)state;
    struct attn_backend backend = told("path", "primitives");
    struct test_subject primitives = {.backend = &backend};
    void *subject = &primitives;
    test_keeps_nan_to_its_rows(&subject);
}

/* The library's softmax over rows {0, -x, -inf..}: the ratio of the first two weights is exp(-x),
 * but for their roundings, which must be within what is declared as well. *worst: the largest error
 * over the declared one. */
static void softmax_pairs(const float *x, double *worst)
{
    enum { ROWS = 4096, WIDTH = 16 };
    struct attn_onednn_library library;
    const dnnl_dims_t dims = {ROWS, WIDTH}, strides = {WIDTH, 1};
    dnnl_memory_desc_t desc = NULL;
    dnnl_primitive_desc_t description = NULL;
    dnnl_primitive_t softmax = NULL;
    dnnl_memory_t memory = NULL;
    char why[256];
    float *s = malloc(sizeof(*s) * ROWS * WIDTH);
    assert_non_null(s);
    for (int r = 0; r < ROWS * WIDTH; r++)
        s[r] = r % WIDTH == 0 ? 0 : r % WIDTH == 1 ? -x[r / WIDTH] : -INFINITY;
    assert_int_equal(attn_onednn_open(&library, &test_services, why, sizeof(why)), ATTN_OK);
    assert_int_equal(dnnl_memory_desc_create_with_strides(&desc, 2, dims, dnnl_f32, strides), 0);
    assert_int_equal(dnnl_softmax_forward_primitive_desc_create(
                         &description, library.engine, dnnl_forward_inference,
                         dnnl_softmax_accurate, desc, desc, 1, NULL),
                     0);
    assert_int_equal(dnnl_primitive_create(&softmax, description), 0);
    assert_int_equal(dnnl_memory_create(&memory, desc, library.engine, s), 0);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, memory}, {DNNL_ARG_DST, memory}};
    assert_int_equal(dnnl_primitive_execute(softmax, library.stream, 2, args), 0);
    assert_int_equal(dnnl_stream_wait(library.stream), 0);
    for (int r = 0; r < ROWS; r++) {
        double ratio = (double)s[r * WIDTH + 1] / (double)s[r * WIDTH];
        double declared = ATTN_ONEDNN_E_EXP + ATTN_ONEDNN_E_ARG * (double)x[r];
        *worst = fmax(*worst, fabs(ratio / exp(-(double)x[r]) - 1) / declared);
    }
    dnnl_memory_destroy(memory);
    dnnl_primitive_destroy(softmax);
    dnnl_primitive_desc_destroy(description);
    dnnl_memory_desc_destroy(desc);
    free(s);
}

static void exp_keeps_its_bound(void **state)
{
    (void)state;
    static float x[4096];
    double worst = 0;
    /* up to 86, where exp is still a normal number; steps that are no power of two */
    for (int block = 0; block < 16; block++) {
        for (int r = 0; r < 4096; r++)
            x[r] = (float)(86.0 * pow((block * 4096 + r + 1) / 65536.0, 3));
        softmax_pairs(x, &worst);
    }
    print_message("exp: %.3f of what is declared\n", worst);
    assert_true(worst > 0 && worst <= 1);
}

/* After all that ran before: no thread of the library's runtime may use other processors than the
 * process was given. */
static void threads_keep_to_their_processors(void **state)
{
    (void)state;
    DIR *tasks = opendir("/proc/self/task");
    int seen = 0;
    assert_non_null(tasks);
    for (const struct dirent *entry = readdir(tasks); entry; entry = readdir(tasks)) {
        cpu_set_t allowed, both;
        pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        if (thread <= 0 || sched_getaffinity(thread, sizeof(allowed), &allowed) != 0)
            continue;
        CPU_AND(&both, &allowed, &processors);
        assert_true(CPU_EQUAL(&both, &allowed));
        seen++;
    }
    closedir(tasks);
    print_message("%d threads on %d processors\n", seen, CPU_COUNT(&processors));
    assert_true(seen >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(primitives_match_the_oracle),
        cmocka_unit_test(attention_matches_the_oracle_in_bf16),
        cmocka_unit_test(a_softmax_in_c_matches_the_oracle_in_f16),
        cmocka_unit_test(narrow_scores_match_the_oracle),
        cmocka_unit_test(says_which_path_it_takes),
        cmocka_unit_test(a_forced_graph_refuses_what_it_has_no_place_for),
        cmocka_unit_test(refuses_keys_that_lie_too_far_apart),
        cmocka_unit_test(primitives_keep_nan_to_their_rows),
        cmocka_unit_test(exp_keeps_its_bound),
        cmocka_unit_test(threads_keep_to_their_processors),
    };
    if (set_up() != 0)
        return 1;
    const uint32_t dtypes[] = {ATTN_F32, 0};
    struct test_subject subject = {.backend = onednn(),
                                   .dtypes = dtypes,
                                   .refused = refused,
                                   .n_refused = sizeof(refused) / sizeof(refused[0])};
    int failed = test_common(&subject);
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
