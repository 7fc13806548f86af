/* SPDX-License-Identifier: Apache-2.0 */
/* test_record.c - what is appended comes back; whatever is damaged is refused, and named. */
#include "results/record.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct file {
    char path[64];
    int fd;
};

static int setup(void **state)
{
    struct file *file = calloc(1, sizeof *file);
    strcpy(file->path, "/tmp/attn_record_XXXXXX");
    file->fd = mkstemp(file->path);
    *state = file;
    return file->fd < 0;
}

static int teardown(void **state)
{
    struct file *file = *state;
    close(file->fd);
    unlink(file->path);
    free(file);
    return 0;
}

static void append(int fd, int number)
{
    json_t *record = json_pack("{s:s, s:i, s:f, s:s}", "type", "round", "round", number, "time",
                               0.1 * number, "reason", "a \"b\"\n\xc3\xa9");
    assert_int_equal(attn_record_append(fd, record), 0);
    json_decref(record);
}

static size_t read_bytes(const struct file *file, char *text, size_t room)
{
    ssize_t n = pread(file->fd, text, room, 0);
    assert_true(n > 0 && (size_t)n < room);
    return (size_t)n;
}

static void write_bytes(const struct file *file, const char *text, size_t length)
{
    assert_int_equal(ftruncate(file->fd, 0), 0);
    assert_int_equal(pwrite(file->fd, text, length, 0), length);
}

static void round_trip(void **state)
{
    struct file *file = *state;
    for (int i = 0; i < 3; i++)
        append(file->fd, i);
    char why[256];
    int torn = -1;
    json_t *records = attn_record_read(file->path, &torn, why, sizeof why);
    assert_non_null(records);
    assert_int_equal(torn, 0);
    assert_int_equal(json_array_size(records), 3);
    json_t *second = json_array_get(records, 1);
    assert_int_equal(json_object_size(second), 4);
    assert_true(json_real_value(json_object_get(second, "time")) == 0.1);
    assert_string_equal(json_string_value(json_object_get(second, "reason")), "a \"b\"\n\xc3\xa9");
    json_decref(records);
}

/* The seal as another tool would check it: CRC-32 of `{"a":1` is a702fc6e (Python's zlib). */
static void form_of_a_line(void **state)
{
    struct file *file = *state;
    json_t *record = json_pack("{s:i}", "a", 1);
    assert_int_equal(attn_record_append(file->fd, record), 0);
    json_decref(record);
    char text[128] = "";
    read_bytes(file, text, sizeof text);
    assert_string_equal(text, "{\"a\":1,\"crc32\":\"a702fc6e\"}\n");
}

static void any_flip_is_refused(void **state)
{
    struct file *file = *state;
    for (int i = 0; i < 3; i++)
        append(file->fd, i);
    char text[1024], why[256];
    size_t length = read_bytes(file, text, sizeof text);
    size_t line = 1;
    /* The very last byte is the newline without which the line counts as torn. */
    for (size_t at = 0; at + 1 < length; at++) {
        char kept = text[at];
        for (int bit = 0; bit < 8; bit++) {
            text[at] = (char)(kept ^ (1 << bit));
            write_bytes(file, text, length);
            json_t *records = attn_record_read(file->path, NULL, why, sizeof why);
            if (records)
                fail_msg("byte %zu bit %d: accepted", at, bit);
            char expected[32];
            snprintf(expected, sizeof expected, "line %zu ", line);
            if (!strstr(why, expected))
                fail_msg("byte %zu bit %d: '%s' does not name line %zu", at, bit, why, line);
        }
        text[at] = kept;
        line += kept == '\n';
    }
}

static void any_cut_drops_the_tail(void **state)
{
    struct file *file = *state;
    char text[1024], why[256];
    append(file->fd, 0);
    size_t first = read_bytes(file, text, sizeof text);
    append(file->fd, 1);
    size_t length = read_bytes(file, text, sizeof text);
    for (size_t cut = first; cut <= length; cut++) {
        write_bytes(file, text, cut);
        int torn = -1;
        json_t *records = attn_record_read(file->path, &torn, why, sizeof why);
        assert_non_null(records);
        assert_int_equal(json_array_size(records), cut == length ? 2 : 1);
        assert_int_equal(torn, cut != first && cut != length);
        json_decref(records);
    }
}

static void open_cuts_a_torn_tail(void **state)
{
    struct file *file = *state;
    char text[1024], why[256];
    append(file->fd, 0);
    append(file->fd, 1);
    size_t length = read_bytes(file, text, sizeof text);
    write_bytes(file, text, length - 5);
    int fd = -1, torn = -1;
    assert_int_equal(attn_record_open(file->path, &fd, why, sizeof why), 0);
    append(fd, 2);
    close(fd);
    json_t *records = attn_record_read(file->path, &torn, why, sizeof why);
    assert_non_null(records);
    assert_int_equal(torn, 0);
    assert_int_equal(json_array_size(records), 2);
    json_t *last = json_object_get(json_array_get(records, 1), "round");
    assert_int_equal(json_integer_value(last), 2);
    json_decref(records);
}

static void refusals(void **state)
{
    struct file *file = *state;
    char why[256];
    json_t *empty = json_object(), *list = json_array();
    json_t *own = json_pack("{s:s}", "crc32", "00000000");
    const json_t *bad[] = {empty, list, own};
    for (size_t i = 0; i < 3; i++) {
        errno = 0;
        assert_int_equal(attn_record_append(file->fd, bad[i]), -1);
        assert_int_equal(errno, EINVAL);
    }
    json_decref(empty);
    json_decref(list);
    json_decref(own);
    assert_null(attn_record_read("/nonexistent/results.ndjson", NULL, why, sizeof why));
    assert_non_null(strstr(why, "No such file"));
    assert_null(attn_record_read("/tmp", NULL, why, sizeof why));
    assert_int_equal(attn_record_open("/nonexistent/x", &file->fd, why, sizeof why), -1);
}

static void full_disk_leaves_no_half_line(void **state)
{
    (void)state;
    int fd = open("/dev/full", O_WRONLY);
    if (fd < 0)
        skip();
    json_t *record = json_pack("{s:i}", "a", 1);
    assert_int_equal(attn_record_append(fd, record), -1);
    json_decref(record);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(form_of_a_line, setup, teardown),
        cmocka_unit_test_setup_teardown(any_flip_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(any_cut_drops_the_tail, setup, teardown),
        cmocka_unit_test_setup_teardown(open_cuts_a_torn_tail, setup, teardown),
        cmocka_unit_test_setup_teardown(refusals, setup, teardown),
        cmocka_unit_test(full_disk_leaves_no_half_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
