/* SPDX-License-Identifier: Apache-2.0 */
/* shrink.c - features first, since each takes others with it; then sizes. A pack has a way of its
 * own (shrink_pack.c).
 *
 * What is tried is a line, read by the parser: a case that no user could write is never tried, and
 * a size that is left out follows those that it has its default from. */
#include "explain/shrink.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "explain/shrink_pack.h"
#include "explain/shrink_words.h"
#include "pack/pack.h"
#include "run/progress.h"
#include "run/relations.h"
#include "run/verify_one.h"

/* Tries end then; a verdict takes milliseconds at the sizes that they reach. */
static const double most_seconds = 60;

struct shrinker {
    struct attn_seat *seat;
    const struct attn_entry *failed;
    struct attn_shrunk *best;
    double until;
    unsigned check; /* bit of the relation that failed; 0: the numbers, a promise, a crash */
};

/* ---- does it fail in the same way ---- */

bool attn_shrinks(const struct attn_entry *entry)
{
    const enum attn_status s = entry->verdict.status;
    return s == ATTN_FAIL || s == ATTN_CRASH || s == ATTN_TIMEOUT || s == ATTN_OOM ||
           s == ATTN_ERROR;
}

/* Wrong numbers (rows were judged) are told from a broken promise. */
static bool alike(const struct attn_judgement *a, const struct attn_judgement *b)
{
    return a->status == b->status && (a->rows_checked > 0) == (b->rows_checked > 0);
}

/* Bits of the relations that an entry has failed. */
static unsigned broken_relations(const struct attn_entry *entry)
{
    const unsigned choices = (1u << ATTN_CHECK_CHOICES) - 1;
    return entry->checks_done & ~entry->checks_ok & choices;
}

/* The one relation, on this seat alone. */
static void try_relation(struct shrinker *s, struct attn_instance *instance,
                         struct attn_entry *entry)
{
    struct attn_session alone = *s->seat->session; /* nothing in the copy is owned */
    alone.roster.count = 1;
    alone.settings.checks = s->check;
    attn_relations_verify(&alone, s->seat, instance, entry);
}

/* One try of a legal case. */
static bool fails(struct shrinker *s, const struct attn_case *c, struct attn_entry *entry)
{
    struct attn_judge *judge = NULL;
    char why[256];
    memset(entry, 0, sizeof *entry);
    entry->c = c;
    entry->contestant = s->seat->contestant;
    struct attn_instance *instance = attn_instance_for(s->seat->session, c, &entry->verdict);
    if (instance &&
        attn_judge_create(instance, ATTN_FILL_BUDGET, s->seat->session->settings.host_threads,
                          &judge, why, sizeof why) == 0) {
        attn_verify_entry(s->seat, instance, judge, entry);
        if (s->check)
            try_relation(s, instance, entry);
    }
    attn_judge_free(judge);
    attn_instance_free(instance);
    s->best->tries++;
    return attn_shrinks(entry) && alike(&entry->verdict, &s->failed->verdict) &&
           broken_relations(entry) == s->check;
}

/* Operands first; then the line, so that there is an end to it. */
static bool is_smaller(const struct attn_case *a, const char *line_a, const struct attn_case *b,
                       const char *line_b)
{
    const uint64_t bytes_a = attn_case_bytes(a), bytes_b = attn_case_bytes(b);
    const size_t length_a = strlen(line_a), length_b = strlen(line_b);
    if (bytes_a != bytes_b)
        return bytes_a < bytes_b;
    return length_a != length_b ? length_a < length_b : strcmp(line_a, line_b) < 0;
}

/* Tries a line: where it is legal, a smaller case than the best so far, and fails, it is the best.
 */
