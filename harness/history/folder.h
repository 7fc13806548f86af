/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h - from a run folder into an index. Private to this folder. */
#ifndef ATTN_HISTORY_FOLDER_H
#define ATTN_HISTORY_FOLDER_H

#include <stdio.h>

#include "history/index.h"

/* Reads a run folder and puts its results into an index, between attn_index_begin and
 * attn_index_commit. Results of backends that compute nothing are left out, and so are refusals.
 * Says on `notes` where the same records were in the index under another path. Returns 0;
 * with the reason 1 where the folder is no run that can be read, ATTN_FOLDER_UNTIMED where it has
 * no timings, -1 where the index cannot take it. */
enum { ATTN_FOLDER_UNTIMED = 2 };
int attn_folder_file(struct attn_index *index, const char *folder, FILE *notes, char *why,
                     size_t size);

#endif
