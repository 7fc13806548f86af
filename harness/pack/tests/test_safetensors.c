/* SPDX-License-Identifier: Apache-2.0 */
/* test_safetensors - the byte layout, every refusal, and thousands of damaged files. */
#include "pack/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "damage.h"
#include "reference/dtype.h"

static char folder[] = "/tmp/attn_st_XXXXXX";
static char path[64];

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/file.safetensors", folder);
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void write_bytes(const void *bytes, size_t length)
{
    remove(path); /* a file that is truncated instead may be flushed on close */
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* A file of this header and `data` bytes of zeros, opened; expects the words in its message. */
static void refuse(const char *header, size_t data, const char *words)
{
    unsigned char bytes[4096] = {0};
    const size_t length = strlen(header);
    assert_true(8 + length + data <= sizeof bytes);
    bytes[0] = (unsigned char)length;
    bytes[1] = (unsigned char)(length >> 8);
    memcpy(bytes + 8, header, length);
    write_bytes(bytes, 8 + length + data);
    struct attn_st_file file;
    char why[512] = "";
    if (attn_st_open(path, &file, why, sizeof why) == 0)
        fail_msg("accepted: %s", header);
    if (strstr(why, words) == NULL || strncmp(why, path, strlen(path)) != 0)
        fail_msg("'%s' does not say '%s'", why, words);
}

static void bytes_of_the_format(void **state)
{
    (void)state;
    const float values[3] = {1, 2, 3};
    const int64_t lengths[1] = {5};
    const struct attn_st_entry entries[] = {
        {"x", ATTN_F32, 2, {3, 1}, values, sizeof values},
        {"len", ATTN_I64, 1, {1}, lengths, sizeof lengths},
    };
    const struct attn_st_meta meta[] = {{"case", "sq=1"}};
    char why[512] = "";
    assert_int_equal(attn_st_write(path, entries, 2, meta, 1, why, sizeof why), 0);

    static const char expected[] =
        "{\"__metadata__\":{\"case\":\"sq=1\"},"
        "\"x\":{\"dtype\":\"F32\",\"shape\":[3,1],\"data_offsets\":[0,12]},"
        "\"len\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[12,20]}}";
    const size_t padded = (sizeof expected - 1 + 7) / 8 * 8;
    unsigned char bytes[512];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(bytes, 1, sizeof bytes, file), 8 + padded + 20);
    fclose(file);
    assert_int_equal(bytes[0], padded);
    assert_int_equal(bytes[7], 0);
    assert_memory_equal(bytes + 8, expected, sizeof expected - 1);
    for (size_t i = 8 + sizeof expected - 1; i < 8 + padded; i++)
        assert_int_equal(bytes[i], ' ');
    assert_memory_equal(bytes + 8 + padded, values, 12);
    assert_memory_equal(bytes + 8 + padded + 12, lengths, 8);
}

/* What is written of a type is read as that type. */
static void every_type(void **state)
{
    (void)state;
    const unsigned char raw[8] = {1};
    char name[] = "x", why[512] = "";
    int known = 0;
    for (uint32_t dtype = 0; dtype < 64; dtype++) {
        const size_t bytes = attn_dtype_size(dtype);
        assert_int_equal(attn_st_type_name(dtype) != NULL, bytes > 0);
        if (bytes == 0)
            continue;
        const struct attn_st_entry entry = {name, dtype, 1, {1}, raw, bytes};
        struct attn_st_file file;
        known++;
        if (attn_st_write(path, &entry, 1, NULL, 0, why, sizeof why) != 0 ||
            attn_st_open(path, &file, why, sizeof why) != 0)
            fail_msg("%s", why);
        assert_int_equal(file.entries[0].dtype, dtype);
        attn_st_close(&file);
    }
    assert_true(known >= 7);
}

