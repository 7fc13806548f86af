/* SPDX-License-Identifier: Apache-2.0 */
/* test_shard.c - --shard: I/N, and the variables of engines. */
#include "cli/shard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Sets "A=1 B=2" and nothing else; then reads `text`. Returns what attn_shard_parse returns. */
static int read_in(const char *variables, const char *text, struct attn_shard *shard, char *why,
                   size_t size)
{
    char copy[512], *rest = copy, *word;
    assert_int_equal(clearenv(), 0);
    snprintf(copy, sizeof copy, "%s", variables);
    while ((word = strsep(&rest, " "))) {
        char *value = strchr(word, '=');
        if (!value)
            continue;
        *value++ = '\0';
        assert_int_equal(setenv(word, value, 1), 0);
    }
    *shard = (struct attn_shard){0};
    return attn_shard_parse(text, shard, why, size);
}

static void is(const char *variables, int index, int count, const char *from)
{
    struct attn_shard shard;
    char why[512] = "";
    if (read_in(variables, "auto", &shard, why, sizeof why))
        fail_msg("%s: %s", variables, why);
    assert_string_equal(shard.from, from);
    assert_int_equal(shard.index, index);
    assert_int_equal(shard.count, count);
}

/* Refused, with each of these words in the message, and the shard untouched. */
static void is_refused(const char *variables, const char *a, const char *b)
{
    struct attn_shard shard;
    char why[512] = "";
    if (read_in(variables, "auto", &shard, why, sizeof why) == 0)
        fail_msg("%s: shard %d/%d", variables, shard.index, shard.count);
    assert_int_equal(shard.count, 0);
    if (!strstr(why, a) || !strstr(why, b))
        fail_msg("%s: %s", variables, why);
}

static void given(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",    "/",     "1",         "0/3",  "4/3",  "1/0", "-1/3",  "1/-3", "1/3x",     "1x/3",
        "a/b", "1/3/4", "1/1000001", "Auto", "1//3", "/3",  "1.0/3", "1/ ",  "automatic"};
    struct attn_shard shard;
    char why[512];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(read_in("", bad[i], &shard, why, sizeof why), -1);
    /* The variables do not matter then. */
    assert_int_equal(read_in("PMI_RANK=1 PMI_SIZE=x", "3/8", &shard, why, sizeof why), 0);
    assert_int_equal(shard.index, 3);
    assert_int_equal(shard.count, 8);
    assert_string_equal(shard.from, "--shard");
}

static void slurm_arrays(void **state)
{
    (void)state;
#define ARRAY(id, min, max, count)                                                                 \
    "SLURM_ARRAY_TASK_ID=" id " SLURM_ARRAY_TASK_MIN=" min " SLURM_ARRAY_TASK_MAX=" max            \
    " SLURM_ARRAY_TASK_COUNT=" count
    static const char from[] = "SLURM_ARRAY_TASK_ID";
    is(ARRAY("0", "0", "7", "8"), 1, 8, from);
    is(ARRAY("7", "0", "7", "8"), 8, 8, from);
    is(ARRAY("3", "1", "8", "8"), 3, 8, from);
    is(ARRAY("5", "5", "5", "1"), 1, 1, from);
    is(ARRAY("10", "4", "16", "5"), 3, 5, from);               /* --array=4-16:3 */
    is_refused(ARRAY("3", "1", "7", "3"), from, "fixed step"); /* --array=1,3,7: 3 is no second */
    is_refused(ARRAY("2", "1", "7", "4"), from, "fixed step");
    is_refused(ARRAY("9", "1", "8", "8"), from, "=9");
    is_refused(ARRAY("0", "1", "8", "8"), from, "=0");
    is_refused(ARRAY("x", "1", "8", "8"), from, "'x'");
    is_refused(ARRAY("1", "1", "8", "0"), "SLURM_ARRAY_TASK_COUNT", "'0'");
    is_refused("SLURM_ARRAY_TASK_ID=1", "SLURM_ARRAY_TASK_COUNT", "not set");
    /* A part of the array is submitted again: --array=3,5 of 8. */
    is("ATTNBENCH_SHARDS=8 " ARRAY("5", "3", "5", "2"), 5, 8, from);
    is_refused("ATTNBENCH_SHARDS=8 " ARRAY("0", "0", "7", "8"), from, "--array=1-8");
    is_refused("ATTNBENCH_SHARDS=8 " ARRAY("9", "1", "9", "9"), from, "ATTNBENCH_SHARDS=8");
}

