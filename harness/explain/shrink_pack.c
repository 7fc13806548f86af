/* SPDX-License-Identifier: Apache-2.0 */
/* shrink_pack.c - a pack in memory, and cuts through all of its tensors at once. */
#include "explain/shrink_pack.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "explain/shrink_words.h"
#include "pack/safetensors.h"
#include "reference/dtype.h"
#include "tensor/schema.h"

enum { MOST_TENSORS = 32 };

/* Axes that may be cut, by letter (reference/op.h). Widths of projections stay, because weights
 * depend on them. */
static const char letters[] = "bghijqkvd", letters_projected[] = "bij";

/* Axes that are cut together. A cut of key/value heads removes all their query heads. Query heads
 * alone are cut when one key/value head is left. */
static const char *const groups[] = {"b", "g", "h", "ij", "i", "j", "qk", "v", "d"};

struct pack {
    struct attn_st_entry entries[MOST_TENSORS]; /* names are those of the tables, data is owned */
    char axes[MOST_TENSORS][ATTN_MAX_RANK + 1]; /* a dot is never cut */
    bool optional[MOST_TENSORS];                /* may be left out */
    size_t count;
    char line[ATTN_CASE_LINE_MAX + 1];
};

struct cutter {
    const struct attn_shrink_pack_way *way;
    struct pack best;
    const char *source;
    const struct ref_op *op;
};

static void pack_free(struct pack *p)
{
    for (size_t n = 0; n < p->count; n++)
        free((void *)(uintptr_t)p->entries[n].data);
    p->count = 0;
}

static int64_t extent(const struct pack *p, char letter)
{
    int64_t most = 0;
    for (size_t n = 0; n < p->count; n++)
        for (uint32_t a = 0; a < p->entries[n].rank; a++)
            if (p->axes[n][a] == letter && p->entries[n].shape[a] > most)
                most = p->entries[n].shape[a];
    return most;
}

/* ---- reading the pack ---- */

/* Parts of the line that name a tensor. The tensor takes effect without them. */
static void leave_names_out(char *line)
{
    static const char *const names[] = {"mask=bool",         "mask=len2d", "mask=len",
                                        "bias=tensor",       "bias=alibi", "sink=tensor",
                                        "rel_buckets=tensor"};
    char kept[ATTN_CASE_LINE_MAX + 1] = "", *rest = line, *word;
    size_t used = 0;
    while ((word = strsep(&rest, " "))) {
        char *value = strchr(word, '='), *part, *parts = value ? value + 1 : NULL;
        const int key = value ? (int)(value - word) : 0;
        bool any = false;
        while (value && (part = strsep(&parts, "+"))) {
            char named[64];
            bool is_name = false;
            snprintf(named, sizeof named, "%.*s=%s", key, word, part);
            for (size_t n = 0; n < sizeof names / sizeof *names; n++)
                is_name = is_name || strcmp(named, names[n]) == 0;
            if (is_name)
                continue;
            used += (size_t)snprintf(kept + used, sizeof kept - used, "%s%.*s%s%s",
                                     !any && used ? " " : "", any ? 0 : key + 1, word,
                                     any ? "+" : "", part);
            any = true;
        }
    }
    memcpy(line, kept, used + 1);
}

/* The letters of a row, with dots for those that must not be cut. */
static void set_axes(const struct ref_op *op, const struct attn_schema *row,
                     char axes[ATTN_MAX_RANK + 1])
{
    const char *cut = op->traits & REF_PROJECTED ? letters_projected : letters;
    snprintf(axes, ATTN_MAX_RANK + 1, "%s", row->shape);
    for (; *axes; axes++)
        if (!strchr(cut, *axes))
            *axes = '.';
}

/* Copies one input; 0, or -1: no memory. A tensor with a fallback is not left out, because that
 * would be another case. */
static int take_input(const struct cutter *c, const struct attn_schema *row,
                      const struct attn_st_entry *entry, struct pack *p)
{
    void *data = p->count < MOST_TENSORS ? malloc(entry->bytes + 1) : NULL;
    if (!data)
        return -1;
    memcpy(data, entry->data, entry->bytes);
    set_axes(c->op, row, p->axes[p->count]);
    p->optional[p->count] = !(row->flags & REF_NEEDED) && !row->fallback;
    p->entries[p->count] = *entry;
    p->entries[p->count].name = (char *)(uintptr_t)row->name;
    p->entries[p->count++].data = data;
    return 0;
}

