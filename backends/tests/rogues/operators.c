/* SPDX-License-Identifier: Apache-2.0 */
/* operators.c - see operators.h. The name of a bug is OPERATOR_MISTAKE_PART: bugs_operators.h. */
#include "operators.h"

#include <stdio.h>
#include <string.h>

#include "../../naive/naive.h"

/* A tile of queries or keys, and a row of it. */
enum { TILE = 64, ODD = 23, CHANNELS = 16 };

bool rogue_is_operator(const struct attn_problem *p)
{
    if (p->op == ATTN_OP_MHA || p->op == ATTN_OP_ATTENTION_BACKWARD)
        return false;
    return p->op != ATTN_OP_ATTENTION || p->score == ATTN_SCORE_DISENTANGLED ||
           attn_tensor_find(p, ATTN_GLOBAL) || attn_tensor_find(p, ATTN_DILATION);
}

int rogue_operator_supports(const struct attn_problem *p, char *why, size_t size)
{
    static const uint32_t optional[] = {ATTN_LSE,
                                        ATTN_LEN,
                                        ATTN_BIAS,
                                        ATTN_BONUS,
                                        ATTN_STATE_IN,
                                        ATTN_GATE,
                                        ATTN_STATE_OUT,
                                        ATTN_GLOBAL,
                                        ATTN_REL_POS,
                                        ATTN_PROJ_F,
                                        ATTN_DILATION,
                                        ATTN_BUCKETS,
                                        ATTN_Q_GLOBAL,
                                        ATTN_K_GLOBAL,
                                        ATTN_V_GLOBAL,
                                        ATTN_BUCKETS_OUT,
                                        0};
    static const struct attn_limits limits = {
        .ops = ATTN_BIT(ATTN_OP_ATTENTION) | ATTN_BIT(ATTN_OP_WKV) |
               ATTN_BIT(ATTN_OP_LINEAR_DECAY) | ATTN_BIT(ATTN_OP_PERFORMER) |
               ATTN_BIT(ATTN_OP_CHUNKED) | ATTN_BIT(ATTN_OP_LINFORMER) | ATTN_BIT(ATTN_OP_NYSTROM) |
               ATTN_BIT(ATTN_OP_LSH),
        .scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT) | ATTN_BIT(ATTN_SCORE_DISENTANGLED),
        .dtypes = ATTN_BIT(ATTN_F32) | ATTN_BIT(ATTN_F16) | ATTN_BIT(ATTN_BF16),
        .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR | ATTN_FLAG_DETERMINISTIC,
        .optional = optional,
    };
    if (p->n_tensors > ROGUE_TENSORS) {
        snprintf(why, size, "%u tensors are too many", p->n_tensors);
        return ATTN_UNSUPPORTED;
    }
    return attn_problem_check(p, &limits, why, size);
}

void rogue_operator_measure(const struct attn_problem *p, struct rogue_operator *o)
{
    const struct attn_tensor *out = attn_tensor_find(p, ATTN_OUT);
    *o = (struct rogue_operator){.problem = p,
                                 .workspace_bytes = attn_naive_bytes_f32(p),
                                 .other_bytes = (size_t)attn_problem_span(out),
                                 .copy_bytes = 1};
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        const size_t bytes = (size_t)attn_problem_span(&p->tensors[t]);
        o->copy_bytes = bytes > o->copy_bytes ? bytes : o->copy_bytes;
    }
}

/* What naive declares. */
void rogue_operator_declare(struct attn_numerics *n)
{
    n->acc_type = n->score_type = n->p_type = n->proj_type = ATTN_F32;
    n->p_normalised = n->denominator = 1;
    n->empty_row = ATTN_EMPTY_ZERO;
    n->deterministic = 1;
    n->invariant = ATTN_INVARIANT_BATCH | ATTN_INVARIANT_THREADS;
    n->e_exp = n->e_log = 4 * 0x1p-24;
    n->e_tanh = 8 * 0x1p-24;
}

/* ---- a problem with a mistake ---- */

struct wrong {
    struct attn_problem problem;
    struct attn_tensor tensors[ROGUE_TENSORS];
    char *copy;
};

static struct attn_tensor *find(struct wrong *w, uint32_t role)
{
    for (uint32_t t = 0; t < w->problem.n_tensors; t++)
        if (w->tensors[t].role == role)
            return &w->tensors[t];
    return NULL;
}

