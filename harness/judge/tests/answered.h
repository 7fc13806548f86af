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

/* The instance of a case line; the test fails where there is none. */
struct attn_instance *instance_of(const char *line);

struct attn_tensor *tensor(struct attn_instance *in, uint32_t role);

/* Writes the answer of a problem of the same rows, rounded by `store`, into out and, where
 * attention has it, lse. */
void answer(struct attn_instance *in, const struct attn_problem *as,
            void (*store)(uint32_t, void *, int64_t, double));

/* The verdict on what lies in the outputs of a plan of these numerics, or of one that accumulates
 * in f32; frees the instance. */
struct attn_judgement judge_declared(struct attn_instance *in, struct attn_numerics numerics);
struct attn_judgement judge(struct attn_instance *in);

/* What judge found: a failure whose reason begins with, or has somewhere, these words. */
void expect(struct attn_judgement v, const char *words);
void expect_within(struct attn_judgement v, const char *words);

#endif
