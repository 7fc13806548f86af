/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - defaults, and checks that need the whole case. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "case/language.h"
#include "case/operator.h"

static int64_t *size_field(const struct attn_case_key *key, struct attn_case *c)
{
    return (int64_t *)(void *)((char *)c + key->rule->offset);
}

static bool is_size(const struct attn_case_key *key)
{
    return (key->rule->flags & ATTN_KEY_SIZE) && key->rule->write;
}

void attn_case_init(struct attn_case *c)
{
    memset(c, 0, sizeof *c);
    c->op = ref_op_named(ATTN_DEFAULT_OP)->op;
    c->score = ref_score_named(ATTN_DEFAULT_SCORE)->score;
    c->dtype = ATTN_F32;
    c->wo = true;
    c->seed = 1;
    for (const struct attn_case_key *key = attn_case_keys(); key->name; key++)
        if (is_size(key))
            *size_field(key, c) = -1;
}

__attribute__((format(printf, 5, 6))) static int blame(const char **to, const char *key, char *why,
                                                       size_t size, const char *format, ...)
{
    *to = key;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, size, format, arguments);
    va_end(arguments);
    return -1;
}

static double default_scale(const struct attn_case *c)
{
    const bool by_width = attn_case_op(c)->scores && attn_case_score(c)->by_width;
    return by_width && c->dk <= 0 ? 0 : attn_case_scale(c);
}

static const struct attn_case_key *find_key(const char *name)
{
    return attn_key_find((struct attn_word){name, strlen(name), 0});
}

enum { SCORES_MAX = 192 };

static bool has_hidden(const struct ref_score *score)
{
    return score->hidden;
}

static bool has_free_widths(const struct ref_score *score)
{
    return score->free_widths;
}

static bool has_params(const struct ref_score *score)
{
    return attn_score_has_params(score);
}

static const char *scores_of(attn_score_kind *kind, const char *prefix, const char *joint,
                             char text[SCORES_MAX])
{
    attn_score_names(kind, prefix, joint, text, SCORES_MAX);
    return text;
}

/* The shorthand that sets a key among others, as " (or 'h')"; "" if there is none. */
static const char *or_shorthand(const char *name, char text[32])
{
    text[0] = '\0';
    for (const struct attn_case_key *key = attn_case_keys(); key->name; key++)
        for (size_t t = 0; t < ATTN_KEY_TARGETS && key->rule->targets[t]; t++)
            if (strcmp(key->rule->targets[t], name) == 0)
                snprintf(text, 32, " (or '%s')", key->name);
    return text;
}

/* A key of op->keys that the case's operator does not accept. */
static int refuse_key(const struct attn_case_key *entry, const char **key, char *why, size_t size)
{
    char text[192];
    attn_key_owners(entry->name, text, sizeof text);
    return blame(key, entry->name, why, size, "%s", text);
}

/* Is a key one that some operators accept, but not this one? */
static bool is_foreign(const struct attn_case_key *entry, const struct attn_case *c)
{
    return attn_key_has_owners(entry) && !entry->rule->param &&
           !attn_op_takes(attn_case_op(c), entry->name);
}

/* Checks the keys that have no default, and sizes without a meaning. */
static int check_required(const struct attn_case *c, const char **key, char *why, size_t size)
{
    const struct ref_op *op = attn_case_op(c);
    char text[32], scores[SCORES_MAX];
    if (c->sq < 0)
        return blame(key, "sq", why, size, "'sq' must be given (or 's')");
    if (c->dk < 0)
        return blame(key, "dk", why, size, "'dk' must be given (or 'd')");
    for (const char *const *name = op->needed; name && *name; name++)
        if (attn_key_size(find_key(*name), c) < 0)
            return blame(key, *name, why, size, "'%s' must be given with op=%s%s", *name, op->name,
                         or_shorthand(*name, text));
    for (const struct attn_case_key *entry = attn_case_keys(); entry->name; entry++)
        if (is_size(entry) && is_foreign(entry, c) && attn_key_size(entry, c) >= 0)
            return refuse_key(entry, key, why, size);
    if (!attn_case_score(c)->hidden && c->dh >= 0)
        return blame(key, "dh", why, size, "'dh' needs %s",
                     scores_of(has_hidden, "score=", " or ", scores));
    return 0;
}

