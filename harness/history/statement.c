/* SPDX-License-Identifier: Apache-2.0 */
/* statement.c - what SQLite says of an index. */
#include "history/statement.h"

#include <stdio.h>

int attn_index_failed(const struct attn_index *index, char *why, size_t size)
{
    snprintf(why, size, "the index '%.400s': %s", index->path, sqlite3_errmsg(index->db));
    return -1;
}
