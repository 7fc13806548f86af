/* SPDX-License-Identifier: Apache-2.0 */
/* shrink.c - leaves out features first, because each removes others with it; then makes sizes
 * smaller. Packs are shrunk in shrink_pack.c.
 *
 * Every try is a line that the parser reads. So a case that no user could write is never tried, and
 * a size that is left out follows the sizes that its default comes from. */
#include "explain/shrink.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case/operator.h"
#include "explain/shrink_pack.h"
#include "explain/shrink_words.h"
#include "pack/pack.h"

struct shrinker {
    const struct attn_shrink_way *way;
    struct attn_case *best;
    int tries;
};

static bool fails(struct shrinker *s, const struct attn_case *c)
{
    s->tries++;
    return s->way->fails(s->way->context, c);
}

/* Makes a failing case the best so far. Takes over what it owns. */
static void take(struct shrinker *s, const struct attn_case *c, const char *line)
{
    attn_case_free(s->best);
    *s->best = *c;
    s->way->kept(s->way->context, s->tries, line);
}

/* Compares operands first, then lines. Each step makes one of them smaller, so shrinking ends. */
static bool is_smaller(const struct attn_case *a, const char *line_a, const struct attn_case *b,
                       const char *line_b)
{
    const uint64_t bytes_a = attn_case_bytes(a), bytes_b = attn_case_bytes(b);
    const size_t length_a = strlen(line_a), length_b = strlen(line_b);
    if (bytes_a != bytes_b)
        return bytes_a < bytes_b;
    return length_a != length_b ? length_a < length_b : strcmp(line_a, line_b) < 0;
}

/* Tries a line. It becomes the best if it is legal, smaller than the best so far, and fails. */
static bool keep(struct shrinker *s, const char *line)
{
    char text[ATTN_CASE_LINE_MAX + 1], best[ATTN_CASE_LINE_MAX + 1], why[512];
    struct attn_case_list list = {0};
    bool ok = !s->way->over(s->way->context) &&
              attn_case_parse_line(line, strlen(line), NULL, 0, &list, why, sizeof why) == 0 &&
              list.count == 1;
    if (!ok)
        goto out;
    attn_case_canonical(&list.items[0], text, sizeof text);
    attn_case_canonical(s->best, best, sizeof best);
    ok = is_smaller(&list.items[0], text, s->best, best) && fails(s, &list.items[0]);
    if (ok) {
        take(s, &list.items[0], text);
        list.count = 0;
    }
out:
    attn_case_list_free(&list);
    return ok;
}

/* ---- sizes ---- */

#define FIELD(name) (offsetof(struct attn_case, name) + 1)

/* Sizes that are made smaller together if they are equal, and their least value. */
struct size {
    size_t fields[3]; /* offsets, plus 1 */
    int64_t least;
    const struct ref_param *param; /* instead of fields: one of the operator's own */
};

static const struct size sizes[] = {
    {{FIELD(b)}, 1, NULL},
    {{FIELD(hq), FIELD(hkv)}, 1, NULL},
    {{FIELD(sq), FIELD(sk)}, 1, NULL},
    {{FIELD(dq), FIELD(dk), FIELD(dv)}, 1, NULL},
    {{FIELD(sq)}, 1, NULL},
    {{FIELD(sk)}, 1, NULL}, /* no keys at all would be another case */
    {{FIELD(dq), FIELD(dk)}, 1, NULL},
    {{FIELD(dq)}, 1, NULL},
    {{FIELD(dk)}, 1, NULL},
    {{FIELD(dv)}, 1, NULL},
    {{FIELD(dh)}, 1, NULL},
    {{FIELD(e)}, 1, NULL},
    {{FIELD(off)}, 0, NULL},
    {{FIELD(window_left)}, 0, NULL},
    {{FIELD(window_right)}, 0, NULL},
    {{FIELD(n_global)}, 0, NULL},
};

