/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c - the table of keys: one entry drives parsing, defaults, the canonical form and help. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "case/language.h"
#include "case/operator.h"

enum { CHOICES_MAX = 52, NAMES_MAX = 40 };

static const struct attn_choice dtypes[] = {
    {"f64", ATTN_F64}, {"f32", ATTN_F32}, {"f16", ATTN_F16}, {"bf16", ATTN_BF16}, {NULL, 0}};
static const struct attn_choice layouts[] = {
    {"bhsd", ATTN_LAYOUT_BHSD}, {"bshd", ATTN_LAYOUT_BSHD}, {"bhds", ATTN_LAYOUT_BHDS}, {NULL, 0}};
const struct attn_choice attn_fill_choices[] = {{"normal", ATTN_FILL_NORMAL},
                                                {"uniform", ATTN_FILL_UNIFORM},
                                                {"ones", ATTN_FILL_ONES},
                                                {"zeros", ATTN_FILL_ZEROS},
                                                {"smooth", ATTN_FILL_SMOOTH},
                                                {"census", ATTN_FILL_CENSUS},
                                                {"spike", ATTN_FILL_SPIKE},
                                                {"poison", ATTN_FILL_POISON},
                                                {"exact", ATTN_FILL_EXACT},
                                                {"one_hot", ATTN_FILL_ONE_HOT},
                                                {"stair_up", ATTN_FILL_STAIR_UP},
                                                {"stair_down", ATTN_FILL_STAIR_DOWN},
                                                {"rounding", ATTN_FILL_ROUNDING},
                                                {"overflow", ATTN_FILL_OVERFLOW},
                                                {"negative", ATTN_FILL_NEGATIVE},
                                                {"constant", ATTN_FILL_CONSTANT},
                                                {"cancel", ATTN_FILL_CANCEL},
                                                {"tiny", ATTN_FILL_TINY},
                                                {"whole", ATTN_FILL_WHOLE},
                                                {"few_queries", ATTN_FILL_FEW_QUERIES},
                                                {"strong_decay", ATTN_FILL_STRONG_DECAY},
                                                {"tiny_phi", ATTN_FILL_TINY_PHI},
                                                {"clusters", ATTN_FILL_CLUSTERS},
                                                {"cancel_delta", ATTN_FILL_CANCEL_DELTA},
                                                {"big_grad", ATTN_FILL_BIG_GRAD},
                                                {"tiny_grad", ATTN_FILL_TINY_GRAD},
                                                {"sparse_grad", ATTN_FILL_SPARSE_GRAD},
                                                {"sparse_keys", ATTN_FILL_SPARSE_KEYS},
                                                {"zero_grad", ATTN_FILL_ZERO_GRAD},
                                                {"two_hot", ATTN_FILL_TWO_HOT},
                                                {NULL, 0}};
static const struct attn_choice weights[] = {
    {"normal", ATTN_WEIGHTS_NORMAL}, {"stiefel", ATTN_WEIGHTS_STIEFEL}, {NULL, 0}};
static const struct attn_choice kvs[] = {{"self", 0}, {"cross", 1}, {NULL, 0}};
static const struct attn_choice params[] = {{"shared", 0}, {"head", 1}, {NULL, 0}};
static const struct attn_choice flags[] = {{"0", 0}, {"1", 1}, {NULL, 0}};

/* ---- sizes ---- */

static int64_t fallback_one(const struct attn_case *c)
{
    (void)c;
    return 1;
}

static int64_t fallback_hq(const struct attn_case *c)
{
    return c->hq;
}

static int64_t fallback_sq(const struct attn_case *c)
{
    return c->sq;
}

static int64_t fallback_dk(const struct attn_case *c)
{
    return c->dk;
}

/* 0 if the size means nothing, as in the ABI. */
static int64_t fallback_dh(const struct attn_case *c)
{
    return attn_case_score(c)->hidden ? c->dk : 0;
}

static int64_t fallback_e(const struct attn_case *c)
{
    return attn_op_takes(attn_case_op(c), "e") ? c->hq * c->dk : 0;
}

