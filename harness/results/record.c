/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - seals a record, and takes a sealed line apart. */
#include "results/record.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "results/field.h"

/* The seal: what follows the summed bytes of a line. */
#define SEAL_HEAD   ",\"crc32\":\""
#define SEAL_TAIL   "\"}"
#define SEAL_DIGITS 8
#define SEAL_LENGTH ATTN_RECORD_SEAL
_Static_assert(SEAL_LENGTH == sizeof SEAL_HEAD - 1 + SEAL_DIGITS + sizeof SEAL_TAIL - 1, "");

json_t *attn_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static atomic_uint refusals, accounted; /* accounted: those before the record that is made */

/* Given back when memory runs out: the parser of jansson 2.14 writes past the end of a string whose
 * text it could not lengthen, so it should get what it asks for as long as that can be. */
static void *_Atomic spare;
enum { SPARE = 1 << 16 };

static void *allocate(size_t size)
{
    void *memory = malloc(size);
    if (!memory) {
        refusals++;
        free(atomic_exchange(&spare, NULL));
        memory = malloc(size);
    }
    return memory;
}

/* Before main, so that no value escapes. */
__attribute__((constructor)) static void count_refusals(void)
{
    spare = malloc(SPARE);
    json_set_alloc_funcs(allocate, free);
}

unsigned attn_json_refusals(void)
{
    return refusals;
}

void attn_note_refusal(void)
{
    refusals++;
}

void attn_record_begin(void)
{
    accounted = refusals;
}

static uint32_t checksum(const char *text, size_t length)
{
    return (uint32_t)crc32_z(crc32_z(0, NULL, 0), (const unsigned char *)text, length);
}

char *attn_record_seal_text(const char *text, size_t summed, size_t *length)
{
    const size_t room = summed + SEAL_LENGTH + 2;
    char *line = malloc(room);
    if (!line)
        return NULL;
    memcpy(line, text, summed);
    snprintf(line + summed, room - summed, SEAL_HEAD "%08x" SEAL_TAIL "\n",
             (unsigned)checksum(text, summed));
    *length = room - 1;
    return line;
}

char *attn_record_seal(const json_t *record, size_t *length)
{
    if (!json_is_object(record) || json_object_size(record) == 0 ||
        json_object_get(record, "crc32")) {
        errno = EINVAL;
        return NULL;
    }
    char *text = json_dumps(record, JSON_COMPACT | JSON_PRESERVE_ORDER);
    const unsigned now = refusals;
    if (!text || now != accounted) {
        free(text);
        accounted = refusals;
        errno = ENOMEM;
        return NULL;
    }
    /* Without the closing brace, which the seal brings. */
    char *line = attn_record_seal_text(text, strlen(text) - 1, length);
    free(text);
    return line;
}

json_t *attn_record_unseal(const char *line, size_t length, const char **wrong)
{
    *wrong = "has no crc32 at its end";
    if (length <= SEAL_LENGTH)
        return NULL;
    size_t summed = length - SEAL_LENGTH;
    const char *digits = line + summed + sizeof SEAL_HEAD - 1;
    if (memcmp(line + summed, SEAL_HEAD, sizeof SEAL_HEAD - 1) != 0 ||
        memcmp(digits + SEAL_DIGITS, SEAL_TAIL, sizeof SEAL_TAIL - 1) != 0)
        return NULL;

    *wrong = "does not match its crc32";
    char expected[SEAL_DIGITS + 1];
    snprintf(expected, sizeof expected, "%08x", (unsigned)checksum(line, summed));
    if (memcmp(digits, expected, SEAL_DIGITS) != 0)
        return NULL;

    *wrong = "is not a JSON object";
    const unsigned before = refusals;
    json_t *record = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
    if (refusals != before)
        *wrong = "found no memory";
    if (!json_is_object(record) || refusals != before) {
        json_decref(record);
        return NULL;
    }
    json_object_del(record, "crc32");
    attn_json_clean(record);
    return record;
}