static int pack_read(struct cutter *c, const struct attn_st_file *file, char *why, size_t size)
{
    const char *line = attn_st_metadata(file, "case");
    struct pack *p = &c->best;
    struct attn_schema row;
    struct attn_case parsed;
    c->source = attn_st_metadata(file, "source");
    if (!line || !c->source || strlen(line) > ATTN_CASE_LINE_MAX) {
        snprintf(why, size, "%s has no case line", c->way->from);
        return -1;
    }
    if (attn_case_parse_pack_line(line, c->way->from, &parsed, why, size))
        return -1;
    c->op = attn_case_op(&parsed);
    attn_case_free(&parsed);
    snprintf(p->line, sizeof p->line, "%s", line);
    leave_names_out(p->line);
    for (size_t n = 0; attn_schema_at(c->op, n, &row) && !row.output; n++) {
        const struct attn_st_entry *entry = attn_st_find(file, row.name);
        if (entry && take_input(c, &row, entry, p)) {
            snprintf(why, size, "no memory to cut %s", c->way->from);
            return -1;
        }
    }
    return 0;
}

/* ---- tries ---- */

static int pack_write(const struct cutter *c, const struct pack *p, char *why, size_t size)
{
    const struct attn_st_meta meta[] = {
        {(char *)(uintptr_t) "case", (char *)(uintptr_t)p->line},
        {(char *)(uintptr_t) "source", (char *)(uintptr_t)c->source}};
    return attn_st_write(c->way->to, p->entries, p->count, meta, 2, why, size);
}

/* Keeps a pack that fails; frees one that does not. */
static bool try_pack(struct cutter *c, struct pack *p)
{
    char why[256];
    const bool ok =
        pack_write(c, p, why, sizeof why) == 0 && c->way->fails(c->way->context, c->way->to);
    if (ok) {
        pack_free(&c->best);
        c->best = *p;
    } else {
        pack_free(p);
    }
    return ok;
}

/* Appends an entry, in place of entry t of another pack. */
static void add_entry(struct pack *p, const struct attn_st_entry *entry, const struct pack *from,
                      size_t t)
{
    p->entries[p->count] = *entry;
    p->optional[p->count] = from->optional[t];
    memcpy(p->axes[p->count++], from->axes[t], sizeof from->axes[t]);
}

/* Copies the data of `to`: a part of a dense tensor, with this shape and beginning. */
static void *cut_out(const struct attn_st_entry *from, struct attn_st_entry *to,
                     const int64_t begin[ATTN_MAX_RANK])
{
    const size_t element = attn_dtype_size(from->dtype);
    int64_t count = 1;
    for (uint32_t a = 0; a < from->rank; a++)
        count *= to->shape[a];
    unsigned char *data = malloc((size_t)count * element + 1);
    for (int64_t n = 0; n < count && data; n++) {
        int64_t rest = n, index = 0, stride = 1;
        for (uint32_t a = from->rank; a-- > 0; rest /= to->shape[a], stride *= from->shape[a])
            index += (begin[a] + rest % to->shape[a]) * stride;
        memcpy(data + (size_t)n * element,
               (const unsigned char *)from->data + (size_t)index * element, element);
    }
    to->data = data;
    to->bytes = (size_t)count * element;
    return data;
}

/* Lengths count keys from `begin` on, and at most n. */
static void cut_lengths(struct attn_st_entry *len, int64_t begin, int64_t n)
{
    const int64_t count = (int64_t)(len->bytes / attn_dtype_size(len->dtype));
    void *data = (void *)(uintptr_t)len->data;
    for (int64_t k = 0; k < count; k++) {
        const int64_t left = (int64_t)attn_dtype_load(len->dtype, data, k) - begin;
        attn_dtype_store(len->dtype, data, k, (double)(left < 0 ? 0 : left > n ? n : left));
    }
}