int64_t attn_key_size(const struct attn_case_key *key, const struct attn_case *c)
{
    return *(const int64_t *)(const void *)((const char *)c + key->rule->offset);
}

static int parse_size(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                      const struct attn_origin *origin)
{
    int64_t *field = (int64_t *)(void *)((char *)c + key->rule->offset);
    return attn_word_integer(word, key->rule->min, ATTN_CASE_SIZE_MAX, field, origin);
}

static void write_size(const struct attn_case_key *key, const struct attn_case *c,
                       struct attn_sink *sink)
{
    const struct attn_key_rule *rule = key->rule;
    int64_t size = attn_key_size(key, c);
    bool required = rule->fallback == NULL || attn_op_needs(attn_case_op(c), key->name);
    /* Tensors tell all sizes of a pack, except the number of heads of projected widths. */
    if (c->data && ((rule->flags & ATTN_KEY_TENSORS) || !ref_op_is(c->op, REF_PROJECTED)))
        return;
    if (size < 0 || (!required && size == rule->fallback(c)))
        return;
    attn_sink_key(sink, key);
    attn_sink_format(sink, "%lld", (long long)size);
}

/* h, s and d: one value for several sizes. */
static int parse_shorthand(const struct attn_case_key *key, struct attn_word word,
                           struct attn_case *c, const struct attn_origin *origin)
{
    for (size_t t = 0; t < ATTN_KEY_TARGETS && key->rule->targets[t]; t++) {
        const char *name = key->rule->targets[t];
        const struct attn_case_key *target =
            attn_key_find((struct attn_word){name, strlen(name), 0});
        assert(target != NULL);
        if (target->rule->parse(target, word, c, origin) != 0)
            return -1;
    }
    return 0;
}

/* ---- choices ---- */

static uint32_t choice_value(const struct attn_key_rule *rule, const struct attn_case *c)
{
    const char *field = (const char *)c + rule->offset;
    uint32_t value;
    if (rule->width == sizeof(bool))
        return *(const bool *)field;
    memcpy(&value, field, sizeof value);
    return value;
}

static int parse_choice(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                        const struct attn_origin *origin)
{
    const struct attn_key_rule *rule = key->rule;
    const char *names[CHOICES_MAX];
    size_t count = 0;
    for (const struct attn_choice *choice = rule->choices; choice->name; choice++) {
        if (!attn_word_is(word, choice->name)) {
            names[count++] = choice->name;
            continue;
        }
        char *field = (char *)c + rule->offset;
        if (rule->width == sizeof(bool))
            *(bool *)field = choice->value != 0;
        else
            memcpy(field, &choice->value, sizeof choice->value);
        return 0;
    }
    return attn_word_unknown(origin, word, key->name, names, count, key->values);
}

/* The parser stores no value that has no name. */
static const char *choice_name(const struct attn_choice *choice, uint32_t value)
{
    while (choice->name && choice->value != value)
        choice++;
    assert(choice->name != NULL);
    return choice->name;
}

static void write_choice(const struct attn_case_key *key, const struct attn_case *c,
                         struct attn_sink *sink)
{
    const struct attn_key_rule *rule = key->rule;
    uint32_t value = choice_value(rule, c);
    if (value == rule->initial || ((rule->flags & ATTN_KEY_TENSORS) && c->data))
        return;
    attn_sink_key(sink, key);
    attn_sink_text(sink, choice_name(rule->choices, value));
}

/* ---- the operator and the score ---- */

static int parse_op(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                    const struct attn_origin *origin)
{
    const char *names[NAMES_MAX];
    size_t count = 0;
    for (const struct ref_op *const *op = ref_ops; *op && count < NAMES_MAX; op++) {
        if (attn_word_is(word, (*op)->name)) {
            c->op = (*op)->op;
            return 0;
        }
        names[count++] = (*op)->name;
    }
    return attn_word_unknown(origin, word, key->name, names, count, key->values);
}

static void write_op(const struct attn_case_key *key, const struct attn_case *c,
                     struct attn_sink *sink)
{
    const char *name = attn_case_op(c)->name;
    if (strcmp(name, ATTN_DEFAULT_OP) == 0)
        return;
    attn_sink_key(sink, key);
    attn_sink_text(sink, name);
}

