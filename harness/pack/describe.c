/* SPDX-License-Identifier: Apache-2.0 */
/* describe.c - what a pack's tensors say: extents, type, features; and every way to disagree. */
#include "pack/describe.h"

#include <math.h>
#include <string.h>

#include "pack/message.h"
#include "reference/dtype.h"
#include "tensor/operand.h"

#define SHOWN 64

/* One description under way. */
struct judge {
    const char *path;
    struct attn_pack *pack;
    struct attn_case *c;
    char *why;
    size_t size;
};

#define FAIL(judge, ...) attn_pack_fail((judge)->path, (judge)->why, (judge)->size, __VA_ARGS__)

static const struct attn_st_entry *find(const struct judge *j, const char *name)
{
    return attn_st_find(&j->pack->file, name);
}

static int check_names(struct judge *j)
{
    const bool mha = j->c->op == ATTN_OP_MHA;
    for (size_t e = 0; e < j->pack->file.count; e++) {
        const char *name = j->pack->file.entries[e].name;
        if (attn_schema_of_name(j->c->op, name) != NULL)
            continue;
        if (attn_schema_of_name(mha ? ATTN_OP_ATTENTION : ATTN_OP_MHA, name) != NULL)
            return FAIL(j, "tensor '%s' does not belong to op=%s", name, mha ? "mha" : "attention");
        const char *names[64];
        size_t count = 0;
        for (size_t s = 0; s < attn_schema_count && count < 64; s++)
            names[count++] = attn_schemas[s].name;
        const char *near = attn_nearest(name, names, count);
        return FAIL(j, "unknown tensor '%.*s'%s%s%s", SHOWN, name, near ? "; did you mean '" : "",
                    near ? near : "", near ? "'?" : "");
    }
    return 0;
}

static int need(struct judge *j, const char *name, const char *reason)
{
    if (find(j, name) != NULL)
        return 0;
    return FAIL(j, "tensor '%s' is missing%s", name, reason);
}

static int forbid(struct judge *j, const char *name, const char *reason)
{
    if (find(j, name) == NULL)
        return 0;
    return FAIL(j, "tensor '%s' contradicts the case: %s", name, reason);
}

/* Which tensors must be there and which must not, by op and score. */
static int check_presence(struct judge *j)
{
    const bool bilinear = j->c->score == ATTN_SCORE_BILINEAR;
    const bool additive = j->c->score == ATTN_SCORE_ADDITIVE;
    static const char *const attention[] = {"q", "k", "v", NULL};
    static const char *const mha[] = {"x_q", "w_q", "w_k", "w_v", NULL};
    static const char *const scores[] = {"score_w_q", "score_w_k", "score_w_v", NULL};
    const char *const *required = j->c->op == ATTN_OP_MHA ? mha : attention;
    for (; *required != NULL; required++)
        if (need(j, *required, "") != 0)
            return -1;
    for (const char *const *name = scores; *name != NULL; name++)
        if ((additive ? need(j, *name, " (score=additive)")
                      : forbid(j, *name, "the score is not additive")) != 0)
            return -1;
    if ((bilinear ? need(j, "m", " (score=bilinear)")
                  : forbid(j, "m", "the score is not bilinear")) != 0)
        return -1;
    if (j->c->op == ATTN_OP_MHA && j->c->wo)
        return need(j, "w_o", " (wo=0 says that there is no output projection)");
    if (forbid(j, "w_o", "wo=0") != 0 || forbid(j, "b_o", "wo=0") != 0)
        return -1;
    return 0;
}

