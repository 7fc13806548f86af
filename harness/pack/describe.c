/* SPDX-License-Identifier: Apache-2.0 */
/* describe.c - takes extents, type and features from a pack's tensors, and checks that they agree.
 */
#include "pack/describe.h"

#include <stdio.h>
#include <string.h>

#include "pack/message.h"
#include "reference/dtype.h"
#include "tensor/operand.h"

#define SHOWN     64
#define NAMES_MAX 512 /* of tensors that some operator has */

/* State of one description. */
struct judge {
    const char *path;
    struct attn_pack *pack;
    struct attn_case *c;
    const struct ref_op *op; /* of the case */
    int64_t *extent;         /* of pack->shape */
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
    struct attn_schema row;
    for (size_t e = 0; e < j->pack->file.count; e++) {
        const char *name = j->pack->file.entries[e].name;
        if (attn_schema_named(j->op, name, &row))
            continue;
        for (const struct ref_op *const *other = ref_ops; *other; other++)
            if (attn_schema_named(*other, name, &row))
                return FAIL(j, "tensor '%s' does not belong to op=%s", name, j->op->name);
        const char *names[NAMES_MAX];
        const char *near = attn_nearest(name, names, attn_schema_names(names, NAMES_MAX));
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

/* The parameters of the case's score, and of no other one; the last score of the table first. */
static int check_score_params(struct judge *j)
{
    size_t count = 0;
    while (j->op->scores && ref_scores_known[count])
        count++;
    while (count-- > 0) {
        const struct ref_score *score = ref_scores_known[count];
        const bool own = score->score == j->c->score;
        char text[64];
        snprintf(text, sizeof text, own ? " (score=%s)" : "the score is not %s", score->name);
        for (const uint32_t *role = score->params; role && *role; role++)
            if ((own ? need : forbid)(j, attn_role_name(*role), text) != 0)
                return -1;
    }
    return 0;
}

/* Checks which tensors must exist and which must not, by operator and score. */
static int check_presence(struct judge *j)
{
    const struct ref_operand *row;
    for (size_t n = 0; (row = ref_operand_at(j->op, n)); n++)
        if ((row->flags & REF_NEEDED) && need(j, row->name, "") != 0)
            return -1;
    if (check_score_params(j) != 0)
        return -1;
    if (attn_op_takes(j->op, "wo") && j->c->wo)
        return need(j, "w_o", " (wo=0 says that there is no output projection)");
    if (forbid(j, "w_o", "wo=0") != 0 || forbid(j, "b_o", "wo=0") != 0)
        return -1;
    return 0;
}

static int check_answer_type(struct judge *j, const struct attn_schema *schema, uint32_t type)
{
    if (type != ATTN_F32 && type != ATTN_F64)
        return FAIL(j, "expected tensor '%s' is %s, not f32 or f64", schema->name,
                    attn_dtype_name(type));
    return 0;
}

static int check_type(struct judge *j, const struct attn_schema *schema,
                      const struct attn_st_entry *entry)
{
    const uint32_t type = entry->dtype, main_type = j->c->dtype;
    if (schema->output)
        return check_answer_type(j, schema, type);
    switch (schema->type) {
    case REF_TYPE_MAIN:
        if (type != main_type)
            return FAIL(j, "tensor '%s' is %s, but %s is %s", schema->name, attn_dtype_name(type),
                        j->op->main_operand, attn_dtype_name(main_type));
        return 0;
    case REF_TYPE_SIDE:
    case REF_TYPE_WIDE:
        if (type != main_type && type != ATTN_F32)
            return FAIL(j, "tensor '%s' is %s, not f32 or %s", schema->name, attn_dtype_name(type),
                        attn_dtype_name(main_type));
        return 0;
    case REF_TYPE_BOOL:
        if (type != ATTN_BOOL)
            return FAIL(j, "tensor '%s' is %s, not bool", schema->name, attn_dtype_name(type));
        return 0;
    case REF_TYPE_INDEX:
        if (type != ATTN_I32 && type != ATTN_I64)
            return FAIL(j, "tensor '%s' is %s, not i32 or i64", schema->name,
                        attn_dtype_name(type));
        return 0;
    }
    return 0;
}

/* Takes unknown extents from a tensor, and checks its other extents. */
static int bind_shape(struct judge *j, const struct attn_schema *schema,
                      const struct attn_st_entry *entry)
{
    const uint32_t rank = (uint32_t)strlen(schema->shape);
    const uint32_t least = schema->flags & REF_SHORT ? 1 : rank;
    if (entry->rank < least || entry->rank > rank)
        return FAIL(j, "tensor '%s' has rank %u, not %u", schema->name, entry->rank, rank);
    for (uint32_t a = 0; a < entry->rank; a++) {
        const char letter = schema->shape[a];
        const bool one = strchr(schema->one, letter) != NULL;
        int64_t *extent = &j->extent[(unsigned char)letter];
        const int64_t have = entry->shape[a];
        if (have == 1 && one)
            continue;
        if (*extent < 0)
            *extent = have;
        if (have != *extent)
            return FAIL(j, "tensor '%s' has extent %lld on axis %u, but %s is %lld%s", schema->name,
                        (long long)have, a, ref_letter_name(letter), (long long)*extent,
                        one ? " (1 is legal, too)" : "");
    }
    return 0;
}

/* Splits a projected width into heads. */
static int split_heads(struct judge *j, const struct attn_schema *schema)
{
    static const struct {
        unsigned char width, heads, part;
    } cuts[] = {{'Q', 'h', 'q'}, {'K', 'g', 'k'}, {'V', 'g', 'v'}};
    int64_t *extent = j->extent;
    for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
        const int64_t width = extent[cuts[c].width], heads = extent[cuts[c].heads];
        if (schema->shape[0] != cuts[c].width || width < 0 || extent[cuts[c].part] >= 0)
            continue;
        if (heads < 1 || width % heads != 0)
            return FAIL(j, "the %lld rows of '%s' cannot be cut into %lld heads", (long long)width,
                        schema->name, (long long)heads);
        extent[cuts[c].part] = width / heads;
    }
    if (extent['h'] >= 0 && extent['v'] >= 0 && extent['O'] < 0 &&
        __builtin_mul_overflow(extent['h'], extent['v'], &extent['O']))
        return FAIL(j, "the width of the concatenated heads overflows");
    return 0;
}

/* An absent tensor has the extents of its fallback. */
static void stand_in(struct judge *j, const struct attn_schema *absent)
{
    const struct ref_operand *other = ref_operand_of(j->op, absent->fallback);
    for (size_t a = 0; other && absent->shape[a] && other->shape[a]; a++) {
        int64_t *extent = &j->extent[(unsigned char)absent->shape[a]];
        if (*extent < 0)
            *extent = j->extent[(unsigned char)other->shape[a]];
    }
}

/* Extents from a pack's line and from the operator, before any tensor is read. */
static int begin_extents(struct judge *j)
{
    const char *main_operand = j->op->main_operand;
    ref_shape_init(&j->pack->shape);
    if (j->op->traits & REF_PROJECTED) {
        if (j->c->hq < 1)
            return FAIL(j, "op=%s needs hq in the case line", j->op->name);
        j->extent['h'] = j->c->hq;
        j->extent['g'] = j->c->hkv > 0 ? j->c->hkv : j->c->hq;
    }
    for (const struct ref_param *p = j->op->params; p && p->key; p++)
        if (p->letter && (p->field || attn_case_has_param(j->c, p))) /* else a tensor has it */
            j->extent[(unsigned char)p->letter] = (int64_t)attn_case_param(j->c, p);
    j->c->dtype = find(j, main_operand)->dtype;
    if (j->c->dtype >= ATTN_BOOL)
        return FAIL(j, "tensor '%s' is %s, not a floating type", main_operand,
                    attn_dtype_name(j->c->dtype));
    return 0;
}

/* Extents that no tensor has get the defaults of the case language, in either direction. */
static void default_extents(struct judge *j)
{
    static const unsigned char follows[][2] = {{'h', 'g'}, {'g', 'h'}, {'i', 'j'}, {'j', 'i'},
                                               {'k', 'v'}, {'q', 'k'}, {'v', 'k'}};
    for (size_t f = 0; f < sizeof follows / sizeof follows[0]; f++)
        if (j->extent[follows[f][0]] < 0)
            j->extent[follows[f][0]] = j->extent[follows[f][1]];
    if (j->extent['b'] < 0)
        j->extent['b'] = 1;
}

static int bind_extents(struct judge *j)
{
    struct attn_schema schema;
    bool inputs = true;
    if (begin_extents(j) != 0)
        return -1;
    for (size_t n = 0; attn_schema_at(j->op, n, &schema); n++) {
        const struct attn_st_entry *entry = find(j, schema.name);
        if (inputs && schema.output && !ref_shape_complete(j->op, &j->pack->shape))
            return FAIL(j, "a product of its extents overflows");
        inputs = !schema.output;
        if (entry != NULL &&
            (check_type(j, &schema, entry) != 0 || bind_shape(j, &schema, entry) != 0))
            return -1;
        if (entry == NULL)
            stand_in(j, &schema);
        if (split_heads(j, &schema) != 0)
            return -1;
        if (schema.role < REF_ROLES)
            j->pack->shape.present[schema.role] = entry != NULL;
    }
    default_extents(j);
    if (!ref_shape_complete(j->op, &j->pack->shape))
        return FAIL(j, "a product of its extents overflows");
    /* Again, now that the operator has set its own extents. */
    for (size_t n = 0; attn_schema_at(j->op, n, &schema); n++) {
        const struct attn_st_entry *entry = find(j, schema.name);
        if (entry != NULL && bind_shape(j, &schema, entry) != 0)
            return -1;
    }
    return 0;
}

static int check_extents(struct judge *j)
{
    static const char order[] = "bhijgqkvdefwoQKVO";
    const int64_t *extent = j->extent;
    for (const char *letter = order; *letter; letter++)
        if (extent[(unsigned char)*letter] == 0 && *letter != 'j')
            return FAIL(j, "%s is 0", ref_letter_name(*letter));
    if (j->op->scores && !attn_case_score(j->c)->free_widths && extent['q'] != extent['k'])
        return FAIL(j, "queries have width %lld and keys %lld, which this score cannot compare",
                    (long long)extent['q'], (long long)extent['k']);
    if (j->c->residual && extent['o'] != extent['e'])
        return FAIL(j, "residual=1 needs an output as wide as x_q: %lld, not %lld",
                    (long long)extent['e'], (long long)extent['o']);
    return 0;
}

/* Parameters that are extents: tensors have them, and the line agrees. */
static int set_params(struct judge *j)
{
    for (const struct ref_param *p = j->op->params; p && p->key; p++) {
        const int64_t extent = p->letter ? j->extent[(unsigned char)p->letter] : 0;
        if (extent <= 0 || !ref_score_reads(j->op->scores ? attn_case_score(j->c) : NULL, p->key))
            continue;
        if (attn_case_has_param(j->c, p) && attn_case_param(j->c, p) != (double)extent)
            return FAIL(j, "the case says %s=%.0f, but its tensors say %lld", p->key,
                        attn_case_param(j->c, p), (long long)extent);
        if (attn_case_set_param(j->c, p, (double)extent) != 0)
            return FAIL(j, "no memory");
    }
    return 0;
}

static void set_sizes(struct judge *j)
{
    const int64_t *extent = j->extent;
    struct attn_case *c = j->c;
    c->b = extent['b'];
    c->hq = extent['h'];
    c->hkv = extent['g'];
    c->sq = extent['i'];
    c->sk = extent['j'];
    c->dq = extent['q'];
    c->dk = extent['k'];
    c->dv = extent['v'];
    c->dh = attn_case_score(c)->hidden ? extent['d'] : 0;
    c->e = attn_op_takes(j->op, "e") ? extent['e'] : 0;
    if (!c->scale_given)
        c->scale = j->op->scale ? j->op->scale(&j->pack->shape) : attn_case_scale(c);
}

/* A part that the line names must be a tensor. A tensor takes effect whether it is named or not. */
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

/* Global tokens, dilations, and the projections of global tokens. */
static int take_global(struct judge *j)
{
    struct attn_case *c = j->c;
    bool global = c->global != ATTN_GLOBAL_NONE;
    if (take_part(j, "global", "mask=global", &global) != 0 ||
        take_part(j, "dilation", "mask=window:L:R:dilation", &c->pack_dilation) != 0 ||
        take_part(j, "q_global", "global_proj=1", &c->global_proj) != 0)
        return -1;
    c->global = global ? ATTN_GLOBAL_PACK : ATTN_GLOBAL_NONE;
    if (c->pack_dilation && !c->window)
        return FAIL(j, "tensor 'dilation' needs mask=window:L:R");
    for (int n = 0; n < 2; n++)
        if (c->global_proj ? need(j, n ? "k_global" : "v_global", " (beside 'q_global')")
                           : forbid(j, n ? "k_global" : "v_global", "there is no 'q_global'"))
            return -1;
    const struct attn_st_entry *dilation = find(j, "dilation");
    for (int64_t h = 0; dilation && h < c->hq; h++)
        if (attn_dtype_load(dilation->dtype, dilation->data, h) < 1)
            return FAIL(j, "entry %lld of 'dilation' is below 1", (long long)h);
    return 0;
}

/* Operands that a parameter asks for: the parameter must agree with the tensors. */
static int take_params(struct judge *j)
{
    const struct ref_operand *row;
    for (size_t n = 0; (row = ref_operand_at(j->op, n)); n++) {
        const struct ref_param *param = attn_op_param(j->op, row->name);
        const bool there = find(j, row->name) != NULL;
        char word[64];
        if (!param || (row->flags & REF_NEEDED) || there == (attn_case_param(j->c, param) != 0))
            continue;
        attn_param_text(param, attn_case_param(j->c, param), word, sizeof word);
        if (!there)
            return FAIL(j, "the case says %s=%s, but there is no tensor '%s'", param->key, word,
                        row->name);
        if (attn_case_has_param(j->c, param))
            return FAIL(j, "tensor '%s' contradicts the case: %s=%s", row->name, param->key, word);
        if (attn_case_set_param(j->c, param, 1) != 0)
            return FAIL(j, "no memory");
    }
    return 0;
}

/* Operands that a value of a parameter asks for: the tensors must agree with it. */
static int take_choices(struct judge *j)
{
    const struct ref_operand *row;
    for (size_t n = 0; (row = ref_operand_at(j->op, n)); n++) {
        const struct ref_choice *choice = ref_choice_of(j->op, row->role);
        struct attn_drawn drawn;
        char word[64];
        if (!choice || attn_case_draws(j->c, row, &drawn) == (find(j, row->name) != NULL))
            continue;
        const struct ref_param *param = attn_op_param(j->op, choice->key);
        attn_param_text(param, attn_case_param(j->c, param), word, sizeof word);
        return FAIL(j, "the case says %s=%s, but there is %s tensor '%s'", param->key, word,
                    find(j, row->name) ? "a" : "no", row->name);
    }
    return 0;
}

/* The pruned heads. A line that lists them must list the same heads. */
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
        return FAIL(j, "the case's prune= contradicts tensor 'head_mask'");
    if (attn_case_numbers_set(&c->prune, pruned, count) != 0)
        return FAIL(j, "no memory");
    c->n_prune = count;
    return 0;
}

