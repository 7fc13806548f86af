/* SPDX-License-Identifier: Apache-2.0 */
/* test_journal.c - what is appended comes back; what is damaged, cut off, missing, doubled, swapped
 * or foreign is refused and named, and what is before it can be salvaged.
 * Usage: test_journal [--full] */
#include "results/field.h"
#include "results/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "results/record.h"

enum { LINES_MAX = 256, FULL_RECORDS = 200, FAST_RECORDS = 12, FLIPPED = 20 };

static bool full;

/* A folder, a journal in it, and the bytes of its lines. */
struct place {
    char folder[40], path[64], other[64], cut[80];
    char *lines[LINES_MAX];
    size_t lengths[LINES_MAX], count;
};

static int setup(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    /* In memory, where it is: syncs to a disk would take all the time. */
    snprintf(place->folder, sizeof place->folder, "%s/attn_journal_XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    *state = place;
    if (!mkdtemp(place->folder))
        return -1;
    snprintf(place->path, sizeof place->path, "%s/results.ndjson", place->folder);
    snprintf(place->other, sizeof place->other, "%s/other.ndjson", place->folder);
    snprintf(place->cut, sizeof place->cut, "%s.cut", place->path);
    return 0;
}

static int teardown(void **state)
{
    struct place *place = *state;
    for (size_t l = 0; l < place->count; l++)
        free(place->lines[l]);
    unlink(place->path);
    unlink(place->other);
    unlink(place->cut);
    rmdir(place->folder);
    free(place);
    return 0;
}

static json_t *result(int number)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:f, s:s}", "type", "round", "id", "0123",
                     "backend", "b", "status", "pass", "round", number, "time", 0.1 * number,
                     "reason", "a \"b\"\n\xc3\xa9");
}

static void append(struct attn_journal *journal, int number)
{
    json_t *record = result(number);
    assert_int_equal(attn_journal_append(journal, record), 0);
    json_decref(record);
}

static void create(const char *path, struct attn_journal *journal)
{
    char why[512];
    json_t *run = json_pack("{s:s}", "commit", "abc");
    if (attn_journal_create(path, NULL, run, journal, why, sizeof why))
        fail_msg("%s", why);
    json_decref(run);
}

/* A finished journal of n records. */
static void make(const char *path, int n)
{
    struct attn_journal journal;
    create(path, &journal);
    for (int i = 0; i < n; i++)
        append(&journal, i);
    assert_int_equal(attn_journal_end(&journal), 0);
    attn_journal_close(&journal);
}

/* A finished journal of n records, cut into its lines. */
static void make_lines(struct place *place, int n)
{
    make(place->path, n);
    FILE *file = fopen(place->path, "r");
    assert_non_null(file);
    size_t room = 0;
    ssize_t length;
    while ((length = getline(&place->lines[place->count], &room, file)) > 0) {
        place->lengths[place->count++] = (size_t)length;
        room = 0;
    }
    free(place->lines[place->count]);
    place->lines[place->count] = NULL;
    fclose(file);
    assert_int_equal(place->count, n + 2);
}

/* Writes the file anew. */
static void write_text(const char *path, const char *text, size_t length)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, length), length);
    close(fd);
}

/* Writes these lines, by number. */
static void write_lines(const struct place *place, const size_t *order, size_t n)
{
    char text[1 << 16];
    size_t length = 0;
    for (size_t i = 0; i < n; i++) {
        memcpy(text + length, place->lines[order[i]], place->lengths[order[i]]);
        length += place->lengths[order[i]];
    }
    write_text(place->path, text, length);
}

/* The whole text. The caller frees it. */
static char *join(const struct place *place, size_t *length)
{
    *length = 0;
    for (size_t l = 0; l < place->count; l++)
        *length += place->lengths[l];
    char *text = malloc(*length + 1), *at = text;
    for (size_t l = 0; l < place->count; l++) {
        memcpy(at, place->lines[l], place->lengths[l]);
        at += place->lengths[l];
    }
    return text;
}

