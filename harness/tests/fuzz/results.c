/* SPDX-License-Identifier: Apache-2.0 */
/* results.c - any bytes as the records of a run: taken, or refused with a reason. What is a record
 * is read back as it was written. */
#include <unistd.h>

#include "fuzz.h"
#include "results/record.h"

static void read_bytes(const uint8_t *data, size_t size)
{
    char path[32], why[512] = "";
    const int fd = fuzz_file(data, size, path);
    json_t *records = attn_record_read(path, NULL, why, sizeof why);
    fuzz_expect(records || *why != '\0', "refused without a reason");
    json_decref(records);
    close(fd);
}

static void write_record(const json_t *record)
{
    char path[32], why[512] = "";
    const int fd = fuzz_file(NULL, 0, path);
    if (attn_record_append(fd, record) == 0) {
        json_t *records = attn_record_read(path, NULL, why, sizeof why);
        fuzz_expect(records && json_array_size(records) == 1 &&
                        json_equal(json_array_get(records, 0), record),
                    *why ? why : "a record has changed");
        json_decref(records);
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_bytes(data, size);
    json_t *record = json_loadb((const char *)data, size, 0, NULL);
    if (record)
        write_record(record);
    json_decref(record);
    return 0;
}
