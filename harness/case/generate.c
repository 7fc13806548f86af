/* SPDX-License-Identifier: Apache-2.0 */
/* generate.c - random legal case lines. */
#include "case/generate.h"

#include <stdio.h>
#include <string.h>

#include "case/draft.h"
#include "case/language.h"

#define COUNT(values) (sizeof(values) / sizeof *(values))

/* One of the names, or a number of a range. Extremes occur more often than values between them. */
static void extreme_or_real(struct attn_draft *draft, const char *key, const char *const *names,
                            unsigned count, double low, double high)
{
    char number[32];
    attn_draft_real(draft, low, high, number);
    const char *name = attn_draft_name(draft, names, count);
    attn_draft_word(draft, "%s=%s", key, attn_draft_percent(draft, 70) ? name : number);
}

static void scoring(struct attn_draft *draft)
{
    /* From 3e3 on the bound may be too wide to prove anything. */
    static const char *const scales[] = {"0",     "1",      "-1",  "5",   "-20",  "100", "1e-4",
                                         "1e-20", "-1e-40", "3e3", "1e8", "1e38", "1/sk"};
    static const char *const caps[] = {"0.05", "1", "3.5", "30", "1e4", "1e300"};
    static const char *const rates[] = {"0", "0.1", "0.5", "0.97"};
    char number[32];
    if (draft->score != ref_score_named(ATTN_DEFAULT_SCORE) || attn_draft_percent(draft, 25))
        attn_draft_word(draft, "score=%s", draft->score->name);
    if (draft->score->params[0]) {
        if (attn_draft_percent(draft, 75))
            attn_draft_word(draft, "params=%s", attn_draft_percent(draft, 67) ? "head" : "shared");
    }
    if (attn_draft_percent(draft, 30)) {
        attn_draft_real(draft, -2, 2, number);
        attn_draft_word(draft, "scale=%s", number);
    } else if (attn_draft_percent(draft, 20)) {
        attn_draft_word(draft, "scale=%s", attn_draft_name(draft, scales, COUNT(scales)));
    }
    if (attn_draft_percent(draft, 25))
        extreme_or_real(draft, "softcap", caps, COUNT(caps), 0, 60);
    if (attn_draft_percent(draft, 25))
        extreme_or_real(draft, "dropout", rates, COUNT(rates), 0, 1);
}

/* Has the case other weights than those of a softmax, and so no denominator? */
static bool weighs(const struct attn_draft *draft)
{
    return draft->op->param_flags && draft->op->param_flags(&draft->fields) & ATTN_FLAG_WEIGHT;
}

static void addition(struct attn_draft *draft)
{
    static const char *const constants[] = {"-log(sk)", "0", "1", "-8.5", "300"};
    char parts[2][ATTN_DRAFT_WORD_MAX], axes[8];
    unsigned count = 0;
    attn_draft_axes(draft, axes);
    if (attn_draft_percent(draft, 22))
        snprintf(parts[count++], sizeof parts[0], "normal%s", axes);
    else if (attn_draft_percent(draft, 8))
        snprintf(parts[count++], sizeof parts[0], "const:%s",
                 attn_draft_name(draft, constants, COUNT(constants)));
    if (attn_draft_percent(draft, 18))
        snprintf(parts[count++], sizeof parts[0], "alibi");
    attn_draft_parts(draft, "bias", "none", parts, count);
    if (attn_draft_percent(draft, 25) && !weighs(draft))
        attn_draft_word(draft, "sink=%u", attn_draft_percent(draft, 85));
}

/* Has this operand been drawn? */
static bool is_drawn(const struct attn_draft *draft, uint32_t role)
{
    bool drawn = false;
    for (unsigned w = 0; w < draft->count; w++) {
        const char *word = draft->words[w];
        const bool bias = strncmp(word, "bias=", 5) == 0;
        drawn = drawn || (role == ATTN_SINK && strcmp(word, "sink=1") == 0) ||
                (role == ATTN_ALIBI && bias && strstr(word, "alibi")) ||
                (role == ATTN_BIAS && bias && (strstr(word, "normal") || strstr(word, "const")));
    }
    return drawn;
}