/* The tensor with data that may be changed. */
static struct attn_tensor *copied(struct wrong *w, uint32_t role)
{
    struct attn_tensor *t = find(w, role);
    if (t) {
        memcpy(w->copy, t->data, (size_t)attn_problem_span(t));
        t->data = w->copy;
    }
    return t;
}

static void shorten(struct wrong *w, uint32_t role, int axis, int64_t by)
{
    struct attn_tensor *t = find(w, role);
    if (t)
        t->shape[axis] -= by;
}

static void wrong_scale(struct wrong *w)
{
    w->problem.scale *= 1.02;
}

static void lose_landmark(struct wrong *w)
{
    w->problem.landmarks--;
    shorten(w, ATTN_PROJ_E, 1, 1);
    shorten(w, ATTN_PROJ_F, 1, 1);
}

static void lose_feature(struct wrong *w)
{
    shorten(w, ATTN_FEATURES, 1, 1);
}

/* The last tile of keys is not seen. */
static void lose_keys(struct wrong *w)
{
    w->problem.sk -= TILE;
    shorten(w, ATTN_K, 2, TILE);
    shorten(w, ATTN_V, 2, TILE);
    shorten(w, ATTN_PROJ_E, 2, TILE);
    shorten(w, ATTN_PROJ_F, 2, TILE);
}

/* The first token of a tile in the middle of n. */
static int64_t middle(int64_t n)
{
    return n * 5 / 8 / TILE * TILE;
}

/* Rows of a tile of an operand [B,H,S,width] are those of the tile before. */
static void make_stale(struct wrong *w, uint32_t role)
{
    struct attn_tensor *t = copied(w, role);
    const int64_t element = attn_element_bytes(t->dtype), first = middle(t->shape[2]);
    for (int64_t n = 0; n < t->shape[0] * t->shape[1] * TILE * t->shape[3]; n++) {
        const int64_t c = n % t->shape[3], j = first + n / t->shape[3] % TILE;
        const int64_t head = n / t->shape[3] / TILE;
        const int64_t at =
            attn_row_start(t, head / t->shape[1], head % t->shape[1], j) + c * t->stride[3];
        memcpy(w->copy + at * element, w->copy + (at - TILE * t->stride[2]) * element,
               (size_t)element);
    }
}

static void stale_values(struct wrong *w)
{
    make_stale(w, ATTN_V);
}

/* Every number of an operand of f32 goes through a function. */
static void change_all(struct wrong *w, uint32_t role, float (*change)(float))
{
    struct attn_tensor *t = copied(w, role);
    for (int64_t at = 0; at < attn_problem_span(t) / (int64_t)sizeof(float); at++)
        ((float *)t->data)[at] = change(((float *)t->data)[at]);
}

static float two_percent_more(float x)
{
    return x * 1.02F;
}

static float rounded(float x)
{
    return attn_f32_of_bf16(attn_bf16_of_f32(x));
}

static void wrong_decay(struct wrong *w)
{
    change_all(w, ATTN_DECAY, two_percent_more);
}

static void round_rotations(struct wrong *w)
{
    change_all(w, ATTN_ROTATIONS, rounded);
}

/* One token goes to the next bucket. */
static void wrong_bucket(struct wrong *w)
{
    struct attn_tensor *t = copied(w, ATTN_BUCKETS);
    int32_t *bucket = (int32_t *)t->data + middle(t->shape[3]) * t->stride[3];
    *bucket = (*bucket + 1) % (int32_t)w->problem.buckets;
}

/* The last global token is taken for another. */
static void forget_global(struct wrong *w)
{
    struct attn_tensor *t = copied(w, ATTN_GLOBAL);
    for (int64_t b = 0; b < t->shape[0]; b++)
        for (int64_t j = t->shape[1]; j-- > 0;) {
            char *is = w->copy + b * t->stride[0] + j * t->stride[1];
            if (*is) {
                *is = 0;
                break;
            }
        }
}

static void narrow_window(struct wrong *w)
{
    w->problem.window_left--;
}

static void forget_steps(struct wrong *w)
{
    struct attn_tensor *t = copied(w, ATTN_DILATION);
    for (int64_t h = 0; h < t->shape[0]; h++)
        ((int32_t *)t->data)[h * t->stride[0]] = 1;
}

