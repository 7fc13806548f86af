/* SPDX-License-Identifier: Apache-2.0 */
/* results.c - any bytes as the records of a run: taken, or refused with a reason. What is a record
 * is read back as it was written. */
#include <stdlib.h>
#include <unistd.h>

#include "fuzz.h"
#include "results/journal_read.h"
#include "results/record.h"

static void read_bytes(const uint8_t *data, size_t size, bool salvage)
{
    char path[32], why[512] = "";
    struct attn_journal_content content;
    const int fd = fuzz_file(data, size, path);
    const enum attn_journal_status status =
        attn_journal_read(path, salvage, &content, why, sizeof why);
    fuzz_expect(status == ATTN_JOURNAL_OK || *why != '\0', "refused without a reason");
    if (status == ATTN_JOURNAL_OK) {
        fuzz_expect(content.bytes <= size, "more lines than there are");
        fuzz_expect(salvage || !*content.damage, "damage was let in");
        attn_journal_release(&content);
    }
    close(fd);
}

static void seal_record(const json_t *record)
{
    const char *wrong = "";
    size_t length = 0;
    char *line = attn_record_seal(record, &length);
    json_t *back = line ? attn_record_unseal(line, length - 1, &wrong) : NULL;
    fuzz_expect(!line || json_equal(back, record), *wrong ? wrong : "a record has changed");
    json_decref(back);
    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_bytes(data, size, false);
    read_bytes(data, size, true);
    json_t *record = json_loadb((const char *)data, size, 0, NULL);
    if (record)
        seal_record(record);
    json_decref(record);
    return 0;
}