/* The only sizes that a pack leaves open are the numbers of heads that split projected widths. */
static int resolve_heads(struct attn_case *c, const char **key, char *why, size_t size)
{
    const char *given = c->hq >= 0 ? "hq" : "hkv";
    if (!ref_op_is(c->op, REF_PROJECTED) && (c->hq >= 0 || c->hkv >= 0))
        return blame(key, given, why, size, "'%s' comes from the pack's tensors", given);
    if (c->hkv < 0)
        c->hkv = c->hq;
    return 0;
}

/* Numbers that are given by the number of keys. No keys count as one. */
static int resolve_by_keys(struct attn_case *c, bool pack, const char **key, char *why, size_t size)
{
    const double keys = c->sk > 1 ? (double)c->sk : 1;
    if (pack && c->scale_by_keys)
        return blame(key, "scale", why, size, "a pack's keys are in its tensors: give the number");
    if (c->scale_by_keys)
        c->scale = 1 / keys;
    if (c->bias_by_keys)
        c->bias_value = 0 - log(keys);
    c->scale_by_keys = c->bias_by_keys = false;
    return 0;
}

/* To name all outputs that are there by default is to name none. */
static void resolve_outputs(struct attn_case *c)
{
    const struct ref_output *outputs = attn_case_op(c)->outputs;
    bool all = true;
    for (const struct ref_output *o = outputs; o->role; o++)
        all = all && (!(o->flags & REF_DEFAULT) || attn_case_asks(c, o->role));
    for (const struct ref_output *o = outputs; o->role && all; o++)
        if (o->flags & REF_DEFAULT)
            c->out[o->role / 64] &= ~(UINT64_C(1) << o->role % 64);
}

int attn_case_resolve(struct attn_case *c, bool pack, const char **key, char *why, size_t size)
{
    /* A default that depends on other sizes comes after them. */
    static const char *const order[] = {"b", "hq", "hkv", "sk", "dq", "dv", "dh", "e"};
    if (!pack) {
        if (check_required(c, key, why, size) != 0)
            return -1;
        for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
            const struct attn_case_key *entry = find_key(order[i]);
            if (*size_field(entry, c) < 0)
                *size_field(entry, c) = entry->rule->fallback(c);
        }
    }
    resolve_outputs(c);
    if (pack && resolve_heads(c, key, why, size) != 0)
        return -1;
    if (attn_params_resolve(c, key, why, size) != 0 ||
        resolve_by_keys(c, pack, key, why, size) != 0)
        return -1;
    if (c->scale_given && (pack || c->scale != default_scale(c)))
        return 0;
    c->scale_given = false;
    c->scale = default_scale(c);
    return 0;
}

/* Checks that every known size is in its range. */
static int check_sizes(const struct attn_case *c, bool pack, const char **key, char *why,
                       size_t size)
{
    for (const struct attn_case_key *entry = attn_case_keys(); entry->name; entry++) {
        if (!is_size(entry))
            continue;
        int64_t value = attn_key_size(entry, c);
        bool unused =
            (value == 0 && strcmp(entry->name, "dh") == 0 && !attn_case_score(c)->hidden) ||
            (value == 0 && is_foreign(entry, c));
        if (unused || (pack && value == -1))
            continue;
        if (value < entry->rule->min || value > ATTN_CASE_SIZE_MAX)
            return blame(key, entry->name, why, size, "%s = %lld is outside %lld..%lld",
                         entry->name, (long long)value, (long long)entry->rule->min,
                         (long long)ATTN_CASE_SIZE_MAX);
    }
    return 0;
}