/* A pack with `n` of each axis of a group, from `begin` on. */
static bool try_cut(struct cutter *c, const char *group, int64_t begin, int64_t n)
{
    const int64_t heads = *group == 'g' ? extent(&c->best, 'h') / extent(&c->best, 'g') : 1;
    struct pack p = {0};
    memcpy(p.line, c->best.line, sizeof p.line);
    for (size_t t = 0; t < c->best.count; t++) {
        const struct attn_st_entry *from = &c->best.entries[t];
        struct attn_st_entry to = *from;
        int64_t begins[ATTN_MAX_RANK] = {0};
        for (uint32_t a = 0; a < from->rank; a++) {
            const char letter = c->best.axes[t][a];
            const bool query_heads = *group == 'g' && letter == 'h';
            if (from->shape[a] == 1 || (!query_heads && !strchr(group, letter)))
                continue;
            begins[a] = begin * (query_heads ? heads : 1);
            to.shape[a] = n * (query_heads ? heads : 1);
        }
        if (!cut_out(from, &to, begins)) {
            pack_free(&p);
            return false;
        }
        if (strcmp(to.name, "len") == 0 && strchr(group, 'j'))
            cut_lengths(&to, begin, n);
        add_entry(&p, &to, &c->best, t);
    }
    return try_pack(c, &p);
}

/* Looks for the smallest part of a group of axes that fails, by cutting a half, a quarter or one
 * off either end. */
static bool cut_group(struct cutter *c, const char *group)
{
    bool any = false;
    int64_t n = extent(&c->best, *group);
    if ((group[1] && extent(&c->best, group[1]) != n) ||
        (*group == 'h' && extent(&c->best, 'g') != 1))
        return false;
    for (int64_t step = n - 1; step > 0;) {
        if (try_cut(c, group, 0, n - step) || try_cut(c, group, step, n - step)) {
            any = true;
            n -= step;
            step = step < n - 1 ? step : n - 1;
        } else {
            step /= 2;
        }
    }
    return any;
}

/* A copy of the best pack without tensor `without`, with another line. */
static bool try_copy(struct cutter *c, size_t without, const char *line)
{
    struct pack p = {0};
    snprintf(p.line, sizeof p.line, "%s", line);
    for (size_t t = 0; t < c->best.count; t++) {
        if (t == without)
            continue;
        struct attn_st_entry to = c->best.entries[t];
        if (!cut_out(&c->best.entries[t], &to, (const int64_t[ATTN_MAX_RANK]){0})) {
            pack_free(&p);
            return false;
        }
        add_entry(&p, &to, &c->best, t);
    }
    return try_pack(c, &p);
}

static bool leave_out(struct cutter *c)
{
    bool any = false;
    for (size_t t = 0; t < c->best.count;) {
        char line[ATTN_CASE_LINE_MAX + 1];
        memcpy(line, c->best.line, sizeof line);
        if (c->best.optional[t] && try_copy(c, t, line))
            any = true; /* the next one is at this index now */
        else
            t++;
    }
    return any;
}

static void line_of_pack(void *context, char *text, size_t size)
{
    const struct cutter *c = context;
    snprintf(text, size, "%s", c->best.line);
}

static bool keep_line(void *context, const char *line)
{
    return try_copy(context, SIZE_MAX, line);
}

static bool cut_once(struct cutter *c)
{
    bool any = leave_out(c);
    if (*c->best.line)
        any = attn_words_shrink(&(struct attn_words){c, line_of_pack, keep_line}) || any;
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        any = cut_group(c, groups[g]) || any;
    return any;
}

bool attn_shrink_pack(const struct attn_shrink_pack_way *way, char *why, size_t size)
{
    struct cutter c = {.way = way};
    struct attn_st_file file;
    struct stat from, to;
    bool done = false;
    if (stat(way->from, &from) == 0 && stat(way->to, &to) == 0 && from.st_dev == to.st_dev &&
        from.st_ino == to.st_ino) {
        snprintf(why, size, "%s is the pack itself, so it is not shrunk", way->to);
        return false;
    }
    if (attn_st_open(way->from, &file, why, size))
        return false;
    if (pack_read(&c, &file, why, size))
        goto out;
    char line[ATTN_CASE_LINE_MAX + 1];
    memcpy(line, c.best.line, sizeof line);
    if (!try_copy(&c, SIZE_MAX, line)) {
        snprintf(why, size,
                 "it does not fail in the same way when it runs alone, so it is not shrunk");
        unlink(way->to);
        goto out;
    }
    while (cut_once(&c))
        continue;
    /* The last try may not be the pack that is kept. */
    done = pack_write(&c, &c.best, why, size) == 0;
out:
    pack_free(&c.best);
    attn_st_close(&file);
    return done;
}
