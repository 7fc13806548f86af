/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_readers.c - any bytes as a file, through everything that reads files: cases, packs, results.
 * Each takes them or says why not; a case that was taken is the same when its canonical form is
 * read again. A libFuzzer target (preset fuzz). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pack/pack.h"
#include "results/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of the cases that a line multiplies out to: alike, as far as this test goes. */
enum { CASES_CHECKED = 8 };

static void expect(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static void check_canonical(const struct attn_case *c)
{
    char line[ATTN_CASE_LINE_MAX], why[512] = "", id[ATTN_CASE_ID_LEN + 1];
    struct attn_case_list again = {0};
    const size_t length = attn_case_canonical(c, line, sizeof line);
    if (length >= sizeof line)
        return;
    expect(attn_case_parse_line(line, length, NULL, 0, &again, why, sizeof why) == 0, why);
    expect(again.count == 1, line);
    attn_case_id(c, id);
    char other[ATTN_CASE_ID_LEN + 1];
    attn_case_id(&again.items[0], other);
    expect(strcmp(id, other) == 0, line);
    attn_case_list_free(&again);
}

static void read_cases(const char *path)
{
    struct attn_case_list list = {0};
    char why[512] = "";
    if (attn_case_parse_file(path, &list, why, sizeof why) != 0)
        expect(*why != '\0', "cases: refused without a reason");
    for (size_t i = 0; i < list.count && i < CASES_CHECKED; i++)
        if (!list.items[i].data)
            check_canonical(&list.items[i]);
    attn_case_list_free(&list);
}

static void read_pack(const char *path)
{
    struct attn_case c;
    struct attn_instance *instance;
    char why[512] = "";
    if (attn_pack_case(path, &c, why, sizeof why) != 0) {
        expect(*why != '\0', "pack: refused without a reason");
        return;
    }
    if (attn_instance_create(&c, 1, &instance, why, sizeof why) == 0)
        attn_instance_free(instance);
    else
        expect(*why != '\0', "instance: refused without a reason");
    attn_case_free(&c);
}

static void read_records(const char *path)
{
    char why[512] = "";
    json_t *records = attn_record_read(path, NULL, why, sizeof why);
    expect(records || *why != '\0', "records: refused without a reason");
    json_decref(records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32];
    const int fd = memfd_create("input", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    read_cases(path);
    read_pack(path);
    read_records(path);
    close(fd);
    return 0;
}
