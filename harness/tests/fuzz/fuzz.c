/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.c - files in memory, and messages with some of their bytes changed. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void fuzz_expect(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

int fuzz_file(const uint8_t *data, size_t size, char path[32])
{
    const int fd = memfd_create("input", MFD_CLOEXEC);
    fuzz_expect(fd >= 0 && write(fd, data, size) == (ssize_t)size, "no memory for a file");
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}

uint8_t fuzz_byte(struct fuzz_input *input)
{
    if (input->size == 0)
        return 0;
    input->size--;
    return *input->data++;
}

enum { NEAR = 192 };

void fuzz_patch(struct fuzz_input *input, void *object, size_t size)
{
    for (int patches = fuzz_byte(input) % 16; patches > 0; patches--) {
        /* The first words often: there stand counts and kinds. */
        size_t at = fuzz_byte(input);
        if (at >= NEAR)
            at = NEAR + (at - NEAR) * 256 + fuzz_byte(input);
        at = 4 * at % size;
        const size_t wanted = fuzz_byte(input);
        const size_t count = wanted < input->size ? wanted : input->size;
        if (count > 0)
            memcpy((uint8_t *)object + at, input->data, count < size - at ? count : size - at);
        input->data += count;
        input->size -= count;
    }
}