static enum attn_journal_status read_it(const struct place *place, bool salvage,
                                        struct attn_journal_content *content, char why[512])
{
    return attn_journal_read(place->path, salvage, content, why, 512);
}

static void round_trip(void **state)
{
    struct place *place = *state;
    struct attn_journal_content content;
    char why[512];
    make(place->path, 3);
    assert_int_equal(read_it(place, false, &content, why), ATTN_JOURNAL_OK);
    assert_true(content.ended && !content.old && !content.torn);
    assert_int_equal(content.lines, 5);
    assert_int_equal(strlen(content.identity), ATTN_JOURNAL_IDENTITY);
    assert_string_equal(json_string_value(json_object_get(content.run, "commit")), "abc");
    assert_int_equal(json_array_size(content.records), 3);
    json_t *second = result(1);
    attn_json_clean(second);
    assert_true(json_equal(json_array_get(content.records, 1), second));
    json_decref(second);
    attn_journal_release(&content);
}

static void two_runs_have_two_identities(void **state)
{
    struct place *place = *state;
    struct attn_journal one, two;
    create(place->path, &one);
    create(place->other, &two);
    assert_string_not_equal(one.identity, two.identity);
    attn_journal_close(&one);
    attn_journal_close(&two);
}

/* What each prefix of a journal is: empty, begun, cut off; finished only as a whole. */
static void any_cut_is_noticed(void **state)
{
    struct place *place = *state;
    struct attn_journal_content content;
    char why[512];
    size_t length, line = 0, ends = 0;
    make_lines(place, full ? FULL_RECORDS : FAST_RECORDS);
    char *text = join(place, &length);
    for (size_t cut = 0; cut <= length; cut++) {
        while (line < place->count && ends + place->lengths[line] <= cut)
            ends += place->lengths[line++];
        write_text(place->path, text, cut);
        if (read_it(place, false, &content, why))
            fail_msg("cut at %zu: %s", cut, why);
        if (content.ended != (cut == length) || content.torn != (cut != ends) ||
            content.lines != line || content.bytes != ends)
            fail_msg("cut at %zu of %zu: not noticed", cut, length);
        attn_journal_release(&content);
    }
    free(text);
}

static void any_flip_is_noticed(void **state)
{
    struct place *place = *state;
    struct attn_journal_content content;
    char why[512], expected[32];
    size_t length, line = 1;
    make_lines(place, FLIPPED);
    char *text = join(place, &length);
    const size_t step = full ? 1 : 13;
    write_text(place->path, text, length);
    const int fd = open(place->path, O_WRONLY | O_CLOEXEC);
    for (size_t flip = 0, at = 0; at < length; at++) {
        for (int bit = 0; bit < 8; bit++, flip++) {
            if (flip % step)
                continue;
            const char flipped = (char)(text[at] ^ (1 << bit));
            assert_int_equal(pwrite(fd, &flipped, 1, (off_t)at), 1);
            const enum attn_journal_status status = read_it(place, false, &content, why);
            snprintf(expected, sizeof expected, ": line %zu ", line);
            if (status == ATTN_JOURNAL_OK) {
                /* Without the last newline the last line, which marks the end, is half a one. */
                if (at + 1 < length || content.ended || !content.torn)
                    fail_msg("byte %zu bit %d: accepted", at, bit);
                attn_journal_release(&content);
            } else if (status != ATTN_JOURNAL_DAMAGED || !strstr(why, expected))
                fail_msg("byte %zu bit %d: '%s' does not name line %zu", at, bit, why, line);
        }
        assert_int_equal(pwrite(fd, text + at, 1, (off_t)at), 1);
        line += text[at] == '\n';
    }
    close(fd);
    free(text);
}

