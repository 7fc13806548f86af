/* SPDX-License-Identifier: Apache-2.0 */
/* generate.h - random valid case lines, for tests that need thousands. */
#ifndef ATTN_CASE_GENERATE_H
#define ATTN_CASE_GENERATE_H

#include <stddef.h>
#include <stdint.h>

/* Writes one valid line that makes exactly one case; every feature of the language comes up. The
 * order of the words is random. */
void generate_line(uint64_t *state, char *text, size_t size);

#endif
