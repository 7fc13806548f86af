/* SPDX-License-Identifier: Apache-2.0 */
/* index.c - opens the file of SQLite, and puts runs into it. */
#include "history/index.h"

#include <math.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "history/statement.h"

/* Say in the file's header whose it is, "attn", and which tables it has. */
enum { APPLICATION = 0x6174746e, VERSION = 1 };

/* Two processes may begin the same index at once. */
static const char schema[] =
    "CREATE TABLE IF NOT EXISTS"
    " machine(machine INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE);"
    "CREATE TABLE IF NOT EXISTS"
    " run(run INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, digest TEXT NOT NULL,"
    " date TEXT NOT NULL, commit_id TEXT NOT NULL, machine INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS"
    " result(run INTEGER NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, line TEXT NOT NULL,"
    " backend TEXT NOT NULL, plugin TEXT NOT NULL, version TEXT NOT NULL, threads REAL,"
    " cache TEXT NOT NULL, status TEXT NOT NULL, anchor TEXT NOT NULL, ratio REAL, low REAL,"
    " high REAL, rounds BLOB);"
    "CREATE INDEX IF NOT EXISTS result_case ON result(id);"
    "CREATE INDEX IF NOT EXISTS result_run ON result(run);";

static int execute(struct attn_index *index, const char *sql)
{
    return sqlite3_exec(index->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : -1;
}

/* The number that a PRAGMA or a count gives. */
static int number_of(struct attn_index *index, const char *sql, sqlite3_int64 *number)
{
    sqlite3_stmt *statement = NULL;
    int status = -1;
    if (sqlite3_prepare_v2(index->db, sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW) {
        *number = sqlite3_column_int64(statement, 0);
        status = 0;
    }
    sqlite3_finalize(statement);
    return status;
}

static int make_tables(struct attn_index *index)
{
    char pragmas[96];
    snprintf(pragmas, sizeof pragmas, "PRAGMA application_id=%d; PRAGMA user_version=%d",
             APPLICATION, VERSION);
    return execute(index, "BEGIN IMMEDIATE") || execute(index, pragmas) || execute(index, schema) ||
                   execute(index, "COMMIT")
               ? -1
               : 0;
}

/* Whether the file is ours; makes the tables of a new one. Returns 0, 1 or -1. */
static int check(struct attn_index *index, enum attn_index_mode mode, char *why, size_t size)
{
    sqlite3_int64 application, version, tables;
    /* In one transaction: another process may make the tables meanwhile. */
    if (execute(index, "BEGIN") || number_of(index, "PRAGMA application_id", &application) ||
        number_of(index, "PRAGMA user_version", &version) ||
        number_of(index, "SELECT count(*) FROM sqlite_master", &tables) ||
        execute(index, "COMMIT")) {
        attn_index_failed(index, why, size);
        return sqlite3_errcode(index->db) == SQLITE_NOTADB ? 1 : -1;
    }
    if (application == 0 && tables == 0 && mode == ATTN_INDEX_ADD)
        return make_tables(index) ? attn_index_failed(index, why, size) : 0;
    if (application != APPLICATION) {
        snprintf(why, size, "'%.400s' is a database of SQLite, but no index of attnbench",
                 index->path);
        return 1;
    }
    if (version != VERSION) {
        snprintf(why, size,
                 "the index '%.400s' has version %lld, not %d: 'attnbench history rebuild' makes "
                 "it again",
                 index->path, (long long)version, VERSION);
        return 1;
    }
    return 0;
}

int attn_index_open(const char *path, enum attn_index_mode mode, struct attn_index **out, char *why,
                    size_t size)
{
    const int flags =
        mode == ATTN_INDEX_READ ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    char name[ATTN_INDEX_TEXT_MAX];
    struct stat info;
    /* SQLite gives a meaning to names such as ":memory:"; a path with a slash has none. */
    const int n = snprintf(name, sizeof name, "%s%s", strchr(path, '/') ? "" : "./", path);
    if (!*path || n < 0 || (size_t)n >= sizeof name) {
        snprintf(why, size, "the path of the index, '%.64s', is %s", path,
                 *path ? "too long" : "empty");
        return 1;
    }
    if (mode == ATTN_INDEX_READ && access(name, F_OK) != 0) {
        snprintf(
            why, size,
            "there is no index '%.400s': make one with 'attnbench history add RUN...', or name "
            "another with --index",
            path);
        return 1;
    }
    /* SQLite would wait for the other end of a pipe. */
    if (stat(name, &info) == 0 && !S_ISREG(info.st_mode)) {
        snprintf(why, size, "the index '%.400s' is no regular file", path);
        return 1;
    }
    struct attn_index *index = calloc(1, sizeof *index);
    if (!index) {
        snprintf(why, size, "no memory for the index");
        return -1;
    }
    snprintf(index->path, sizeof index->path, "%s", path);
    int status = sqlite3_open_v2(name, &index->db, flags, NULL);
    if (status != SQLITE_OK) {
        attn_index_failed(index, why, size);
        status = status == SQLITE_CANTOPEN ? 1 : -1;
    } else {
        sqlite3_busy_timeout(index->db, 10000);
        sqlite3_db_config(index->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        sqlite3_db_config(index->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        sqlite3_limit(index->db, SQLITE_LIMIT_LENGTH, 1 << 20);
        status = check(index, mode, why, size);
    }
    if (status != 0) {
        attn_index_close(index);
        return status;
    }
    *out = index;
    return 0;
}

void attn_index_close(struct attn_index *index)
{
    if (!index)
        return;
    sqlite3_finalize(index->insert);
    sqlite3_close(index->db); /* rolls back what was not committed */
    free(index);
}

int attn_index_begin(struct attn_index *index, char *why, size_t size)
{
    return execute(index, "BEGIN IMMEDIATE") ? attn_index_failed(index, why, size) : 0;
}

int attn_index_commit(struct attn_index *index, size_t *runs, char *why, size_t size)
{
    sqlite3_int64 count = 0;
    if (execute(index, "DELETE FROM machine WHERE machine NOT IN (SELECT machine FROM run)") ||
        number_of(index, "SELECT count(*) FROM run", &count) || execute(index, "COMMIT"))
        return attn_index_failed(index, why, size);
    *runs = (size_t)count;
    return 0;
}

/* Binds a text, cut at `most` bytes between two characters. */
static void bind_text(sqlite3_stmt *statement, int at, const char *text, size_t most)
{
    size_t length = strnlen(text, most + 1);
    if (length > most)
        for (length = most; length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80;)
            length--;
    sqlite3_bind_text(statement, at, text, (int)length, SQLITE_TRANSIENT);
}

static void bind_number(sqlite3_stmt *statement, int at, double number)
{
    if (isfinite(number))
        sqlite3_bind_double(statement, at, number);
    else
        sqlite3_bind_null(statement, at);
}

/* Runs a statement with up to six texts. The first column of its first row goes to `answer`, a
 * buffer of ATTN_INDEX_TEXT_MAX + 1, unless NULL; "" where there is none. */
static int run_texts(struct attn_index *index, const char *sql, const char *const *texts,
                     size_t count, char *answer)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(index->db, sql, -1, &statement, NULL) != SQLITE_OK)
        return -1;
    for (size_t t = 0; t < count; t++)
        bind_text(statement, (int)t + 1, texts[t], ATTN_INDEX_MACHINE_MAX);
    const int status = sqlite3_step(statement);
    if (answer) {
        const char *text =
            status == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
        snprintf(answer, ATTN_INDEX_TEXT_MAX + 1, "%s", text ? text : "");
    }
    sqlite3_finalize(statement);
    return status == SQLITE_ROW || status == SQLITE_DONE ? 0 : -1;
}

int attn_index_put_run(struct attn_index *index, const struct attn_index_run *run,
                       char copy[ATTN_INDEX_TEXT_MAX + 1], char *why, size_t size)
{
    const char *const key[] = {run->path, run->digest, run->date};
    const char *const all[] = {run->path, run->digest, run->date, run->commit, run->machine};
#define SAME " WHERE path=?1 OR (digest=?2 AND date=?3)"
    if (run_texts(index, "SELECT path FROM run WHERE path<>?1 AND digest=?2 AND date=?3", key, 3,
                  copy) ||
        run_texts(index, "DELETE FROM result WHERE run IN (SELECT run FROM run" SAME ")", key, 3,
                  NULL) ||
        run_texts(index, "DELETE FROM run" SAME, key, 3, NULL) ||
        run_texts(index, "INSERT OR IGNORE INTO machine(identity) VALUES(?1)", &run->machine, 1,
                  NULL) ||
        run_texts(index,
                  "INSERT INTO run(path, digest, date, commit_id, machine) VALUES(?1, ?2, ?3, ?4,"
                  " (SELECT machine FROM machine WHERE identity=?5))",
                  all, 5, NULL))
        return attn_index_failed(index, why, size);
#undef SAME
    index->run = sqlite3_last_insert_rowid(index->db);
    return 0;
}

int attn_index_put_result(struct attn_index *index, const struct attn_index_result *r, char *why,
                          size_t size)
{
    static const char sql[] =
        "INSERT INTO result VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14,"
        " ?15)";
    sqlite3_stmt *s = index->insert;
    if (!s && sqlite3_prepare_v2(index->db, sql, -1, &index->insert, NULL) != SQLITE_OK)
        return attn_index_failed(index, why, size);
    s = index->insert;
    sqlite3_bind_int64(s, 1, index->run);
    bind_text(s, 2, r->id, 64);
    bind_text(s, 3, r->name, 256);
    bind_text(s, 4, r->line, ATTN_INDEX_TEXT_MAX);
    bind_text(s, 5, r->backend, 256);
    bind_text(s, 6, r->plugin, 64);
    bind_text(s, 7, r->version, 256);
    bind_number(s, 8, r->threads);
    bind_text(s, 9, r->cache, 16);
    bind_text(s, 10, r->status, 16);
    bind_text(s, 11, r->anchor, 256);
    bind_number(s, 12, r->ratio);
    bind_number(s, 13, r->lo);
    bind_number(s, 14, r->hi);
    if (r->n_rounds > 0 && r->n_rounds <= ATTN_INDEX_ROUNDS_MAX)
        sqlite3_bind_blob(s, 15, r->rounds, (int)(r->n_rounds * sizeof *r->rounds),
                          SQLITE_TRANSIENT);
    else
        sqlite3_bind_null(s, 15);
    const int status = sqlite3_step(s) == SQLITE_DONE ? 0 : attn_index_failed(index, why, size);
    sqlite3_reset(s);
    return status;
}
