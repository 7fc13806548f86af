/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - defaults, and what can only be judged of a case as a whole. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "case/language.h"

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
    c->op = ATTN_OP_ATTENTION;
    c->score = ATTN_SCORE_SCALED_DOT;
    c->dtype = ATTN_F32;
    c->wo = true;
    c->seed = 1;
    for (const struct attn_case_key *key = attn_case_keys; key->name; key++)
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
    if (c->score != ATTN_SCORE_SCALED_DOT)
        return 1;
    return c->dk > 0 ? 1 / sqrt((double)c->dk) : 0;
}

/* The keys that have no default. */
static int check_required(const struct attn_case *c, const char **key, char *why, size_t size)
{
    if (c->sq < 0)
        return blame(key, "sq", why, size, "'sq' must be given (or 's')");
    if (c->dk < 0)
        return blame(key, "dk", why, size, "'dk' must be given (or 'd')");
    if (c->op == ATTN_OP_MHA && c->hq < 0)
        return blame(key, "hq", why, size, "'hq' must be given with op=mha (or 'h')");
    if (c->op != ATTN_OP_MHA && c->e >= 0)
        return blame(key, "e", why, size, "'e' needs op=mha");
    if (c->score != ATTN_SCORE_ADDITIVE && c->dh >= 0)
        return blame(key, "dh", why, size, "'dh' needs score=additive");
    return 0;
}

/* Of all sizes a pack leaves open only how the widths of multi-head attention are cut into heads.
 */
static int resolve_heads(struct attn_case *c, const char **key, char *why, size_t size)
{
    const char *given = c->hq >= 0 ? "hq" : "hkv";
    if (c->op != ATTN_OP_MHA && (c->hq >= 0 || c->hkv >= 0))
        return blame(key, given, why, size, "'%s' comes from the pack's tensors", given);
    if (c->hkv < 0)
        c->hkv = c->hq;
    return 0;
}

int attn_case_resolve(struct attn_case *c, bool pack, const char **key, char *why, size_t size)
{
    /* Defaults that others are taken from come first. */
    static const char *const order[] = {"b", "hq", "hkv", "sk", "dq", "dv", "dh", "e"};
    if (!pack) {
        if (check_required(c, key, why, size) != 0)
            return -1;
        for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
            const struct attn_case_key *entry =
                attn_key_find((struct attn_word){order[i], strlen(order[i]), 0});
            if (*size_field(entry, c) < 0)
                *size_field(entry, c) = entry->rule->fallback(c);
        }
    }
    if (pack && resolve_heads(c, key, why, size) != 0)
        return -1;
    if (c->scale_given && (pack || c->scale != default_scale(c)))
        return 0;
    c->scale_given = false;
    c->scale = default_scale(c);
    return 0;
}

/* Every size that is known lies in its range. */
static int check_sizes(const struct attn_case *c, bool pack, const char **key, char *why,
                       size_t size)
{
    for (const struct attn_case_key *entry = attn_case_keys; entry->name; entry++) {
        if (!is_size(entry))
            continue;
        int64_t value = attn_key_size(entry, c);
        bool unused =
            (value == 0 && strcmp(entry->name, "dh") == 0 && c->score != ATTN_SCORE_ADDITIVE) ||
            (value == 0 && strcmp(entry->name, "e") == 0 && c->op != ATTN_OP_MHA);
        if (unused || (pack && value == -1))
            continue;
        if (value < entry->rule->min || value > ATTN_CASE_SIZE_MAX)
            return blame(key, entry->name, why, size, "%s = %lld is outside %lld..%lld",
                         entry->name, (long long)value, (long long)entry->rule->min,
                         (long long)ATTN_CASE_SIZE_MAX);
    }
    return 0;
}

/* Sizes that must agree; an unknown size (-1) agrees with any. */
static int check_widths(const struct attn_case *c, const char **key, char *why, size_t size)
{
    bool known = c->hq > 0 && c->hkv > 0;
    if (known && c->hq % c->hkv != 0)
        return blame(key, "hkv", why, size, "hkv = %lld does not divide hq = %lld",
                     (long long)c->hkv, (long long)c->hq);
    bool free_widths = c->score == ATTN_SCORE_BILINEAR || c->score == ATTN_SCORE_ADDITIVE;
    if (!free_widths && c->dq > 0 && c->dk > 0 && c->dq != c->dk)
        return blame(key, "dq", why, size,
                     "dq = %lld and dk = %lld differ: only bilinear and additive scores allow it",
                     (long long)c->dq, (long long)c->dk);
    if (c->op != ATTN_OP_MHA || c->data)
        return 0; /* a pack has widths of its own; its reader checks them */
    if (!c->cross && c->sk != c->sq)
        return blame(key, "sk", why, size, "sk = %lld differs from sq = %lld: that needs kv=cross",
                     (long long)c->sk, (long long)c->sq);
    bool sized = c->e >= 0 && c->hq >= 0 && c->dv >= 0; /* not yet, in a pack's own line */
    if (c->residual && !c->wo && sized && c->hq * c->dv != c->e)
        return blame(key, "residual", why, size,
                     "residual=1 adds x_q of width e = %lld to an output of width hq*dv = %lld",
                     (long long)c->e, (long long)c->hq * c->dv);
    return 0;
}

/* Keys that only multi-head attention, or only some scores, give a meaning. */
static int check_meaning(const struct attn_case *c, const char **key, char *why, size_t size)
{
    const struct {
        const char *key;
        bool set;
    } mha_only[] = {{"kv", c->cross},          {"proj_bias", c->proj_bias},
                    {"prune", c->n_prune > 0}, {"weights", c->weights != ATTN_WEIGHTS_NORMAL},
                    {"residual", c->residual}, {"wo", !c->wo}};
    for (size_t i = 0; c->op != ATTN_OP_MHA && i < sizeof mha_only / sizeof mha_only[0]; i++)
        if (mha_only[i].set)
            return blame(key, mha_only[i].key, why, size, "'%s' needs op=mha", mha_only[i].key);
    if (c->params_head && c->score != ATTN_SCORE_BILINEAR && c->score != ATTN_SCORE_ADDITIVE)
        return blame(key, "params", why, size, "'params' needs score=bilinear or score=additive");
    if (c->data_hash[0] && c->data == NULL)
        return blame(key, "sha256", why, size, "'sha256' needs data=");
    for (int i = 0; i < c->n_prune; i++)
        if (c->hq > 0 && c->prune->at[i] >= c->hq)
            return blame(key, "prune", why, size, "prune: head %lld of %lld (the first is 0)",
                         (long long)c->prune->at[i], (long long)c->hq);
    return 0;
}

static int check_mask(const struct attn_case *c, const char **key, char *why, size_t size)
{
    bool len2d = c->len == ATTN_LEN_RAND_2D || (c->len == ATTN_LEN_PACK && c->n_len == 2);
    if (c->off_br && c->off != 0)
        return blame(key, "mask", why, size, "'past' and 'br' both set the offset");
    if (c->off_br && len2d)
        return blame(key, "mask", why, size, "'br' has no meaning with 2-D lengths");
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
        check_meaning(c, key, why, size) != 0 || check_mask(c, key, why, size) != 0)
        return -1;
    char unfit[128];
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
