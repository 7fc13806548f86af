/* SPDX-License-Identifier: Apache-2.0 */
/* generate.c - random legal case lines. */
#include "case/generate.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case/language.h"
#include "case/operator.h"

enum { WORDS_MAX = 40, WORD_MAX = 256 };

/* The words of a line, before they are shuffled. */
struct words {
    char text[WORDS_MAX][WORD_MAX];
    unsigned count;
};

uint64_t attn_draw(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

unsigned attn_draw_below(uint64_t *state, unsigned n)
{
    return (unsigned)((attn_draw(state) >> 32) % n);
}

__attribute__((format(printf, 2, 3))) static void word(struct words *words, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(words->text[words->count++], WORD_MAX, format, arguments);
    va_end(arguments);
    assert(length > 0 && length < WORD_MAX && words->count < WORDS_MAX);
    (void)length;
}

static const char *pick(uint64_t *state, const char *const *names, unsigned count)
{
    return names[attn_draw_below(state, count)];
}

/* A number in any of the spellings that the language reads. */
static void real(uint64_t *state, char text[32], double low, double high)
{
    double value = low + (high - low) * ((double)(attn_draw(state) >> 11) * 0x1p-53);
    static const char *const formats[] = {"%.1f", "%.17g", "%.3g", "%.6f", "%.2e"};
    const char *format = formats[attn_draw_below(state, 5)];
    do
        snprintf(text, 32, format, value);
    while (strtod(text, NULL) >= high && (value = low, true)); /* rounded up to the open end */
}

/* Some of the letters, at least one, in random order. */
static void axes(uint64_t *state, char text[8])
{
    char letters[] = "bhqk";
    unsigned count = 1 + attn_draw_below(state, 4);
    for (unsigned i = 0; i < count; i++) {
        unsigned other = i + attn_draw_below(state, 4 - i);
        char letter = letters[i];
        letters[i] = letters[other];
        letters[other] = letter;
    }
    snprintf(text, 8, "%s%.*s", attn_draw_below(state, 2) ? ":" : "", (int)count, letters);
    if (text[0] != ':')
        text[0] = '\0';
}

static void join(char text[WORD_MAX], const char *part)
{
    size_t length = strlen(text);
    snprintf(text + length, WORD_MAX - length, "%s%s", length ? "+" : "", part);
}

static void mask(uint64_t *state, struct words *words, unsigned b, unsigned sk)
{
    char parts[WORD_MAX] = "", part[96], number[32], letters[8];
    bool len2d = attn_draw_below(state, 5) == 0;
    unsigned offset = attn_draw_below(state, 4);
    if (attn_draw_below(state, 3) == 0)
        join(parts, offset == 0 && !len2d ? "causal_br" : "causal");
    else if (offset == 0 && !len2d)
        join(parts, "br");
    if (offset == 1) {
        snprintf(part, sizeof part, "past:%u", attn_draw_below(state, 50));
        join(parts, part);
    }
    if (attn_draw_below(state, 3) == 0) {
        snprintf(part, sizeof part, "window:%d:%d", (int)attn_draw_below(state, 9) - 1,
                 (int)attn_draw_below(state, 9) - 1);
        join(parts, part);
    }
    if (len2d) {
        join(parts, "len2d:rand");
    } else if (attn_draw_below(state, 4) == 0) {
        join(parts, "len:rand");
    } else if (attn_draw_below(state, 4) == 0) {
        int used = snprintf(part, sizeof part, "len:%u", attn_draw_below(state, sk + 1));
        for (unsigned i = 1; i < b && attn_draw_below(state, 3); i++)
            used += snprintf(part + used, sizeof part - (size_t)used, "/%u",
                             attn_draw_below(state, sk + 1));
        join(parts, part);
    }
    if (attn_draw_below(state, 3) == 0) {
        do
            real(state, number, 0, 1);
        while (strchr(number, '+')); /* 0.00e+00: '+' joins parts */
        axes(state, letters);
        snprintf(part, sizeof part, "bool:%s%s", number, letters);
        join(parts, part);
    }
    if (parts[0] || attn_draw_below(state, 4) == 0)
        word(words, "mask=%s", parts[0] ? parts : "dense");
}

static void bias(uint64_t *state, struct words *words)
{
    char letters[8];
    axes(state, letters);
    switch (attn_draw_below(state, 6)) {
    case 0:
        word(words, "bias=normal%s", letters);
        break;
    case 1:
        word(words, "bias=alibi");
        break;
    case 2:
        word(words, "bias=alibi+normal%s", letters);
        break;
    default:
        break;
    }
}

/* A value of an operator's own parameter. */
static void parameter(uint64_t *state, struct words *words, const struct ref_param *param)
{
    double value = param->least;
    char text[64];
    if (param->kind == REF_PARAM_REAL)
        value += (param->most - param->least) * ((double)(attn_draw(state) >> 11) * 0x1p-53);
    else
        value += attn_draw_below(state, 1 + (unsigned)(param->most - param->least) % 64);
    attn_param_text(param, value, text, sizeof text);
    word(words, "%s=%s", param->key, text);
}

/* The operator, and keys that it takes and others do not. */
static void operator_words(uint64_t *state, struct words *words, const struct ref_op *op,
                           unsigned hq)
{
    if (strcmp(op->name, ATTN_DEFAULT_OP) != 0)
        word(words, "op=%s", op->name);
    if (attn_op_takes(op, "proj_bias") && attn_draw_below(state, 2))
        word(words, "proj_bias=%u", attn_draw_below(state, 2));
    if (attn_op_takes(op, "weights") && attn_draw_below(state, 3) == 0)
        word(words, "weights=stiefel");
    if (attn_op_takes(op, "residual") && attn_draw_below(state, 3) == 0)
        word(words, "residual=1");
    else if (attn_op_takes(op, "wo") && attn_draw_below(state, 3) == 0)
        word(words, "wo=0");
    if (attn_op_takes(op, "e") && attn_draw_below(state, 2))
        word(words, "e=%u", 1 + attn_draw_below(state, 300));
    if (attn_op_takes(op, "prune") && hq > 1 && attn_draw_below(state, 3) == 0)
        word(words, "prune=%u/0", 1 + attn_draw_below(state, hq - 1));
    for (const struct ref_param *p = op->params; p && p->key; p++)
        if (attn_draw_below(state, 2))
            parameter(state, words, p);
}

static void sizes(uint64_t *state, struct words *words, const struct ref_op *op, bool free_widths)
{
    static const unsigned groups[] = {1, 2, 3, 8};
    unsigned hkv = 1 + attn_draw_below(state, 4), hq = hkv * groups[attn_draw_below(state, 4)],
             b = 1 + attn_draw_below(state, 4);
    unsigned sq = 1 + attn_draw_below(state, 400), sk = attn_draw_below(state, 400),
             dk = 1 + attn_draw_below(state, 200);
    if (b > 1 || attn_draw_below(state, 2))
        word(words, "b=%u", b);
    word(words, "hq=%u", hq);
    word(words, "hkv=%u", hkv);
    if (attn_draw_below(state, 2)) {
        word(words, "s=%u", sq);
        sk = sq;
    } else {
        word(words, "sq=%u", sq);
        word(words, "sk=%u", sk);
        if (attn_op_takes(op, "kv"))
            word(words, "kv=cross");
    }
    word(words, "dk=%u", dk);
    if (attn_draw_below(state, 2))
        word(words, "dv=%u", 1 + attn_draw_below(state, 200));
    if (free_widths && attn_draw_below(state, 2))
        word(words, "dq=%u", 1 + attn_draw_below(state, 200));
    if (op->traits & REF_SOFTMAX)
        mask(state, words, b, sk);
    operator_words(state, words, op, hq);
}

static void scoring(uint64_t *state, struct words *words, const char *score)
{
    bool additive = strcmp(score, "additive") == 0;
    char number[32];
    word(words, "score=%s", score);
    if (additive && attn_draw_below(state, 2))
        word(words, "dh=%u", 1 + attn_draw_below(state, 64));
    if ((additive || strcmp(score, "bilinear") == 0) && attn_draw_below(state, 2))
        word(words, "params=%s", attn_draw_below(state, 2) ? "head" : "shared");
    if (attn_draw_below(state, 3) == 0) {
        real(state, number, -2, 2);
        word(words, "scale=%s", number);
    }
    if (attn_draw_below(state, 3) == 0) {
        real(state, number, 0, 60);
        word(words, "softcap=%s", number);
    }
    if (attn_draw_below(state, 3) == 0) {
        real(state, number, 0, 1);
        word(words, "dropout=%s", number);
    }
}

static void placement(uint64_t *state, struct words *words, const struct ref_op *op)
{
    static const char *const dtypes[] = {"f64", "f32", "f16", "bf16"};
    static const char *const layouts[] = {"bhsd", "bshd", "bhds"};
    static const char *const fills[] = {"normal", "uniform", "ones", "zeros"};
    static const char *const outs[] = {"none", "lse", "weights", "lse+weights", "weights+lse"};
    static const char *const views[] = {"gaps", "permuted+gaps", "broadcast", "offset1+gaps",
                                        "huge+offset1+broadcast+permuted+gaps"};
    if (attn_draw_below(state, 2))
        word(words, "dtype=%s", pick(state, dtypes, 4));
    if (attn_draw_below(state, 3) == 0)
        word(words, "layout=%s", pick(state, layouts, 3));
    if (attn_draw_below(state, 3) == 0)
        word(words, "fill=%s", pick(state, fills, 4));
    if (ref_output_of(op, ATTN_LSE) >= 0 && attn_draw_below(state, 3) == 0)
        word(words, "out=%s", pick(state, outs, 5));
    if (attn_draw_below(state, 3) == 0)
        word(words, "view=%s", pick(state, views, 5));
    if (ref_operand_of(op, ATTN_SINK) && attn_draw_below(state, 3) == 0)
        word(words, "sink=%u", attn_draw_below(state, 2));
    if (attn_draw_below(state, 3) == 0)
        word(words, "seed=%llu",
             (unsigned long long)(attn_draw(state) >> attn_draw_below(state, 64)));
}

static const struct ref_op *pick_op(uint64_t *state)
{
    unsigned count = 0;
    while (ref_ops[count])
        count++;
    return ref_ops[attn_draw_below(state, count)];
}

/* Legal as a line; there is no such file. */
static void pack(uint64_t *state, struct words *words)
{
    static const char *const masks[] = {"len", "len2d", "bool", "causal_br+len", "past:3+bool"};
    static const char *const biases[] = {"tensor", "alibi", "tensor+alibi"};
    word(words, "data=some/%%20%%25path+%u.safetensors", attn_draw_below(state, 100));
    const struct ref_op *op = pick_op(state);
    if (strcmp(op->name, ATTN_DEFAULT_OP) != 0)
        word(words, "op=%s", op->name);
    if ((op->traits & REF_PROJECTED) && attn_draw_below(state, 2))
        word(words, "hq/hkv=8/%u", 1u << attn_draw_below(state, 4));
    if (!(op->traits & REF_SOFTMAX))
        return;
    if (attn_draw_below(state, 2))
        word(words, "mask=%s", pick(state, masks, 5));
    if (attn_draw_below(state, 2))
        word(words, "bias=%s", pick(state, biases, 3));
    if (attn_draw_below(state, 2))
        word(words, "sink=tensor");
    if (attn_draw_below(state, 2))
        word(words, "scale=0.25");
    if (attn_draw_below(state, 2))
        word(words, "sha256=%064llx", (unsigned long long)attn_draw(state));
}

void attn_case_generate(uint64_t *state, bool packs, char *text, size_t size)
{
    static const char *const scores[] = {"scaled_dot", "dot", "gaussian", "bilinear", "additive"};
    struct words words = {.count = 0};
    if (packs && attn_draw_below(state, 8) == 0) {
        pack(state, &words);
    } else {
        const unsigned score = attn_draw_below(state, 5);
        const struct ref_op *op = pick_op(state);
        sizes(state, &words, op, op->scores && score >= 3);
        if (op->traits & REF_SOFTMAX) {
            scoring(state, &words, scores[score]);
            bias(state, &words);
        }
        placement(state, &words, op);
    }
    size_t length = 0;
    text[0] = '\0';
    while (words.count > 0) {
        unsigned chosen = attn_draw_below(state, words.count);
        length += (size_t)snprintf(text + length, size - length, "%s%s", length ? " " : "",
                                   words.text[chosen]);
        assert(length < size);
        memmove(words.text[chosen], words.text[--words.count], WORD_MAX);
    }
}