static int check_type(struct judge *j, const struct attn_schema *schema,
                      const struct attn_st_entry *entry)
{
    const uint32_t type = entry->dtype, main_type = j->c->dtype;
    const enum attn_type_rule rule = schema->output ? ATTN_TYPE_ANSWER : schema->type;
    switch (rule) {
    case ATTN_TYPE_MAIN:
        if (type != main_type)
            return FAIL(j, "tensor '%s' is %s, but %s is %s", schema->name, attn_dtype_name(type),
                        j->c->op == ATTN_OP_MHA ? "x_q" : "q", attn_dtype_name(main_type));
        return 0;
    case ATTN_TYPE_SIDE:
    case ATTN_TYPE_WIDE:
        if (type != main_type && type != ATTN_F32)
            return FAIL(j, "tensor '%s' is %s, not f32 or %s", schema->name, attn_dtype_name(type),
                        attn_dtype_name(main_type));
        return 0;
    case ATTN_TYPE_BOOL:
        if (type != ATTN_BOOL)
            return FAIL(j, "tensor '%s' is %s, not bool", schema->name, attn_dtype_name(type));
        return 0;
    case ATTN_TYPE_INDEX:
        if (type != ATTN_I32 && type != ATTN_I64)
            return FAIL(j, "tensor '%s' is %s, not i32 or i64", schema->name,
                        attn_dtype_name(type));
        return 0;
    case ATTN_TYPE_ANSWER:
        if (type != ATTN_F32 && type != ATTN_F64)
            return FAIL(j, "expected tensor '%s' is %s, not f32 or f64", schema->name,
                        attn_dtype_name(type));
        return 0;
    }
    return 0;
}

/* Takes extents that are not known yet from a tensor, and holds it to those that are. */
static int bind_shape(struct judge *j, const struct attn_schema *schema,
                      const struct attn_st_entry *entry)
{
    const uint32_t least = schema->min_rank ? schema->min_rank : schema->rank;
    if (entry->rank < least || entry->rank > schema->rank)
        return FAIL(j, "tensor '%s' has rank %u, not %u", schema->name, entry->rank, schema->rank);
    for (uint32_t a = 0; a < entry->rank; a++) {
        int64_t *extent = &j->pack->extents[schema->extent[a]];
        const int64_t have = entry->shape[a];
        if (have == 1 && schema->one >> a & 1)
            continue;
        if (*extent < 0)
            *extent = have;
        if (have != *extent)
            return FAIL(j, "tensor '%s' has extent %lld on axis %u, but %s is %lld%s", schema->name,
                        (long long)have, a, attn_extent_name(schema->extent[a]), (long long)*extent,
                        schema->one >> a & 1 ? " (1 is legal, too)" : "");
    }
    return 0;
}

/* A projected width is cut into heads. */
static int split_heads(struct judge *j, const char *name, enum attn_extent width,
                       enum attn_extent heads, enum attn_extent part)
{
    int64_t *extents = j->pack->extents;
    if (extents[heads] < 1 || extents[width] % extents[heads] != 0)
        return FAIL(j, "the %lld rows of '%s' cannot be cut into %lld heads",
                    (long long)extents[width], name, (long long)extents[heads]);
    extents[part] = extents[width] / extents[heads];
    return 0;
}

/* What follows once a tensor of multi-head attention has been seen, or has been found missing. */
static int derive(struct judge *j, uint32_t role, bool present)
{
    int64_t *extents = j->pack->extents;
    switch (role) {
    case ATTN_X_K:
        if (!present) {
            extents[ATTN_EXT_SK] = extents[ATTN_EXT_SQ];
            extents[ATTN_EXT_EK] = extents[ATTN_EXT_EQ];
        }
        return 0;
    case ATTN_X_V:
        if (!present)
            extents[ATTN_EXT_EV] = extents[ATTN_EXT_EK];
        return 0;
    case ATTN_W_Q:
        return split_heads(j, "w_q", ATTN_EXT_HQ_DQ, ATTN_EXT_HQ, ATTN_EXT_DQ);
    case ATTN_W_K:
        return split_heads(j, "w_k", ATTN_EXT_HKV_DK, ATTN_EXT_HKV, ATTN_EXT_DK);
    case ATTN_W_V:
        if (split_heads(j, "w_v", ATTN_EXT_HKV_DV, ATTN_EXT_HKV, ATTN_EXT_DV) != 0)
            return -1;
        if (__builtin_mul_overflow(extents[ATTN_EXT_HQ], extents[ATTN_EXT_DV],
                                   &extents[ATTN_EXT_HQ_DV]))
            return FAIL(j, "the width of the concatenated heads overflows");
        return 0;
    case ATTN_W_O:
        if (!present)
            extents[ATTN_EXT_EO] = extents[ATTN_EXT_HQ_DV];
        return 0;
    default:
        return 0;
    }
}

