/* SPDX-License-Identifier: Apache-2.0 */
/* examined.h - what is said of an answer that answered.h has put into an instance. */
#ifndef ATTN_TEST_EXAMINED_H
#define ATTN_TEST_EXAMINED_H

#include "answered.h"
#include "explain/examine.h"

/* The verdict on what lies in the outputs of a plan of these numerics, or of one that accumulates
 * in f32; frees the instance. */
struct attn_judgement judge_declared(struct attn_instance *in, struct attn_numerics numerics);
struct attn_judgement judge(struct attn_instance *in);

/* What judge found: a failure whose reason begins with, or has somewhere, these words. */
void expect(struct attn_judgement v, const char *words);
void expect_within(struct attn_judgement v, const char *words);

#endif
