/* SPDX-License-Identifier: Apache-2.0 */
/* test_hostile.c - a wrong message from a worker ends its request and does nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "case/text.h"
#include "host/reply.h"
#include "host/worker.h"
#include "tiny.h"

/* A verification, or a timing, by a worker that does `what`. */
static struct attn_outcome meet(const char *what, bool timed)
{
    const struct attn_worker_config config = {
        .worker_path = TEST_HOSTILE, .plugin_path = "x", .threads = 1, .timeout_s = 1};
    struct attn_worker *worker;
    struct attn_plan_info info;
    struct attn_bench_reply reply;
    double seconds;
    setenv("ATTN_TEST_HOSTILE", what, 1);
    struct attn_outcome outcome = attn_worker_start(&config, &worker);
    if (outcome.status != ATTN_PASS)
        return outcome;
    struct attn_instance *instance = tiny_create(3, 5, 4, 0);
    const struct attn_bench_params params = {.samples = 1, .min_time = 1e-3};
    outcome = timed ? attn_worker_bench(worker, instance, &params, &reply, &info)
                    : attn_worker_verify(worker, instance, ATTN_PLACE_END, 1, &info, &seconds);
    tiny_free(instance);
    attn_worker_stop(worker);
    return outcome;
}

static void test_garbage(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        enum attn_status status;
        const char *reason;
    } table[] = {
        {"oversize", ATTN_ERROR, "the worker sent a message of impossible length"},
        {"short", ATTN_ERROR, "the worker sent a message of impossible length"},
        {"length", ATTN_ERROR, "the worker sent a message of impossible length"},
        {"type", ATTN_ERROR, "the worker sent a message of unknown type 77"},
        {"backend", ATTN_ERROR, "the worker described a backend that nobody asked for"},
        {"status", ATTN_ERROR, "the worker sent a reply with an impossible status"},
        {"crash-status", ATTN_ERROR, "the worker sent a reply with an impossible status"},
        {"nan", ATTN_ERROR, "the worker sent a reply with an impossible time"},
        {"samples", ATTN_ERROR, "the worker sent a reply with an impossible number of samples"},
        {"numerics", ATTN_ERROR, "numerics declares an impossible e_exp"},
        {"partial-type", ATTN_ERROR, "numerics declares an impossible partial_type"},
        {"partial-terms", ATTN_ERROR, "numerics declares an impossible partial_terms"},
        {"modified", ATTN_ERROR, "the worker sent a reply with an impossible operand"},
        {"text", ATTN_ERROR, "a?b?xxx"},
        {"fault-slot", ATTN_ERROR, "the worker sent a malformed report of a fault"},
        {"fault-access", ATTN_ERROR, "the worker sent a malformed report of a fault"},
        {"fault-operand", ATTN_CRASH, "crashed in run (SIGSEGV)"},
        {"fault-distance", ATTN_FAIL, "reads before the start of q"},
        {"moves", ATTN_ERROR, "the worker moves to another process"},
        {"moves-early", ATTN_ERROR, "the worker moves to another process"},
        {"stale", ATTN_ERROR, "the worker sent a message of request 2 during request 3"},
        {"forged", ATTN_ERROR,
         "the worker sent a message after its reply to request 3: a reply was forged"},
        {"close", ATTN_CRASH, "closed its connection to the host"},
        {"phases", ATTN_TIMEOUT, "no answer within 1 s, in run"},
        {"shrink", ATTN_PASS, ""},
        {"nothing", ATTN_PASS, ""},
    };
    for (size_t t = 0; t < sizeof(table) / sizeof(table[0]); t++) {
        const struct attn_outcome outcome = meet(table[t].what, false);
        if (outcome.status != table[t].status ||
            strncmp(outcome.reason, table[t].reason, strlen(table[t].reason)) != 0)
            fail_msg("%s: %s: '%s'", table[t].what, attn_status_name(outcome.status),
                     outcome.reason);
    }
    const struct attn_outcome outcome = meet("nothing", true);
    assert_int_equal(outcome.status, ATTN_ERROR);
    assert_string_equal(outcome.reason, "the worker sent a timing without a sample");
}

static void test_text(void **state)
{
    (void)state;
    char text[8];
    attn_text_take(text, sizeof(text), "abcdefghijk", 11);
    assert_string_equal(text, "abcdefg");
    attn_text_take(text, sizeof(text), "\xc3\xa4z", 3);
    assert_string_equal(text, "\xc3\xa4z");
    /* overlong, surrogate, cut short */
    attn_text_take(text, sizeof(text), "\xc2\x9bz", 3); /* U+009B */
    assert_string_equal(text, "??z");
    attn_text_take(text, sizeof(text), "\xe2\x80\xaez", 4); /* U+202E */
    assert_string_equal(text, "???z");
    attn_text_take(text, sizeof(text), "\xe2\x81\xa6", 3); /* U+2066 */
    assert_string_equal(text, "???");
    attn_text_take(text, sizeof(text), "\xc0\x80", 2);
    assert_string_equal(text, "??");
    attn_text_take(text, sizeof(text), "\xed\xa0\x80", 3);
    assert_string_equal(text, "???");
    attn_text_take(text, sizeof(text), "\xe2\x82", 2);
    assert_string_equal(text, "??");
    /* a sequence is not cut by the end of the buffer */
    attn_text_take(text, sizeof(text), "abcdef\xc3\xa4", 8);
    assert_string_equal(text, "abcdef");
    attn_text_take(text, sizeof(text), "a\x1b[31m", 6);
    assert_string_equal(text, "a?[31m");
    char line[] = "a\tb\xe2\x80\xa8\xc3\xa4\x7f\xff"; /* U+2028 */
    assert_false(attn_text_is_clean(line));
    attn_text_clean(line);
    assert_string_equal(line, "a?b???\xc3\xa4??");
    assert_true(attn_text_is_clean(line) && attn_text_is_clean(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
