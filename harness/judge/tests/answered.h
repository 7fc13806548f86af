/* SPDX-License-Identifier: Apache-2.0 */
/* answered.h - the answer of a problem that differs in one thing, put where a backend would write
 * it. */
#ifndef ATTN_TEST_ANSWERED_H
#define ATTN_TEST_ANSWERED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "judge/judge.h"
#include "reference/dtype.h"

/* A kernel in f32 over tiles of 64 keys. */
#define TILED_NUMERICS                                                                             \
    {                                                                                              \
        .struct_size = sizeof(struct attn_numerics), .acc_type = ATTN_F32, .key_tile = 64,         \
        .chain = 64, .e_exp = 2e-7, .e_log = 2e-7                                                  \
    }

/* The instance of a case line; the test fails where there is none. */
struct attn_instance *instance_of(const char *line);

struct attn_tensor *tensor(struct attn_instance *in, uint32_t role);

/* Writes the answer of a problem of the same rows, rounded by `store`, into out and, where
 * attention has it, lse. */
void answer(struct attn_instance *in, const struct attn_problem *as,
            void (*store)(uint32_t, void *, int64_t, double));

#endif
