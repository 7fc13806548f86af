/* SPDX-License-Identifier: Apache-2.0 */
/* statement.h - an index as index.c and query.c see it. Private to them. */
#ifndef ATTN_STATEMENT_H
#define ATTN_STATEMENT_H

#include <sqlite3.h>
#include <stddef.h>

struct attn_index {
    sqlite3 *db;
    sqlite3_stmt *insert; /* of a result; NULL until the first */
    sqlite3_int64 run;    /* that was begun last */
    char path[4096];
};

/* Says what SQLite says; returns -1. */
int attn_index_failed(const struct attn_index *index, char *why, size_t size);

#endif