static bool keep(struct shrinker *s, const char *line)
{
    char text[ATTN_CASE_LINE_MAX + 1], best[ATTN_CASE_LINE_MAX + 1], why[512];
    struct attn_case_list list = {0};
    bool ok = !attn_interrupted && attn_now() < s->until &&
              attn_case_parse_line(line, strlen(line), NULL, 0, &list, why, sizeof why) == 0 &&
              list.count == 1;
    if (!ok)
        goto out;
    attn_case_canonical(&list.items[0], text, sizeof text);
    attn_case_canonical(&s->best->c, best, sizeof best);
    struct attn_entry entry;
    ok = is_smaller(&list.items[0], text, &s->best->c, best) && fails(s, &list.items[0], &entry);
    if (ok) {
        s->best->c = list.items[0]; /* no pack, no file: nothing is owned */
        s->best->entry = entry;
        s->best->entry.c = &s->best->c;
        attn_progress_shrink(entry.contestant->info.name, s->best->tries, text);
    }
out:
    attn_case_list_free(&list);
    return ok;
}

/* ---- sizes ---- */

#define FIELD(name) (offsetof(struct attn_case, name) + 1)

/* Sizes that are made smaller together, where they are equal, and the least that they may be. */
static const struct {
    size_t fields[3]; /* offsets, plus 1 */
    int64_t least;
} sizes[] = {
    {{FIELD(b)}, 1},
    {{FIELD(hq), FIELD(hkv)}, 1},
    {{FIELD(sq), FIELD(sk)}, 1},
    {{FIELD(dq), FIELD(dk), FIELD(dv)}, 1},
    {{FIELD(sq)}, 1},
    {{FIELD(sk)}, 1}, /* none at all is another thing */
    {{FIELD(dq), FIELD(dk)}, 1},
    {{FIELD(dq)}, 1},
    {{FIELD(dk)}, 1},
    {{FIELD(dv)}, 1},
    {{FIELD(dh)}, 1},
    {{FIELD(e)}, 1},
    {{FIELD(off)}, 0},
    {{FIELD(window_left)}, 0},
    {{FIELD(window_right)}, 0},
};

static int64_t *field(struct attn_case *c, size_t offset)
{
    return (int64_t *)(void *)((char *)c + offset - 1);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Mends what smaller sizes leave contradicting them, and tries. */
static bool keep_sizes(struct shrinker *s, struct attn_case *c)
{
    char line[ATTN_CASE_LINE_MAX + 1];
    if (c->op == ATTN_OP_MHA && !c->cross)
        c->sk = c->sq;
    if (c->residual && !c->wo)
        c->e = c->hq * c->dv;
    c->n_len = (int)least(c->n_len, c->b);
    for (int i = 0; i < c->n_len; i++)
        c->len_list[i] = least(c->len_list[i], c->sk);
    int kept = 0;
    for (int i = 0; i < c->n_prune; i++)
        if (c->prune[i] < c->hq)
            c->prune[kept++] = c->prune[i];
    c->n_prune = kept;
    attn_case_canonical(c, line, sizeof line);
    return keep(s, line);
}

static bool keep_size(struct shrinker *s, const size_t fields[3], int64_t value)
{
    struct attn_case changed = s->best->c;
    for (int f = 0; f < 3 && fields[f]; f++)
        *field(&changed, fields[f]) = value;
    return keep_sizes(s, &changed);
}

/* The least value that fails, as far as these find it: halves, quarters and ones, and what is left
 * over from tiles of a power of two, alone or behind one of them. */
static bool shrink_size(struct shrinker *s, const size_t fields[3], int64_t lowest)
{
    bool any = false;
    int64_t value = *field(&s->best->c, fields[0]);
    for (int f = 1; f < 3 && fields[f]; f++)
        if (*field(&s->best->c, fields[f]) != value)
            return false;
    for (int64_t step = value - lowest; step > 0;) {
        if (keep_size(s, fields, value - step)) {
            any = true;
            value -= step;
            step = least(step, value - lowest);
        } else {
            step /= 2;
        }
    }
    for (int64_t tile = 4; tile < value; tile *= 2)
        for (int64_t left = value % tile; left < value; left += tile)
            if (left >= lowest && left <= 2 * tile && keep_size(s, fields, left)) {
                any = true;
                value = left;
            }
    return any;
}

/* Fewer key/value heads with as many query heads each, and fewer query heads each. */
static bool shrink_groups(struct shrinker *s)
{
    bool any = false;
    for (int64_t n = 1; n < s->best->c.hkv; n++) {
        struct attn_case changed = s->best->c;
        changed.hq = changed.hq / changed.hkv * n;
        changed.hkv = n;
        any = keep_sizes(s, &changed) || any;
    }
    for (int64_t n = 1; n < s->best->c.hq / s->best->c.hkv; n++) {
        struct attn_case changed = s->best->c;
        changed.hq = changed.hkv * n;
        any = keep_sizes(s, &changed) || any;
    }
    return any;
}

static void line_of_case(void *context, char *text, size_t size)
{
    const struct shrinker *s = context;
    attn_case_canonical(&s->best->c, text, size);
}

static bool keep_line(void *context, const char *line)
{
    return keep(context, line);
}

static bool shrink_once(struct shrinker *s)
{
    bool any = attn_words_shrink(&(struct attn_words){s, line_of_case, keep_line});
    any = shrink_groups(s) || any;
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++)
        any = shrink_size(s, sizes[n].fields, sizes[n].least) || any;
    return any;
}

