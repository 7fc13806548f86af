/* SPDX-License-Identifier: Apache-2.0 */
/* test_suite_load.c - loading a standard suite that is missing or broken fails with the
 * reason; shards of the cases. */
#include "run/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/attn_suite_XXXXXX";
static const char name[] = "one.cases";

static void path_of_case(char path[ATTN_PATH_MAX])
{
    assert_int_equal(attn_path_join(path, folder, name), 0);
}

static int make_folder(void **state)
{
    (void)state;
    char path[ATTN_PATH_MAX];
    if (mkdtemp(folder) == NULL)
        return -1;
    path_of_case(path);
    FILE *file = fopen(path, "w");
    return file == NULL || fputs("one: s=4 d=8\n", file) < 0 || fclose(file) ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char path[ATTN_PATH_MAX];
    path_of_case(path);
    return unlink(path) || rmdir(folder);
}

/* The folder under a name of `length` bytes: "/tmp/x/././.". */
static void lengthen(char path[ATTN_PATH_MAX], size_t length)
{
    size_t used = (size_t)snprintf(path, ATTN_PATH_MAX, "%s", folder);
    for (; used + 2 <= length; used += 2)
        memcpy(path + used, "/.", 3);
    if (used < length)
        memcpy(path + used, "/", 2);
}

static void expect(const char *cases, const char *packs, const char *message)
{
    struct attn_paths paths = {.worker = ""};
    struct attn_case_list list = {0};
    char why[1024];
    memset(why, '#', sizeof why); /* what a caller that clears nothing would print */
    why[sizeof why - 1] = '\0';
    snprintf(paths.cases, sizeof paths.cases, "%s", cases);
    snprintf(paths.packs, sizeof paths.packs, "%s", packs);
    const int status =
        attn_suite_load(&paths, &(struct attn_suite_wish){0}, &list, NULL, why, sizeof why);
    assert_int_equal(status, message ? -1 : 0);
    assert_int_equal(list.count, message ? 0 : 1);
    if (message)
        assert_string_equal(why, message);
    attn_case_list_free(&list);
}

static void folders(void **state)
{
    (void)state;
    char path[ATTN_PATH_MAX], message[ATTN_PATH_MAX + 64];
    expect(folder, "/nowhere", NULL); /* packs may be left out */
    expect("/nowhere", "/nowhere", "the standard suite is missing: /nowhere holds no .cases file");
    path_of_case(path);
    snprintf(message, sizeof message, "%s: Not a directory", path);
    expect(path, folder, message);
    expect(folder, path, message);
}

static void long_paths(void **state)
{
    (void)state;
    char path[ATTN_PATH_MAX];
    lengthen(path, ATTN_PATH_MAX - 1 - sizeof name); /* "/" and the name just fit */
    expect(path, "/nowhere", NULL);
    lengthen(path, ATTN_PATH_MAX - sizeof name);
    expect(path, "/nowhere", "the path of 'one.cases' is over 4095 bytes");
}

/* A broken pack in a subfolder that the suite includes is found. */
static void packs_of_a_subfolder(const char *sub, const struct attn_suite_wish *wish)
{
    struct attn_paths paths = {.worker = ""};
    struct attn_case_list list = {0};
    char more[64], broken[128], why[1024];
    expect(folder, folder, NULL);
    snprintf(more, sizeof more, "%s/%s", folder, sub);
    snprintf(broken, sizeof broken, "%s/broken.safetensors", more);
    assert_int_equal(mkdir(more, 0700), 0);
    FILE *file = fopen(broken, "w");
    assert_true(file && fclose(file) == 0);
    expect(folder, folder, NULL);
    snprintf(paths.cases, sizeof paths.cases, "%s", folder);
    snprintf(paths.packs, sizeof paths.packs, "%s", folder);
    const int status = attn_suite_load(&paths, wish, &list, NULL, why, sizeof why);
    assert_int_equal(unlink(broken) || rmdir(more), 0);
    assert_int_equal(status, -1);
    assert_ptr_equal(strstr(why, broken), why);
}

static void more_packs(void **state)
{
    (void)state;
    packs_of_a_subfolder("more", &(struct attn_suite_wish){.more = "more"});
}

