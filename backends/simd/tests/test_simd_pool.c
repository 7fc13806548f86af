/* SPDX-License-Identifier: Apache-2.0 */
/* test_simd_pool.c - every thread works once a run and no longer than the run, whether it was still
 * looking or asleep; nothing is left behind; shares cover all work once and evenly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "../pool.h"
#include "../share.h"

#define THREADS 4

static int live;

static void *counted_alloc(void *context, size_t bytes, size_t alignment)
{
    (void)context;
    live++;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void counted_free(void *context, void *memory)
{
    (void)context;
    live--;
    free(memory);
}

static const struct attn_services services = {
    .struct_size = sizeof services, .alloc = counted_alloc, .free = counted_free};

/* Not atomic: what a run wrote must be visible to the caller without help. */
struct tally {
    int64_t runs[THREADS];
    int64_t delay_ns;
};

static void nap(int64_t ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static void count(void *context, int thread)
{
    struct tally *tally = context;
    if (tally->delay_ns && thread > 0)
        nap(tally->delay_ns);
    tally->runs[thread]++;
}

/* `runs` runs with a rest between them; members start late by `delay_ns`. */
static void check_runs(int threads, int64_t runs, int64_t rest_ns, int64_t delay_ns)
{
    struct attn_pool *pool = NULL;
    struct tally tally = {.delay_ns = delay_ns};
    char why[256] = "";
    assert_int_equal(attn_pool_create(&services, threads, &pool, why, sizeof why), ATTN_OK);
    for (int64_t n = 1; n <= runs; n++) {
        attn_pool_run(pool, count, &tally);
        for (int t = 0; t < THREADS; t++)
            assert_int_equal(tally.runs[t], t < threads ? n : 0);
        if (rest_ns)
            nap(rest_ns);
    }
    attn_pool_destroy(pool);
    assert_int_equal(live, 0);
}

static void test_runs(void **state)
{
    (void)state;
    for (int threads = 1; threads <= THREADS; threads++) {
        check_runs(threads, 500, 0, 0);      /* members are found looking */
        check_runs(threads, 20, 2000000, 0); /* asleep */
        check_runs(threads, 20, 0, 2000000); /* and so is the caller */
        check_runs(threads, 100, 60000, 0);  /* about to fall asleep */
        check_runs(threads, 0, 0, 0);        /* never called */
    }
}

/* Time that all threads of the process were on a processor. */
static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Idle members sleep: over a rest of 200 ms they are busy for well under half of it. */
static void test_rest(void **state)
{
    (void)state;
    struct attn_pool *pool = NULL;
    struct tally tally = {.delay_ns = 0};
    char why[256] = "";
    assert_int_equal(attn_pool_create(&services, 2, &pool, why, sizeof why), ATTN_OK);
    attn_pool_run(pool, count, &tally);
    double before = processor_seconds();
    nap(200000000);
    assert_true(processor_seconds() - before < 0.08);
    attn_pool_destroy(pool);
}

/* Cuts a job and walks the shares: each unit once and in order. Gives the largest share in rows
 * times keys, as a multiple of the even one. */
static double largest_share(const struct attn_flash *job, int threads)
{
    const int mr = 6;
    struct attn_share share[THREADS + 1];
    int64_t total = job->sq * job->group, head = 0, row = 0, part = 0;
    double cells[THREADS] = {0}, whole = 0.0, most = 0.0;
    attn_share_cut(job, mr, threads, share);
    for (int t = 0; t < threads; t++) {
        struct attn_share at = share[t];
        struct attn_flash_item item;
        while (attn_share_next(job, mr, &share[t + 1], &at, &item)) {
            assert_int_equal(item.head, head);
            assert_int_equal(item.row0, row);
            assert_int_equal(item.part, part);
            assert_in_range(item.rows, 1, job->item_rows);
            for (int64_t r = 0; r < item.rows; r++)
                cells[t] += job->flags & ATTN_FLAG_CAUSAL
                                ? (double)((row + r) / job->group + job->problem->off + 1)
                                : (double)(job->splits > 1 ? job->part_keys : job->sk);
            row = (row + item.rows) % total;
            part = job->splits > 1 ? (part + 1) % job->splits : 0;
            head += row == 0 && part == 0;
        }
        whole += cells[t];
        most = cells[t] > most ? cells[t] : most;
    }
    assert_int_equal(head, job->b * job->groups);
    return most * threads / whole;
}

static void test_shares(void **state)
{
    (void)state;
    struct attn_problem problem = {.sq = 512, .sk = 512};
    struct attn_flash job = {.problem = &problem,
                             .b = 1,
                             .groups = 1,
                             .group = 1,
                             .sq = 512,
                             .sk = 512,
                             .item_rows = 264,
                             .splits = 1};
    assert_true(largest_share(&job, 2) < 1.02); /* few items: cut within a head */
    problem.flags = job.flags = ATTN_FLAG_CAUSAL;
    assert_true(largest_share(&job, 2) < 1.03);
    assert_true(largest_share(&job, 4) < 1.1); /* a unit is a tenth of the last share */
    job.b = 3, job.groups = 5, job.group = 3, job.sq = 100, job.sk = 200;
    problem.sq = 100, problem.sk = 200, problem.off = 100;
    assert_true(largest_share(&job, 2) < 1.02);
    problem = (struct attn_problem){.sq = 2, .sk = 8192};
    job = (struct attn_flash){.problem = &problem,
                              .b = 1,
                              .groups = 3,
                              .group = 4,
                              .sq = 2,
                              .sk = 8192,
                              .item_rows = 12,
                              .splits = 16,
                              .part_keys = 512};
    assert_true(largest_share(&job, 4) < 1.02);
    problem.sq = job.sq = 1, job.splits = 1;
    assert_true(largest_share(&job, 4) > 1.0); /* fewer units than threads: still each once */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_rest),
        cmocka_unit_test(test_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
