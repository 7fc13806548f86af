/* SPDX-License-Identifier: Apache-2.0 */
/* packs.c - any bytes as a pack: made into an instance, or refused with a reason. */
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "pack/make.h"
#include "pack/pack.h"
#include "pack/safetensors.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

enum { PREFIX = 8, HEADER_MAX = 16384 };

/* Every other time the header alone, whose length is then said in front of it: anything else that
 * changes its length ends in the first check. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    static uint8_t header[HEADER_MAX];
    uint64_t length = 0;
    if (size > PREFIX)
        memcpy(&length, data, PREFIX);
    if (seed % 2 == 0 || length == 0 || length > size - PREFIX || length > HEADER_MAX)
        return LLVMFuzzerMutate(data, size, most);
    const size_t rest = size - PREFIX - (size_t)length, room = most - PREFIX - rest;
    memcpy(header, data + PREFIX, (size_t)length);
    const uint64_t mutated =
        LLVMFuzzerMutate(header, (size_t)length, room < HEADER_MAX ? room : HEADER_MAX);
    memmove(data + PREFIX + mutated, data + PREFIX + length, rest);
    memcpy(data + PREFIX, header, (size_t)mutated);
    memcpy(data, &mutated, PREFIX);
    return PREFIX + (size_t)mutated + rest;
}

/* Every tensor lies in the file, whole. */
static void check_container(const char *path)
{
    struct attn_st_file file;
    char why[512] = "";
    if (attn_st_open(path, &file, why, sizeof why) != 0) {
        fuzz_expect(*why != '\0', "a container is refused without a reason");
        return;
    }
    const uint8_t *begin = file.mapping;
    for (size_t e = 0; e < file.count; e++) {
        const uint8_t *data = file.entries[e].data;
        fuzz_expect(data >= begin && file.entries[e].bytes <= file.mapped &&
                        (size_t)(data - begin) <= file.mapped - file.entries[e].bytes,
                    "a tensor outside the file");
    }
    attn_st_close(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32], why[512] = "";
    struct attn_case c;
    struct attn_instance *instance;
    const int fd = fuzz_file(data, size, path);
    check_container(path);
    if (attn_pack_case(path, &c, why, sizeof why) == 0) {
        if (attn_instance_create(&c, 1, &instance, why, sizeof why) == 0)
            attn_instance_free(instance);
        else
            fuzz_expect(*why != '\0', "an instance is refused without a reason");
        attn_case_free(&c);
    } else {
        fuzz_expect(*why != '\0', "refused without a reason");
    }
    close(fd);
    return 0;
}