static int parse_score(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                       const struct attn_origin *origin)
{
    const char *names[NAMES_MAX];
    size_t count = 0;
    for (const struct ref_score *const *score = ref_scores_known; *score && count < NAMES_MAX;
         score++) {
        if (attn_word_is(word, (*score)->name)) {
            c->score = (*score)->score;
            return 0;
        }
        names[count++] = (*score)->name;
    }
    return attn_word_unknown(origin, word, key->name, names, count, key->values);
}

static void write_score(const struct attn_case_key *key, const struct attn_case *c,
                        struct attn_sink *sink)
{
    const char *name = attn_case_score(c)->name;
    if (strcmp(name, ATTN_DEFAULT_SCORE) == 0)
        return;
    attn_sink_key(sink, key);
    attn_sink_text(sink, name);
}

/* ---- numbers and the rest ---- */

static int parse_scale(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                       const struct attn_origin *origin)
{
    (void)key;
    c->scale_given = true;
    c->scale_by_keys = attn_word_is(word, "1/sk");
    return c->scale_by_keys ? 0 : attn_word_real(word, &c->scale, origin);
}

static void write_scale(const struct attn_case_key *key, const struct attn_case *c,
                        struct attn_sink *sink)
{
    if (!c->scale_given)
        return;
    attn_sink_key(sink, key);
    attn_sink_real(sink, c->scale);
}

static int parse_softcap(const struct attn_case_key *key, struct attn_word word,
                         struct attn_case *c, const struct attn_origin *origin)
{
    (void)key;
    if (attn_word_real(word, &c->softcap, origin) != 0)
        return -1;
    if (c->softcap < 0)
        return attn_case_error(origin, word.column, "softcap must be at least 0 (0: none)");
    return 0;
}

static void write_softcap(const struct attn_case_key *key, const struct attn_case *c,
                          struct attn_sink *sink)
{
    if (c->softcap == 0)
        return;
    attn_sink_key(sink, key);
    attn_sink_real(sink, c->softcap);
}

static int parse_dropout(const struct attn_case_key *key, struct attn_word word,
                         struct attn_case *c, const struct attn_origin *origin)
{
    (void)key;
    if (attn_word_real(word, &c->dropout_p, origin) != 0)
        return -1;
    if (c->dropout_p < 0 || c->dropout_p >= 1)
        return attn_case_error(origin, word.column, "dropout must be in 0 <= p < 1");
    c->dropout = c->dropout_p > 0;
    return 0;
}

static void write_dropout(const struct attn_case_key *key, const struct attn_case *c,
                          struct attn_sink *sink)
{
    if (!c->dropout)
        return;
    attn_sink_key(sink, key);
    attn_sink_real(sink, c->dropout_p);
}

static int parse_seed(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                      const struct attn_origin *origin)
{
    (void)key;
    return attn_word_unsigned(word, &c->seed, origin);
}

static void write_seed(const struct attn_case_key *key, const struct attn_case *c,
                       struct attn_sink *sink)
{
    if (c->seed == 1)
        return;
    attn_sink_key(sink, key);
    attn_sink_format(sink, "%llu", (unsigned long long)c->seed);
}

static int parse_sink(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                      const struct attn_origin *origin)
{
    static const char *const names[] = {"0", "1", "tensor"};
    if (attn_word_is(word, "0"))
        return 0;
    if (!attn_word_is(word, "1") && !attn_word_is(word, "tensor"))
        return attn_word_unknown(origin, word, key->name, names, 3, key->values);
    bool tensor = word.text[0] == 't';
    if (tensor != origin->pack)
        return attn_case_error(origin, word.column,
                               tensor ? "sink=tensor names a pack's tensor; here it is sink=1"
                                      : "a pack brings its own sink: sink=tensor");
    *(tensor ? &c->pack_sink : &c->sink) = true;
    return 0;
}

