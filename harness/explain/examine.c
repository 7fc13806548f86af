/* SPDX-License-Identifier: Apache-2.0 */
/* examine.c - the judge's verdict, then the fill, then an explanation. */
#include "explain/examine.h"

#include <stdio.h>
#include <string.h>

#include "explain/diagnose.h"
#include "explain/hypotheses.h"
#include "reference/dtype.h"
#include "reference/op.h"

static void explain(const struct attn_evidence *e, struct attn_judgement *v)
{
    char text[320];
    attn_hypotheses_explain(e->instance, &e->request, e->ref, text, sizeof text);
    const size_t n = strlen(v->reason);
    if (*text)
        snprintf(v->reason + n, sizeof v->reason - n, "; %s", text);
}

/* What a library stores in the type of q, and its plan may have to declare. */
enum { STORES_P = 1, STORES_SCORES = 2, STORES_PROJECTIONS = 4 };

static void add(char *text, size_t size, const char *words)
{
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? " and " : "", words);
}

/* Would the outputs be within the bound of a plan that declares narrower stores? */
static bool try_stores(struct attn_judge *judge, const struct attn_numerics *numerics,
                       uint32_t dtype, unsigned stores)
{
    struct attn_numerics declared = *numerics;
    struct attn_judgement again;
    if (stores & STORES_P)
        declared.p_type = dtype;
    if (stores & STORES_SCORES)
        declared.score_type = dtype;
    if (stores & STORES_PROJECTIONS)
        declared.proj_type = dtype;
    attn_judge_outputs(judge, &declared, false, &again);
    return attn_status_holds(again.status);
}

/* The usual reason why a right kernel in f16 or bf16 is outside its bound. */
static void suggest_stores(struct attn_judge *judge, const struct attn_evidence *e,
                           const struct attn_numerics *numerics, struct attn_judgement *v)
{
    static const unsigned tries[] = {STORES_P, STORES_SCORES, STORES_P | STORES_SCORES,
                                     STORES_PROJECTIONS, STORES_P | STORES_PROJECTIONS};
    const uint32_t dtype = e->instance->problem.dtype;
    const char *type = attn_dtype_name(dtype);
    const bool projected = ref_op_is(e->instance->problem.op, REF_PROJECTED);
    const unsigned declared = (numerics->p_type ? STORES_P : 0u) |
                              (numerics->score_type ? STORES_SCORES : 0u) |
                              (numerics->proj_type || !projected ? STORES_PROJECTIONS : 0u);
    struct attn_judgement kept;
    if ((dtype != ATTN_F16 && dtype != ATTN_BF16) || !numerics->acc_type)
        return;
    for (size_t t = 0; t < sizeof tries / sizeof *tries; t++) {
        char what[64] = "", fields[64] = "";
        if (tries[t] & declared || !try_stores(judge, numerics, dtype, tries[t]))
            continue;
        if (tries[t] & STORES_P)
            add(what, sizeof what, "p"), add(fields, sizeof fields, "p_type");
        if (tries[t] & STORES_SCORES)
            add(what, sizeof what, "scores"), add(fields, sizeof fields, "score_type");
        if (tries[t] & STORES_PROJECTIONS)
            add(what, sizeof what, "projections"), add(fields, sizeof fields, "proj_type");
        const size_t n = strlen(v->reason);
        snprintf(v->reason + n, sizeof v->reason - n,
                 "; within the bound if %s were stored in %s: if so, declare %s", what, type,
                 fields);
        break;
    }
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
    explain(&evidence, v);
    if (!approximate)
        suggest_stores(judge, &evidence, numerics, v);
}
