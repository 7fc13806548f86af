/* SPDX-License-Identifier: Apache-2.0 */
/* test_progress.c - the lines that a log gets while cases are timed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "run/progress.h"

/* What a round prints on stderr, which is a file meanwhile. */
static const char *line_of(struct attn_progress *p, int round)
{
    static char text[512];
    const struct attn_case c = {.name = "long_case"};
    FILE *log = tmpfile();
    assert_non_null(log);
    const int kept = dup(STDERR_FILENO);
    dup2(fileno(log), STDERR_FILENO);
    attn_progress_round(p, round, 6, 125, "avx2", &c);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(log);
    text[fread(text, 1, sizeof text - 1, log)] = '\0';
    fclose(log);
    return text;
}

static void a_log_has_a_line_a_round_and_no_long_silence(void **state)
{
    (void)state;
    struct attn_progress p;
    attn_progress_begin(&p, 4, 0);
    p.terminal = false;
    assert_string_equal(line_of(&p, 0), "[1/4] timing, round 1 of 6, 2m05s left\n");
    assert_string_equal(line_of(&p, 0), "");
    p.said -= ATTN_PROGRESS_SILENCE_S; /* as if so much time had passed */
    assert_string_equal(line_of(&p, 0), "[1/4] timing, round 1 of 6, 2m05s left: long_case\n");
    assert_string_equal(line_of(&p, 0), "");
    assert_string_equal(line_of(&p, 1), "[1/4] timing, round 2 of 6, 2m05s left\n");
    /* More rounds than were planned, where there is time. */
    assert_string_equal(line_of(&p, 6), "[1/4] timing, round 7, 2m05s left\n");
}

static size_t filled(struct attn_progress *p, int round)
{
    const char *bar = strchr(line_of(p, round), 'K'); /* "\r\033[K[###..." */
    assert_non_null(bar);
    return strspn(bar + 2, "#");
}

/* Four cases are begun and none is done: half of their time is spent. */
static void the_bar_moves_while_cases_are_timed(void **state)
{
    (void)state;
    struct attn_progress p;
    attn_progress_begin(&p, 8, 0);
    p.terminal = true;
    p.colour = false;
    p.at = 3;
    p.began -= 125;
    assert_int_equal(filled(&p, 0), 24 / 4);
    p.began -= 250; /* three quarters */
    assert_int_equal(filled(&p, 1), 24 * 3 / 8);
    p.began += 250; /* it never goes back */
    assert_int_equal(filled(&p, 2), 24 * 3 / 8);
    p.budget_s = 250; /* 125 of them spent */
    assert_int_equal(filled(&p, 3), 24 / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_has_a_line_a_round_and_no_long_silence),
        cmocka_unit_test(the_bar_moves_while_cases_are_timed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