static void the_full_suite(void **state)
{
    (void)state;
    packs_of_a_subfolder("long", &(struct attn_suite_wish){.full = true});
    packs_of_a_subfolder("full", &(struct attn_suite_wish){.full = true, .more = "long"});
}

/* Loads the shard I of N of some lines; the whole with N = 0. */
static struct attn_case_list load(const char *const *lines, size_t n, int index, int count,
                                  struct attn_selection *selection)
{
    const struct attn_suite_wish wish = {
        .cases = lines, .n_cases = n, .shard = {.index = index, .count = count}};
    struct attn_case_list list;
    char why[1024];
    if (attn_suite_load(NULL, &wish, &list, selection, why, sizeof why))
        fail_msg("%s", why);
    return list;
}

/* Where a list has the case of this id; -1: nowhere. */
static int find(const struct attn_case_list *list, const char *id)
{
    char other[ATTN_CASE_ID_LEN + 1];
    for (size_t i = 0; i < list->count; i++) {
        attn_case_id(&list->items[i], other);
        if (strcmp(id, other) == 0)
            return (int)i;
    }
    return -1;
}

enum { SHARDED = 150 };
static const char first[] = "s=1:100:+1 d=8", second[] = "sq=3 sk=1:50:+1 d=16";

static void shards_are_a_partition(void **state)
{
    (void)state;
    static const int counts[] = {1, 2, 3, 7, 8, 16, 64};
    const char *lines[] = {first, second};
    struct attn_selection all, selection;
    struct attn_case_list every = load(lines, 2, 0, 0, &all);
    assert_int_equal(every.count, SHARDED);
    assert_int_equal(all.cases, SHARDED);
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        int seen[SHARDED] = {0};
        for (int i = 1; i <= counts[n]; i++) {
            struct attn_case_list part = load(lines, 2, i, counts[n], &selection);
            assert_int_equal(selection.cases, all.cases);
            assert_string_equal(selection.sha256, all.sha256);
            for (size_t c = 0; c < part.count; c++) {
                char id[ATTN_CASE_ID_LEN + 1];
                attn_case_id(&part.items[c], id);
                assert_int_equal(attn_shard_of(id, counts[n]), i);
                seen[find(&every, id)]++;
            }
            attn_case_list_free(&part);
        }
        for (int c = 0; c < SHARDED; c++)
            assert_int_equal(seen[c], 1);
    }
    attn_case_list_free(&every);
}

/* Neither the order nor the number of the other cases moves a case, nor does naming it twice. */
static void a_shard_depends_on_the_case_alone(void **state)
{
    (void)state;
    const char *lines[] = {first, second}, *turned[] = {second, first, second};
    struct attn_selection all, other, alone;
    struct attn_case_list a = load(lines, 2, 2, 5, &all), b = load(turned, 3, 2, 5, &other),
                          c = load(lines, 1, 2, 5, &alone);
    char id[ATTN_CASE_ID_LEN + 1];
    assert_int_equal(all.cases, other.cases);
    assert_string_equal(all.sha256, other.sha256);
    assert_string_not_equal(all.sha256, alone.sha256);
    for (size_t i = 0; i < a.count; i++) {
        attn_case_id(&a.items[i], id);
        assert_true(find(&b, id) >= 0);
        assert_int_equal(find(&c, id) >= 0, a.items[i].dk == 8);
    }
    attn_case_list_free(&a);
    attn_case_list_free(&b);
    attn_case_list_free(&c);
}

/* These stay: runs of other versions are merged. */
static void shards_of_ids(void **state)
{
    (void)state;
    assert_int_equal(attn_shard_of("0000000000000000", 7), 1);
    assert_int_equal(attn_shard_of("0000000000000009", 7), 3);
    assert_int_equal(attn_shard_of("ffffffffffffffff", 7), 2);
    assert_int_equal(attn_shard_of("ffffffffffffffff", 1000000), 551616);
    assert_int_equal(attn_shard_of("ffffffffffffffff", 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(folders),
                                       cmocka_unit_test(long_paths),
                                       cmocka_unit_test(more_packs),
                                       cmocka_unit_test(shards_are_a_partition),
                                       cmocka_unit_test(a_shard_depends_on_the_case_alone),
                                       cmocka_unit_test(shards_of_ids),
                                       cmocka_unit_test(the_full_suite)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