/* Some of the outputs that are there by default, and the gradients of operands that have been
 * drawn. */
static void gradients(struct attn_draft *draft)
{
    char parts[REF_OUTPUTS][ATTN_DRAFT_WORD_MAX];
    unsigned count = 0;
    const bool some = attn_draft_percent(draft, 25);
    for (const struct ref_output *o = draft->op->outputs; some && o->role; o++)
        if (o->flags & REF_DEFAULT && attn_draft_percent(draft, 50))
            snprintf(parts[count++], sizeof parts[0], "%s", o->name);
    for (const struct ref_gradient *g = draft->op->gradients; g && g->output; g++)
        if (is_drawn(draft, g->operand) && attn_draft_percent(draft, 75))
            snprintf(parts[count++], sizeof parts[0], "%s",
                     draft->op->outputs[ref_output_of(draft->op, g->output)].name);
    if (draft->op->gradients)
        attn_draft_parts(draft, "out", "none", parts, count);
}

static void view(struct attn_draft *draft)
{
    static const char *const names[] = {"gaps", "permuted", "broadcast", "offset1"};
    char parts[5][ATTN_DRAFT_WORD_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < COUNT(names); i++)
        if (attn_draft_percent(draft, 45))
            snprintf(parts[count++], sizeof parts[0], "%s", names[i]);
    if (attn_draft_percent(draft, 3)) /* rare: it maps gigabytes of address space */
        snprintf(parts[count++], sizeof parts[0], "huge");
    attn_draft_parts(draft, "view", "none", parts, count);
}

static void placement(struct attn_draft *draft)
{
    static const char *const dtypes[] = {"f64", "f32", "f16", "bf16"};
    static const char *const layouts[] = {"bhsd", "bshd", "bhds"};
    static const char *const fills[] = {"normal", "uniform", "ones", "zeros", "smooth"};
    const unsigned fitting = COUNT(fills) - !ref_operand_of(draft->op, ATTN_Q);
    static const char *const outs[] = {"none", "lse", "weights", "lse+weights", "weights+lse"};
    if (attn_draft_percent(draft, 45))
        attn_draft_word(draft, "dtype=%s", attn_draft_name(draft, dtypes, COUNT(dtypes)));
    if (attn_draft_percent(draft, 60))
        attn_draft_word(draft, "layout=%s", attn_draft_name(draft, layouts, COUNT(layouts)));
    if (attn_draft_percent(draft, 40))
        attn_draft_word(draft, "fill=%s", attn_draft_name(draft, fills, fitting));
    if (ref_output_of(draft->op, ATTN_WEIGHTS) >= 0 && attn_draft_percent(draft, 75))
        attn_draft_word(draft, "out=%s",
                        weighs(draft) ? "weights" : attn_draft_name(draft, outs, COUNT(outs)));
    if (attn_draft_percent(draft, 36))
        view(draft);
    const uint64_t seed = attn_draw(draft->state);
    if (!attn_draft_percent(draft, 5))
        attn_draft_word(draft, "seed=%llu",
                        (unsigned long long)(attn_draft_percent(draft, 50)
                                                 ? seed
                                                 : seed >> attn_draw_below(draft->state, 64)));
}

/* The default operator, or one of the others: each in `share` percent, but in 60 all together. */
static const struct ref_op *pick_operator(struct attn_draft *draft, unsigned share)
{
    static const unsigned most = 60;
    const struct ref_op *fallback = ref_op_named(ATTN_DEFAULT_OP);
    unsigned others = 0, chosen = 0;
    for (const struct ref_op *const *op = ref_ops; *op; op++)
        others += *op != fallback;
    share = share * others < most ? share * others : most;
    if (!attn_draft_percent(draft, share) || others == 0)
        return fallback;
    if (others > 1)
        chosen = attn_draw_below(draft->state, others);
    for (const struct ref_op *const *op = ref_ops;; op++)
        if (*op != fallback && chosen-- == 0)
            return *op;
}

