/* SPDX-License-Identifier: Apache-2.0 */
/* every_alike.h - ref_every_row of operators with REF_ROWS_ALIKE. Private to every.c. */
#ifndef ATTN_REFERENCE_EVERY_ALIKE_H
#define ATTN_REFERENCE_EVERY_ALIKE_H

#include "reference/every_row.h"
#include "reference/reference.h"

int ref_every_alike(const struct attn_problem *problem, const struct ref_request *request,
                    void (*visit)(void *context, const struct ref_every_row *row), void *context,
                    char *why, size_t size);

#endif
