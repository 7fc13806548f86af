/* SPDX-License-Identifier: Apache-2.0 */
/* examine.c - the judge's verdict, then the fill, then an explanation. */
#include "explain/examine.h"

#include <stdio.h>
#include <string.h>

#include "explain/diagnose.h"
#include "explain/hypotheses.h"

static void explain(const struct attn_evidence *e, struct attn_judgement *v)
{
    char text[320];
    attn_hypotheses_explain(e->instance, &e->request, e->ref, text, sizeof text);
    const size_t n = strlen(v->reason);
    if (*text)
        snprintf(v->reason + n, sizeof v->reason - n, "; %s", text);
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
    if (v->status == ATTN_FAIL)
        explain(&evidence, v);
}
