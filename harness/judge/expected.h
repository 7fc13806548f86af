/* SPDX-License-Identifier: Apache-2.0 */
/* expected.h - compares the reference with the expected answers of a pack. Private to this folder.
 */
#ifndef ATTN_EXPECTED_H
#define ATTN_EXPECTED_H

#include "judge/judgement.h"
#include "tensor/instance.h"

/* As attn_judge_reference. */
void attn_expected_judge(const struct attn_instance *instance, int threads,
                         struct attn_judgement *verdict);

#endif
