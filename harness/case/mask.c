/* SPDX-License-Identifier: Apache-2.0 */
/* mask.c - mask=: which keys a query attends to. */
#include "case/parts.h"

enum { CAUSAL = 1, BR = 2, PAST = 4, WINDOW = 8, LEN = 16, BOOL = 32, GLOBAL = 64 };

static int mask_causal(const struct attn_fields *fields, struct attn_case *c,
                       const struct attn_origin *origin)
{
    (void)fields;
    (void)origin;
    c->causal = true;
    return 0;
}

static int mask_br(const struct attn_fields *fields, struct attn_case *c,
                   const struct attn_origin *origin)
{
    (void)fields;
    (void)origin;
    c->off_br = true;
    return 0;
}

static int mask_causal_br(const struct attn_fields *fields, struct attn_case *c,
                          const struct attn_origin *origin)
{
    (void)fields;
    (void)origin;
    c->causal = c->off_br = true;
    return 0;
}

static int mask_past(const struct attn_fields *fields, struct attn_case *c,
                     const struct attn_origin *origin)
{
    return attn_word_integer(fields->at[1], 0, ATTN_CASE_SIZE_MAX, &c->off, origin);
}

/* The steps of a window: D/D/..., or in a pack the name of its tensor. */
static int window_dilation(struct attn_word word, struct attn_case *c,
                           const struct attn_origin *origin)
{
    int64_t steps[ATTN_CASE_LIST_MAX];
    if (origin->pack) {
        c->pack_dilation = attn_word_is(word, "dilation");
        return c->pack_dilation ? 0
                                : attn_case_error(origin, word.column,
                                                  "a pack brings its own tensor: 'dilation'");
    }
    if (attn_list_parse(word, steps, &c->n_dilation, origin) != 0)
        return -1;
    for (int n = 0; n < c->n_dilation; n++)
        if (steps[n] < 1)
            return attn_case_error(origin, word.column, "a dilation is at least 1");
    return attn_list_store(&c->dilation, steps, c->n_dilation, origin);
}

static int mask_window(const struct attn_fields *fields, struct attn_case *c,
                       const struct attn_origin *origin)
{
    c->window = true;
    if (attn_word_integer(fields->at[1], -1, ATTN_CASE_SIZE_MAX, &c->window_left, origin) != 0 ||
        attn_word_integer(fields->at[2], -1, ATTN_CASE_SIZE_MAX, &c->window_right, origin) != 0)
        return -1;
    return fields->count > 3 ? window_dilation(fields->at[3], c, origin) : 0;
}

/* Without values, len, len2d and bool name a pack's tensors. With values, they are drawn. */
static int check_origin(const struct attn_fields *fields, const struct attn_origin *origin,
                        const char *own)
{
    struct attn_word name = fields->at[0];
    if (origin->pack && fields->count > 1)
        return attn_case_error(origin, name.column, "a pack brings its own tensor: '%.*s' alone",
                               attn_word_shown(name), name.text);
    if (!origin->pack && fields->count == 1)
        return attn_case_error(origin, name.column, "'%.*s' alone names a pack's tensor; here: %s",
                               attn_word_shown(name), name.text, own);
    return 0;
}

static int mask_len(const struct attn_fields *fields, struct attn_case *c,
                    const struct attn_origin *origin)
{
    if (check_origin(fields, origin, "len:rand or len:N/N/...") != 0)
        return -1;
    if (fields->count == 1) {
        c->len = ATTN_LEN_PACK;
        c->n_len = 1;
        return 0;
    }
    c->len = attn_word_is(fields->at[1], "rand") ? ATTN_LEN_RAND : ATTN_LEN_LIST;
    if (c->len == ATTN_LEN_RAND)
        return 0;
    int64_t lengths[ATTN_CASE_LIST_MAX];
    if (attn_list_parse(fields->at[1], lengths, &c->n_len, origin) != 0)
        return -1;
    return attn_list_store(&c->len_list, lengths, c->n_len, origin);
}

static int mask_len2d(const struct attn_fields *fields, struct attn_case *c,
                      const struct attn_origin *origin)
{
    if (check_origin(fields, origin, "len2d:rand") != 0)
        return -1;
    if (fields->count == 1) {
        c->len = ATTN_LEN_PACK;
        c->n_len = 2;
        return 0;
    }
    c->len = ATTN_LEN_RAND_2D;
    if (!attn_word_is(fields->at[1], "rand"))
        return attn_case_error(origin, fields->at[1].column, "'%.*s': only len2d:rand is legal",
                               attn_word_shown(fields->at[1]), fields->at[1].text);
    return 0;
}