static void round_trip(void **state)
{
    (void)state;
    const unsigned char raw[64] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const struct attn_st_entry entries[] = {
        {"a", ATTN_BOOL, 1, {3}, raw, 3},
        {"b", ATTN_F64, 0, {0}, raw, 8},
        {"empty", ATTN_F16, 3, {2, 0, 4}, NULL, 0},
        {"c", ATTN_BF16, 2, {2, 2}, raw, 8},
        {"d", ATTN_I32, 1, {1}, raw, 4},
        {"e", ATTN_F16, 1, {1}, raw, 2},
    };
    const struct attn_st_meta meta[] = {{"k", "a \"quoted\" \\ line\n"}, {"empty", ""}};
    char why[512] = "";
    assert_int_equal(attn_st_write(path, entries, 6, meta, 2, why, sizeof why), 0);
    struct attn_st_file file;
    if (attn_st_open(path, &file, why, sizeof why) != 0)
        fail_msg("%s", why);
    assert_int_equal(file.count, 6);
    for (size_t e = 0; e < 6; e++) {
        const struct attn_st_entry *found = attn_st_find(&file, entries[e].name);
        assert_non_null(found);
        assert_int_equal(found->dtype, entries[e].dtype);
        assert_int_equal(found->rank, entries[e].rank);
        assert_memory_equal(found->shape, entries[e].shape, found->rank * sizeof(int64_t));
        assert_int_equal(found->bytes, entries[e].bytes);
        if (found->bytes > 0)
            assert_memory_equal(found->data, entries[e].data, found->bytes);
    }
    assert_string_equal(attn_st_metadata(&file, "k"), "a \"quoted\" \\ line\n");
    assert_string_equal(attn_st_metadata(&file, "empty"), "");
    assert_null(attn_st_metadata(&file, "other"));
    assert_null(attn_st_find(&file, "k"));
    attn_st_close(&file);
}

static void writer_refuses(void **state)
{
    (void)state;
    const float value[2] = {0};
    char why[512] = "";
    struct attn_st_entry twice[] = {{"x", ATTN_F32, 1, {1}, value, 4},
                                    {"x", ATTN_F32, 1, {1}, value, 4}};
    assert_int_equal(attn_st_write(path, twice, 2, NULL, 0, why, sizeof why), -1);
    assert_non_null(strstr(why, "two tensors have the same name"));
    twice[0].bytes = 8;
    assert_int_equal(attn_st_write(path, twice, 1, NULL, 0, why, sizeof why), -1);
    assert_non_null(strstr(why, "does not fit"));
    twice[0].bytes = 4;
    assert_int_equal(attn_st_write("/nonexistent/x", twice, 1, NULL, 0, why, sizeof why), -1);
    assert_non_null(strstr(why, "No such file"));
}

#define ONE "\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}"

