/* SPDX-License-Identifier: Apache-2.0 */
/* test_host.c - the host's parts that need no worker: walking, sharing, choosing processors. */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/affinity.h"
#include "host/scramble.h"
#include "host/share.h"
#include "host/walk.h"
#include "reference/dtype.h"
#include "tiny.h"

/* Runs of a tensor of 4-byte elements as "offset+length ...". */
static const char *walked(const struct attn_tensor *tensor)
{
    static char text[256];
    struct attn_walk walk;
    size_t offset, used = 0;
    text[0] = 0;
    attn_walk_begin(&walk, tensor, 4);
    while (attn_walk_next(&walk, &offset))
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%zu+%zu ", offset, walk.run);
    return text;
}

static void test_walk(void **state)
{
    (void)state;
    static const struct {
        struct attn_tensor tensor;
        const char *runs;
    } table[] = {
        {{.rank = 3, .shape = {2, 3, 4}, .stride = {12, 4, 1}}, "0+96 "},
        {{.rank = 2, .shape = {2, 3}, .stride = {4, 1}}, "0+12 16+12 "},
        {{.rank = 2, .shape = {2, 3}, .stride = {1, 2}}, "0+24 "},
        {{.rank = 2, .shape = {3, 2}, .stride = {1, 4}}, "0+12 16+12 "},
        {{.rank = 2, .shape = {2, 2}, .stride = {6, 2}}, "0+4 8+4 24+4 32+4 "},
        {{.rank = 3, .shape = {5, 2, 2}, .stride = {0, 2, 1}}, "0+16 "},
        {{.rank = 2, .shape = {5, 7}, .stride = {0, 0}}, "0+4 "},
        {{.rank = 2, .shape = {5, 0}, .stride = {1, 1}}, ""},
        {{.rank = 1, .shape = {1}, .stride = {99}}, "0+4 "},
    };
    for (size_t t = 0; t < sizeof(table) / sizeof(table[0]); t++)
        assert_string_equal(walked(&table[t].tensor), table[t].runs);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Two cores of two threads each: 0,2 and 1,3. */
static void test_affinity(void **state)
{
    (void)state;
    char root[] = "/tmp/attnbench-test-host-XXXXXX", path[128], why[128];
    uint32_t chosen[4];
    cpu_set_t allowed;
    assert_non_null(mkdtemp(root));
    for (int p = 0; p < 4; p++) {
        snprintf(path, sizeof(path), "%s/cpu%d", root, p);
        assert_int_equal(mkdir(path, 0700), 0);
        snprintf(path, sizeof(path), "%s/cpu%d/topology", root, p);
        assert_int_equal(mkdir(path, 0700), 0);
        snprintf(path, sizeof(path), "%s/cpu%d/topology/thread_siblings_list", root, p);
        write_text(path, p % 2 ? "1,3\n" : "0,2\n");
    }
    CPU_ZERO(&allowed);
    for (size_t p = 0; p < 4; p++)
        CPU_SET(p, &allowed);
    assert_int_equal(attn_affinity_choose(root, &allowed, 3, chosen, why, sizeof(why)), 0);
    assert_int_equal(chosen[0], 0);
    assert_int_equal(chosen[1], 1);
    assert_int_equal(chosen[2], 2);
    CPU_CLR(0, &allowed);
    assert_int_equal(attn_affinity_choose(root, &allowed, 2, chosen, why, sizeof(why)), 0);
    assert_int_equal(chosen[0], 1);
    assert_int_equal(chosen[1], 2);
    assert_int_equal(attn_affinity_choose(root, &allowed, 4, chosen, why, sizeof(why)), -1);
    assert_string_equal(why, "4 threads were asked for, but only 3 processors may be used");
    for (int p = 0; p < 4; p++) {
        const char *const parts[] = {"/topology/thread_siblings_list", "/topology", ""};
        for (int i = 0; i < 3; i++) {
            snprintf(path, sizeof(path), "%s/cpu%d%s", root, p, parts[i]);
            remove(path);
        }
    }
    rmdir(root);
}

/* What a worker gets can neither be written to as an input nor be resized. */
static void test_share_is_sealed(void **state)
{
    (void)state;
    struct attn_share share;
    char why[128];
    struct attn_instance *instance = tiny_create(3, 5, 4, 2);
    assert_int_equal(attn_share_create(instance, ATTN_PLACE_END, &share, why, sizeof(why)), 0);
    assert_true(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, share.fds[0], 0) == MAP_FAILED);
    assert_int_equal(ftruncate(share.fds[0], 0), -1);
    assert_int_equal(ftruncate(share.fds[1], 0), -1);
    assert_int_equal(ftruncate(share.fds[1], 1 << 30), -1);
    assert_int_equal(attn_share_check(&share, instance, why, sizeof(why)), 0);
    /* The host's own copy changes: the two differ, whoever did it. */
    ((float *)instance->tensors[1].data)[3] += 1;
    assert_int_equal(attn_share_check(&share, instance, why, sizeof(why)), ATTN_PROMISE_INPUTS);
    assert_string_equal(why, "modifies input k");
    attn_share_free(&share);
    tiny_free(instance);
}