/* Checks sizes that must agree. An unknown size (-1) agrees with any. */
static int check_widths(const struct attn_case *c, const char **key, char *why, size_t size)
{
    bool known = c->hq > 0 && c->hkv > 0;
    if (known && c->hq % c->hkv != 0)
        return blame(key, "hkv", why, size, "hkv = %lld does not divide hq = %lld",
                     (long long)c->hkv, (long long)c->hq);
    char scores[SCORES_MAX];
    if (!attn_case_score(c)->free_widths && c->dq > 0 && c->dk > 0 && c->dq != c->dk)
        return blame(key, "dq", why, size,
                     "dq = %lld and dk = %lld differ: only %s scores allow it", (long long)c->dq,
                     (long long)c->dk, scores_of(has_free_widths, "", " and ", scores));
    const struct ref_op *op = attn_case_op(c);
    struct ref_shape shape;
    const struct ref_tie *tie = attn_case_shape(c, &shape) ? ref_shape_misfit(op, &shape) : NULL;
    if (tie)
        return blame(key, "op", why, size, "%s", tie->why);
    if (c->data)
        return 0; /* a pack has widths of its own; its reader checks them */
    if (attn_op_takes(op, "kv") && !c->cross && c->sk != c->sq)
        return blame(key, "sk", why, size, "sk = %lld differs from sq = %lld: that needs kv=cross",
                     (long long)c->sk, (long long)c->sq);
    bool sized = c->e >= 0 && c->hq >= 0 && c->dv >= 0; /* false in a pack's own line */
    if (attn_op_takes(op, "residual") && c->residual && !c->wo && sized && c->hq * c->dv != c->e)
        return blame(key, "residual", why, size,
                     "residual=1 adds x_q of width e = %lld to an output of width hq*dv = %lld",
                     (long long)c->e, (long long)c->hq * c->dv);
    return 0;
}

/* Is a key's value not its default? Then the canonical form has it. */
static bool is_given(const struct attn_case_key *entry, const struct attn_case *c)
{
    struct attn_sink sink = {.path = true};
    entry->rule->write(entry, c, &sink);
    return sink.length > 0;
}

static bool is_in_vain(const struct attn_case_key *entry, const struct attn_case *c)
{
    return is_foreign(entry, c) && !is_size(entry) && is_given(entry, c);
}

/* A key that the case's operator does not accept; of several, the first in another operator's
 * table. NULL: there is none. */
static const struct attn_case_key *key_in_vain(const struct attn_case *c)
{
    const struct attn_case_key *entry = attn_case_keys();
    while (entry->name && !is_in_vain(entry, c))
        entry++;
    for (const struct ref_op *const *op = ref_ops; entry->name && *op; op++)
        for (const char *const *name = (*op)->keys; name && *name; name++)
            if (is_in_vain(find_key(*name), c))
                return find_key(*name);
    return NULL;
}

/* Checks keys that have a meaning only with some operators or some scores. */
static int check_meaning(const struct attn_case *c, const char **key, char *why, size_t size)
{
    const struct attn_case_key *vain = key_in_vain(c);
    if (vain)
        return refuse_key(vain, key, why, size);
    char scores[SCORES_MAX];
    if (c->params_head && !attn_case_has_params(c))
        return blame(key, "params", why, size, "'params' needs %s",
                     scores_of(has_params, "score=", " or ", scores));
    if (c->data_hash[0] && c->data == NULL)
        return blame(key, "sha256", why, size, "'sha256' needs data=");
    for (int i = 0; i < c->n_prune; i++)
        if (c->hq > 0 && c->prune->at[i] >= c->hq)
            return blame(key, "prune", why, size, "prune: head %lld of %lld (the first is 0)",
                         (long long)c->prune->at[i], (long long)c->hq);
    return 0;
}