static void expect_damage(const struct place *place, const char *said, size_t left)
{
    struct attn_journal_content content;
    char why[512] = "";
    assert_int_equal(read_it(place, false, &content, why), ATTN_JOURNAL_DAMAGED);
    if (!strstr(why, said))
        fail_msg("'%s' does not say '%s'", why, said);
    const enum attn_journal_status status = read_it(place, true, &content, why);
    if (left == 0) {
        assert_int_equal(status, ATTN_JOURNAL_DAMAGED);
        return;
    }
    assert_int_equal(status, ATTN_JOURNAL_OK);
    assert_int_equal(content.lines, left);
    assert_non_null(strstr(content.damage, said));
    attn_journal_release(&content);
}

static void lines_that_do_not_belong(void **state)
{
    struct place *place = *state;
    make_lines(place, 4);
    static const struct {
        const char *said;
        size_t left, n, order[8];
    } tries[] = {
        {"line 3 has the number 4: lines are missing", 2, 5, {0, 1, 3, 4, 5}},
        {"line 1 has the number 2", 0, 5, {1, 2, 3, 4, 5}},
        {"line 4 has the number 3: lines are doubled", 3, 7, {0, 1, 2, 2, 3, 4, 5}},
        {"line 2 has the number 1: lines are doubled", 1, 7, {0, 0, 1, 2, 3, 4, 5}},
        {"line 3 has the number 4: lines are missing or out of order", 2, 6, {0, 1, 3, 2, 4, 5}},
        {"line 5 has the number 6", 4, 6, {0, 1, 2, 3, 5, 4}},
        {"line 7 has the number 6: lines are doubled", 6, 7, {0, 1, 2, 3, 4, 5, 5}},
    };
    for (size_t t = 0; t < sizeof tries / sizeof *tries; t++) {
        write_lines(place, tries[t].order, tries[t].n);
        expect_damage(place, tries[t].said, tries[t].left);
    }
}

/* A line of another run, whose number fits. */
static void foreign_line(void **state)
{
    struct place *place = *state;
    make_lines(place, 3);
    struct attn_journal other;
    create(place->other, &other);
    append(&other, 7);
    attn_journal_close(&other);
    FILE *file = fopen(place->other, "r");
    char *line = NULL;
    size_t room = 0;
    for (int l = 0; l < 2; l++)
        assert_true(getline(&line, &room, file) > 0);
    fclose(file);
    free(place->lines[1]);
    place->lines[1] = line;
    place->lengths[1] = strlen(line);
    write_lines(place, (size_t[]){0, 1, 2, 3, 4}, 5);
    expect_damage(place, "line 2 is of another run", 1);
}

/* Seals an entry as it is. */
static void add_sealed(char *text, const char *json)
{
    size_t length;
    json_t *entry = json_loads(json, 0, NULL);
    char *line = attn_record_seal(entry, &length);
    strcat(text, line);
    free(line);
    json_decref(entry);
}

/* Whole lines, well sealed, that say what cannot be. */
static void entries_out_of_place(void **state)
{
    struct place *place = *state;
#define NUMBER(n) ",\"seq\":" #n ",\"run\":\"0123456789abcdef\"}"
#define RESULT    "{\"type\":\"verify\",\"id\":\"1\",\"backend\":\"b\",\"status\":\"pass\""
    static const struct {
        const char *said;
        size_t left;
        const char *entries[4];
    } tries[] = {
        {"line 1 does not begin the run", 0, {RESULT NUMBER(1)}},
        {"line 2 begins a run within a run",
         1,
         {"{\"type\":\"run\",\"format\":2" NUMBER(1), "{\"type\":\"run\",\"format\":2" NUMBER(2)}},
        {"line 1 says format 3", 0, {"{\"type\":\"run\",\"format\":3" NUMBER(1)}},
        {"line 3 comes after the end",
         2,
         {"{\"type\":\"run\",\"format\":2" NUMBER(1), "{\"type\":\"end\"" NUMBER(2),
          RESULT NUMBER(3)}},
        {"line 2 is no result",
         1,
         {"{\"type\":\"run\",\"format\":2" NUMBER(1),
          "{\"type\":\"verify\",\"id\":\"1\",\"backend\":\"b\"" NUMBER(2)}},
        {"line 2 is no result",
         1,
         {"{\"type\":\"run\",\"format\":2" NUMBER(1),
          "{\"type\":\"verify\",\"id\":7,\"backend\":\"b\",\"status\":\"pass\"" NUMBER(2)}},
        {"line 2 lacks its number", 1, {"{\"type\":\"run\",\"format\":2" NUMBER(1), RESULT "}"}},
        {"line 2 lacks its number",
         1,
         {"{\"type\":\"run\",\"format\":2" NUMBER(1),
          RESULT ",\"seq\":\"2\",\"run\":\"0123456789abcdef\"}"}},
        {"line 2 has a number, though those before it have none",
         1,
         {RESULT "}", RESULT NUMBER(2)}},
        {"line 1 is no result", 0, {"{\"type\":\"verify\"}"}},
    };
    for (size_t t = 0; t < sizeof tries / sizeof *tries; t++) {
        char text[1024] = "";
        for (size_t e = 0; e < 4 && tries[t].entries[e]; e++)
            add_sealed(text, tries[t].entries[e]);
        write_text(place->path, text, strlen(text));
        expect_damage(place, tries[t].said, tries[t].left);
    }
}

