/* SPDX-License-Identifier: Apache-2.0 */
/* fill_sight.c - which keys are seen, for fills that put something into those that are not. */
#include <stdlib.h>

#include "case/operator.h"
#include "reference/operands.h"
#include "reference/parallel.h"
#include "reference/reference.h"
#include "tensor/craft.h"

struct sighting {
    const struct attn_problem *problem;
    int64_t batches; /* that k stores */
    enum attn_rows rows;
    struct ref_operands operands;
    unsigned char *seen;
};

/* Do the rows of a sighting include this one? */
static bool counts(const struct sighting *s, int64_t b, int64_t i)
{
    return s->rows == ATTN_ROWS_ALL ||
           ref_is_global(&s->operands, b, i) == (s->rows == ATTN_ROWS_GLOBAL);
}

static enum sight sight_of(const struct sighting *s, int64_t b, int64_t g, int64_t key)
{
    const struct attn_problem *p = s->problem;
    const int64_t group = p->hq / p->hkv;
    bool none = true, all = true;
    for (int64_t h = g * group; h < (g + 1) * group; h++)
        for (int64_t i = 0; i < p->sq && (none || all); i++) {
            if (!counts(s, b, i))
                continue;
            const bool seen = ref_allowed(p, b, h, i, key);
            none = none && !seen;
            all = all && seen;
        }
    return none ? SEEN_BY_NONE : all ? SEEN_BY_ALL : SEEN_BY_SOME;
}

static void look(void *context, int64_t begin, int64_t end)
{
    const struct sighting *s = context;
    const struct attn_problem *p = s->problem;
    for (int64_t at = begin; at < end; at++) {
        const int64_t key = at % p->sk, g = at / p->sk % p->hkv, first = at / p->sk / p->hkv;
        enum sight sight = sight_of(s, first, g, key);
        /* With one k for all batches, a key counts the rows of all batches. */
        for (int64_t b = first + s->batches; b < p->b && sight != SEEN_BY_SOME; b += s->batches)
            sight = sight_of(s, b, g, key) == sight ? sight : SEEN_BY_SOME;
        s->seen[at] = (unsigned char)sight;
    }
}

/* A row of x is projected to a key of all heads at once. */
static void merge_heads(const struct attn_problem *p, int64_t batches, unsigned char *seen)
{
    for (int64_t b = 0; b < batches; b++)
        for (int64_t key = 0; key < p->sk; key++) {
            unsigned char *first = &seen[b * p->hkv * p->sk + key];
            for (int64_t g = 1; g < p->hkv; g++)
                if (first[g * p->sk] != *first)
                    *first = SEEN_BY_SOME;
        }
}

unsigned char *attn_craft_look(const struct attn_instance *instance, int64_t batches,
                               enum attn_rows rows, int threads)
{
    const struct attn_problem *p = &instance->problem;
    const int64_t keys = batches * p->hkv * p->sk;
    struct sighting s = {
        .problem = p, .batches = batches, .rows = rows, .seen = calloc((size_t)keys, 1)};
    ref_operands_init(&s.operands, p);
    if (s.seen == NULL)
        return NULL;
    attn_parallel_for(threads, keys, 16, look, &s);
    if (ref_op_is(p->op, REF_PROJECTED))
        merge_heads(p, batches, s.seen);
    return s.seen;
}
