/* SPDX-License-Identifier: Apache-2.0 */
/* absent.c - the functions of history.h in a build without SQLite. */
#include "history/history.h"

static enum attn_exit refuse(char *why, size_t size)
{
    snprintf(why, size,
             "this attnbench was built without SQLite: install libsqlite3-dev and build "
             "again to have 'history'");
    return ATTN_EXIT_USAGE;
}

enum attn_exit attn_history_add(const char *index, const char *const *runs, size_t count,
                                FILE *notes, char *why, size_t size)
{
    (void)index, (void)runs, (void)count, (void)notes;
    return refuse(why, size);
}

enum attn_exit attn_history_rebuild(const char *index, const char *const *folders, size_t count,
                                    FILE *notes, char *why, size_t size)
{
    (void)index, (void)folders, (void)count, (void)notes;
    return refuse(why, size);
}

enum attn_exit attn_history_show(const char *index, const struct attn_history_wish *wish, FILE *out,
                                 char *why, size_t size)
{
    (void)index, (void)wish, (void)out;
    return refuse(why, size);
}