static int64_t *field(struct attn_case *c, size_t offset)
{
    return (int64_t *)(void *)((char *)c + offset - 1);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Cuts lists to the sizes. 0, or -1: no memory. */
static int mend_lists(struct attn_case *c)
{
    int64_t lengths[ATTN_CASE_LIST_MAX], heads[ATTN_CASE_LIST_MAX];
    int kept = 0;
    c->n_global = least(c->n_global, c->sk);
    c->n_dilation = (int)least(c->n_dilation, c->hq);
    if (c->len == ATTN_LEN_LIST)
        c->n_len = (int)least(c->n_len, c->b);
    for (int i = 0; c->len == ATTN_LEN_LIST && i < c->n_len; i++)
        lengths[i] = least(c->len_list->at[i], c->sk);
    for (int i = 0; i < c->n_prune; i++)
        if (c->prune->at[i] < c->hq)
            heads[kept++] = c->prune->at[i];
    c->n_prune = kept;
    if (c->len == ATTN_LEN_LIST && attn_case_numbers_set(&c->len_list, lengths, c->n_len))
        return -1;
    return attn_case_numbers_set(&c->prune, heads, kept);
}

/* Adjusts what contradicts the smaller sizes, and tries the case. */
static bool keep_sizes(struct shrinker *s, const struct attn_case *smaller)
{
    char line[ATTN_CASE_LINE_MAX + 1];
    struct attn_case c;
    if (attn_case_copy(&c, smaller))
        return false;
    if (attn_op_takes(attn_case_op(&c), "kv") && !c.cross)
        c.sk = c.sq;
    if (c.residual && !c.wo)
        c.e = c.hq * c.dv;
    const bool mended = mend_lists(&c) == 0;
    attn_case_canonical(&c, line, sizeof line);
    attn_case_free(&c);
    return mended && keep(s, line);
}

/* The value of a size; false: its fields differ. */
static bool size_value(const struct attn_case *c, const struct size *size, int64_t *value)
{
    if (size->param) {
        *value = (int64_t)attn_case_param(c, size->param);
        return true;
    }
    struct attn_case read = *c; /* nothing in the copy is owned */
    *value = *field(&read, size->fields[0]);
    for (int f = 1; f < 3 && size->fields[f]; f++)
        if (*field(&read, size->fields[f]) != *value)
            return false;
    return true;
}

static bool keep_size(struct shrinker *s, const struct size *size, int64_t value)
{
    struct attn_case changed;
    if (attn_case_copy(&changed, s->best))
        return false;
    for (int f = 0; f < 3 && size->fields[f]; f++)
        *field(&changed, size->fields[f]) = value;
    const bool set = !size->param || attn_case_set_param(&changed, size->param, (double)value) == 0;
    const bool kept = set && keep_sizes(s, &changed);
    attn_case_free(&changed);
    return kept;
}

/* Looks for the least value that fails. Tries less by a half, a quarter and one, and the remainders
 * of power-of-two tiles, alone or after one such tile. */
static bool shrink_size(struct shrinker *s, const struct size *size)
{
    bool any = false;
    int64_t value;
    if (!size_value(s->best, size, &value))
        return false;
    for (int64_t step = value - size->least; step > 0;) {
        if (keep_size(s, size, value - step)) {
            any = true;
            value -= step;
            step = least(step, value - size->least);
        } else {
            step /= 2;
        }
    }
    for (int64_t tile = 4; tile < value; tile *= 2)
        for (int64_t left = value % tile; left < value; left += tile)
            if (left >= size->least && left <= 2 * tile && keep_size(s, size, left)) {
                any = true;
                value = left;
            }
    return any;
}

/* Whole numbers among the operator's own parameters. */
static bool shrink_params(struct shrinker *s)
{
    bool any = false;
    for (const struct ref_param *p = attn_case_op(s->best)->params; p && p->key; p++)
        if (p->kind == REF_PARAM_INT)
            any = shrink_size(s, &(struct size){.least = (int64_t)p->least, .param = p}) || any;
    return any;
}

/* Tries fewer key/value heads with as many query heads each, then fewer query heads each. */
static bool shrink_groups(struct shrinker *s)
{
    bool any = false;
    for (int64_t n = 1; n < s->best->hkv; n++) {
        struct attn_case changed = *s->best;
        changed.hq = changed.hq / changed.hkv * n;
        changed.hkv = n;
        any = keep_sizes(s, &changed) || any;
    }
    for (int64_t n = 1; n < s->best->hq / s->best->hkv; n++) {
        struct attn_case changed = *s->best;
        changed.hq = changed.hkv * n;
        any = keep_sizes(s, &changed) || any;
    }
    return any;
}

static void line_of_case(void *context, char *text, size_t size)
{
    const struct shrinker *s = context;
    attn_case_canonical(s->best, text, size);
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
        any = shrink_size(s, &sizes[n]) || any;
    return shrink_params(s) || any;
}

/* ---- packs ---- */

/* Tries the pack in a file, with the layout and outputs of the failing case. */
static bool pack_fails(void *context, const char *path)
{
    struct shrinker *s = context;
    const struct attn_case *failed = s->way->c;
    struct attn_case c;
    char why[512];
    if (s->way->over(s->way->context) || attn_pack_case(path, &c, why, sizeof why))
        return false;
    c.layout = failed->layout;
    c.view = failed->view;
    memcpy(c.out, failed->out, sizeof c.out);
    const bool ok = fails(s, &c);
    if (ok) {
        char text[ATTN_CASE_LINE_MAX + 1];
        free(c.file);
        c.file = NULL;
        attn_case_canonical(&c, text, sizeof text);
        take(s, &c, text);
    } else {
        attn_case_free(&c);
    }
    return ok;
}

bool attn_shrink(const struct attn_shrink_way *way, struct attn_case *smallest, char *why,
                 size_t size)
{
    struct shrinker s = {.way = way, .best = smallest};
    memset(smallest, 0, sizeof *smallest);
    if (way->c->data) {
        const struct attn_shrink_pack_way pack = {
            .from = way->c->data, .to = way->pack, .context = &s, .fails = pack_fails};
        const bool done = attn_shrink_pack(&pack, why, size);
        if (!done)
            attn_case_free(smallest);
        return done;
    }
    if (attn_case_copy(smallest, way->c)) {
        snprintf(why, size, "no memory to shrink it");
        return false;
    }
    free(smallest->file);
    smallest->file = NULL;
    smallest->name[0] = '\0';
    if (way->fill != ATTN_FILL_NORMAL)
        smallest->fill = way->fill;
    if (!fails(&s, smallest)) {
        snprintf(why, size,
                 "it does not fail in the same way when it runs alone, so it is not shrunk");
        attn_case_free(smallest);
        return false;
    }
    bool any;
    do
        any = shrink_once(&s);
    while (any);
    return true;
}
