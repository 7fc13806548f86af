/* SPDX-License-Identifier: Apache-2.0 */
/* services.h - services for whoever calls a backend's table in a test. */
#ifndef ATTN_TEST_SERVICES_H
#define ATTN_TEST_SERVICES_H

#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"

/* What was allocated through services. To be counted from 0, set the counts to 0. */
struct test_memory {
    int is_nan;   /* fill new memory with TEST_NAN_BYTE: a backend must not rely on zeros */
    size_t bytes; /* asked for in all allocations */
    int live;     /* allocations that have not been freed */
};

enum { TEST_NAN_BYTE = 0xff }; /* repeated, it is a NaN in every floating type */

/* Services without options that count in `memory`. Both must outlive every plan made with them. */
struct attn_services test_services_make(uint32_t threads, struct test_memory *memory);

/* Two threads, NaN in new memory; test_memory counts. */
extern const struct attn_services test_services;
extern struct test_memory test_memory;

#endif
