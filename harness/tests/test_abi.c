/* SPDX-License-Identifier: Apache-2.0 */
/* test_abi.c - the header compiles alone, in both languages. A plugin that is built outside the
 * tree, with only the header and a compiler, loads and verifies. */
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "attempt.h"
#include "host/worker.h"
#include "tiny.h"

uint32_t attn_test_abi_c11(void);
uint32_t attn_test_abi_cxx17(void);

static void test_layouts(void **state)
{
    (void)state;
    assert_int_equal(attn_test_abi_c11(), attn_test_abi_cxx17());
    /* Fixed by version 1: a change of these is a change of the ABI. */
    assert_int_equal(sizeof(struct attn_plugin), 32);
    assert_int_equal(sizeof(struct attn_backend), 168);
    assert_int_equal(offsetof(struct attn_backend, device), 160); /* what version 1 began with */
    assert_int_equal(sizeof(struct attn_device), 208);
    assert_int_equal(offsetof(struct attn_problem, variant), 168); /* and with this */
    assert_int_equal(sizeof(struct attn_problem), 248);
    assert_int_equal(sizeof(struct attn_tensor), 128);
    assert_int_equal(sizeof(struct attn_services), 56);
    assert_int_equal(offsetof(struct attn_numerics, source), 128); /* and with this */
    assert_int_equal(offsetof(struct attn_numerics, partial_type), 136);
    assert_int_equal(offsetof(struct attn_numerics, score_stores), 144);
    assert_int_equal(offsetof(struct attn_numerics, e_f), 168);
    assert_int_equal(offsetof(struct attn_numerics, decay_chunk), 184);
    assert_int_equal(offsetof(struct attn_numerics, bwd_lse), 196);
    assert_int_equal(offsetof(struct attn_numerics, grad_chain), 224);
    assert_int_equal(offsetof(struct attn_numerics, dkv_acc_type), 240);
    assert_int_equal(sizeof(struct attn_numerics), 248);
}

static void copy_file(const char *from, const char *to)
{
    char text[65536];
    FILE *in = fopen(from, "re"), *out = fopen(to, "we");
    assert_non_null(in);
    assert_non_null(out);
    const size_t n = fread(text, 1, sizeof(text), in);
    assert_true(n > 0 && n < sizeof(text));
    assert_int_equal(fwrite(text, 1, n, out), n);
    fclose(in);
    fclose(out);
}

static int run(char **argv)
{
    pid_t pid;
    int status;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0 ||
        waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_out_of_tree(void **state)
{
    (void)state;
    char dir[] = "/tmp/attnbench-test-abi-XXXXXX";
    char include[64], header[96], base[96], source[96], plugin[96];
    assert_non_null(mkdtemp(dir));
    snprintf(include, sizeof(include), "%s/attnbench", dir);
    snprintf(header, sizeof(header), "%s/attnbench/backend.h", dir);
    snprintf(base, sizeof(base), "%s/base.h", dir);
    snprintf(source, sizeof(source), "%s/mine.c", dir);
    snprintf(plugin, sizeof(plugin), "%s/mine.so", dir);
    assert_int_equal(mkdir(include, 0700), 0);
    copy_file(TEST_SOURCE_DIR "/harness/include/attnbench/backend.h", header);
    copy_file(TEST_SOURCE_DIR "/harness/tests/plugins/base.h", base);
    copy_file(TEST_SOURCE_DIR "/harness/tests/plugins/good.c", source);
    char *compile[] = {(char[]){TEST_CC},
                       (char[]){"-std=c11"},
                       (char[]){"-O2"},
                       (char[]){"-fPIC"},
                       (char[]){"-shared"},
                       (char[]){"-I"},
                       dir,
                       (char[]){"-o"},
                       plugin,
                       source,
                       (char[]){"-lm"},
                       NULL};
    assert_int_equal(run(compile), 0);

    struct attn_worker *worker = attempt_worker(plugin, NULL, NULL);
    struct attn_plan_info info;
    double seconds;
    struct attn_instance *instance = tiny_create(3, 5, 4, 0);
    expect(attn_worker_verify(worker, instance, ATTN_PLACE_END, 1, &info, &seconds), ATTN_PASS, "");
    assert_true(tiny_error(instance) < 1e-5);
    tiny_free(instance);
    attn_worker_stop(worker);

    const char *const made[] = {plugin, source, base, header, include, dir};
    for (size_t m = 0; m < sizeof(made) / sizeof(made[0]); m++)
        remove(made[m]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_out_of_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