static void other_engines(void **state)
{
    (void)state;
    is("JOB_COMPLETION_INDEX=0 ATTNBENCH_SHARDS=3", 1, 3, "JOB_COMPLETION_INDEX");
    is("JOB_COMPLETION_INDEX=2 ATTNBENCH_SHARDS=3", 3, 3, "JOB_COMPLETION_INDEX");
    is("OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4", 4, 4, "OMPI_COMM_WORLD_RANK");
    is("PMI_RANK=0 PMI_SIZE=2", 1, 2, "PMI_RANK");
    is("SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2", 2, 2, "SLURM_PROCID");
    is("CI_NODE_INDEX=1 CI_NODE_TOTAL=5", 1, 5, "CI_NODE_INDEX");
    is("CI_NODE_INDEX=5 CI_NODE_TOTAL=5", 5, 5, "CI_NODE_INDEX");
    is("CI_NODE_TOTAL=1", 1, 1, "CI_NODE_INDEX"); /* a job of GitLab without `parallel` */
    is("CIRCLE_NODE_INDEX=0 CIRCLE_NODE_TOTAL=5", 1, 5, "CIRCLE_NODE_INDEX");
    is("BUILDKITE_PARALLEL_JOB=4 BUILDKITE_PARALLEL_JOB_COUNT=5", 5, 5, "BUILDKITE_PARALLEL_JOB");
    is_refused("", "no variable", "CIRCLE_NODE_INDEX");
    is_refused("SLURM_PROCID=0", "no variable", "CIRCLE_NODE_INDEX"); /* of every batch script */
    is_refused("PMI_RANK= PMI_SIZE=", "no variable", "CIRCLE_NODE_INDEX");
    is_refused("JOB_COMPLETION_INDEX=0", "ATTNBENCH_SHARDS", "not set");
    is_refused("JOB_COMPLETION_INDEX=3 ATTNBENCH_SHARDS=3", "JOB_COMPLETION_INDEX=3", "0 to 2");
    is_refused("CI_NODE_INDEX=0 CI_NODE_TOTAL=5", "CI_NODE_INDEX=0", "1 to 5");
    is_refused("CI_NODE_INDEX=6 CI_NODE_TOTAL=5", "CI_NODE_INDEX=6", "1 to 5");
    is_refused("CI_NODE_TOTAL=5", "CI_NODE_INDEX", "not set");
    is_refused("OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE", "not set");
    is_refused("OMPI_COMM_WORLD_RANK=-1 OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK", "'-1'");
    is_refused("PMI_RANK=0 PMI_SIZE=99999999999999999999", "PMI_SIZE", "999'");
    is_refused("ATTNBENCH_SHARDS=4", "no variable", "CIRCLE_NODE_INDEX");
    is_refused("ATTNBENCH_SHARDS=4 PMI_RANK=0 PMI_SIZE=2", "ATTNBENCH_SHARDS=4", "PMI_RANK");
    is_refused("ATTNBENCH_SHARDS=4x PMI_RANK=0 PMI_SIZE=2", "ATTNBENCH_SHARDS", "4x");
}

static void two_engines(void **state)
{
    (void)state;
    /* An engine of one process divides nothing. */
    is("PMI_RANK=0 PMI_SIZE=1 CI_NODE_INDEX=2 CI_NODE_TOTAL=3", 2, 3, "CI_NODE_INDEX");
    is(ARRAY("2", "1", "3", "3") " SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1", 2, 3,
       "SLURM_ARRAY_TASK_ID");
    /* Two that agree are one. */
    is("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMI_RANK=1 PMI_SIZE=2", 2, 2,
       "OMPI_COMM_WORLD_RANK");
    is_refused(ARRAY("2", "1", "3", "3") " SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4",
               "SLURM_ARRAY_TASK_ID makes this 2 of 3", "SLURM_PROCID makes it 2 of 4");
    is_refused("PMI_RANK=0 PMI_SIZE=2 CI_NODE_INDEX=2 CI_NODE_TOTAL=2", "PMI_RANK",
               "CI_NODE_INDEX");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(given), cmocka_unit_test(slurm_arrays),
                                       cmocka_unit_test(other_engines),
                                       cmocka_unit_test(two_engines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
