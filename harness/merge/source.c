/* SPDX-License-Identifier: Apache-2.0 */
/* source.c - opens run folders and goes through their journals. */
#include "merge/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "merge/parts.h"
#include "results/field.h"
#include "results/journal_read.h"
#include "run/paths.h"

static const char journal_name[] = "results.ndjson";

static int is_run(const char *folder)
{
    char path[ATTN_PATH_MAX];
    return attn_path_join(path, folder, journal_name) == 0 && access(path, F_OK) == 0;
}

static int add_run(struct attn_merge_sources *sources, const char *path)
{
    struct attn_merge_source *items =
        reallocarray(sources->items, sources->count + 1, sizeof *items);
    if (!items)
        return -1;
    sources->items = items;
    char *copy = strdup(path);
    if (copy)
        sources->items[sources->count++] = (struct attn_merge_source){.path = copy, .fd = -1};
    return copy ? 0 : -1;
}

int attn_merge_sources_add(struct attn_merge_sources *sources, const char *path, char *why,
                           size_t size)
{
    const size_t before = sources->count;
    char **names, inner[ATTN_PATH_MAX];
    size_t n;
    int status = 0;
    if (is_run(path)) {
        status = add_run(sources, path);
    } else if (attn_names_in(path, "", &names, &n)) {
        snprintf(why, size, "%s: %s", path, strerror(errno));
        return -1;
    } else {
        for (size_t i = 0; i < n && status == 0; i++)
            if (attn_path_join(inner, path, names[i]) == 0 && is_run(inner))
                status = add_run(sources, inner);
        attn_names_free(names, n);
    }
    if (status)
        snprintf(why, size, "no memory for the names of the runs");
    else if (sources->count == before)
        snprintf(why, size, "'%s' is no run folder, and holds none: there is no %s", path,
                 journal_name);
    return sources->count > before ? status : -1;
}

/* The object in a file of the run; NULL if there is no such file. Returns 0, or -1 with the reason.
 */
static int read_object(const char *folder, const char *name, json_t **object, char *why,
                       size_t size)
{
    char path[ATTN_PATH_MAX];
    *object = NULL;
    return attn_path_join(path, folder, name) ? 0 : attn_json_load_object(path, object, why, size);
}

struct filing {
    struct attn_merge_index *index;
    uint32_t run;
};

static int file_record(const json_t *record, const struct attn_journal_place *place, void *context)
{
    const struct filing *filing = context;
    if (!place->text)
        return 1;
    const struct attn_merge_entry entry = {
        .offset = place->offset,
        .length = (uint32_t)place->length,
        .crc = (uint32_t)crc32_z(0, (const unsigned char *)place->text, place->length),
        .run = filing->run};
    return attn_merge_index_add(filing->index, record, &entry);
}

/* Where the run comes from, without which part of the cases it is. A run of an earlier version says
 * it in machine.json alone. NULL: no memory. */
static json_t *provenance_of(const struct attn_journal_content *content, json_t *machine)
{
    json_t *origin = json_object_get(content->run, "machine");
    json_t *copy = content->run ? json_copy(content->run) : json_object();
    origin = json_copy(origin ? origin : machine);
    json_object_del(origin, "shard");
    json_object_del(origin, "selection");
    json_object_del(copy, "parts");
    if (json_object_set_new(copy, "machine", origin) == 0)
        return copy;
    json_decref(copy);
    return NULL;
}

enum attn_exit attn_merge_source_read(struct attn_merge_source *source, uint32_t number,
                                      struct attn_merge_index *index, char *why, size_t size)
{
    struct attn_journal_content content;
    struct filing filing = {index, number};
    char path[ATTN_PATH_MAX];
    if (attn_path_join(path, source->path, journal_name)) {
        snprintf(why, size, "the path '%.64s...' is too long", source->path);
        return ATTN_EXIT_USAGE;
    }
    if (read_object(source->path, "machine.json", &source->machine, why, size) ||
        read_object(source->path, "matrix.json", &source->matrix, why, size))
        return ATTN_EXIT_USAGE;
    source->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (source->fd < 0) {
        snprintf(why, size, "%s: %s", path, strerror(errno));
        return ATTN_EXIT_USAGE;
    }
    if (attn_journal_scan(source->fd, path, false, file_record, &filing, &content, why, size))
        return ATTN_EXIT_USAGE;
    if (!source->machine) /* a run that was cut short before it wrote it */
        source->machine = json_incref(json_object_get(content.run, "machine"));
    source->provenance = provenance_of(&content, source->machine);
    source->parts = attn_parts_of(source->machine, json_object_get(content.run, "parts"),
                                  content.ended || content.old);
    attn_journal_release(&content);
    if (!source->machine) {
        snprintf(why, size, "'%s' does not say which machine it is from: machine.json is missing",
                 source->path);
        return ATTN_EXIT_USAGE;
    }
    if (source->provenance && source->parts)
        return ATTN_EXIT_OK;
    snprintf(why, size, "no memory for '%s'", source->path);
    return ATTN_EXIT_INTERNAL;
}

char *attn_merge_source_text(const struct attn_merge_source *source,
                             const struct attn_merge_entry *entry)
{
    char *text = malloc((size_t)entry->length + 1);
    size_t have = 0;
    while (text && have < entry->length) {
        const ssize_t n =
            pread(source->fd, text + have, entry->length - have, (off_t)(entry->offset + have));
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO;
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    if (text && have == entry->length &&
        (uint32_t)crc32_z(0, (const unsigned char *)text, have) == entry->crc) {
        text[have] = '\0';
        return text;
    }
    if (text && have == entry->length)
        errno = EIO;
    const int saved = errno;
    free(text);
    errno = saved;
    return NULL;
}

void attn_merge_sources_free(struct attn_merge_sources *sources)
{
    for (size_t i = 0; i < sources->count; i++) {
        struct attn_merge_source *source = &sources->items[i];
        if (source->fd >= 0)
            close(source->fd);
        json_decref(source->machine);
        json_decref(source->matrix);
        json_decref(source->provenance);
        json_decref(source->parts);
        free(source->path);
    }
    free(sources->items);
    *sources = (struct attn_merge_sources){0};
}
