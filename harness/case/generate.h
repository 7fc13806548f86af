/* SPDX-License-Identifier: Apache-2.0 */
/* generate.h - random legal case lines, for `verify --fuzz` and for tests that need thousands. */
#ifndef ATTN_CASE_GENERATE_H
#define ATTN_CASE_GENERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes one legal line that makes exactly one case. Every feature of the language occurs; with
 * `packs` also data= (of files that do not exist). The order of the words is random. `size` must
 * hold a line of ATTN_CASE_LINE_MAX. */
void attn_case_generate(uint64_t *state, bool packs, char *text, size_t size);

#endif