static void an_earlier_version_is_read(void **state)
{
    struct place *place = *state;
    struct attn_journal_content content;
    struct attn_journal journal;
    char why[512], text[1024] = "";
    add_sealed(text, RESULT "}");
    add_sealed(text, RESULT ",\"more\":1}");
    write_text(place->path, text, strlen(text));
    assert_int_equal(read_it(place, false, &content, why), ATTN_JOURNAL_OK);
    assert_true(content.old && !content.ended && !content.run);
    assert_int_equal(json_array_size(content.records), 2);
    attn_journal_release(&content);
    assert_int_equal(attn_journal_reopen(place->path, false, &journal, &content, why, sizeof why),
                     ATTN_JOURNAL_UNREADABLE);
    assert_non_null(strstr(why, "earlier version"));
}

static void going_on(void **state)
{
    struct place *place = *state;
    struct attn_journal_content content;
    struct attn_journal journal;
    struct stat info;
    char why[512];
    make(place->path, 2);
    assert_int_equal(stat(place->path, &info), 0);
    assert_int_equal(truncate(place->path, info.st_size - 5), 0);
    assert_int_equal(attn_journal_reopen(place->path, false, &journal, &content, why, sizeof why),
                     ATTN_JOURNAL_OK);
    assert_true(content.torn);
    attn_journal_release(&content);
    attn_journal_resume(&journal, json_pack("{s:s}", "why", "cut off"));
    /* A record that memory was refused to is not sealed, though a line goes before it. */
    json_t *record = result(2);
    attn_record_begin();
    attn_note_refusal();
    assert_int_equal(attn_journal_append(&journal, record), -1);
    assert_int_equal(errno, ENOMEM);
    json_decref(record);
    append(&journal, 2);
    append(&journal, 3);
    assert_int_equal(attn_journal_end(&journal), 0);
    assert_int_equal(attn_journal_end(&journal), 0); /* once is enough */
    attn_journal_close(&journal);
    assert_int_equal(read_it(place, false, &content, why), ATTN_JOURNAL_OK);
    assert_int_equal(json_array_size(content.records), 4);
    assert_int_equal(content.lines, 1 + 2 + 1 + 2 + 1);
    assert_true(content.ended);
    attn_journal_release(&content);
    /* What adds nothing changes nothing. */
    assert_int_equal(stat(place->path, &info), 0);
    const off_t before = info.st_size;
    assert_int_equal(attn_journal_reopen(place->path, false, &journal, &content, why, sizeof why),
                     ATTN_JOURNAL_OK);
    attn_journal_release(&content);
    attn_journal_resume(&journal, json_object());
    assert_int_equal(attn_journal_end(&journal), 0);
    attn_journal_close(&journal);
    assert_int_equal(stat(place->path, &info), 0);
    assert_int_equal(info.st_size, before);
}

