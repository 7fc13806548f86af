/* SPDX-License-Identifier: Apache-2.0 */
/* test_newer.c - what is done without newer functions of glibc, beside what these do. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/newer.h"

static void test_signals(void **state)
{
    (void)state;
    for (int sig = -1; sig <= SIGRTMAX; sig++) {
        const char *name = attn_signal_abbreviation(sig), *known = sigabbrev_np(sig);
        assert_int_equal(name == NULL, known == NULL);
        assert_true(name == known || strcmp(name, known) == 0);
    }
}

/* Has a child of ours the descriptor? */
static int child_has(int fd, int least)
{
    char program[] = "test", option[] = "-e", path[32], *argv[] = {program, option, path, NULL};
    char *none[] = {NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    posix_spawn_file_actions_init(&actions);
    assert_int_equal(attn_add_close_from(&actions, least), 0);
    assert_int_equal(posix_spawnp(&child, program, &actions, NULL, argv, none), 0);
    posix_spawn_file_actions_destroy(&actions);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status == 0;
}

static void test_descriptors(void **state)
{
    (void)state;
    const int low = fcntl(1, F_DUPFD, 40), high = fcntl(1, F_DUPFD, 200);
    assert_true(low >= 40 && high >= 200);
    assert_true(child_has(low, low + 1));
    assert_false(child_has(low, low));
    assert_false(child_has(high, low));
    close(low);
    close(high);
}

static void test_allocated(void **state)
{
    (void)state;
    const int64_t before = attn_allocated();
    char *const small = malloc(1000), *const large = malloc(10000000);
    assert_non_null(small);
    assert_non_null(large);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ /* whose allocators say 0 */
    assert_in_range(attn_allocated() - before, 10001000, 10001000 + 20000);
#endif
    free(small);
    free(large);
    assert_true(attn_allocated() < before + 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_allocated),
    };
    return cmocka_run_group_tests_name("newer", tests, NULL, NULL);
}