/* Does a parameter have one set per head? */
static bool by_head(const struct judge *j, const char *name)
{
    const struct attn_st_entry *entry = find(j, name);
    return entry != NULL && entry->shape[0] > 1;
}

static int take_features(struct judge *j)
{
    struct attn_case *c = j->c;
    const struct ref_operand *row;
    if (c->mask_bool || c->bias_normal || c->bias_const || c->alibi || c->sink ||
        (c->len != ATTN_LEN_NONE && c->len != ATTN_LEN_PACK))
        return FAIL(j, "its case draws something at random; a pack brings all of its tensors");
    if (c->fill != ATTN_FILL_NORMAL || c->weights != ATTN_WEIGHTS_NORMAL)
        return FAIL(j, "its case has fill= or weights=, but nothing is drawn at random");
    if (take_part(j, "mask", "mask=bool", &c->pack_mask) != 0 ||
        take_part(j, "bias", "bias=tensor", &c->pack_bias) != 0 ||
        take_part(j, "alibi", "bias=alibi", &c->pack_alibi) != 0 ||
        take_part(j, "sink", "sink=tensor", &c->pack_sink) != 0 ||
        take_part(j, "x_k", "kv=cross", &c->cross) != 0 || take_len(j) != 0 ||
        take_head_mask(j) != 0 || take_global(j) != 0 || take_params(j) != 0 ||
        take_choices(j) != 0)
        return -1;
    if (!c->dropout && forbid(j, "keep", "there is no dropout=P") != 0)
        return -1;
    const bool biased = find(j, "b_q") || find(j, "b_k") || find(j, "b_v") || find(j, "b_o");
    bool heads = false;
    for (const uint32_t *role = attn_case_score(c)->params; role && *role; role++)
        heads = heads || by_head(j, attn_role_name(*role));
    for (size_t n = 0; (row = ref_operand_at(j->op, n)); n++)
        heads = heads || (row->flags & REF_BY_HEAD && by_head(j, row->name));
    if (c->proj_bias && !biased)
        return FAIL(j, "the case says proj_bias=1, but there is no b_q, b_k, b_v or b_o");
    if (c->params_head && !heads && c->hq > 1)
        return FAIL(j, "the case says params=head, but its tensors are shared");
    c->proj_bias = biased;
    c->params_head = heads;
    return 0;
}

int attn_pack_describe(const char *path, struct attn_pack *pack, char *why, size_t size)
{
    struct judge j = {.path = path,
                      .pack = pack,
                      .c = &pack->c,
                      .op = attn_case_op(&pack->c),
                      .extent = pack->shape.extent,
                      .why = why,
                      .size = size};
    if (check_names(&j) != 0 || check_presence(&j) != 0 || bind_extents(&j) != 0 ||
        check_extents(&j) != 0)
        return -1;
    set_sizes(&j);
    if (set_params(&j) != 0 || take_features(&j) != 0)
        return -1;
    char reason[256];
    char *file = pack->c.file; /* the message names the pack already */
    pack->c.file = NULL;
    const int status = attn_case_check(&pack->c, reason, sizeof reason);
    pack->c.file = file;
    return status == 0 ? 0 : FAIL(&j, "%s", reason);
}
