/* SPDX-License-Identifier: Apache-2.0 */
/* test_loader.c - every refusal of the loader, with a plugin that causes it; options. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "plugin/loader.h"

#define PLUGIN(name) TEST_PLUGIN_DIR "/" name ".so"

static void refused(const char *path, const char *expected)
{
    struct attn_loaded loaded = {.handle = NULL};
    char why[512] = "";
    assert_int_equal(attn_plugin_load(path, &loaded, why, sizeof(why)), -1);
    assert_null(loaded.handle);
    if (!strstr(why, expected))
        fail_msg("'%s' does not say '%s'", why, expected);
}

static void test_refusals(void **state)
{
    (void)state;
    char text[] = "/tmp/attnbench-test-loader-XXXXXX";
    const int fd = mkstemp(text);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "not a library\n", 14), 14);
    close(fd);

    refused(PLUGIN("nonesuch"), "no plugin at");
    refused(TEST_PLUGIN_DIR, "is no regular file");
    refused(text, "not an ELF file");
    refused(PLUGIN("no_symbol"), "exports no symbol attn_plugin");
    refused(PLUGIN("wrong_version"), "of ABI version 2, the harness of version 1");
    refused(PLUGIN("short_struct"), "structure has 8 bytes");
    refused(PLUGIN("missing_slot"), "backend test lacks the required slot run");
    refused(PLUGIN("duplicate"), "two backends of the plugin are named test");
    refused(PLUGIN("bad_name"), "backend 0 has a bad name");
    unlink(text);
}

static void test_cut_short(void **state)
{
    (void)state;
    char path[] = "/tmp/attnbench-test-loader-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "\177ELF\2\1\1", 7), 7);
    close(fd);
    refused(path, "cannot open the plugin");
    unlink(path);
}

static void test_good(void **state)
{
    (void)state;
    struct attn_loaded loaded;
    char why[256];
    assert_int_equal(attn_plugin_load(PLUGIN("twins"), &loaded, why, sizeof(why)), 0);
    assert_non_null(attn_plugin_backend(&loaded, "test"));
    assert_non_null(attn_plugin_backend(&loaded, "other"));
    assert_null(attn_plugin_backend(&loaded, "nonesuch"));
    attn_plugin_unload(&loaded);
    assert_null(loaded.handle);
}

static int parse(const char *text, char *why, size_t size)
{
    static struct attn_loaded loaded;
    static char storage[64];
    static struct attn_option options[2];
    if (!loaded.handle)
        assert_int_equal(attn_plugin_load(PLUGIN("twins"), &loaded, why, size), 0);
    const struct attn_options_room room = {storage, sizeof(storage), options, 2};
    const int n = attn_options_parse(attn_plugin_backend(&loaded, "test"), text, &room, why, size);
    const struct attn_services services = {.n_options = n > 0 ? (uint32_t)n : 0,
                                           .options = options};
    if (n > 0)
        assert_string_equal(attn_option_get(&services, "isa", "none"), "wide");
    return n;
}

static void test_options(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"isa", "option 'isa' is not of the form key=value"},
        {"=1", "option '=1' is not of the form key=value"},
        {"tiles=1", "backend test has no option 'tiles' (it has: isa, tile, pack)"},
        {"isa=wid", "option isa needs one of plain|wide, not 'wid'"},
        {"isa=", "option isa needs one of plain|wide, not ''"},
        {"tile=0x10", "option tile needs a decimal number, not '0x10'"},
        {"tile=99999999999999999999", "option tile needs a decimal number"},
        {"pack=2", "option pack needs 0 or 1, not '2'"},
        {"tile=1,tile=2", "option tile is given twice"},
        {"isa=wide,tile=1,pack=1", "more than 2 options"},
        {"isa=wide,isa=wide,isa=wide,isa=wide,isa=wide,isa=wide,isa=wide,isa=wide",
         "the list of options is longer than 63 characters"},
    };
    char why[256] = "";
    assert_int_equal(parse("", why, sizeof(why)), 0);
    assert_int_equal(parse("isa=wide", why, sizeof(why)), 1);
    assert_int_equal(parse("tile=-3,isa=wide", why, sizeof(why)), 2);
    for (size_t b = 0; b < sizeof(bad) / sizeof(bad[0]); b++) {
        assert_int_equal(parse(bad[b].text, why, sizeof(why)), -1);
        if (!strstr(why, bad[b].why))
            fail_msg("'%s' does not say '%s'", why, bad[b].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