static void refusals(void **state)
{
    (void)state;
    refuse("[1]", 0, "does not start with '{'");
    refuse("{", 0, "not JSON");
    refuse("{" ONE "} x", 4, "not JSON");
    refuse("{" ONE "," ONE "}", 4, "duplicate");
    refuse("{\"x\":5}", 0, "not described by an object");
    refuse("{\"x\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "has no dtype");
    refuse("{\"x\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
           "dtype 'F8_E4M3'");
    refuse("{\"x\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}}", 4, "has no shape");
    refuse("{\"x\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "no count");
    refuse("{\"x\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "no count");
    refuse("{\"x\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
           "rank 7");
    refuse("{\"x\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]}}",
           4, "overflows");
    refuse("{\"x\":{\"dtype\":\"F32\",\"shape\":[0,9223372036854775807],\"data_offsets\":[0,0]}}",
           0, "overflows");
    refuse("{\"x\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,4]}}", 4,
           "not JSON");
    refuse("{\"x\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "no data_offsets");
    refuse("{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4.0]}}", 4,
           "no data_offsets");
    refuse("{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}", 4,
           "a key beyond");
    refuse("{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 3, "outside");
    refuse("{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "outside");
    refuse("{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "outside");
    refuse("{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
           "shape and dtype say 8");
    refuse("{" ONE ",\"y\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}", 6,
           "'y' overlaps");
    refuse("{" ONE ",\"y\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[5,9]}}", 9,
           "'y' leaves a gap");
    refuse("{" ONE "}", 6, "2 bytes after the last tensor");
    refuse("{\"__metadata__\":[]," ONE "}", 4, "__metadata__ is not an object");
    refuse("{\"__metadata__\":{\"a\":1}," ONE "}", 4, "metadata 'a' is not a string");
    refuse("{\"a\\u001b[2J\":5}", 0, "'a?[2J'"); /* no pack drives a terminal */
}

static void no_safetensors_at_all(void **state)
{
    (void)state;
    struct attn_st_file file;
    char why[512] = "";
    write_bytes("seven b", 7);
    assert_int_equal(attn_st_open(path, &file, why, sizeof why), -1);
    assert_non_null(strstr(why, "too short"));
    write_bytes("\x10\0\0\0\0\0\0\0{}", 10);
    assert_int_equal(attn_st_open(path, &file, why, sizeof why), -1);
    assert_non_null(strstr(why, "truncated"));
    write_bytes("\0\0\0\0\0\0\0\x7f{}", 10);
    assert_int_equal(attn_st_open(path, &file, why, sizeof why), -1);
    assert_non_null(strstr(why, "over the limit"));
    assert_int_equal(attn_st_open("/nonexistent", &file, why, sizeof why), -1);
    assert_non_null(strstr(why, "No such file"));
    assert_int_equal(attn_st_open("/dev/null", &file, why, sizeof why), -1);
    assert_non_null(strstr(why, "not a regular file"));
    assert_int_equal(attn_st_open(folder, &file, why, sizeof why), -1);
    assert_non_null(strstr(why, "not a regular file"));
}

/* Whatever the damage: an answer, a sentence with every no, and entries within the file. */
static void damaged_files(void **state)
{
    (void)state;
    const unsigned char raw[24] = {0};
    const struct attn_st_entry entries[] = {{"q", ATTN_F32, 2, {2, 1}, raw, 8},
                                            {"mask", ATTN_BOOL, 1, {3}, raw, 3},
                                            {"none", ATTN_F64, 1, {0}, NULL, 0},
                                            {"len", ATTN_I64, 1, {1}, raw, 8}};
    const struct attn_st_meta meta[] = {{"case", "mask=len"}, {"rtol", "1e-3"}};
    char why[512];
    assert_int_equal(attn_st_write(path, entries, 4, meta, 2, why, sizeof why), 0);
    unsigned char whole[1024], copy[1024];
    FILE *stream = fopen(path, "rb");
    const size_t length = fread(whole, 1, sizeof whole, stream);
    fclose(stream);

    uint32_t seed = 0;
    int refused = 0, accepted = 0;
    for (int round = 0; round < 5000; round++) {
        memcpy(copy, whole, length);
        write_bytes(copy, damage(copy, length, 300, &seed));
        struct attn_st_file file;
        why[0] = '\0';
        if (attn_st_open(path, &file, why, sizeof why) != 0) {
            refused++;
            assert_true(strlen(why) > strlen(path) + 5);
            continue;
        }
        accepted++;
        unsigned sum = 0;
        for (size_t e = 0; e < file.count; e++)
            for (size_t i = 0; i < file.entries[e].bytes; i++)
                sum += ((const unsigned char *)file.entries[e].data)[i];
        assert_true(sum < 256 * sizeof copy);
        attn_st_close(&file);
    }
    assert_true(refused > 3500);
    assert_true(accepted > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_the_format),
        cmocka_unit_test(every_type),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(writer_refuses),
        cmocka_unit_test(refusals),
        cmocka_unit_test(no_safetensors_at_all),
        cmocka_unit_test(damaged_files),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
