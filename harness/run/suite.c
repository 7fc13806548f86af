/* SPDX-License-Identifier: Apache-2.0 */
/* suite.c - turns case arguments into a list of cases. */
#include "run/suite.h"

#include <errno.h>
#include <ftw.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pack/pack.h"
#include "run/progress.h"
#include "run/random_cases.h"

static bool ends_with(const char *text, const char *suffix)
{
    size_t n = strlen(text), s = strlen(suffix);
    return n > s && !strcmp(text + n - s, suffix);
}

static int append(struct attn_case_list *list, struct attn_case *c, char *why, size_t size)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 16;
        struct attn_case *grown = realloc(list->items, capacity * sizeof *grown);
        if (!grown) {
            snprintf(why, size, "no memory for the list of cases");
            return -1;
        }
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->count++] = *c;
    return 0;
}

static int add_pack(const char *path, struct attn_case_list *list, char *why, size_t size)
{
    struct attn_case c;
    if (attn_pack_case(path, &c, why, size))
        return -1;
    if (append(list, &c, why, size)) {
        attn_case_free(&c);
        return -1;
    }
    return 0;
}

static int add_folder(const char *folder, const char *suffix, struct attn_case_list *list,
                      char *why, size_t size);

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* What nftw has counted: it hands no argument through. */
static size_t below;

static int count_below(const char *path, const struct stat *about, int kind, struct FTW *at)
{
    (void)about;
    below += kind == FTW_F && at->level > 1 &&
             (ends_with(path, ".cases") || ends_with(path, ".safetensors"));
    return 0;
}

/* "3 case files in its subfolders are left out", or "" */
static const char *left_out(const char *folder, char *text, size_t size)
{
    enum { OPEN_FOLDERS = 16 };
    below = 0;
    text[0] = '\0';
    if (nftw(folder, count_below, OPEN_FOLDERS, FTW_PHYS) == 0 && below > 0)
        snprintf(text, size, "%zu case file%s in its subfolders %s left out", below,
                 below == 1 ? "" : "s", below == 1 ? "is" : "are");
    return text;
}

/* The case files of a folder; those of its subfolders are counted in a note. */
static int add_folder_argument(const char *folder, struct attn_case_list *list, char *why,
                               size_t size)
{
    const size_t before = list->count;
    char more[96], note[256];
    if (add_folder(folder, ".cases", list, why, size) ||
        add_folder(folder, ".safetensors", list, why, size))
        return -1;
    left_out(folder, more, sizeof more);
    if (list->count == before) {
        snprintf(why, size, "the folder '%s' holds no .cases file and no .safetensors pack%s%s",
                 folder, *more ? "; " : "", more);
        return -1;
    }
    if (*more) {
        snprintf(note, sizeof note, "folder '%.128s': %s", folder, more);
        attn_progress_note(note);
    }
    return 0;
}

static int add_argument(const char *text, struct attn_case_list *list, char *why, size_t size)
{
    if (is_folder(text))
        return add_folder_argument(text, list, why, size);
    if (ends_with(text, ".cases"))
        return attn_case_parse_file(text, list, why, size);
    if (ends_with(text, ".safetensors") && !strchr(text, '='))
        return add_pack(text, list, why, size);
    if (strchr(text, '='))
        return attn_case_parse_line(text, strlen(text), NULL, 0, list, why, size);
    if (strstr(text, ".py::") || ends_with(text, ".py")) {
        snprintf(why, size,
                 "'%s' is Python: name a function of it, as FILE.py::FUNCTION, which the Python "
                 "package knows (it is in a built tree; else pip install its wheel)",
                 text);
        return -1;
    }
    snprintf(why, size,
             "'%s' is not a .cases file, a .safetensors pack, a folder of these or a case line "
             "(key=value ...)",
             text);
    return -1;
}

/* A case line without quotes comes as several arguments. */
static void hint_quotes(const struct attn_suite_wish *wish, char *why, size_t size)
{
    char line[256] = "";
    for (size_t i = 0; i < wish->n_cases; i++) {
        const size_t used = strlen(line);
        if (!strchr(wish->cases[i], '=') || strchr(wish->cases[i], ' '))
            return;
        snprintf(line + used, sizeof line - used, "%s%s", i ? " " : "", wish->cases[i]);
    }
    const size_t used = strlen(why);
    if (wish->n_cases > 1)
        snprintf(why + used, size - used, "; a case is one argument: '%s'", line);
}

/* A folder that does not exist holds nothing. */
static int add_folder(const char *folder, const char *suffix, struct attn_case_list *list,
                      char *why, size_t size)
{
    char **names;
    size_t n;
    int result = 0;
    if (attn_names_in(folder, suffix, &names, &n)) {
        if (errno == ENOENT)
            return 0;
        snprintf(why, size, "%s: %s", folder, strerror(errno));
        return -1;
    }
    for (size_t i = 0; i < n && result == 0; i++) {
        char path[ATTN_PATH_MAX];
        if (attn_path_join(path, folder, names[i]) == 0) {
            result = add_argument(path, list, why, size);
        } else {
            snprintf(why, size, "the path of '%s' is over %d bytes", names[i], ATTN_PATH_MAX - 1);
            result = -1;
        }
    }
    attn_names_free(names, n);
    return result;
}

