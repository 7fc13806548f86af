/* SPDX-License-Identifier: Apache-2.0 */
/* variants.c - chooses the spots, and judges under the inputs that a run had. */
#include "run/variants.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "explain/examine.h"
#include "host/entropy.h"
#include "host/outputs.h"
#include "host/scramble.h"
#include "pack/twin.h"
#include "reference/dtype.h"
#include "reference/op.h"
#include "run/verify_one.h"

/* What an element becomes. A score moves by 16 of the numbers that normal ones are, which no weight
 * survives unchanged. A value, of which out has only its weight's share, must stand out in the mean
 * of all keys; below 2^12 it is exact, and sums with it stay finite, in every type. */
static const double score_away = 16, value_least = 16, value_most = 4096;

/* Of gradients the logarithm of the sum of weights is an input, which stays: a weight is the
 * exponential of what its score moves by. So that is a normal number there, which changes each
 * weight by a factor of its own and leaves no type. */
static double score_away_of(const struct attn_problem *p)
{
    return attn_tensor_find(p, ATTN_GRAD_OUT) ? fmin(score_away, 1 / fabs(p->scale)) : score_away;
}

/* Keys that a spot may lie at: the first of all, which causal rows see. */
static const double key_share = 0.25;

static double value_away(const struct attn_problem *p)
{
    return fmin(fmax(exp2(floor(log2(fmax((double)p->sk / 8, 1)))), value_least), value_most);
}

/* Takes an element of the tensor with these indices as the next spot. */
static void add_spot(struct attn_variants *v, const struct attn_tensor *tensor, const int64_t *at,
                     double away)
{
    struct attn_spot *spot = &v->spots[v->n_spots++];
    const size_t size = attn_dtype_size(tensor->dtype);
    int64_t element = 0;
    for (uint32_t a = 0; a < tensor->rank; a++)
        element += at[a] % tensor->shape[a] * tensor->stride[a];
    *spot = (struct attn_spot){.tensor = (uint32_t)(tensor - v->base->tensors),
                               .offset = (uint64_t)element * size};
    attn_dtype_store(tensor->dtype, &spot->away, 0, away);
}

/* One element of q, of k and of v, or of the inputs that these are made from. The key and the head
 * of k and v are the same. */
static void choose_spots(struct attn_variants *v)
{
    static const uint32_t roles[][2] = {{ATTN_Q, ATTN_X_Q}, {ATTN_K, ATTN_X_K}, {ATTN_V, ATTN_X_V}};
    const struct attn_problem *p = &v->base->problem;
    const uint64_t word = attn_entropy();
    const int64_t keys = (int64_t)ceil(key_share * (double)p->sk);
    const int64_t key = keys > 0 ? (int64_t)(word >> 32) % keys : 0;
    for (int r = 0; r < 3; r++) {
        const struct attn_tensor *tensor = attn_tensor_find(p, roles[r][0]);
        const bool plain = tensor != NULL;
        tensor = plain ? tensor : attn_tensor_find(p, roles[r][1]);
        if (!tensor || tensor->rank < 3)
            continue;
        bool empty = false;
        for (uint32_t a = 0; a < tensor->rank; a++)
            empty = empty || tensor->shape[a] < 1;
        if (empty)
            continue;
        const uint32_t row = tensor->rank - 2;
        int64_t at[ATTN_MAX_RANK] = {0};
        at[0] = (int64_t)(word & 0xff);
        at[1] = plain ? (int64_t)(word >> 8 & 0xff) : 0;
        at[row] = r == 0 && plain ? (int64_t)(word >> 16 & 0xffff) : key;
        at[row + 1] = (int64_t)(word >> 4 & 0xff) + r;
        add_spot(v, tensor, at, plain && r < 2 ? score_away_of(p) : value_away(p));
    }
}

/* States of three spots of which some are away. */
static const uint32_t between[] = {1, 2, 4, 5};

void attn_variants_create(struct attn_instance *base, struct attn_judge *judge, int threads,
                          struct attn_variants *v)
{
    char why[256];
    const struct attn_case *c = &base->c;
    *v = (struct attn_variants){.base = base, .judges = {judge}, .threads = threads};
    if (attn_twin_create(base, false, threads, &v->twin, why, sizeof why) != 0)
        v->twin = NULL;
    /* What a fill proves would not hold with an element of another kind. */
    const bool random = c->fill == ATTN_FILL_NORMAL || c->fill == ATTN_FILL_UNIFORM;
    if (v->twin && random && !c->data)
        choose_spots(v);
    /* Nor with inputs that are scrambled, and the worker cannot make those that follow from them.
     */
    v->scrambles = v->twin && (random || c->data) && ref_op_find(base->problem.op)->derive == NULL;
    if (v->n_spots == ATTN_SPOTS_MAX)
        v->mixed = between[attn_entropy() % (sizeof between / sizeof *between)];
}

