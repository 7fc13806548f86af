/* SPDX-License-Identifier: Apache-2.0 */
/* memo.c - a kernel that keeps the results of the last inputs, all of them compared to the last
 * bit, and gives them again. So that its rate stays below the roof of the machine, it takes a sixth
 * or a third of the time of a whole run. One takes inputs for the same if columns of v have the
 * other sign, and turns out to match; another knows inputs by their first row. Operands without
 * gaps. */
#include <stdlib.h>
#include <string.h>

#include "cheats.h"

enum { KEPT = 32, SHARE = 6, LITTLE = 3, MOST_OPERANDS = 32 };

struct rogue_memo {
    void *kept[KEPT][MOST_OPERANDS]; /* the operands as they were */
    int next;
    double start, whole_s; /* the least that a whole run took */
    void *row;
    /* memo_of_signs, f32: the signs of the first row of v; v with all of them turned to plus. What
     * is kept of v and of out is turned in the same way. */
    uint32_t *signs;
    void *v;
};

static size_t bytes(const struct attn_tensor *t)
{
    size_t n = (size_t)attn_element_bytes(t->dtype);
    for (uint32_t a = 0; a < t->rank; a++)
        n *= (size_t)t->shape[a];
    return n;
}

static bool is_output(const struct attn_tensor *t)
{
    return t->role == ATTN_OUT || t->role == ATTN_LSE || t->role == ATTN_WEIGHTS;
}

/* The same, with the signs of columns of v and of out turned if the cheat is about them. */
static void copy(const struct rogue_memo *memo, const struct attn_tensor *t, void *to,
                 const void *from)
{
    memcpy(to, from, bytes(t));
    if (!memo->signs || (t->role != ATTN_V && t->role != ATTN_OUT))
        return;
    const size_t width = (size_t)t->shape[t->rank - 1];
    uint32_t *element = to;
    for (size_t i = 0; i < bytes(t) / sizeof(*element); i++)
        element[i] ^= memo->signs[i % width];
}

static void note_signs(struct rogue_memo *memo, const struct attn_tensor *v)
{
    const size_t width = (size_t)v->shape[v->rank - 1];
    if (!memo->signs) {
        memo->signs = malloc(width * sizeof(*memo->signs));
        memo->v = malloc(bytes(v));
    }
    for (size_t c = 0; c < width; c++)
        memo->signs[c] = ((const uint32_t *)v->data)[c] & UINT32_C(0x80000000);
    copy(memo, v, memo->v, v->data);
}

/* Are these the inputs of result m? */
static bool same(const struct rogue_memo *memo, int m, const struct attn_tensor *tensors,
                 uint32_t n)
{
    bool is = memo->kept[m][0] != NULL;
    for (uint32_t t = 0; t < n && is; t++)
        is = is_output(&tensors[t]) ||
             memcmp(memo->kept[m][t],
                    memo->signs && tensors[t].role == ATTN_V ? memo->v : tensors[t].data,
                    bytes(&tensors[t])) == 0;
    return is;
}

static struct rogue_memo *memo_of(struct rogue_job *job)
{
    if (!job->memo)
        job->memo = calloc(1, sizeof(*job->memo));
    return job->memo;
}

bool rogue_memo_knows_row(struct rogue_job *job, const struct attn_tensor *tensors)
{
    struct rogue_memo *memo = memo_of(job);
    for (uint32_t t = 0; t < job->p->n_tensors; t++) {
        if (tensors[t].role != ATTN_X_Q)
            continue;
        const size_t row = (size_t)(tensors[t].shape[2] * attn_element_bytes(tensors[t].dtype));
        if (memo->row)
            return memcmp(memo->row, tensors[t].data, row) == 0;
        memo->row = malloc(row);
        memcpy(memo->row, tensors[t].data, row);
    }
    return true;
}

bool rogue_memo_give(struct rogue_job *job, const struct attn_tensor *tensors)
{
    const uint32_t n = job->p->n_tensors;
    const double start = rogue_seconds();
    struct rogue_memo *memo = memo_of(job);
    int m = 0;
    memo->start = start;
    for (uint32_t t = 0; bug(memo_of_signs) && t < n; t++)
        if (tensors[t].role == ATTN_V)
            note_signs(memo, &tensors[t]);
    while (m < KEPT && !same(memo, m, tensors, n))
        m++;
    if (m == KEPT)
        return false;
    for (uint32_t t = 0; t < n; t++)
        if (is_output(&tensors[t]))
            copy(memo, &tensors[t], tensors[t].data, memo->kept[m][t]);
    while (rogue_seconds() < start + memo->whole_s / (bug(memo_slowly) ? LITTLE : SHARE))
        continue;
    return true;
}

void rogue_memo_keep(struct rogue_job *job, const struct attn_tensor *tensors)
{
    struct rogue_memo *memo = job->memo;
    const double took = rogue_seconds() - memo->start + job->elsewhere_s;
    memo->whole_s = memo->whole_s > 0 && memo->whole_s < took ? memo->whole_s : took;
    for (uint32_t t = 0; t < job->p->n_tensors; t++) {
        void **to = &memo->kept[memo->next][t];
        if (!*to)
            *to = malloc(bytes(&tensors[t]));
        copy(memo, &tensors[t], *to, tensors[t].data);
    }
    memo->next = (memo->next + 1) % KEPT;
}

void rogue_memo_free(struct rogue_memo *memo)
{
    for (size_t m = 0; memo && m < KEPT; m++)
        for (size_t t = 0; t < MOST_OPERANDS; t++)
            free(memo->kept[m][t]);
    if (memo) {
        free(memo->row);
        free(memo->signs);
        free(memo->v);
    }
    free(memo);
}