static const struct ref_score *pick_score(struct attn_draft *draft)
{
    static const struct {
        const char *name;
        unsigned share; /* in percent; the last has the rest */
    } scores[] = {{"dot", 12},      {"gaussian", 12},    {"bilinear", 12},
                  {"additive", 12}, {"disentangled", 8}, {"scaled_dot", 44}};
    unsigned draw = attn_draw_below(draft->state, 100), chosen = 0;
    for (; draw >= scores[chosen].share; chosen++)
        draw -= scores[chosen].share;
    return ref_score_named(scores[chosen].name);
}

/* The mask and the bias of an operator without a softmax. */
static void sight(struct attn_draft *draft)
{
    const struct ref_op *op = draft->op;
    char parts[2][ATTN_DRAFT_WORD_MAX];
    unsigned count = 0;
    if (op->flags & ATTN_FLAG_CAUSAL && !op->stabilised && draft->sizes.sq == draft->sizes.sk &&
        attn_draft_percent(draft, 50))
        snprintf(parts[count++], sizeof parts[0], "causal");
    if (ref_operand_of(op, ATTN_LEN) && attn_draft_percent(draft, 40))
        snprintf(parts[count++], sizeof parts[0], "len:rand");
    attn_draft_parts(draft, "mask", "dense", parts, count);
    if (ref_operand_of(op, ATTN_BIAS) && attn_draft_percent(draft, 40)) {
        char axes[8];
        attn_draft_axes(draft, axes);
        attn_draft_word(draft, "bias=normal%s", axes);
    }
}

static void problem(struct attn_draft *draft)
{
    draft->score = pick_score(draft);
    draft->op = pick_operator(draft, 12);
    if (!(draft->op->scores >> draft->score->score & 1))
        draft->score = ref_score_named(ATTN_DEFAULT_SCORE);
    attn_draft_sizes(draft);
    /* Its own softmax, or the gradients of one. */
    if (draft->op->traits & REF_SOFTMAX || ref_operand_of(draft->op, ATTN_MASK)) {
        attn_draft_mask(draft);
        scoring(draft);
        addition(draft);
        gradients(draft);
    } else if (draft->op->flags & ATTN_FLAG_CAUSAL || ref_operand_of(draft->op, ATTN_LEN)) {
        sight(draft);
    }
    placement(draft);
}

static void pack(struct attn_draft *draft)
{
    static const char *const masks[] = {"len", "len2d", "bool", "causal_br+len", "past:3+bool"};
    static const char *const biases[] = {"tensor", "alibi", "tensor+alibi"};
    attn_draft_word(draft, "data=some/%%20%%25path+%u.safetensors",
                    attn_draw_below(draft->state, 100));
    const struct ref_op *op = pick_operator(draft, 20);
    if (strcmp(op->name, ATTN_DEFAULT_OP) != 0)
        attn_draft_word(draft, "op=%s", op->name);
    if ((op->traits & REF_PROJECTED) && attn_draft_percent(draft, 50))
        attn_draft_word(draft, "hq/hkv=8/%u", 1u << attn_draw_below(draft->state, 4));
    if (!(op->traits & REF_SOFTMAX))
        return;
    if (attn_draft_percent(draft, 50))
        attn_draft_word(draft, "mask=%s", attn_draft_name(draft, masks, COUNT(masks)));
    if (attn_draft_percent(draft, 50))
        attn_draft_word(draft, "bias=%s", attn_draft_name(draft, biases, COUNT(biases)));
    if (attn_draft_percent(draft, 50))
        attn_draft_word(draft, "sink=tensor");
    if (attn_draft_percent(draft, 50))
        attn_draft_word(draft, "scale=0.25");
    if (attn_draft_percent(draft, 50))
        attn_draft_word(draft, "sha256=%064llx", (unsigned long long)attn_draw(draft->state));
}

void attn_case_generate(uint64_t *state, bool packs, char *text, size_t size)
{
    struct attn_draft draft = {.state = state};
    if (packs && attn_draw_below(state, 8) == 0)
        pack(&draft);
    else
        problem(&draft);
    attn_draft_write(&draft, text, size);
}