/* Positions of keys are read one row on. */
static void next_place(struct wrong *w)
{
    struct attn_tensor *t = copied(w, ATTN_SCORE_KR);
    const int64_t row = t->stride[1] * attn_element_bytes(t->dtype);
    memmove(w->copy, w->copy + row, (size_t)(attn_problem_span(t) - row));
}

static const struct {
    const char *name;
    void (*change)(struct wrong *w);
} mistakes[] = {{"scale", wrong_scale},         {"landmark", lose_landmark},
                {"feature", lose_feature},      {"keys", lose_keys},
                {"values", stale_values},       {"decay", wrong_decay},
                {"rotations", round_rotations}, {"bucket", wrong_bucket},
                {"global", forget_global},      {"window", narrow_window},
                {"steps", forget_steps},        {"places", next_place}};

/* ---- which part, and mistakes in the answer itself ---- */

static bool is(const char *word, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(word, name, length) == 0 && (word[length] == 0 || word[length] == '_');
}

static bool has_part(const char *part, const struct attn_tensor *out, int64_t h, int64_t i,
                     int64_t c)
{
    const int64_t first = middle(out->shape[2]);
    const bool odd_head = h == out->shape[1] / 2;
    if (is(part, "head"))
        return h == out->shape[1] - 1;
    if (is(part, "tile"))
        return odd_head && i >= first && i < first + TILE;
    if (is(part, "row"))
        return odd_head && i == first + ODD;
    if (is(part, "channels"))
        return c >= out->shape[3] - CHANNELS;
    return true; /* all */
}

/* Element (b,h,i,c) of out becomes that of `from` at query `of` of head `head`. */
static void take_element(const struct attn_tensor *out, const char *from, int64_t b, int64_t h,
                         int64_t i, int64_t c, int64_t head, int64_t of)
{
    const int64_t element = attn_element_bytes(out->dtype), column = c * out->stride[3];
    memcpy((char *)out->data + (attn_row_start(out, b, h, i) + column) * element,
           from + (attn_row_start(out, b, head, of) + column) * element, (size_t)element);
}

/* Replaces a part of out by `from`: as it is there, or as `mistake` moves it. */
static void replace(const struct attn_tensor *out, const char *from, const char *mistake,
                    const char *part)
{
    const int64_t *n = out->shape;
    for (int64_t at = 0; at < n[0] * n[1] * n[2] * n[3]; at++) {
        const int64_t c = at % n[3], i = at / n[3] % n[2], h = at / n[3] / n[2] % n[1];
        const int64_t b = at / n[3] / n[2] / n[1];
        int64_t head = h, of = i;
        if (!has_part(part, out, h, i, c))
            continue;
        if (is(mistake, "neighbour"))
            of = i - 1;
        else if (is(mistake, "stale"))
            of = i - TILE;
        else if (is(mistake, "fourth"))
            of = i - i % 4;
        else if (is(mistake, "other"))
            head = h - 1;
        take_element(out, from, b, h, i, c, head, of);
    }
}

void rogue_operator_run(const struct rogue_operator *o, const struct attn_tensor *tensors,
                        const char *bug)
{
    const char *mistake = strchr(bug, '_'), *part = mistake ? strchr(mistake + 1, '_') : NULL;
    struct wrong w = {.problem = *o->problem, .copy = o->copy};
    struct attn_operands operands;
    memcpy(w.tensors, tensors, w.problem.n_tensors * sizeof *tensors);
    w.problem.tensors = w.tensors;
    attn_operands_set(&operands, w.tensors, w.problem.n_tensors);
    attn_naive_run_f32(&w.problem, &operands, o->workspace);
    if (!part)
        return;
    const struct attn_tensor out = operands.out;
    memcpy(o->other, out.data, o->other_bytes);
    for (size_t n = 0; n < sizeof mistakes / sizeof *mistakes; n++)
        if (is(mistake + 1, mistakes[n].name)) {
            mistakes[n].change(&w);
            find(&w, ATTN_OUT)->data = o->other;
            attn_operands_set(&operands, w.tensors, w.problem.n_tensors);
            attn_naive_run_f32(&w.problem, &operands, o->workspace);
        }
    replace(&out, o->other, mistake + 1, part + 1);
}
