/* SPDX-License-Identifier: Apache-2.0 */
/* test_no_memory.c - goes from a case line to a comparison, with each allocation refused in turn.
 * What cannot continue says so, the rest continues, and nothing leaks (LeakSanitizer checks this).
 * Usage: test_no_memory CASES_FOLDER WORKER PLUGIN */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "explain/examine.h"
#include "pack/make.h"
#include "pack/pack.h"
#include "reference/dtype.h"
#include "report/compare.h"
#include "results/journal.h"
#include "results/record.h"
#include "run/restore.h"
#include "run/resume.h"
#include "run/roster.h"
#include "run/suite.h"

/* The linker puts these in the place of the C library's (--wrap). */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_reallocarray(void *old, size_t count, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_reallocarray(void *old, size_t count, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);

static const char *cases_folder;
static long until_refusal = -1; /* allocations still granted; negative: all */

static bool refused(void)
{
    if (until_refusal < 0 || until_refusal-- != 0)
        return false;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return refused() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return refused() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return refused() ? NULL : __real_realloc(old, size);
}

void *__wrap_reallocarray(void *old, size_t count, size_t size)
{
    return refused() ? NULL : __real_reallocarray(old, count, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return refused() ? NULL : __real_aligned_alloc(alignment, size);
}

char *__wrap_strdup(const char *text)
{
    return refused() ? NULL : __real_strdup(text);
}

/* Refuses allocation 0, 1, 2 ... of `work`, which returns 0 or leaves a reason, until it makes
 * fewer. At least `least` of them must have been fatal: else the refusals did not reach it. */
static void with_refusals(int (*work)(char *why, size_t size), int least)
{
    int failures = 0;
    for (long n = 0;; n++) {
        char why[1024] = "";
        until_refusal = n;
        const int status = work(why, sizeof why);
        const bool reached = until_refusal < 0;
        until_refusal = -1;
        if (status != 0 && why[0] == '\0')
            fail_msg("allocation %ld: failed without a reason", n);
        failures += status != 0;
        if (reached)
            continue;
        if (status != 0)
            fail_msg("no allocation refused: %s", why);
        break;
    }
    if (failures < least)
        fail_msg("%d refusals were fatal, expected %d", failures, least);
}

/* Every kind of list there is in a case. */
static const char rich_line[] =
    "rich: b=2 hq/hkv=4/2,4/4 sq=16 sk=24 d=8 score=additive params=head mask=len:3/24+bool:0.5 "
    "bias=normal+alibi sink=1 dropout=0.25 out=lse+weights view=gaps";
static const char mha_line[] =
    "op=mha hq=4 sq=8 dk=4 dv=6 e=12 kv=cross proj_bias=1 prune=1/2 weights=stiefel";

static int parse(const char *line, struct attn_case_list *list, char *why, size_t size)
{
    return attn_case_parse_line(line, strlen(line), NULL, 0, list, why, size);
}

static int parse_rich(char *why, size_t size)
{
    struct attn_case_list list = {0};
    const int status = parse(rich_line, &list, why, size);
    attn_case_list_free(&list);
    return status;
}

static int load_suite(char *why, size_t size)
{
    struct attn_paths paths = {.worker = ""};
    struct attn_case_list list = {0};
    snprintf(paths.cases, sizeof paths.cases, "%s", cases_folder);
    char file[ATTN_PATH_MAX];
    attn_path_join(file, cases_folder, "textbook.cases");
    const char *const cases[] = {file, rich_line};
    const struct attn_suite_wish wish = {.cases = cases, .n_cases = 2, .filter = "*"};
    const int status = attn_suite_load(&paths, &wish, &list, NULL, why, size);
    attn_case_list_free(&list);
    return status;
}

/* A suite that lacks a file for lack of memory would pass unseen. */
static int load_folder(char *why, size_t size)
{
    struct attn_paths paths = {.worker = ""};
    struct attn_case_list list = {0};
    attn_path_join(paths.packs, cases_folder, "textbook");
    const int status =
        attn_suite_load(&paths, &(struct attn_suite_wish){0}, &list, NULL, why, size);
    if (status == 0 && list.count != 5)
        fail_msg("%zu of 5 packs, and no word of it", list.count);
    attn_case_list_free(&list);
    return status;
}

static const char *worker_path, *plugin_path;
static char plugins[] = "/tmp/attn_no_memory_XXXXXX";

/* The plugin `good` in a folder of its own under the name of another, with a list of skips, a
 * second one by ATTNBENCH_PLUGIN_PATH, and a backend that was left out of the build. */
static void make_plugins(void)
{
    char path[ATTN_PATH_MAX];
    assert_non_null(mkdtemp(plugins));
    attn_path_join(path, plugins, "some.so");
    assert_int_equal(symlink(plugin_path, path), 0);
    static const char *const files[][2] = {{"some.skips", "a*: not here\n"},
                                           {"gone.missing", "left out\n"}};
    for (int f = 0; f < 2; f++) {
        attn_path_join(path, plugins, files[f][0]);
        FILE *file = fopen(path, "w");
        fputs(files[f][1], file);
        fclose(file);
    }
    attn_path_join(path, plugins, "more");
    assert_int_equal(mkdir(path, 0755), 0);
    setenv("ATTNBENCH_PLUGIN_PATH", path, 1);
}

static void remove_plugins(void)
{
    static const char *const names[] = {"some.so", "some.skips", "gone.missing"};
    char path[ATTN_PATH_MAX];
    for (int n = 0; n < 3; n++) {
        attn_path_join(path, plugins, names[n]);
        unlink(path);
    }
    rmdir(getenv("ATTNBENCH_PLUGIN_PATH"));
    rmdir(plugins);
}

/* Backends that are there are found with all that is known of them, or memory is what is short. */
static int load_roster(char *why, size_t size)
{
    struct attn_paths paths = {.cases = ""};
    struct attn_roster roster = {0};
    const char *const wanted[] = {"test", "gone"};
    snprintf(paths.worker, sizeof paths.worker, "%s", worker_path);
    snprintf(paths.plugins, sizeof paths.plugins, "%s", plugins);
    const struct attn_roster_wish wish = {.backends = wanted, .n_backends = 2};
    const int status = (int)attn_roster_load(&paths, &wish, &roster, why, size);
    if (status == ATTN_EXIT_OK && (roster.count != 2 || roster.items[0].n_skips != 1))
        fail_msg("%zu backends, %zu skips of the first, and no word of it", roster.count,
                 roster.items[0].n_skips);
    if (status != ATTN_EXIT_OK && !strstr(why, "memory"))
        fail_msg("memory is what is short, not: %s", why);
    attn_roster_free(&roster);
    return status;
}

static void finding_backends(void **state)
{
    (void)state;
    make_plugins();
    with_refusals(load_roster, 10);
    remove_plugins();
}

/* The instance of a case, and a verdict on outputs that nobody has written. */
static int judge_case(const struct attn_case *c, char *why, size_t size)
{
    struct attn_instance *instance = NULL;
    struct attn_judge *judge = NULL;
    const struct attn_numerics numerics = {.struct_size = sizeof numerics, .e_exp = 1e-7};
    struct attn_judgement v = {.status = ATTN_ERROR};
    int status = attn_instance_create(c, 1, &instance, why, size);
    if (status == 0)
        status = attn_judge_create(instance, ATTN_JUDGE_BUDGET, 1, &judge, why, size);
    if (status == 0) {
        if (c->data)
            attn_judge_reference(judge, &v);
        else
            attn_examine_outputs(judge, &numerics, false, &v);
        /* Lack of memory is an error of this machine, never a verdict about an answer. */
        if (v.status == ATTN_FAIL && strstr(v.reason, "memory"))
            fail_msg("fail for lack of memory: %s", v.reason);
        status = v.status == ATTN_ERROR ? -1 : 0;
        if (status != 0)
            snprintf(why, size, "%s", v.reason);
    }
    attn_judge_free(judge);
    attn_instance_free(instance);
    return status;
}

static struct attn_case_list made;

static int judge_made(char *why, size_t size)
{
    return judge_case(&made.items[0], why, size);
}

static int judge_pack(char *why, size_t size)
{
    char file[ATTN_PATH_MAX];
    struct attn_case c;
    attn_path_join(file, cases_folder, "textbook/mha.safetensors");
    if (attn_pack_case(file, &c, why, size) != 0)
        return -1;
    const int status = judge_case(&c, why, size);
    attn_case_free(&c);
    return status;
}

static void parsing(void **state)
{
    (void)state;
    with_refusals(parse_rich, 5);
    with_refusals(load_suite, 20);
    with_refusals(load_folder, 20);
}

static void judging(void **state)
{
    (void)state;
    const char *const lines[] = {rich_line, mha_line};
    for (size_t l = 0; l < 2; l++) {
        char why[512] = "";
        if (parse(lines[l], &made, why, sizeof why) != 0)
            fail_msg("%s", why);
        with_refusals(judge_made, 20);
        attn_case_list_free(&made);
    }
    with_refusals(judge_pack, 20);
}

static char results[] = "/tmp/attn_no_memory_XXXXXX";
static struct attn_run_data run;

/* Jansson leaves out what it found no memory for: what is read must be whole nevertheless. */
static int read_results(char *why, size_t size)
{
    struct attn_journal_content content;
    const enum attn_journal_status status = attn_journal_read(results, false, &content, why, size);
    if (status == ATTN_JOURNAL_DAMAGED)
        fail_msg("lack of memory was taken for damage: %s", why);
    if (status)
        return -1;
    if (!content.ended || !json_equal(content.records, run.records))
        fail_msg("records have changed, and no word of it");
    attn_journal_release(&content);
    return 0;
}

/* The same for what is written: the line before is whole, and so is the next one. */
static int write_results(char *why, size_t size)
{
    struct attn_journal journal;
    struct attn_journal_content content;
    const long left = until_refusal;
    unlink(results);
    attn_record_begin();
    json_t *record = json_pack("{s:s,s:s,s:s,s:s,s:[s,s]}", "type", "verify", "id", "0", "backend",
                               "b", "status", "pass", "more", "a", "b");
    json_t *about = json_pack("{s:s}", "commit", "abc");
    int status = -1;
    if (attn_journal_create(results, NULL, about, &journal, why, size) == 0) {
        if (attn_journal_append(&journal, record) == 0 && attn_journal_end(&journal) == 0)
            status = 0;
        else
            snprintf(why, size, "%s", strerror(errno));
        attn_journal_close(&journal);
    }
    const long spent = until_refusal;
    until_refusal = -1;
    /* The record itself may lack what there was no memory for, but then it was not written. */
    json_t *whole = json_pack("{s:s,s:s,s:s,s:s,s:[s,s]}", "type", "verify", "id", "0", "backend",
                              "b", "status", "pass", "more", "a", "b");
    if (attn_journal_read(results, false, &content, why, size) == 0) {
        for (size_t r = 0; r < json_array_size(content.records); r++)
            assert_true(json_equal(json_array_get(content.records, r), whole));
        if (status == 0 && (!content.ended || json_array_size(content.records) != 1))
            fail_msg("a record is missing, and no word of it (%ld)", left);
        attn_journal_release(&content);
    } else if (access(results, F_OK) == 0)
        fail_msg("what was written is damaged: %s", why);
    until_refusal = spent;
    json_decref(whole);
    json_decref(record);
    json_decref(about);
    return status;
}

static int compare_run(char *why, size_t size)
{
    const struct attn_compare_options options = {.margin = 0.03};
    enum attn_exit code = ATTN_EXIT_OK;
    FILE *null = fopen("/dev/null", "w");
    const int status = attn_compare(&run, &run, &options, null, &code, why, size);
    fclose(null);
    return status;
}

static int write_junit(char *why, size_t size)
{
    return attn_junit_write(run.records, "/dev/null", why, size);
}

static char run_folder[] = "/tmp/attn_no_memory_XXXXXX";

/* Many verdicts, so that lists of keys must grow, on the first of two cases. */
static void make_run(void)
{
    char path[ATTN_PATH_MAX], why[512];
    struct attn_journal journal;
    assert_non_null(mkdtemp(run_folder));
    attn_path_join(path, run_folder, "results.ndjson");
    json_t *about = json_object();
    assert_int_equal(attn_journal_create(path, NULL, about, &journal, why, sizeof why), 0);
    json_decref(about);
    char id[ATTN_CASE_ID_LEN + 1], backend[16];
    attn_case_id(&made.items[0], id);
    attn_record_begin();
    for (int b = 0; b < 24; b++) {
        snprintf(backend, sizeof backend, "b%d", b);
        json_t *record =
            json_pack("{s:s,s:s,s:s,s:s,s:i,s:s,s:s}", "type", "verify", "id", id, "backend",
                      backend, "options", "", "threads", 1, "status", "fail", "reason", "");
        assert_int_equal(attn_journal_append(&journal, record), 0);
        json_decref(record);
    }
    attn_journal_close(&journal);
}

/* A finished case is not measured again, another one is, and every record counts. */
static int resume_run(char *why, size_t size)
{
    struct attn_contestant b3 = {.info = {.name = "b3"}};
    struct attn_case_list cases = {0};
    if (parse("s=4 d=8", &cases, why, size) || parse("s=5 d=8", &cases, why, size)) {
        attn_case_list_free(&cases);
        return -1;
    }
    struct attn_session session = {.settings = {.threads = 1},
                                   .roster = {.items = &b3, .count = 1},
                                   .cases = cases,
                                   .records = json_array()};
    json_t *about = json_object();
    const struct attn_resume_wish wish = {.run = about, .cross = true};
    int status = session.records && about ? 0 : -1;
    if (status)
        snprintf(why, size, "no memory");
    else
        status = attn_resume(&session, run_folder, &wish, why, size) == ATTN_EXIT_OK ? 0 : -1;
    if (status == 0) {
        struct attn_entry done = {.c = &cases.items[0], .contestant = &b3}, open = done;
        attn_case_id(&cases.items[0], done.id);
        attn_case_id(&cases.items[1], open.id);
        if (!attn_restore_verdict(&session, &done) || !done.finished ||
            attn_restore_verdict(&session, &open) || json_array_size(session.records) != 24)
            fail_msg("%zu of 24 records, and no word of it", json_array_size(session.records));
    }
    json_decref(session.earlier);
    if (*session.folder)
        attn_journal_close(&session.journal);
    attn_case_list_free(&session.cases);
    json_decref(session.records);
    json_decref(about);
    return status;
}

static void resuming(void **state)
{
    (void)state;
    char why[512] = "", path[ATTN_PATH_MAX];
    assert_int_equal(parse("s=4 d=8", &made, why, sizeof why), 0);
    make_run();
    with_refusals(resume_run, 20);
    attn_case_list_free(&made);
    attn_path_join(path, run_folder, "results.ndjson");
    unlink(path);
    rmdir(run_folder);
}

/* Results of two backends on one case, written, read, compared. */
static void results_and_comparison(void **state)
{
    (void)state;
    struct attn_journal journal;
    struct attn_journal_content content;
    char why[512] = "";
    json_t *about = json_object();
    close(mkstemp(results));
    unlink(results);
    assert_int_equal(attn_journal_create(results, NULL, about, &journal, why, sizeof why), 0);
    json_decref(about);
    static const char *const names[] = {"one", "two"};
    attn_record_begin();
    for (int b = 0; b < 2; b++) {
        json_t *verify =
            json_pack("{s:s,s:s,s:s,s:s,s:s,s:s}", "type", "verify", "id", "0123", "case",
                      "dk=8 sq=4", "backend", names[b], "options", "", "status", "pass");
        json_t *bench =
            json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:i,s:[[f],[f]]}", "type", "bench", "id",
                      "0123", "case", "dk=8 sq=4", "backend", names[b], "options", "", "status",
                      "pass", "cache", "hot", "threads", 1, "samples_ns", 100.0, 101.0);
        assert_int_equal(attn_journal_append(&journal, verify), 0);
        assert_int_equal(attn_journal_append(&journal, bench), 0);
        json_decref(verify);
        json_decref(bench);
    }
    assert_int_equal(attn_journal_end(&journal), 0);
    attn_journal_close(&journal);
    assert_int_equal(attn_journal_read(results, false, &content, why, sizeof why), 0);
    run.records = json_incref(content.records);
    attn_journal_release(&content);
    with_refusals(read_results, 5);
    run.machine = json_object();
    with_refusals(compare_run, 5);
    with_refusals(write_junit, 3);
    with_refusals(write_results, 5);
    json_decref(run.records);
    json_decref(run.machine);
    unlink(results);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parsing),
        cmocka_unit_test(finding_backends),
        cmocka_unit_test(judging),
        cmocka_unit_test(resuming),
        cmocka_unit_test(results_and_comparison),
    };
    if (argc != 4)
        return 2;
    cases_folder = argv[1];
    worker_path = argv[2];
    plugin_path = argv[3];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