static int mask_bool(const struct attn_fields *fields, struct attn_case *c,
                     const struct attn_origin *origin)
{
    if (check_origin(fields, origin, "bool:P[:AXES]") != 0)
        return -1;
    if (fields->count == 1) {
        c->pack_mask = true;
        return 0;
    }
    c->mask_bool = true;
    if (attn_word_real(fields->at[1], &c->mask_p, origin) != 0)
        return -1;
    if (c->mask_p < 0 || c->mask_p > 1)
        return attn_case_error(origin, fields->at[1].column, "a probability must be in 0..1");
    return attn_axes_parse(fields, 2, &c->mask_axes, origin);
}

static int mask_global(const struct attn_fields *fields, struct attn_case *c,
                       const struct attn_origin *origin)
{
    if (check_origin(fields, origin, "global:N or global:rand:P") != 0)
        return -1;
    if (fields->count == 1) {
        c->global = ATTN_GLOBAL_PACK;
        return 0;
    }
    if (fields->count == 2) {
        c->global = ATTN_GLOBAL_FIRST;
        return attn_word_integer(fields->at[1], 0, ATTN_CASE_SIZE_MAX, &c->n_global, origin);
    }
    c->global = ATTN_GLOBAL_RAND;
    if (!attn_word_is(fields->at[1], "rand"))
        return attn_case_error(origin, fields->at[1].column, "'%.*s': only global:rand:P is legal",
                               attn_word_shown(fields->at[1]), fields->at[1].text);
    if (attn_word_real(fields->at[2], &c->global_p, origin) != 0)
        return -1;
    if (c->global_p < 0 || c->global_p > 1)
        return attn_case_error(origin, fields->at[2].column, "a probability must be in 0..1");
    return 0;
}

int attn_parse_mask(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                    const struct attn_origin *origin)
{
    static const struct attn_part parts[] = {
        {"causal", CAUSAL, 1, 1, mask_causal},
        {"causal_br", CAUSAL | BR | PAST, 1, 1, mask_causal_br},
        {"br", BR | PAST, 1, 1, mask_br},
        {"past", BR | PAST, 2, 2, mask_past},
        {"window", WINDOW, 3, 4, mask_window},
        {"len", LEN, 1, 2, mask_len},
        {"len2d", LEN, 1, 2, mask_len2d},
        {"bool", BOOL, 1, 3, mask_bool},
        {"global", GLOBAL, 1, 3, mask_global},
        {NULL, 0, 0, 0, NULL}};
    return attn_parts_parse(key, parts, "dense", word, c, origin);
}

static void write_len(struct attn_sink *sink, const struct attn_case *c)
{
    static const char *const names[] = {[ATTN_LEN_LIST] = "len:",
                                        [ATTN_LEN_RAND] = "len:rand",
                                        [ATTN_LEN_RAND_2D] = "len2d:rand",
                                        [ATTN_LEN_PACK] = "len"};
    attn_sink_text(sink, names[c->len]);
    if (c->len == ATTN_LEN_LIST)
        attn_list_write(sink, c->len_list, c->n_len);
    if (c->len == ATTN_LEN_PACK && c->n_len == 2)
        attn_sink_text(sink, "2d");
}

static void write_window(struct attn_sink *sink, const struct attn_case *c)
{
    attn_sink_format(sink, "window:%lld:%lld", (long long)c->window_left,
                     (long long)c->window_right);
    if (c->pack_dilation)
        attn_sink_text(sink, ":dilation");
    if (c->n_dilation > 0) {
        attn_sink_text(sink, ":");
        attn_list_write(sink, c->dilation, c->n_dilation);
    }
}

static void write_global(struct attn_sink *sink, const struct attn_case *c)
{
    attn_sink_text(sink, c->global == ATTN_GLOBAL_RAND ? "global:rand:" : "global");
    if (c->global == ATTN_GLOBAL_RAND)
        attn_sink_real(sink, c->global_p);
    if (c->global == ATTN_GLOBAL_FIRST)
        attn_sink_format(sink, ":%lld", (long long)c->n_global);
}

void attn_write_mask(const struct attn_case_key *key, const struct attn_case *c,
                     struct attn_sink *sink)
{
    bool first = true;
    if (c->causal || c->off_br) {
        attn_part_begin(sink, key, &first);
        attn_sink_text(sink, !c->off_br ? "causal" : c->causal ? "causal_br" : "br");
    }
    if (c->off != 0) {
        attn_part_begin(sink, key, &first);
        attn_sink_format(sink, "past:%lld", (long long)c->off);
    }
    if (c->window) {
        attn_part_begin(sink, key, &first);
        write_window(sink, c);
    }
    if (c->len != ATTN_LEN_NONE) {
        attn_part_begin(sink, key, &first);
        write_len(sink, c);
    }
    if (c->mask_bool || c->pack_mask) {
        attn_part_begin(sink, key, &first);
        attn_sink_text(sink, c->pack_mask ? "bool" : "bool:");
        if (c->mask_bool) {
            attn_sink_real(sink, c->mask_p);
            attn_axes_write(sink, c->mask_axes);
        }
    }
    if (c->global != ATTN_GLOBAL_NONE) {
        attn_part_begin(sink, key, &first);
        write_global(sink, c);
    }
}