void attn_variants_free(struct attn_variants *v)
{
    for (uint32_t s = 1; s < ATTN_STATES; s++)
        attn_judge_free(v->judges[s]);
    attn_instance_free(v->twin);
    *v = (struct attn_variants){0};
}

/* Is a spot away in a state? */
static bool is_away(const struct attn_variants *v, uint32_t state, uint32_t spot)
{
    if (state != ATTN_STATE_MIXED)
        return state & ATTN_STATE_AWAY;
    const bool second_half = v->mixed >= v->n_spots; /* in which spots come back */
    return (spot < v->mixed % v->n_spots) != second_half;
}

/* Exchanges the elements at the spots that are away in a state with what is kept for them. */
static void exchange_spots(struct attn_variants *v, uint32_t state,
                           const struct attn_instance *instance, uint64_t kept[ATTN_SPOTS_MAX])
{
    for (uint32_t s = 0; s < v->n_spots; s++) {
        if (!is_away(v, state, s))
            continue;
        const struct attn_tensor *tensor = &instance->tensors[v->spots[s].tensor];
        unsigned char *at = (unsigned char *)tensor->data + v->spots[s].offset;
        const size_t size = attn_dtype_size(tensor->dtype);
        uint64_t was = 0;
        memcpy(&was, at, size);
        memcpy(at, &kept[s], size);
        kept[s] = was;
    }
}

/* As the worker does it; the second time, back. */
static void scramble(const struct attn_instance *instance, uint64_t seed)
{
    for (uint32_t t = 0; seed != 0 && t < instance->problem.n_tensors; t++)
        if (!instance->operands[t].output && !attn_role_is_packed(instance->tensors[t].role))
            attn_scramble(&instance->tensors[t], t, seed);
}

/* Multiply-adds of the reference for inputs that come once. */
static const double once_budget = 1e7;

/* Judges the outputs in the memory of the instance that the state belongs to, whose inputs were
 * scrambled by a seed. A judge for these is for once. */
static void judge_state(struct attn_variants *v, uint32_t state, uint64_t seed,
                        const struct attn_numerics *numerics, bool approximate,
                        struct attn_judgement *verdict)
{
    struct attn_instance *instance = state & ATTN_STATE_SECOND ? v->twin : v->base;
    uint64_t kept[ATTN_SPOTS_MAX];
    char why[512] = ATTN_NO_OPERANDS;
    const size_t used = strlen(why);
    struct attn_judge *once = NULL, **judge = seed ? &once : &v->judges[state];
    scramble(instance, seed);
    for (uint32_t s = 0; s < v->n_spots; s++)
        kept[s] = v->spots[s].away;
    exchange_spots(v, state, instance, kept);
    if (seed && attn_instance_is_ambiguous(instance, why + used, sizeof why - used))
        *verdict = (struct attn_judgement){.status = ATTN_SKIP};
    else if (!*judge && attn_judge_create(instance, seed ? once_budget : ATTN_FILL_BUDGET,
                                          v->threads, judge, why + used, sizeof why - used) != 0)
        attn_judgement_set(verdict, ATTN_ERROR, why);
    else
        attn_examine_outputs(*judge, numerics, approximate, verdict);
    exchange_spots(v, state, instance, kept);
    scramble(instance, seed);
    attn_judge_free(once);
}

static bool broke(const struct attn_judgement *verdict)
{
    return verdict->status == ATTN_FAIL || verdict->status == ATTN_ERROR;
}

void attn_variants_judge(struct attn_variants *v, const struct attn_bench_reply *reply,
                         const struct attn_numerics *numerics, bool approximate,
                         struct attn_judgement *verdict)
{
    /* The last run's outputs lie in the base, the other's in the twin; each goes to where its state
     * belongs, the twin's first if both belong there. */
    const bool drawn = v->twin && reply->drawn > 0;
    const uint32_t random = drawn ? reply->drawn - 1 : 0;
    const uint64_t seed = v->scrambles ? reply->drawn_seed : 0;
    if (drawn && random & ATTN_STATE_SECOND) {
        judge_state(v, random, seed, numerics, approximate, verdict);
        if (broke(verdict))
            return;
    }
    if (v->twin && reply->last & ATTN_STATE_SECOND && drawn && !(random & ATTN_STATE_SECOND))
        attn_outputs_swap(v->base, v->twin);
    else if (v->twin && reply->last & ATTN_STATE_SECOND)
        attn_outputs_copy(v->twin, v->base);
    judge_state(v, v->twin ? reply->last : 0, 0, numerics, approximate, verdict);
    if (broke(verdict) || !drawn || random & ATTN_STATE_SECOND)
        return;
    if (!(reply->last & ATTN_STATE_SECOND))
        attn_outputs_copy(v->base, v->twin);
    judge_state(v, random, seed, numerics, approximate, verdict);
}
