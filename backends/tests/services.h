/* SPDX-License-Identifier: Apache-2.0 */
/* services.h - the services that a test gives to a backend. */
#ifndef ATTN_TEST_SERVICES_H
#define ATTN_TEST_SERVICES_H

#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"

/* Counts what is allocated through services. Set the counts to 0 to start anew. */
struct test_memory {
    int is_nan;   /* fills new memory with TEST_NAN_BYTE: a backend must not rely on zeros */
    size_t bytes; /* of all allocations */
    int live;     /* allocations that have not been freed */
};

enum { TEST_NAN_BYTE = 0xff }; /* repeated, this byte is a NaN in every floating type */

/* Services without options that count in `memory`. Both must outlive every plan made with them. */
struct attn_services test_services_make(uint32_t threads, struct test_memory *memory);

/* Two threads and NaN in new memory. test_memory counts. */
extern const struct attn_services test_services;
extern struct test_memory test_memory;

#endif
