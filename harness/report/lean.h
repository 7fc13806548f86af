/* SPDX-License-Identifier: Apache-2.0 */
/* lean.h - reads records for attn_compare, in little memory. */
#ifndef ATTN_LEAN_H
#define ATTN_LEAN_H

#include "results/journal_read.h"

/* As attn_journal_read, with the fields alone that attn_compare reads and, of the samples of a
 * round, their median. turns: two backends of the run are to be compared. */
enum attn_journal_status attn_lean_read(const char *file, bool salvage, bool turns,
                                        struct attn_journal_content *content, char *why,
                                        size_t size);

#endif
