/* SPDX-License-Identifier: Apache-2.0 */
/* test_simd_blocking.c - cache sizes as the kernel lists them, and what stands for them. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "../blocking.h"

static char root[64];

static void put(int index, const char *name, const char *word)
{
    char path[256];
    snprintf(path, sizeof path, "%s/cpu%d/cache/index%d/%s", root, sched_getcpu(), index, name);
    for (char *slash = path + strlen(root); (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%s\n", word);
    fclose(file);
}

static void put_cache(int index, const char *level, const char *type, const char *size)
{
    put(index, "level", level);
    put(index, "type", type);
    put(index, "size", size);
}

static int make_root(void **state)
{
    (void)state;
    cpu_set_t here; /* the files are those of one processor: stay on it */
    CPU_ZERO(&here);
    CPU_SET((size_t)sched_getcpu(), &here);
    strcpy(root, "/tmp/simd-blocking-XXXXXX");
    return sched_setaffinity(0, sizeof here, &here) || !mkdtemp(root);
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command); /* NOLINT(cert-env33-c): a path of our own */
}

static void reads_what_is_listed(void **state)
{
    (void)state;
    put_cache(0, "1", "Data", "48K");
    put_cache(1, "1", "Instruction", "64K");
    put_cache(2, "2", "Unified", "2M");
    put_cache(3, "3", "Unified", "32768K");
    struct attn_caches caches = attn_caches_read(root);
    assert_int_equal(caches.l1, 48 * 1024);
    assert_int_equal(caches.l2, 2 * 1024 * 1024);
}

static void takes_usual_sizes_for_nonsense(void **state)
{
    (void)state;
    const char *const bad[] = {"0K", "-4M", "K", "1024", "99999999999999999999M"};
    for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {
        put_cache(0, "1", "Data", bad[n]);
        put_cache(2, "2", "Unified", bad[n]);
        struct attn_caches caches = attn_caches_read(root);
        assert_int_equal(caches.l1, 32 * 1024);
        assert_int_equal(caches.l2, 1024 * 1024);
    }
    struct attn_caches caches = attn_caches_read("/nowhere");
    assert_int_equal(caches.l1, 32 * 1024);
    assert_int_equal(caches.l2, 1024 * 1024);
}

/* All three fit at once, whatever the sizes. */
static void shares_fit(void **state)
{
    (void)state;
    for (int64_t size = 16 * 1024; size < INT64_C(1) << 30; size *= 2) {
        const struct attn_caches caches = {size, size};
        assert_true(4 * (attn_blocking_tile(&caches) + attn_blocking_item(&caches)) < size);
        assert_in_range(4 * attn_blocking_scores(&caches), size / 8, size / 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_what_is_listed, make_root, remove_root),
        cmocka_unit_test_setup_teardown(takes_usual_sizes_for_nonsense, make_root, remove_root),
        cmocka_unit_test(shares_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