static void an_empty_file_begins_anew(void **state)
{
    struct place *place = *state;
    struct attn_journal_content content;
    struct attn_journal journal;
    char why[512];
    write_text(place->path, "{\"type\":\"ru", 11);
    assert_int_equal(attn_journal_reopen(place->path, false, &journal, &content, why, sizeof why),
                     ATTN_JOURNAL_OK);
    assert_int_equal(content.lines, 0);
    attn_journal_release(&content);
    json_t *run = json_pack("{s:i}", "a", 1);
    assert_int_equal(attn_journal_begin(&journal, "0123456789abcdef", run), 0);
    json_decref(run);
    append(&journal, 0);
    attn_journal_close(&journal);
    assert_int_equal(read_it(place, false, &content, why), ATTN_JOURNAL_OK);
    assert_string_equal(content.identity, "0123456789abcdef");
    assert_false(content.ended);
    attn_journal_release(&content);
}

/* What is cut off with --salvage is not lost. */
static void salvage(void **state)
{
    struct place *place = *state;
    struct attn_journal_content content;
    struct attn_journal journal;
    struct stat info;
    char why[512];
    make_lines(place, 4);
    write_lines(place, (size_t[]){0, 1, 3, 4, 5}, 5);
    assert_int_equal(attn_journal_reopen(place->path, false, &journal, &content, why, sizeof why),
                     ATTN_JOURNAL_DAMAGED);
    assert_int_equal(attn_journal_reopen(place->path, true, &journal, &content, why, sizeof why),
                     ATTN_JOURNAL_OK);
    assert_int_equal(content.lines, 2);
    attn_journal_release(&content);
    append(&journal, 9);
    assert_int_equal(attn_journal_end(&journal), 0);
    attn_journal_close(&journal);
    assert_int_equal(read_it(place, false, &content, why), ATTN_JOURNAL_OK);
    assert_int_equal(json_array_size(content.records), 2);
    attn_journal_release(&content);
    assert_int_equal(stat(place->cut, &info), 0);
    assert_int_equal(info.st_size, place->lengths[3] + place->lengths[4] + place->lengths[5]);
}

static void one_writer(void **state)
{
    struct place *place = *state;
    struct attn_journal_content content;
    struct attn_journal journal, second;
    char why[512];
    create(place->path, &journal);
    assert_int_equal(attn_journal_reopen(place->path, false, &second, &content, why, sizeof why),
                     ATTN_JOURNAL_UNREADABLE);
    assert_non_null(strstr(why, "another attnbench is writing this run"));
    assert_int_equal(read_it(place, false, &content, why), ATTN_JOURNAL_OK); /* many readers */
    attn_journal_release(&content);
    attn_journal_close(&journal);
    assert_int_equal(attn_journal_reopen(place->path, false, &second, &content, why, sizeof why),
                     ATTN_JOURNAL_OK);
    attn_journal_release(&content);
    attn_journal_close(&second);
}

