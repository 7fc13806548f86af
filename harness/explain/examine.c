/* SPDX-License-Identifier: Apache-2.0 */
/* examine.c - the judge's verdict, then the fill, then an explanation. */
#include "explain/examine.h"

#include <stdio.h>
#include <string.h>

#include "explain/diagnose.h"
#include "explain/hypotheses.h"
#include "judge/limits.h"
#include "reference/dtype.h"
#include "reference/op.h"

/* Is there an explanation? It is added to the reason. */
static bool explain(const struct attn_evidence *e, struct attn_judgement *v)
{
    char text[320];
    attn_hypotheses_explain(e->instance, &e->request, e->ref, text, sizeof text);
    const size_t n = strlen(v->reason);
    if (*text)
        snprintf(v->reason + n, sizeof v->reason - n, "; %s", text);
    return *text;
}

/* What a library stores in a narrow type, and its plan may have to declare. */
enum { STORES_P = 1, STORES_SCORES = 2, STORES_PROJECTIONS = 4, STORES_STATE = 8, STORES_DS = 16 };

static void add(char *text, size_t size, const char *words)
{
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? " and " : "", words);
}

/* The numerics of a plan that declares narrower stores. */
static struct attn_numerics with_stores(const struct attn_numerics *numerics, uint32_t dtype,
                                        unsigned stores)
{
    struct attn_numerics declared = *numerics;
    if (stores & STORES_P)
        declared.p_type = dtype;
    if (stores & STORES_SCORES)
        declared.score_type = dtype;
    if (stores & STORES_PROJECTIONS)
        declared.proj_type = dtype;
    if (stores & STORES_STATE)
        declared.state_type = dtype;
    if (stores & STORES_DS)
        declared.ds_type = dtype;
    return declared;
}

/* Would the outputs be within the bound of these numerics? Then adds a sentence to the reason. */
static bool suggest(struct attn_judge *judge, const struct attn_problem *p,
                    const struct attn_numerics *numerics, uint32_t dtype, unsigned stores,
                    struct attn_judgement *v)
{
    const struct attn_numerics declared = with_stores(numerics, dtype, stores);
    char what[64] = "", fields[64] = "", limit[256];
    struct attn_judgement again;
    attn_judge_outputs(judge, &declared, false, &again);
    if (!attn_status_holds(again.status))
        return false;
    if (stores & STORES_P)
        add(what, sizeof what, "p"), add(fields, sizeof fields, "p_type");
    if (stores & STORES_SCORES)
        add(what, sizeof what, "scores"), add(fields, sizeof fields, "score_type");
    if (stores & STORES_PROJECTIONS)
        add(what, sizeof what, "projections"), add(fields, sizeof fields, "proj_type");
    if (stores & STORES_STATE)
        add(what, sizeof what, "the state"), add(fields, sizeof fields, "state_type");
    if (stores & STORES_DS)
        add(what, sizeof what, "dS"), add(fields, sizeof fields, "ds_type");
    const size_t n = strlen(v->reason);
    snprintf(v->reason + n, sizeof v->reason - n,
             "; within the bound if %s were stored in %s: if so, declare %s%s", what,
             attn_dtype_name(dtype), fields,
             attn_limits_hold(p, &declared, limit, sizeof limit)
                 ? ""
                 : "; it is then mistrusted, for so wide a bound proves too little");
    return true;
}

/* The usual reason why a right kernel in f16 or bf16, or one in f32 that multiplies these, is
 * outside its bound. */
static void suggest_stores(struct attn_judge *judge, const struct attn_evidence *e,
                           const struct attn_numerics *numerics, struct attn_judgement *v)
{
    static const unsigned tries[] = {STORES_STATE,
                                     STORES_DS,
                                     STORES_P,
                                     STORES_P | STORES_DS,
                                     STORES_SCORES,
                                     STORES_P | STORES_SCORES,
                                     STORES_PROJECTIONS,
                                     STORES_P | STORES_PROJECTIONS,
                                     STORES_P | STORES_STATE};
    const struct attn_problem *p = &e->instance->problem;
    const bool wide = p->dtype == ATTN_F32;
    const uint32_t types[] = {wide ? ATTN_F16 : p->dtype, ATTN_BF16}; /* the finest first */
    const size_t n_types = wide ? 2 : 1, n = sizeof tries / sizeof *tries;
    const bool projected = ref_op_is(p->op, REF_PROJECTED),
               gradients = attn_tensor_find(p, ATTN_GRAD_OUT) != NULL;
    const unsigned declared =
        (numerics->p_type ? STORES_P : 0u) | (numerics->score_type ? STORES_SCORES : 0u) |
        (numerics->state_type || !ref_op_find(p->op)->stream ? STORES_STATE : 0u) |
        (numerics->proj_type || !projected ? STORES_PROJECTIONS : 0u) |
        (numerics->ds_type || !gradients ? STORES_DS : 0u);
    struct attn_judgement kept;
    bool found = false;
    if (!wide && ((p->dtype != ATTN_F16 && p->dtype != ATTN_BF16) || !numerics->acc_type))
        return;
    for (size_t t = 0; t < n * n_types && !found; t++)
        found = !(tries[t / n_types] & declared) &&
                suggest(judge, p, numerics, types[t % n_types], tries[t / n_types], v);
    attn_judge_outputs(judge, numerics, false, &kept); /* the evidence is of the verdict again */
}

void attn_examine_outputs(struct attn_judge *judge, const struct attn_numerics *numerics,
                          bool approximate, struct attn_judgement *v)
{
    struct attn_evidence evidence;
    attn_judge_outputs(judge, numerics, approximate, v);
    if (!attn_judge_evidence(judge, &evidence))
        return;
    evidence.request.numerics = numerics;
    if (!approximate && v->unknown == 0)
        attn_diagnose(evidence.instance, &evidence.request, evidence.ref, v);
    if (v->status != ATTN_FAIL)
        return;
    const bool explained = explain(&evidence, v);
    /* Beside the bound of f32, that of a narrow type has room for other mistakes as well. */
    if (!approximate && !(explained && evidence.instance->problem.dtype == ATTN_F32))
        suggest_stores(judge, &evidence, numerics, v);
}