/* Spans of 16 GiB with a few elements in them cost a few pages. */
static void test_share_sparse(void **state)
{
    (void)state;
    const size_t far = (size_t)1 << 34;
    struct attn_share share;
    char why[128];
    struct stat info;
    struct attn_instance *instance = tiny_create(2, 2, 4, 0);
    const uint32_t spread[] = {1, 3};
    for (int s = 0; s < 2; s++) {
        struct attn_tensor *tensor = &instance->tensors[spread[s]];
        struct attn_operand *operand = &instance->operands[spread[s]];
        free(operand->base);
        operand->mapped = operand->span = far + 16;
        operand->base = tensor->data = mmap(NULL, operand->mapped, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert_true(tensor->data != MAP_FAILED);
        tensor->stride[2] = (int64_t)(far / 4);
        ((float *)tensor->data)[far / 4] = 7;
    }
    assert_int_equal(attn_share_create(instance, ATTN_PLACE_END, &share, why, sizeof(why)), 0);
    for (int f = 0; f < 2; f++) {
        assert_int_equal(fstat(share.own[f], &info), 0);
        assert_true(info.st_blocks * 512 < 1 << 20);
    }
    assert_int_equal(attn_share_check(&share, instance, why, sizeof(why)), 0);

    unsigned char *out = share.at[1] + share.operands[3].offset + share.operands[3].start;
    memset(out + far, 0, 16);
    assert_int_equal(attn_share_check(&share, instance, why, sizeof(why)), 0);
    attn_share_collect(&share, instance);
    assert_true(((const float *)instance->tensors[3].data)[far / 4] < 1);
    out[far / 2] = 1;
    assert_int_equal(attn_share_check(&share, instance, why, sizeof(why)), ATTN_PROMISE_BOUNDS);
    assert_string_equal(why, "writes into a gap of out at byte 8589934592");

    attn_share_free(&share);
    for (int s = 0; s < 2; s++) {
        struct attn_operand *operand = &instance->operands[spread[s]];
        munmap(operand->base, operand->mapped);
        operand->base = NULL;
    }
    tiny_free(instance);
}

/* Signs, exponents, zeros, infinities and NaN stay, gaps too; all other elements change, most by
 * over 1 %, differently by seed and operand; and a second time, back. */
static void test_scramble(void **state)
{
    (void)state;
    static const uint32_t dtypes[] = {ATTN_F64, ATTN_F32, ATTN_F16, ATTN_BF16};
    enum { ROWS = 8, WIDTH = 16, STEP = 17 };
    for (size_t d = 0; d < sizeof(dtypes) / sizeof(*dtypes); d++) {
        const size_t bytes = attn_dtype_size(dtypes[d]) * ROWS * STEP;
        unsigned char was[8 * ROWS * STEP], is[8 * ROWS * STEP], other[8 * ROWS * STEP];
        const struct attn_tensor tensor = {
            .dtype = dtypes[d], .rank = 2, .shape = {ROWS, WIDTH}, .stride = {STEP, 1}, .data = is};
        struct attn_tensor second = tensor;
        second.data = other;
        for (int64_t i = 0; i < ROWS * STEP; i++)
            attn_dtype_store(dtypes[d], was, i,
                             i % STEP == 3    ? 0
                             : i % STEP == 4  ? HUGE_VAL
                             : i % STEP == 5  ? NAN
                             : i % STEP == 16 ? 7
                                              : ldexp((double)(i % 3) - 1.25, (int)(i % 11) - 5));
        memcpy(is, was, bytes);
        memcpy(other, was, bytes);
        attn_scramble(&tensor, 2, 99);
        attn_scramble(&second, 3, 99);
        int changed = 0, differ = 0;
        for (int64_t i = 0; i < ROWS * STEP; i++) {
            const double a = attn_dtype_load(dtypes[d], was, i);
            const double b = attn_dtype_load(dtypes[d], is, i);
            const bool stays = i % STEP == 3 || i % STEP == 4 || i % STEP == 16;
            if (i % STEP == 5)
                assert_true(isnan(b));
            else if (stays)
                assert_true(a == b);
            else
                assert_true(b / a > 0.5 && b / a < 2);
            changed += !stays && i % STEP != 5 && fabs(b / a - 1) > 0.01;
            differ += b != attn_dtype_load(dtypes[d], other, i) && i % STEP != 5;
        }
        assert_true(changed > ROWS * 13 * 9 / 10);
        assert_true(differ > ROWS * 13 * 9 / 10);
        attn_scramble(&tensor, 2, 99);
        assert_memory_equal(is, was, bytes);
    }
    int32_t lengths[2] = {3, 5};
    const struct attn_tensor whole = {
        .dtype = ATTN_I32, .rank = 1, .shape = {2}, .stride = {1}, .data = lengths};
    attn_scramble(&whole, 0, 99);
    assert_true(lengths[0] == 3 && lengths[1] == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walk),
        cmocka_unit_test(test_affinity),
        cmocka_unit_test(test_share_is_sealed),
        cmocka_unit_test(test_share_sparse),
        cmocka_unit_test(test_scramble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
