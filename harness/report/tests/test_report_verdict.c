/* SPDX-License-Identifier: Apache-2.0 */
/* test_report_verdict.c - what a terminal shows of a run. */
#include "report/verdict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/text.h"
#include "synthetic.h"

/* Not inlined: GCC 12 takes the text for the local variable. */
__attribute__((noinline)) static char *screen_of(const struct attn_run_data *run,
                                                 struct attn_screen screen)
{
    char *text = NULL, why[256] = "";
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_int_equal(attn_screen_put(run, &screen, out, why, sizeof why), 0);
    fclose(out);
    return text;
}

/* Where the line of a label begins; the test fails if there is none. */
static const char *line_of(const char *text, const char *label)
{
    const size_t length = strlen(label);
    for (const char *at = text; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        const char *word = at + strspn(at, " ");
        if (strncmp(word, label, length) == 0 && word[length] == ' ')
            return word;
    }
    fail_msg("no line %s in\n%s", label, text);
    return NULL;
}

static size_t longest_line(const char *text)
{
    size_t most = 0;
    for (; *text; text += strcspn(text, "\n") + (text[strcspn(text, "\n")] == '\n'))
        most = strcspn(text, "\n") > most ? strcspn(text, "\n") : most;
    return most;
}

static void put(json_t *records, const char *type, const char *id, const char *status,
                const char *reason)
{
    json_array_append_new(records,
                          json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "type", type, "id", id,
                                    "case", "dk=8 sq=8", "name", "late_case", "backend", "naive",
                                    "status", status, "reason", reason));
}

static void the_lines(void **state)
{
    (void)state;
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    put(run.records, "verify", "0123456789abcdef", "pass", "");
    put(run.records, "untimed", "0123456789abcdef", "pass", "the time is used up (60 s)");
    put(run.records, "verify", "1123456789abcdef", "skip", "budget: the time is used up (60 s)");
    put(run.records, "verify", "2123456789abcdef", "mistrusted", "proves too little");
    put(run.records, "verify", "3123456789abcdef", "suspect", "too fast");
    /* The first three are shown. */
    json_array_insert(run.records, 0,
                      json_array_get(run.records, json_array_size(run.records) - 1));
    json_array_remove(run.records, json_array_size(run.records) - 1);
    size_t i;
    json_t *record;
    json_array_foreach(run.records, i, record)
    {
        if (!json_object_get(record, "samples_ns") ||
            strcmp(attn_field_text(record, "backend"), "avx2") != 0)
            continue;
        json_object_set_new(record, "peak_bytes", json_null());
        json_object_set_new(record, "peak_reason", json_string("no time is left"));
        break;
    }
    json_object_set_new(run.machine, "load", json_real(7));
    run.matrix = synthetic_matrix();
    char *text = screen_of(&run, (struct attn_screen){.columns = 90});
    assert_memory_equal(text, "Fastest exact backend", 21);
    for (size_t g = 0; g < 3; g++) {
        static const char *const groups[] = {"seqlen (single cases)", "heads (single cases)",
                                             "dim (single cases)"};
        line_of(text, groups[g]);
    }
    assert_non_null(
        strstr(line_of(text, "Noise"), "not known: no backends took turns; load at the end 7.0"));
    assert_non_null(strstr(line_of(text, "No peaks"), "of memory, for 1 of "));
    assert_non_null(strstr(line_of(text, "No peaks"), " results: no time is left\n"));
    assert_non_null(strstr(line_of(text, "Verified"), " pass, "));
    /* The first of several, with its reason. */
    assert_non_null(strstr(line_of(text, "Failed"), " on "));
    assert_null(strstr(text, "fail: "));
    assert_non_null(strstr(text, " suspect: naive on late_case: too fast"));
    assert_null(strstr(text, "mistrusted: "));
    assert_non_null(strstr(line_of(text, "Mistrusted"), "proves too little"));
    assert_non_null(strstr(line_of(text, "Not timed"), "naive "));
    assert_non_null(strstr(text, "naive 2: the time is used up (60 s)"));
    assert_non_null(strstr(line_of(text, "Left out"), "cuda: cannot run here"));
    assert_non_null(strstr(line_of(text, "Report"), "'attnbench report synthetic'"));
    assert_non_null(strstr(line_of(text, "Report"), "; --rows lists all "));
    assert_true(longest_line(text) <= 90);
    free(text);
    attn_run_release(&run);
}

