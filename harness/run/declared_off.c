/* SPDX-License-Identifier: Apache-2.0 */
/* declared_off.c - checks that are exact rules, and the declarations to which they do not apply. */
#include "run/declared_off.h"

#include "explain/diagnose.h"
#include "run/checks.h"

int attn_declared_off(const struct attn_plan_info *plan, const struct attn_case *c,
                      const char *names[ATTN_DECLARED_OFF_MAX])
{
    const struct attn_numerics *n = &plan->numerics;
    const uint32_t op = c->op, dtype = c->dtype;
    const uint32_t acc = n->acc_type ? n->acc_type : dtype;
    const struct attn_problem problem = {.op = op, .dtype = dtype};
    int count = 0;
    if (!plan->has_numerics || !ref_op_is(op, REF_QKV) || !attn_case_is_softmax(c))
        return 0;
    if (!attn_diagnose_counts(&problem, n)) { /* sums that do not hold whole numbers */
        names[count++] = attn_fill_name(ATTN_FILL_CENSUS);
        names[count++] = attn_fill_name(ATTN_FILL_EXACT);
    }
    if (n->acc_toward_zero || n->out_toward_zero)
        names[count++] = attn_fill_name(ATTN_FILL_ROUNDING);
    if (!n->deterministic)
        names[count++] = attn_check_name(ATTN_CHECK_RERUN);
    if (!n->deterministic || acc == ATTN_F16 || n->partial_type == ATTN_F16)
        names[count++] = attn_check_name(ATTN_CHECK_SCALE_V);
    return count;
}

void attn_declared_off_print(FILE *out, const struct attn_plan_info *plan,
                             const struct attn_case *c)
{
    const char *names[ATTN_DECLARED_OFF_MAX];
    const int count = attn_declared_off(plan, c, names);
    fputs(count ? "  off by declaration:" : "", out);
    for (int n = 0; n < count; n++)
        fprintf(out, " %s", names[n]);
}

json_t *attn_declared_off_json(const struct attn_plan_info *plan, const struct attn_case *c)
{
    const char *names[ATTN_DECLARED_OFF_MAX];
    const int count = attn_declared_off(plan, c, names);
    json_t *array = json_array();
    for (int n = 0; n < count; n++)
        json_array_append_new(array, json_string(names[n]));
    return array;
}