static int bind_extents(struct judge *j)
{
    const bool mha = j->c->op == ATTN_OP_MHA;
    int64_t *extents = j->pack->extents;
    for (int x = 0; x < ATTN_EXT_COUNT; x++)
        extents[x] = -1;
    if (mha) {
        if (j->c->hq < 1)
            return FAIL(j, "op=mha needs hq in the case line");
        extents[ATTN_EXT_HQ] = j->c->hq;
        extents[ATTN_EXT_HKV] = j->c->hkv > 0 ? j->c->hkv : j->c->hq;
    }
    j->c->dtype = find(j, mha ? "x_q" : "q")->dtype;
    if (j->c->dtype >= ATTN_BOOL)
        return FAIL(j, "tensor '%s' is %s, not a floating type", mha ? "x_q" : "q",
                    attn_dtype_name(j->c->dtype));
    for (size_t s = 0; s < attn_schema_count; s++) {
        const struct attn_schema *schema = &attn_schemas[s];
        if (attn_schema_of_name(j->c->op, schema->name) != schema)
            continue;
        const struct attn_st_entry *entry = find(j, schema->name);
        if (entry != NULL &&
            (check_type(j, schema, entry) != 0 || bind_shape(j, schema, entry) != 0))
            return -1;
        if (mha && derive(j, schema->role, entry != NULL) != 0)
            return -1;
    }
    return 0;
}

static int check_extents(struct judge *j)
{
    const int64_t *extents = j->pack->extents;
    for (int x = 0; x < ATTN_EXT_COUNT; x++)
        if (extents[x] == 0 && x != ATTN_EXT_SK)
            return FAIL(j, "%s is 0", attn_extent_name((enum attn_extent)x));
    const bool square = j->c->score != ATTN_SCORE_BILINEAR && j->c->score != ATTN_SCORE_ADDITIVE;
    if (square && extents[ATTN_EXT_DQ] != extents[ATTN_EXT_DK])
        return FAIL(j, "queries have width %lld and keys %lld, which this score cannot compare",
                    (long long)extents[ATTN_EXT_DQ], (long long)extents[ATTN_EXT_DK]);
    if (j->c->residual && extents[ATTN_EXT_EO] != extents[ATTN_EXT_EQ])
        return FAIL(j, "residual=1 needs an output as wide as x_q: %lld, not %lld",
                    (long long)extents[ATTN_EXT_EQ], (long long)extents[ATTN_EXT_EO]);
    return 0;
}

static void set_sizes(struct judge *j)
{
    const int64_t *extents = j->pack->extents;
    struct attn_case *c = j->c;
    c->b = extents[ATTN_EXT_B];
    c->hq = extents[ATTN_EXT_HQ];
    c->hkv = extents[ATTN_EXT_HKV];
    c->sq = extents[ATTN_EXT_SQ];
    c->sk = extents[ATTN_EXT_SK];
    c->dq = extents[ATTN_EXT_DQ];
    c->dk = extents[ATTN_EXT_DK];
    c->dv = extents[ATTN_EXT_DV];
    c->dh = c->score == ATTN_SCORE_ADDITIVE ? extents[ATTN_EXT_DH] : 0;
    c->e = c->op == ATTN_OP_MHA ? extents[ATTN_EXT_EQ] : 0;
    if (!c->scale_given)
        c->scale = c->score == ATTN_SCORE_SCALED_DOT ? 1.0 / sqrt((double)c->dk) : 1.0;
}

/* A part that the line names must be a tensor; a tensor takes effect whether named or not. */
static int take_part(struct judge *j, const char *name, const char *part, bool *taken)
{
    if (*taken && find(j, name) == NULL)
        return FAIL(j, "the case says %s, but there is no tensor '%s'", part, name);
    *taken = find(j, name) != NULL;
    return 0;
}

static int take_len(struct judge *j)
{
    struct attn_case *c = j->c;
    const struct attn_st_entry *len = find(j, "len");
    if (c->len == ATTN_LEN_PACK && len == NULL)
        return FAIL(j, "the case says mask=len, but there is no tensor 'len'");
    if (len == NULL)
        return 0;
    if (c->len == ATTN_LEN_PACK && c->n_len != (int)len->rank)
        return FAIL(j, "the case says mask=%s, but tensor 'len' has rank %u",
                    c->n_len == 2 ? "len2d" : "len", len->rank);
    c->len = ATTN_LEN_PACK;
    c->n_len = (int)len->rank;
    const int64_t count = (int64_t)(len->bytes / attn_dtype_size(len->dtype));
    for (int64_t at = 0; at < count; at++) {
        const double value = attn_dtype_load(len->dtype, len->data, at);
        if (!(value >= 0 && value <= (double)c->sk))
            return FAIL(j, "entry %lld of 'len' is %.0f, outside 0..%lld", (long long)at, value,
                        (long long)c->sk);
    }
    return 0;
}

