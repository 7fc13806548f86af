/* SPDX-License-Identifier: Apache-2.0 */
/* memo.c - a kernel that keeps the results of the last inputs, all of them compared to the last
 * bit, and gives them again. So that its rate stays below the roof of the machine, it takes a sixth
 * of the time of a whole run. Dense f32 attention. */
#include <stdlib.h>
#include <string.h>

#include "cheats.h"

enum { KEPT = 32, SHARE = 6, OPERANDS = 4 };

struct rogue_memo {
    float *kept[KEPT][OPERANDS]; /* q, k, v, out, as they were */
    int next;
    double whole_s;
};

static size_t bytes(const struct attn_tensor *t)
{
    size_t n = sizeof(float);
    for (uint32_t a = 0; a < t->rank; a++)
        n *= (size_t)t->shape[a];
    return n;
}

/* One of those that are kept; KEPT: none. */
static int find(const struct rogue_memo *memo, const struct attn_tensor *const t[OPERANDS])
{
    for (int m = 0; m < KEPT; m++) {
        bool same = memo->kept[m][0] != NULL;
        for (int o = 0; o < OPERANDS - 1 && same; o++)
            same = memcmp(memo->kept[m][o], t[o]->data, bytes(t[o])) == 0;
        if (same)
            return m;
    }
    return KEPT;
}

static void keep(struct rogue_memo *memo, const struct attn_tensor *const t[OPERANDS])
{
    for (int o = 0; o < OPERANDS; o++) {
        float **to = &memo->kept[memo->next][o];
        if (!*to)
            *to = malloc(bytes(t[o]));
        memcpy(*to, t[o]->data, bytes(t[o]));
    }
    memo->next = (memo->next + 1) % KEPT;
}

bool rogue_memo_run(struct rogue_job *job)
{
    const struct attn_problem *p = job->p;
    const struct attn_tensor *const t[OPERANDS] = {&job->t.q, &job->t.k, &job->t.v, &job->t.out};
    const double start = rogue_seconds();
    if (p->op != ATTN_OP_ATTENTION || p->dtype != ATTN_F32 || p->n_tensors != OPERANDS)
        return false;
    if (!job->memo)
        job->memo = calloc(1, sizeof(*job->memo));
    struct rogue_memo *memo = job->memo;
    const int found = find(memo, t);
    if (found < KEPT) {
        memcpy(job->t.out.data, memo->kept[found][OPERANDS - 1], bytes(&job->t.out));
        while (rogue_seconds() < start + memo->whole_s / SHARE)
            continue;
        return true;
    }
    rogue_attend(job);
    memo->whole_s = rogue_seconds() - start;
    keep(memo, t);
    return true;
}

void rogue_memo_free(struct rogue_memo *memo)
{
    for (int m = 0; memo && m < KEPT; m++)
        for (int o = 0; o < OPERANDS; o++)
            free(memo->kept[m][o]);
    free(memo);
}