static void write_sink(const struct attn_case_key *key, const struct attn_case *c,
                       struct attn_sink *sink)
{
    if (!c->sink && !c->pack_sink)
        return;
    attn_sink_key(sink, key);
    attn_sink_text(sink, c->pack_sink ? "tensor" : "1");
}

/* ---- the table ---- */

/* Initializers of the three common kinds of rule. They are file-scope literals, so they are static.
 */
#define RULE &(const struct attn_key_rule)
#define SIZE(field, least, rest, bits)                                                             \
    RULE                                                                                           \
    {                                                                                              \
        .parse = parse_size, .write = write_size, .flags = ATTN_KEY_SIZE | (bits),                 \
        .offset = offsetof(struct attn_case, field), .min = (least), .fallback = (rest)            \
    }
#define CHOICE(field, names, standard, bits)                                                       \
    RULE                                                                                           \
    {                                                                                              \
        .parse = parse_choice, .write = write_choice, .flags = (bits), .choices = (names),         \
        .offset = offsetof(struct attn_case, field),                                               \
        .width = sizeof(((struct attn_case *)0)->field), .initial = (standard)                     \
    }
#define SHORTHAND(bits, ...)                                                                       \
    RULE                                                                                           \
    {                                                                                              \
        .parse = parse_shorthand, .flags = ATTN_KEY_SIZE | (bits), .targets = { __VA_ARGS__ }      \
    }

static_assert(sizeof(enum attn_layout) == sizeof(uint32_t), "choices are stored as uint32_t");

/* Sorted by name: this is the order of the canonical form. Values of op=, score= and out= come
 * from the tables of the reference (table.c). */