/* Checks features that not every operator has, by their flag or role in its tables. */
static int check_features(const struct attn_case *c, const char **key, char *why, size_t size)
{
    const struct ref_op *op = attn_case_op(c);
    const struct ref_operand *len = ref_operand_of(op, ATTN_LEN);
    const bool scored = strcmp(attn_case_score(c)->name, ATTN_DEFAULT_SCORE) != 0;
    const bool len2d = c->len == ATTN_LEN_RAND_2D || (c->len == ATTN_LEN_PACK && c->n_len == 2);
    const struct {
        const char *key, *what;
        bool set, has;
    } features[] = {
        {"mask", "causal mask", c->causal, op->flags & ATTN_FLAG_CAUSAL},
        {"mask", "window", c->window, op->flags & ATTN_FLAG_WINDOW},
        {"mask", "offset br", c->off_br, op->flags & ATTN_FLAG_OFF_BR},
        {"mask", "offset", c->off != 0, op->flags & ATTN_FLAG_OFF_BR},
        {"mask", "boolean mask", c->mask_bool || c->pack_mask, ref_operand_of(op, ATTN_MASK)},
        {"mask", "lengths", c->len != ATTN_LEN_NONE, len},
        {"mask", "lengths by query", len2d, len && strchr(len->shape, 'i')},
        {"mask", "global tokens", c->global != ATTN_GLOBAL_NONE, ref_operand_of(op, ATTN_GLOBAL)},
        {"mask", "dilated window", c->n_dilation > 0 || c->pack_dilation,
         ref_operand_of(op, ATTN_DILATION)},
        {"bias", "bias", c->bias_normal || c->bias_const || c->pack_bias,
         ref_operand_of(op, ATTN_BIAS)},
        {"bias", "ALiBi", c->alibi || c->pack_alibi, ref_operand_of(op, ATTN_ALIBI)},
        {"sink", "sink", c->sink || c->pack_sink, ref_operand_of(op, ATTN_SINK)},
        {"softcap", "softcap", c->softcap > 0, op->flags & ATTN_FLAG_SOFTCAP},
        {"dropout", "dropout", c->dropout, op->flags & ATTN_FLAG_DROPOUT},
        {"score", "such score", scored, op->scores >> c->score & 1},
        {"scale", "scores to scale", c->scale_given, op->scores || op->scaled},
    };
    for (size_t f = 0; f < sizeof features / sizeof features[0]; f++)
        if (features[f].set && !features[f].has)
            return blame(key, features[f].key, why, size, "op=%s has no %s", op->name,
                         features[f].what);
    const struct ref_output *output;
    for (size_t n = 0; (output = attn_optional_output(n)); n++)
        if (attn_case_asks(c, output->role) && ref_output_of(op, output->role) < 0)
            return blame(key, "out", why, size, "op=%s has no output %s", op->name, output->name);
    return 0;
}

/* Is an operand drawn, or does a pack bring it? */
static bool is_there(const struct attn_case *c, const struct ref_operand *operand)
{
    struct attn_drawn drawn;
    return attn_case_draws(c, operand, &drawn) || (operand->role == ATTN_BIAS && c->pack_bias) ||
           (operand->role == ATTN_ALIBI && c->pack_alibi) ||
           (operand->role == ATTN_SINK && c->pack_sink);
}

/* Checks that what a gradient is asked of is there. */
static int check_gradients(const struct attn_case *c, const char **key, char *why, size_t size)
{
    const struct ref_op *op = attn_case_op(c);
    for (const struct ref_gradient *g = op->gradients; !c->data && g && g->output; g++) {
        const struct ref_operand *operand = ref_operand_of(op, g->operand);
        if (attn_case_asks(c, g->output) && !is_there(c, operand))
            return blame(key, "out", why, size, "the gradient of %s needs %s in the case",
                         operand->name, operand->name);
    }
    return 0;
}