/* Few reasons are said; many would hide the rest of the screen. */
static void many_reasons(void **state)
{
    (void)state;
    for (size_t n = 5; n <= 6; n++) {
        struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
        for (size_t i = 0; i < n; i++) {
            char id[] = "0123456789abcdef";
            id[0] = (char)('0' + i);
            put(run.records, "verify", id, "pass", "");
            put(run.records, "untimed", id, "pass", i < 5 ? "slow" : "large");
        }
        char *text = screen_of(&run, (struct attn_screen){.columns = 90});
        assert_non_null(strstr(line_of(text, "Not timed"), "naive 5: slow"));
        assert_int_equal(strstr(text, " naive 4: a run is predicted to take") != NULL, n == 5);
        assert_int_equal(strstr(text, " 5 more for 2 other reasons, which ") != NULL, n == 6);
        free(text);
        attn_run_release(&run);
    }
}

/* Adds each record of a backend once more, as if another had made it in `factor` times the time. */
static void add_twin(json_t *records, const char *of, const char *name, double factor)
{
    const size_t n = json_array_size(records);
    for (size_t i = 0; i < n; i++) {
        const json_t *record = json_array_get(records, i);
        if (strcmp(attn_field_text(record, "backend"), of) != 0)
            continue;
        json_t *copy = json_deep_copy(record);
        json_object_set_new(copy, "backend", json_string(name));
        synthetic_scale(copy, "samples_ns", factor);
        synthetic_scale(copy, "time_ns", factor);
        json_array_append_new(records, copy);
    }
}

/* Of many backends and many groups of cases, a screen: of 24 lines, of which the shell has some. */
static void a_screen_of_24_lines(void **state)
{
    (void)state;
    static const char *const twins[] = {"avx512", "avx512_bf16",    "amx_bf16",   "numpy",
                                        "ort",    "torch_composed", "torch_flash"};
    static const char *const reasons[] = {
        "the time given is used up (900 s)",
        "a run is predicted to take 12 s, over 8 times what the fastest takes",
        "a run took 1.2 s, the limit is 1 s"};
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    size_t i;
    json_t *record;
    json_array_foreach(run.records, i, record)
    {
        char name[64];
        snprintf(name, sizeof name, "bwd_sweep_%.8s/%s", attn_field_text(record, "name"),
                 attn_field_text(record, "id"));
        json_object_set_new(record, "name", json_string(name));
        if (strcmp(attn_field_text(record, "status"), "fail") == 0 ||
            strcmp(attn_field_text(record, "status"), "crash") == 0)
            json_object_set_new(record, "status", json_string("pass"));
    }
    for (size_t t = 0; t < sizeof twins / sizeof *twins; t++) {
        add_twin(run.records, "onednn", twins[t], 1.3 + 0.1 * (double)t);
        for (size_t r = 0; r < 3; r++) {
            char id[17];
            snprintf(id, sizeof id, "%zu12345678%zu9abcde", r, t);
            put(run.records, "verify", id, "pass", "");
            put(run.records, "untimed", id, "pass", reasons[r]);
            for (size_t n = 1; n < 3; n++)
                json_object_set_new(json_array_get(run.records, json_array_size(run.records) - n),
                                    "backend", json_string(twins[t]));
        }
    }
    run.matrix = synthetic_matrix();
    for (size_t t = 0; t < sizeof twins / sizeof *twins; t++)
        json_array_append_new(json_object_get(run.matrix, "backends"),
                              json_pack("{s:s, s:b}", "name", twins[t], "available", 0));
    char *text = screen_of(&run, (struct attn_screen){.columns = 80});
    size_t lines = 0;
    for (const char *at = text; *at; at++)
        lines += *at == '\n';
    if (lines > 20 || !strstr(text, " 1 on each of 7 backends: ") ||
        !strstr(text, " 8 backends cannot run here; ") || strstr(text, "Failed"))
        fail_msg("%zu lines:\n%s", lines, text);
    free(text);
    attn_run_release(&run);
}