/* ---- packs ---- */

/* Tries the pack in a file: how it lies and what is asked for are the failing case's. */
static bool pack_fails(void *context, const char *path)
{
    struct shrinker *s = context;
    struct attn_case c;
    struct attn_entry entry;
    char why[512];
    if (attn_interrupted || attn_now() >= s->until || attn_pack_case(path, &c, why, sizeof why))
        return false;
    c.layout = s->failed->c->layout;
    c.view = s->failed->c->view;
    c.out_lse = s->failed->c->out_lse;
    c.out_weights = s->failed->c->out_weights;
    const bool ok = fails(s, &c, &entry);
    if (ok) {
        struct attn_shrunk *best = s->best;
        char text[ATTN_CASE_LINE_MAX + 1];
        snprintf(best->pack, sizeof best->pack, "%s", path);
        best->c = c;
        best->c.data = best->pack;
        best->c.file = NULL;
        best->entry = entry;
        best->entry.c = &best->c;
        attn_case_canonical(&best->c, text, sizeof text);
        attn_progress_shrink(entry.contestant->info.name, best->tries, text);
    }
    attn_case_free(&c);
    return ok;
}

static bool shrink_pack(struct shrinker *s, char *why, size_t size)
{
    const struct attn_session *session = s->seat->session;
    const char *c_file = session->settings.reproducer;
    if (!c_file || session->reproduced) {
        snprintf(why, size,
                 "a pack is shrunk into a file of its own, beside the first reproducer: give "
                 "--reproducer");
        return false;
    }
    const size_t length = strlen(c_file), stem = length > 2 ? length - 2 : 0;
    const bool is_c = stem > 0 && strcmp(c_file + stem, ".c") == 0;
    char to[ATTN_PATH_MAX];
    if ((size_t)snprintf(to, sizeof to, "%.*s.safetensors", (int)(is_c ? stem : length), c_file) >=
        sizeof to) {
        snprintf(why, size, "%s: the path is too long for a pack beside it", c_file);
        return false;
    }
    const struct attn_shrink_pack way = {
        .from = s->failed->c->data, .to = to, .context = s, .fails = pack_fails};
    return attn_shrink_pack(&way, why, size);
}

bool attn_shrink(struct attn_seat *seat, const struct attn_entry *failed,
                 struct attn_shrunk *shrunk, char *why, size_t size)
{
    struct shrinker s = {.seat = seat,
                         .failed = failed,
                         .best = shrunk,
                         .until = attn_now() + most_seconds,
                         .check = broken_relations(failed)};
    memset(shrunk, 0, sizeof *shrunk);
    if (failed->c->data)
        return shrink_pack(&s, why, size);
    shrunk->c = *failed->c;
    shrunk->c.file = NULL;
    shrunk->c.name[0] = '\0';
    if (failed->fill != ATTN_FILL_NORMAL)
        shrunk->c.fill = failed->fill;
    if (!fails(&s, &shrunk->c, &shrunk->entry)) {
        snprintf(why, size, "it does not fail so when it is run alone: it is not shrunk");
        return false;
    }
    shrunk->entry.c = &shrunk->c;
    bool any;
    do
        any = shrink_once(&s);
    while (any);
    return true;
}