static int add_more(const char *folder, const char *more, const char *suffix,
                    struct attn_case_list *list, char *why, size_t size)
{
    char path[ATTN_PATH_MAX];
    if (!more)
        return 0;
    if (attn_path_join(path, folder, more) == 0)
        return add_folder(path, suffix, list, why, size);
    snprintf(why, size, "the path of the folder '%s' is over %d bytes", more, ATTN_PATH_MAX - 1);
    return -1;
}

static int add_standard(const struct attn_paths *paths, const struct attn_suite_wish *wish,
                        struct attn_case_list *list, char *why, size_t size)
{
    static const char *const rest[] = {"long", "full"};
    if (add_folder(paths->cases, ".cases", list, why, size) ||
        add_more(paths->cases, wish->more, ".cases", list, why, size) ||
        add_folder(paths->packs, ".safetensors", list, why, size) ||
        add_more(paths->packs, wish->more, ".safetensors", list, why, size))
        return -1;
    for (size_t i = 0; wish->full && i < sizeof rest / sizeof *rest; i++)
        if ((!wish->more || strcmp(rest[i], wish->more) != 0) &&
            (add_more(paths->cases, rest[i], ".cases", list, why, size) ||
             add_more(paths->packs, rest[i], ".safetensors", list, why, size)))
            return -1;
    if (list->count > 0)
        return 0;
    snprintf(why, size, "the standard suite is missing: %s holds no .cases file", paths->cases);
    return -1;
}

int attn_shard_of(const char *id, int count)
{
    return (int)(strtoull(id, NULL, 16) % (unsigned long long)count) + 1;
}

struct id {
    char text[ATTN_CASE_ID_LEN + 1];
};

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct id *)a)->text, ((const struct id *)b)->text);
}

/* Sorts the ids. */
static void select_ids(struct id *ids, size_t count, struct attn_selection *selection)
{
    SHA2_CTX hash;
    SHA256Init(&hash);
    qsort(ids, count, sizeof *ids, by_text);
    selection->cases = 0;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && by_text(&ids[i - 1], &ids[i]) == 0)
            continue;
        SHA256Update(&hash, (const uint8_t *)ids[i].text, ATTN_CASE_ID_LEN);
        SHA256Update(&hash, (const uint8_t *)"\n", 1);
        selection->cases++;
    }
    SHA256End(&hash, selection->sha256);
}

/* Keeps the cases that filter and shard choose; frees the others. Returns 0, or -1: no memory. */
static int narrow(const struct attn_suite_wish *wish, struct attn_case_list *list,
                  struct attn_selection *selection)
{
    size_t kept = 0, matched = 0;
    struct id *ids = calloc(list->count + 1, sizeof *ids);
    if (!ids)
        return -1;
    for (size_t i = 0; i < list->count; i++) {
        struct attn_case *c = &list->items[i];
        char *id = ids[matched].text;
        attn_case_id(c, id);
        const bool fits =
            !wish->filter || attn_glob(wish->filter, c->name) || attn_glob(wish->filter, id);
        matched += fits;
        if (fits &&
            (wish->shard.count == 0 || attn_shard_of(id, wish->shard.count) == wish->shard.index))
            list->items[kept++] = *c;
        else
            attn_case_free(c);
    }
    list->count = kept;
    if (selection)
        select_ids(ids, matched, selection);
    free(ids);
    return 0;
}

int attn_suite_load(const struct attn_paths *paths, const struct attn_suite_wish *wish,
                    struct attn_case_list *list, struct attn_selection *selection, char *why,
                    size_t size)
{
    struct attn_case_list found = {0};
    if (wish->fuzz > 0 && wish->n_cases > 0) {
        snprintf(why, size, "--fuzz makes its own cases; give it no others");
        return -1;
    }
    if (wish->full && (wish->n_cases > 0 || wish->fuzz > 0)) {
        snprintf(why, size, "--suite full is a set of cases; give it no others");
        return -1;
    }
    if (wish->fuzz > 0 && attn_random_cases_draw(wish->session, wish->seed_given ? wish->seed : 1,
                                                 (size_t)wish->fuzz, &found, why, size))
        goto failed;
    if (wish->n_cases == 0 && wish->fuzz == 0 && add_standard(paths, wish, &found, why, size))
        goto failed;
    for (size_t i = 0; i < wish->n_cases; i++)
        if (add_argument(wish->cases[i], &found, why, size)) {
            hint_quotes(wish, why, size);
            goto failed;
        }
    for (size_t i = 0; i < found.count; i++) {
        if (attn_pack_resolve(&found.items[i], why, size))
            goto failed;
        if (wish->seed_given && wish->fuzz == 0 && !found.items[i].data)
            found.items[i].seed = wish->seed;
    }
    if (narrow(wish, &found, selection)) {
        snprintf(why, size, "no memory for %zu cases", found.count);
        goto failed;
    }
    *list = found;
    return 0;
failed:
    attn_case_list_free(&found);
    return -1;
}

bool attn_suite_is_standard(const struct attn_paths *paths, const struct attn_case *c)
{
    size_t n = strlen(paths->cases);
    return c->file && !strncmp(c->file, paths->cases, n) && c->file[n] == '/';
}
