/* SPDX-License-Identifier: Apache-2.0 */
/* test_suite_load.c - loading a standard suite that is missing or broken fails with the reason. */
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
        attn_suite_load(&paths, &(struct attn_suite_wish){0}, &list, why, sizeof why);
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
    const int status = attn_suite_load(&paths, wish, &list, why, sizeof why);
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(folders), cmocka_unit_test(long_paths),
                                       cmocka_unit_test(more_packs),
                                       cmocka_unit_test(the_full_suite)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