const struct attn_case_key attn_language_keys[] = {
    {"b", "N", "1", "batches", SIZE(b, 1, fallback_one, ATTN_KEY_TENSORS)},
    {"bias", "none, or parts joined with +: normal[:AXES] const:X alibi; tensor", "none",
     "added to the score after softcap; AXES: which of b h q k are full; X: a number or -log(sk)",
     RULE{.parse = attn_parse_bias, .write = attn_write_bias}},
    {"d", "N", NULL, "dq, dk and dv in one", SHORTHAND(ATTN_KEY_TENSORS, "dk", "dq", "dv")},
    {"data", "FILE", NULL, "a pack: real tensors in a .safetensors file",
     RULE{.parse = attn_parse_data,
          .write = attn_write_data,
          .flags = ATTN_KEY_PATH | ATTN_KEY_WHOLE}},
    {"dh", "N", "dk", "hidden width of additive scoring",
     SIZE(dh, 1, fallback_dh, ATTN_KEY_TENSORS)},
    {"dk", "N", NULL, "width of a key, one head", SIZE(dk, 1, NULL, ATTN_KEY_TENSORS)},
    {"dq", "N", "dk", "width of a query, one head", SIZE(dq, 1, fallback_dk, ATTN_KEY_TENSORS)},
    {"dropout", "P", "0", "probability that a weight is dropped",
     RULE{.parse = parse_dropout, .write = write_dropout}},
    {"dtype", "f64|f32|f16|bf16", "f32", "type of q, k, v and out",
     CHOICE(dtype, dtypes, ATTN_F32, ATTN_KEY_TENSORS)},
    {"dv", "N", "dk", "width of a value, one head", SIZE(dv, 1, fallback_dk, ATTN_KEY_TENSORS)},
    {"e", "N", "hq*dk", "op=mha: model width", SIZE(e, 1, fallback_e, ATTN_KEY_TENSORS)},
    {"fill",
     "normal|uniform|ones|zeros|smooth|census|spike|poison|exact|one_hot|stair_up|stair_down|"
     "rounding|overflow|negative|constant|cancel|tiny|few_queries|strong_decay|tiny_phi|clusters|"
     "cancel_delta|big_grad|tiny_grad|sparse_grad|sparse_keys|zero_grad|two_hot",
     "normal", "values of q, k, v (x_*)", CHOICE(fill, attn_fill_choices, ATTN_FILL_NORMAL, 0)},
    {"global_proj", "0|1", "0", "q_global, k_global, v_global: what global tokens use as queries",
     CHOICE(global_proj, flags, 0, 0)},
    {"h", "N", NULL, "hq and hkv in one", SHORTHAND(0, "hq", "hkv")},
    {"hkv", "N", "hq", "key/value heads; divides hq", SIZE(hkv, 1, fallback_hq, 0)},
    {"hq", "N", "1", "query heads; must be given with op=mha", SIZE(hq, 1, fallback_one, 0)},
    {"kv", "self|cross", "self", "op=mha: where keys and values come from",
     CHOICE(cross, kvs, 0, 0)},
    {"layout", "bhsd|bshd|bhds", "bhsd", "order of axes in memory",
     CHOICE(layout, layouts, ATTN_LAYOUT_BHSD, 0)},
    {"mask",
     "dense, or parts joined with +: causal br causal_br past:N window:L:R[:D/D/...] "
     "len:rand|N/N/... len2d:rand bool:P[:AXES] global:N|rand:P; len len2d bool global",
     "dense", "which keys a query attends to",
     RULE{.parse = attn_parse_mask, .write = attn_write_mask, .flags = ATTN_KEY_WHOLE}},
    {"op", NULL, ATTN_DEFAULT_OP, "the operator", RULE{.parse = parse_op, .write = write_op}},
    {"out", NULL, "none",
     "outputs beyond the usual ones; to name some of dq dk dv leaves out the others",
     RULE{.parse = attn_parse_out, .write = attn_write_out}},
    {"params", "shared|head", "shared",
     "bilinear, additive, disentangled, performer: one set, or one per query head",
     CHOICE(params_head, params, 0, 0)},
    {"proj_bias", "0|1", "0", "op=mha: b_q b_k b_v b_o", CHOICE(proj_bias, flags, 0, 0)},
    {"prune", "I/I/...", NULL, "op=mha: heads that are zeroed",
     RULE{.parse = attn_parse_prune, .write = attn_write_prune, .flags = ATTN_KEY_WHOLE}},
    {"residual", "0|1", "0", "op=mha: adds x_q last", CHOICE(residual, flags, 0, 0)},
    {"s", "N", NULL, "sq and sk in one", SHORTHAND(ATTN_KEY_TENSORS, "sq", "sk")},
    {"scale", "X or 1/sk",
     "1/sqrt(dk) for scaled_dot, 1/chunk for op=chunked, 1/sqrt(3 dk) or 1/sqrt(2 dk) for "
     "disentangled, else 1",
     "factor of the raw score", RULE{.parse = parse_scale, .write = write_scale}},
    {"score", NULL, ATTN_DEFAULT_SCORE, "score of a query and key",
     RULE{.parse = parse_score, .write = write_score}},
    {"seed", "N", "1", "seed of random tensors and dropout; up to 2^64-1",
     RULE{.parse = parse_seed, .write = write_seed}},
    {"sha256", "64 hex digits", NULL, "refuses a pack whose bytes have another hash",
     RULE{.parse = attn_parse_sha256, .write = attn_write_sha256, .flags = ATTN_KEY_PATH}},
    {"sink", "0|1; tensor", "0", "one logit per head that joins the denominator",
     RULE{.parse = parse_sink, .write = write_sink}},
    {"sk", "N", "sq", "keys; may be 0", SIZE(sk, 0, fallback_sq, ATTN_KEY_TENSORS)},
    {"softcap", "C", "0", "s <- C tanh(s/C); 0: none",
     RULE{.parse = parse_softcap, .write = write_softcap}},
    {"sq", "N", NULL, "queries", SIZE(sq, 1, NULL, ATTN_KEY_TENSORS)},
    {"view", "none, or parts joined with +: gaps permuted broadcast offset1 huge", "none",
     "how operands lie in memory", RULE{.parse = attn_parse_view, .write = attn_write_view}},
    {"weights", "normal|stiefel", "normal", "op=mha: random or orthonormal projections",
     CHOICE(weights, weights, ATTN_WEIGHTS_NORMAL, 0)},
    {"wo", "0|1", "1", "op=mha: output projection", CHOICE(wo, flags, 1, 0)},
    {NULL, NULL, NULL, NULL, NULL}};