/* Checks what only a softmax has: a denominator. */
static int check_denominator(const struct attn_case *c, const char **key, char *why, size_t size)
{
    if (!attn_case_weighs(c))
        return 0;
    if (c->sink || c->pack_sink)
        return blame(key, "sink", why, size,
                     "a sink joins the denominator of a softmax, which this weight_fn has not");
    if (attn_case_asks(c, ATTN_LSE))
        return blame(key, "out", why, size,
                     "lse is of the denominator of a softmax, which this weight_fn has not");
    return 0;
}

static int check_global(const struct attn_case *c, const char **key, char *why, size_t size)
{
    const bool known = c->sq >= 0 && c->sk >= 0;
    if (c->global_proj && c->global == ATTN_GLOBAL_NONE)
        return blame(key, "global_proj", why, size, "'global_proj' needs mask=global:N");
    if (c->global != ATTN_GLOBAL_NONE && known && c->sq != c->sk)
        return blame(key, "mask", why, size, "global tokens need sq = sk, not %lld and %lld",
                     (long long)c->sq, (long long)c->sk);
    if (c->global == ATTN_GLOBAL_FIRST && known && c->n_global > c->sk)
        return blame(key, "mask", why, size, "global: %lld is beyond sk = %lld",
                     (long long)c->n_global, (long long)c->sk);
    if (c->hq > 0 && c->n_dilation > c->hq)
        return blame(key, "mask", why, size, "window: %d dilations, but hq = %lld", c->n_dilation,
                     (long long)c->hq);
    return 0;
}

static int check_mask(const struct attn_case *c, const char **key, char *why, size_t size)
{
    bool len2d = c->len == ATTN_LEN_RAND_2D || (c->len == ATTN_LEN_PACK && c->n_len == 2);
    if (c->off_br && c->off != 0)
        return blame(key, "mask", why, size, "'past' and 'br' both set the offset");
    if (c->off_br && len2d)
        return blame(key, "mask", why, size, "'br' has no meaning with 2-D lengths");
    if (c->causal && !(attn_case_op(c)->flags & ATTN_FLAG_OFF_BR) && c->sq > 0 && c->sk >= 0 &&
        c->sq != c->sk)
        return blame(key, "mask", why, size, "op=%s is causal within one sequence: sk = sq",
                     attn_case_op(c)->name);
    if (c->len != ATTN_LEN_LIST)
        return 0;
    if (c->b > 0 && c->n_len > c->b)
        return blame(key, "mask", why, size, "len: %d lengths, but b = %lld", c->n_len,
                     (long long)c->b);
    for (int i = 0; i < c->n_len; i++)
        if (c->sk >= 0 && c->len_list->at[i] > c->sk)
            return blame(key, "mask", why, size, "len: %lld is beyond sk = %lld",
                         (long long)c->len_list->at[i], (long long)c->sk);
    return 0;
}

int attn_case_judge(const struct attn_case *c, bool pack, const char **key, char *why, size_t size)
{
    if (check_sizes(c, pack, key, why, size) != 0 || check_widths(c, key, why, size) != 0 ||
        check_meaning(c, key, why, size) != 0 || check_features(c, key, why, size) != 0 ||
        check_denominator(c, key, why, size) != 0 || check_gradients(c, key, why, size) != 0 ||
        check_mask(c, key, why, size) != 0 || check_global(c, key, why, size) != 0 ||
        attn_params_judge(c, pack, key, why, size) != 0)
        return -1;
    char unfit[256];
    if (!attn_fill_fits(c, c->fill, unfit, sizeof unfit))
        return blame(key, "fill", why, size, "%s", unfit);
    if (attn_case_bytes(c) == UINT64_MAX)
        return blame(key, "sq", why, size, "the operands are larger than any address space");
    return 0;
}

int attn_case_check(const struct attn_case *c, char *why, size_t size)
{
    const char *key;
    char reason[256];
    if (attn_case_judge(c, c->data != NULL, &key, reason, sizeof reason) == 0)
        return 0;
    if (c->file)
        snprintf(why, size, "%s:%d: %s", c->file, c->line, reason);
    else
        snprintf(why, size, "%s", reason);
    return -1;
}