/* Cut off before the first verdict. */
static void a_run_of_nothing(void **state)
{
    (void)state;
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    json_array_clear(run.records);
    char *text = screen_of(&run, (struct attn_screen){.rows = true, .columns = 90});
    assert_non_null(strstr(line_of(text, "Verified"), " nothing"));
    assert_null(strstr(text, "hot, median")); /* no head of an empty table */
    free(text);
    attn_run_release(&run);
}

/* Backends of one speed are a tie, and a difference of a half is none; where rounds swing by a
 * quarter, nobody can tell. */
static void ties(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        const bool same = kind > 0;
        const double swing = kind == 2 ? 0.25 : 0.01;
        struct attn_run_data run = synthetic_small();
        size_t i;
        json_t *record;
        json_array_foreach(run.records, i, record)
        {
            json_t *rounds = json_object_get(record, "samples_ns");
            const char *name = json_string_value(json_object_get(record, "backend"));
            const double ns = strcmp(name, "avx2") == 0 || same ? 1e5 : 1.5e5;
            if (!rounds)
                continue;
            json_object_set_new(
                record, "samples_ns",
                json_pack("[[f], [f], [f], [f]]", ns, ns + swing * ns, ns - swing * ns, ns));
            json_t *time = json_object_get(record, "time_ns");
            json_object_set_new(time, "median", json_real(ns));
            json_object_set_new(time, "ci95",
                                json_pack("[f, f]", ns - swing * ns, ns + swing * ns));
        }
        char *text = screen_of(&run, (struct attn_screen){.columns = 1000});
        assert_int_equal(strstr(text, "a tie of ") != NULL, kind == 1);
        assert_int_equal(strstr(text, "not told apart: ") != NULL, kind == 2);
        assert_int_equal(strstr(text, " avx2, 1.50 times ") != NULL, !same);
        free(text);
        attn_run_release(&run);
    }
}

/* avx2 is first in all cases but one, in which it takes thousands of times as long. First in most
 * cases is not fastest, with narrow intervals too, and few rounds are worth a warning. */
static void first_and_behind(void **state)
{
    (void)state;
    for (int rounds = 1; rounds <= 5; rounds += 2) {
        struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1, .rounds = rounds});
        size_t i;
        json_t *record;
        json_array_foreach(run.records, i, record)
        {
            const bool avx2 = strcmp(attn_field_text(record, "backend"), "avx2") == 0;
            const bool long_one = strstr(attn_field_text(record, "name"), "seqlen_h8_s2048_d64");
            const double ns = !avx2 ? 1.5e5 : long_one ? 1e11 : 1e5;
            json_t *samples = json_array(), *time = json_object_get(record, "time_ns");
            for (int r = 0; r < rounds; r++)
                json_array_append_new(samples, json_pack("[f]", ns * (1 + 1e-3 * r)));
            if (json_object_get(record, "samples_ns")) {
                json_object_set(record, "samples_ns", samples);
                json_object_set_new(time, "median", json_real(ns));
                if (rounds > 1)
                    json_object_set_new(time, "ci95", json_pack("[f, f]", ns, 1.01 * ns));
            }
            json_decref(samples);
        }
        char *text = screen_of(&run, (struct attn_screen){.columns = 1000});
        const char *line = line_of(text, "seqlen (single cases)");
        const char *no_one = strstr(line, "  no one: in the mean ");
        const char *sure = strstr(line, rounds < 4 ? " times avx2 (no interval)" : " times avx2 (");
        assert_true(no_one && no_one < sure && sure < strchr(line, '\n'));
        assert_non_null(strstr(line, ", avx2 first in "));
        assert_int_equal(strstr(line_of(text, "Noise"),
                                " timings have fewer than 4 rounds and no interval") != NULL,
                         rounds < 4);
        free(text);
        attn_run_release(&run);
    }
}