/* The lock of a writer that was killed is gone. */
static void a_killed_writer_leaves_no_lock(void **state)
{
    struct place *place = *state;
    struct attn_journal_content content;
    struct attn_journal journal;
    char why[512];
    const pid_t child = fork();
    if (child == 0) {
        create(place->path, &journal);
        append(&journal, 0);
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(attn_journal_reopen(place->path, false, &journal, &content, why, sizeof why),
                     ATTN_JOURNAL_OK);
    assert_int_equal(content.lines, 2);
    attn_journal_release(&content);
    attn_journal_close(&journal);
}

static void no_link_is_followed(void **state)
{
    struct place *place = *state;
    struct attn_journal_content content;
    struct attn_journal journal;
    struct stat info;
    char why[512];
    json_t *run = json_object();
    write_text(place->other, "mine", 4);
    assert_int_equal(symlink(place->other, place->path), 0);
    assert_int_equal(attn_journal_create(place->path, NULL, run, &journal, why, sizeof why),
                     ATTN_JOURNAL_UNREADABLE);
    assert_int_equal(attn_journal_reopen(place->path, false, &journal, &content, why, sizeof why),
                     ATTN_JOURNAL_UNREADABLE);
    assert_non_null(strstr(why, "symbolic link"));
    assert_int_equal(stat(place->other, &info), 0);
    assert_int_equal(info.st_size, 4);
    json_decref(run);
}

static void refusals(void **state)
{
    struct place *place = *state;
    struct attn_journal_content content;
    struct attn_journal journal;
    char why[512];
    create(place->path, &journal);
    static const char *const bad[] = {"{}", "[]", "{\"a\":1,\"seq\":1}", "{\"run\":\"x\"}",
                                      "{\"crc32\":\"00000000\"}"};
    for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
        json_t *record = json_loads(bad[b], 0, NULL);
        errno = 0;
        assert_int_equal(attn_journal_append(&journal, record), -1);
        assert_int_equal(errno, EINVAL);
        json_decref(record);
    }
    attn_journal_close(&journal);
    json_t *run = json_object();
    assert_int_equal(attn_journal_create(place->path, NULL, run, &journal, why, sizeof why),
                     ATTN_JOURNAL_UNREADABLE); /* it is there already */
    assert_int_equal(attn_journal_create("/nonexistent/x", NULL, run, &journal, why, sizeof why),
                     ATTN_JOURNAL_UNREADABLE);
    json_decref(run);
    assert_int_equal(attn_journal_read("/nonexistent/x", false, &content, why, sizeof why),
                     ATTN_JOURNAL_UNREADABLE);
    assert_non_null(strstr(why, "No such file"));
    assert_int_equal(attn_journal_read("/tmp", false, &content, why, sizeof why),
                     ATTN_JOURNAL_UNREADABLE);
    /* A hole that is one line takes no room on disk, and none in memory. */
    assert_int_equal(truncate(place->path, 8ll << 30), 0);
    assert_int_equal(read_it(place, false, &content, why), ATTN_JOURNAL_UNREADABLE);
    assert_non_null(strstr(why, "a line is over 64 MiB"));
    unlink(place->path);
    assert_int_equal(mkfifo(place->path, 0600), 0); /* which nobody writes: it must not block */
    assert_int_equal(read_it(place, false, &content, why), ATTN_JOURNAL_UNREADABLE);
    assert_non_null(strstr(why, "no regular file"));
}

static void full_disk_leaves_no_half_line(void **state)
{
    struct place *place = *state;
    struct attn_journal journal;
    struct attn_journal_content content;
    char why[512];
    create(place->path, &journal);
    append(&journal, 0);
    const int kept = journal.fd;
    journal.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (journal.fd < 0)
        skip();
    json_t *record = result(1);
    assert_int_equal(attn_journal_append(&journal, record), -1);
    json_decref(record);
    close(journal.fd);
    journal.fd = kept;
    append(&journal, 1);
    attn_journal_close(&journal);
    assert_int_equal(read_it(place, false, &content, why), ATTN_JOURNAL_OK);
    assert_int_equal(json_array_size(content.records), 2);
    attn_journal_release(&content);
}

int main(int argc, char **argv)
{
    full = argc > 1 && strcmp(argv[1], "--full") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(two_runs_have_two_identities, setup, teardown),
        cmocka_unit_test_setup_teardown(any_cut_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(any_flip_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(lines_that_do_not_belong, setup, teardown),
        cmocka_unit_test_setup_teardown(foreign_line, setup, teardown),
        cmocka_unit_test_setup_teardown(entries_out_of_place, setup, teardown),
        cmocka_unit_test_setup_teardown(an_earlier_version_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(going_on, setup, teardown),
        cmocka_unit_test_setup_teardown(an_empty_file_begins_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(salvage, setup, teardown),
        cmocka_unit_test_setup_teardown(one_writer, setup, teardown),
        cmocka_unit_test_setup_teardown(a_killed_writer_leaves_no_lock, setup, teardown),
        cmocka_unit_test_setup_teardown(no_link_is_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(full_disk_leaves_no_half_line, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