/* The heads that are pruned; a line that lists them must list the same ones. */
static int take_head_mask(struct judge *j)
{
    struct attn_case *c = j->c;
    const struct attn_st_entry *mask = find(j, "head_mask");
    int64_t pruned[ATTN_CASE_LIST_MAX];
    int count = 0;
    for (int64_t h = 0; mask != NULL && h < c->hq; h++) {
        if (attn_dtype_load(ATTN_BOOL, mask->data, h) != 0)
            continue;
        if (count == ATTN_CASE_LIST_MAX)
            return FAIL(j, "'head_mask' prunes over %d heads", ATTN_CASE_LIST_MAX);
        pruned[count++] = h;
    }
    const size_t bytes = (size_t)count * sizeof pruned[0];
    if (c->n_prune > 0 && (c->n_prune != count || memcmp(c->prune->at, pruned, bytes) != 0))
        return FAIL(j, "the case's prune= is not what tensor 'head_mask' says");
    if (attn_case_numbers_set(&c->prune, pruned, count) != 0)
        return FAIL(j, "no memory");
    c->n_prune = count;
    return 0;
}

/* Does a score parameter have one set a head. */
static bool by_head(const struct judge *j, const char *name)
{
    const struct attn_st_entry *entry = find(j, name);
    return entry != NULL && entry->shape[0] > 1;
}

static int take_features(struct judge *j)
{
    struct attn_case *c = j->c;
    if (c->mask_bool || c->bias_normal || c->alibi || c->sink ||
        (c->len != ATTN_LEN_NONE && c->len != ATTN_LEN_PACK))
        return FAIL(j, "its case draws something at random; a pack brings all of its tensors");
    if (c->fill != ATTN_FILL_NORMAL || c->weights != ATTN_WEIGHTS_NORMAL)
        return FAIL(j, "its case has fill= or weights=, which say how to draw at random");
    if (take_part(j, "mask", "mask=bool", &c->pack_mask) != 0 ||
        take_part(j, "bias", "bias=tensor", &c->pack_bias) != 0 ||
        take_part(j, "alibi", "bias=alibi", &c->pack_alibi) != 0 ||
        take_part(j, "sink", "sink=tensor", &c->pack_sink) != 0 ||
        take_part(j, "x_k", "kv=cross", &c->cross) != 0 || take_len(j) != 0 ||
        take_head_mask(j) != 0)
        return -1;
    if (!c->dropout && forbid(j, "keep", "there is no dropout=P") != 0)
        return -1;
    const bool biased = find(j, "b_q") || find(j, "b_k") || find(j, "b_v") || find(j, "b_o");
    const bool heads = by_head(j, "m") || by_head(j, "score_w_q") || by_head(j, "score_w_k") ||
                       by_head(j, "score_w_v");
    if (c->proj_bias && !biased)
        return FAIL(j, "the case says proj_bias=1, but there is no b_q, b_k, b_v or b_o");
    if (c->params_head && !heads && c->hq > 1)
        return FAIL(j, "the case says params=head, but the score's tensors are shared");
    c->proj_bias = biased;
    c->params_head = heads;
    return 0;
}

int attn_pack_describe(const char *path, struct attn_pack *pack, char *why, size_t size)
{
    struct judge j = {.path = path, .pack = pack, .c = &pack->c, .why = why, .size = size};
    if (check_names(&j) != 0 || check_presence(&j) != 0 || bind_extents(&j) != 0 ||
        check_extents(&j) != 0)
        return -1;
    set_sizes(&j);
    if (take_features(&j) != 0)
        return -1;
    char reason[256];
    char *file = pack->c.file; /* the message names the pack already */
    pack->c.file = NULL;
    const int status = attn_case_check(&pack->c, reason, sizeof reason);
    pack->c.file = file;
    return status == 0 ? 0 : FAIL(&j, "%s", reason);
}
