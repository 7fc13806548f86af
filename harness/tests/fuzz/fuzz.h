/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.h - shared by the libFuzzer targets. */
#ifndef ATTN_TEST_FUZZ_H
#define ATTN_TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Aborts with `what` unless it holds. */
void fuzz_expect(bool holds, const char *what);

/* A file of these bytes in memory: its descriptor, and its path in `path`. */
int fuzz_file(const uint8_t *data, size_t size, char path[32]);

/* Takes the input apart, from its start. Past its end there are zeros. */
struct fuzz_input {
    const uint8_t *data;
    size_t size;
};
uint8_t fuzz_byte(struct fuzz_input *input);

/* Overwrites bytes of an object: up to 15 times a place (one byte or two, in units of four, modulo
 * the size), a count (one) and as many bytes of the input. What lies beyond the object is left
 * out. */
void fuzz_patch(struct fuzz_input *input, void *object, size_t size);

#endif