/* Turns of six rounds in every timing, some disturbed; ratios that swing by `swing`. */
static struct attn_run_data with_turns(int disturbed, double swing)
{
    struct attn_run_data run = synthetic_small();
    size_t i;
    json_t *record;
    json_array_foreach(run.records, i, record)
    {
        const char *backend = attn_field_text(record, "backend");
        json_t *rounds = json_array();
        if (!json_object_get(record, "samples_ns")) {
            json_decref(rounds);
            continue;
        }
        for (int r = 0; r < 6; r++)
            json_array_append_new(rounds,
                                  json_pack("{s:i, s:f, s:b}", "round", r, "ratio",
                                            strcmp(backend, "avx2") == 0 ? 1 : 2 + swing * (r % 3),
                                            "disturbed", r < disturbed));
        json_object_set_new(record, "live",
                            json_pack("{s:{s:s, s:s, s:f}, s:o, s:s, s:f, s:i, s:i}", "paired",
                                      "anchor", "avx2", "anchor_options", "", "ratio",
                                      strcmp(backend, "avx2") == 0 ? 1.0 : 2.0, "in_rounds", rounds,
                                      "noise", "quiet", "load", 0.5, "rounds", 6, "undisturbed",
                                      6 - disturbed));
    }
    return run;
}

/* Disturbed rounds are not quiet, and ratios that nobody knows are said to be so. */
static void noise(void **state)
{
    (void)state;
    static const struct {
        int disturbed;
        double swing;
        const char *word;
        int warns;
    } cases[] = {{0, 0.001, "quiet: of ", 0},
                 {2, 0.001, "quiet: of ", 0},
                 {3, 0.001, "shared: of ", 0},
                 {0, 0.2, "quiet: of ", 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct attn_run_data run = with_turns(cases[c].disturbed, cases[c].swing);
        char *text = screen_of(&run, (struct attn_screen){.columns = 1000});
        const char *line = line_of(text, "Noise") + strlen("Noise");
        line += strspn(line, " ");
        assert_memory_equal(line, cases[c].word, strlen(cases[c].word));
        assert_int_equal(strstr(text, " (to 3 % with more --budget or less noise)") != NULL,
                         cases[c].warns);
        free(text);
        attn_run_release(&run);
    }
}

/* The turns of a run's cases, of which the first `count` have had none for these reasons. */
static void take_turns_away(struct attn_run_data *run, const char *const *reasons, size_t count)
{
    const char *ids[2] = {NULL};
    size_t i, c;
    json_t *record;
    json_array_foreach(run->records, i, record)
    {
        const char *id = attn_field_text(record, "id");
        for (c = 0; c < count && ids[c] && strcmp(ids[c], id) != 0;)
            c++;
        if (c == count || !json_object_get(record, "live"))
            continue;
        ids[c] = id;
        json_object_set_new(record, "live", json_pack("{s:s}", "reason", reasons[c]));
    }
}

/* Cases that have had no turns are named with the reason. */
static void no_turns(void **state)
{
    (void)state;
    static const char *const reasons[] = {"too short a budget", "it failed"};
    static const char *const said[] = {NULL, ": too short a budget\n",
                                       ": too short a budget; 1 for other reasons, "};
    for (size_t count = 0; count <= 2; count++) {
        struct attn_run_data run = with_turns(0, 0.001);
        take_turns_away(&run, reasons, count);
        char *text = screen_of(&run, (struct attn_screen){.columns = 1000}), start[32];
        if (count == 0) {
            assert_null(strstr(text, "No turns"));
        } else {
            snprintf(start, sizeof start, "No turns    %zu of ", count);
            const char *line = line_of(text, "No turns");
            assert_memory_equal(line, start, strlen(start));
            const char *why = strstr(line, said[count]);
            assert_true(why && why <= strchr(line, '\n'));
        }
        free(text);
        attn_run_release(&run);
    }
}

/* A warning stands in a box above the verdict's other lines, and not again among them. */
static void warning(void **state)
{
    (void)state;
    static struct attn_verdict verdict;
    char *text = NULL;
    size_t length = 0;
    attn_verdict_add(&verdict, "Noise", "a < b");
    attn_verdict_add(&verdict, "Failed", "nothing");
    verdict.lines[0].warns = true;
    FILE *out = open_memstream(&text, &length);
    attn_verdict_put_html(out, &verdict);
    fclose(out);
    assert_non_null(strstr(text, "</h2>\n<p class=\"warning\"><b>Noise:</b> a &lt; b</p>\n<dl "));
    assert_null(strstr(text, "<dt>Noise"));
    assert_non_null(strstr(text, "<dt>Failed</dt><dd>nothing</dd>"));
    free(text);
    /* Nothing stands between the head of the groups and their lines. */
    verdict.n = 0;
    attn_verdict_add(&verdict, "seqlen", "avx2");
    attn_verdict_add(&verdict, "Noise", "a < b");
    verdict.lines[0].of_group = verdict.lines[1].warns = true;
    out = open_memstream(&text, &length);
    attn_verdict_put_html(out, &verdict);
    fclose(out);
    const char *head = strstr(text, "<p>Fastest exact backend,");
    assert_true(head && strstr(text, "<p class=\"warning\">") < head);
    assert_memory_equal(strchr(head, '\n'), "\n<dl ", 5);
    free(text);
}

/* The fastest first in each case, with its whole name, and what was not timed with its reason. */
static void rows(void **state)
{
    (void)state;
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    char *text = screen_of(&run, (struct attn_screen){.rows = true, .columns = 100});
    const char *name = strstr(text, "\nseqlen_h8_s2048_d64: dk=64 hq=8 sq=2048\n");
    assert_non_null(name);
    const char *fast = strstr(name, "  onednn "), *slow = strstr(name, "  naive ");
    assert_true(fast && slow && fast < slow);
    assert_non_null(strstr(name, " ms "));
    assert_non_null(strstr(text, " budget: a run is predicted to take 41 s"));
    assert_null(strstr(text, " rounds: "));
    free(text);
    attn_run_release(&run);
    /* Two rounds have a range, and no interval. */
    run = synthetic_run((struct synthetic){.seed = 1, .rounds = 2});
    text = screen_of(&run, (struct attn_screen){.rows = true, .columns = 100});
    assert_non_null(strstr(text, " 2 rounds: "));
    assert_non_null(strstr(text, "\nFewer than 4 rounds, "));
    assert_null(strstr(text, "Times and their order"));
    free(text);
    attn_run_release(&run);
    run = with_turns(0, 0.001);
    text = screen_of(&run, (struct attn_screen){.rows = true, .columns = 100});
    assert_non_null(strstr(
        text,
        "\nTimes and their order are medians of all samples. The verdict goes by runs in turns"));
    free(text);
    attn_run_release(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lines),    cmocka_unit_test(a_screen_of_24_lines),
        cmocka_unit_test(many_reasons), cmocka_unit_test(a_run_of_nothing),
        cmocka_unit_test(ties),         cmocka_unit_test(first_and_behind),
        cmocka_unit_test(noise),        cmocka_unit_test(no_turns),
        cmocka_unit_test(warning),      cmocka_unit_test(rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
