/* SPDX-License-Identifier: Apache-2.0 */
/* query.c - asks an index. Every column may hold any type: somebody may have edited the file. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "history/index.h"
#include "history/statement.h"
#include "results/record.h"

/* A text that is no UTF-8 has no JSON. */
static json_t *text_json(const char *text)
{
    json_t *value = text ? json_string(text) : NULL;
    return value ? value : json_string("");
}

static json_t *rounds_json(sqlite3_stmt *statement, int column)
{
    json_t *list = json_array();
    const char *blob = sqlite3_column_blob(statement, column);
    const size_t bytes = (size_t)sqlite3_column_bytes(statement, column);
    double value;
    if (!blob || bytes % sizeof value || bytes / sizeof value > ATTN_INDEX_ROUNDS_MAX)
        return list;
    for (size_t at = 0; at < bytes; at += sizeof value) {
        memcpy(&value, blob + at, sizeof value);
        json_array_append_new(list, attn_json_number(value));
    }
    return list;
}

static json_t *number_json(sqlite3_stmt *statement, int column)
{
    const double value = sqlite3_column_double(statement, column);
    const int type = sqlite3_column_type(statement, column);
    if (type == SQLITE_INTEGER)
        return json_integer(sqlite3_column_int64(statement, column));
    return type == SQLITE_FLOAT ? attn_json_number(value) : json_null();
}

/* A row as an object: the columns by their names, in the kind that each letter names: t text, n
 * number, r rounds. */
static json_t *row_json(sqlite3_stmt *statement, const char *kinds)
{
    json_t *row = json_object();
    for (int c = 0; kinds[c]; c++) {
        json_t *value = kinds[c] == 'r' ? rounds_json(statement, c)
                        : kinds[c] == 'n'
                            ? number_json(statement, c)
                            : text_json((const char *)sqlite3_column_text(statement, c));
        json_object_set_new(row, sqlite3_column_name(statement, c), value);
    }
    return row;
}

static json_t *ask(struct attn_index *index, const char *sql, const char *kinds, const char *word,
                   char *why, size_t size)
{
    sqlite3_stmt *statement = NULL;
    json_t *rows = json_array();
    int status = sqlite3_prepare_v2(index->db, sql, -1, &statement, NULL);
    if (status == SQLITE_OK && word)
        status = sqlite3_bind_text(statement, 1, word, -1, SQLITE_STATIC);
    while (status == SQLITE_OK || status == SQLITE_ROW) {
        status = sqlite3_step(statement);
        if (status == SQLITE_ROW && json_array_append_new(rows, row_json(statement, kinds)) != 0)
            status = SQLITE_NOMEM;
        if (json_array_size(rows) > ATTN_INDEX_ROWS_MAX)
            break;
    }
    if (status == SQLITE_ROW)
        snprintf(why, size, "the index '%.400s' has more than %d rows for one question",
                 index->path, ATTN_INDEX_ROWS_MAX);
    else if (status != SQLITE_DONE)
        attn_index_failed(index, why, size);
    sqlite3_finalize(statement);
    if (status == SQLITE_DONE)
        return rows;
    json_decref(rows);
    return NULL;
}

json_t *attn_index_cases(struct attn_index *index, char *why, size_t size)
{
    /* With max(), SQLite takes the other columns from the row that has it: from the newest run. */
    return ask(index,
               "SELECT id, name, line AS \"case\", count(DISTINCT run) AS runs, max(date) FROM"
               " result JOIN run USING (run) GROUP BY id ORDER BY name, id",
               "tttn", NULL, why, size);
}

json_t *attn_index_results(struct attn_index *index, const char *id, char *why, size_t size)
{
    return ask(index,
               "SELECT path AS run, date, commit_id AS \"commit\", machine, name,"
               " line AS \"case\", backend, plugin, version, threads, cache, status, anchor, ratio,"
               " low, high, rounds FROM result JOIN run USING (run) WHERE id=?1"
               " ORDER BY date, path, backend, threads, cache",
               "tttntttttntttnnnr", id, why, size);
}

json_t *attn_index_machines(struct attn_index *index, char *why, size_t size)
{
    return ask(index,
               "SELECT machine, identity FROM machine JOIN run USING (machine) GROUP BY machine"
               " ORDER BY min(date || path)",
               "nt", NULL, why, size);
}
