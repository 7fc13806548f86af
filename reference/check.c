/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - is this problem one of the operator: enumerations, shapes, sizes, lengths. */
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "reference/dtype.h"
#include "reference/operands.h"
#include "reference/reference.h"
#include "reference/score.h"

/* Offsets and windows beyond this cannot matter, and would overflow sums of two. */
#define FAR (INT64_C(1) << 60)

__attribute__((format(printf, 3, 4))) static bool refuse(char *why, size_t size, const char *format,
                                                         ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why, size, format, arguments);
    va_end(arguments);
    return false;
}

/* What the tables say of a role: a row of the operands, or of the outputs. */
struct form {
    const char *axes;
    uint8_t type, flags;
    bool output;
};

/* False: the role has no place in this operation. */
static bool form_of(const struct ref_op *op, uint32_t role, struct form *form)
{
    const struct ref_operand *operand = ref_operand_of(op, role);
    int output = ref_output_of(op, role);

    if (operand)
        *form = (struct form){operand->shape, operand->type, operand->flags, false};
    else if (output >= 0)
        *form = (struct form){op->outputs[output].shape, op->outputs[output].type,
                              op->outputs[output].flags, true};
    return operand || output >= 0;
}

static bool type_fits(const struct attn_problem *problem, const struct form *form, uint32_t dtype)
{
    switch (form->type) {
    case REF_TYPE_MAIN:
        return dtype == problem->dtype;
    case REF_TYPE_BOOL:
        return dtype == ATTN_BOOL;
    case REF_TYPE_INDEX:
        return dtype == ATTN_I32;
    case REF_TYPE_WIDE:
        if (form->output)
            return dtype == ATTN_F32 || (dtype == ATTN_F64 && problem->dtype == ATTN_F64);
        /* fall through */
    default:
        return dtype == problem->dtype || dtype == ATTN_F32;
    }
}

static bool sizes_fit(const struct ref_op *op, const struct attn_problem *p, char *why, size_t size)
{
    const struct ref_score *score = op->scores ? ref_score_find(p->score) : NULL;
    const int64_t chains[][4] = {{p->b, p->hq, p->sq, p->sk},  {p->b, p->hq, p->sq, p->dv},
                                 {p->b, p->hq, p->sq, p->dq},  {p->b, p->hkv, p->sk, p->dk},
                                 {p->b, p->hkv, p->sk, p->dv}, {p->hq, p->dh, p->dq, 1},
                                 {p->hq, p->dh, p->dk, 1},     {p->hq, p->dq, p->dk, 1}};

    if (p->b < 1 || p->hq < 1 || p->hkv < 1 || p->sq < 1 || p->sk < 0)
        return refuse(why, size, "b, hq, hkv and sq must be at least 1, sk at least 0");
    if (p->dq < 1 || p->dk < 1 || p->dv < 1)
        return refuse(why, size, "dq, dk and dv must be at least 1");
    if (p->hq % p->hkv)
        return refuse(why, size, "hkv = %lld does not divide hq = %lld", (long long)p->hkv,
                      (long long)p->hq);
    if (score && (score->hidden ? p->dh < 1 : p->dh != 0))
        return refuse(why, size, "dh = %lld does not go with this score", (long long)p->dh);
    if (score && p->dq != p->dk && !score->free_widths)
        return refuse(why, size, "dq and dk differ, which this score cannot have");
    for (size_t c = 0; c < sizeof(chains) / sizeof(*chains); c++) {
        int64_t product = 16; /* the widest element and its double, in bytes */
        for (int f = 0; f < 4; f++)
            if (__builtin_mul_overflow(product, chains[c][f], &product))
                return refuse(why, size, "the product of the sizes does not fit in 64 bits");
    }
    return true;
}

/* Flags that some operator takes. */
static uint64_t known_flags(void)
{
    uint64_t flags = 0;

    for (const struct ref_op *const *op = ref_ops; *op; op++)
        flags |= (*op)->flags;
    return flags;
}

static bool parameters_fit(const struct ref_op *op, const struct attn_problem *p, char *why,
                           size_t size)
{
    const uint64_t unknown = p->flags & ~known_flags(), other = p->flags & ~op->flags;

    if (op->scores && (!ref_score_find(p->score) || !(op->scores >> p->score & 1)))
        return refuse(why, size, "score %u is not known", p->score);
    if (p->dtype < ATTN_F64 || p->dtype > ATTN_BF16)
        return refuse(why, size, "element type %u is not known", p->dtype);
    if (unknown)
        return refuse(why, size, "flags 0x%llx are not known", (unsigned long long)unknown);
    if (other)
        return refuse(why, size, "flags 0x%llx do not go with op=%s", (unsigned long long)other,
                      op->name);
    if (!isfinite(p->scale))
        return refuse(why, size, "the scale is not finite");
    if ((p->flags & ATTN_FLAG_SOFTCAP) && !(p->softcap > 0.0 && isfinite(p->softcap)))
        return refuse(why, size, "softcap must be above 0");
    if ((p->flags & ATTN_FLAG_WINDOW) && (p->window_left < -1 || p->window_right < -1 ||
                                          p->window_left > FAR || p->window_right > FAR))
        return refuse(why, size, "a window side must be -1 or more, at most 2^60");
    if (p->off > FAR || p->off < -FAR)
        return refuse(why, size, "the offset is beyond 2^60");
    if ((p->flags & ATTN_FLAG_DROPOUT) && !(p->dropout_p >= 0.0 && p->dropout_p < 1.0))
        return refuse(why, size, "the dropout rate must lie in [0, 1)");
    return true;
}

static bool tensor_fits(const struct ref_op *op, const struct ref_operands *operands,
                        const struct ref_shape *shape, const struct attn_tensor *tensor, char *why,
                        size_t size)
{
    struct form form = {0};
    size_t rank;

    form_of(op, tensor->role, &form);
    rank = strlen(form.axes);
    if (tensor->rank != rank && !((form.flags & REF_SHORT) && tensor->rank == 1))
        return refuse(why, size, "tensor of role %u has rank %u", tensor->role, tensor->rank);
    if (!type_fits(operands->problem, &form, tensor->dtype))
        return refuse(why, size, "tensor of role %u has element type %s", tensor->role,
                      attn_dtype_name(tensor->dtype));
    for (uint32_t a = 0; a < tensor->rank; a++) {
        int64_t extent = ref_extent(shape, form.axes[a]);
        if (tensor->shape[a] != extent)
            return refuse(why, size, "axis %u of the tensor of role %u is %lld, not %lld", a,
                          tensor->role, (long long)tensor->shape[a], (long long)extent);
        if (tensor->stride[a] < 0 || (form.output && tensor->stride[a] == 0 && extent > 1))
            return refuse(why, size, "axis %u of the tensor of role %u has stride %lld", a,
                          tensor->role, (long long)tensor->stride[a]);
    }
    return true;
}

static bool needed_given(const struct ref_op *op, const struct attn_problem *problem, char *why,
                         size_t size)
{
    const struct ref_operand *row;
    bool by_default = false, any = false;

    for (size_t n = 0; (row = ref_operand_at(op, n)); n++)
        if ((row->flags & REF_NEEDED) && !attn_tensor_find(problem, row->role))
            return refuse(why, size, "a tensor of role %u is needed", row->role);
    for (const struct ref_output *o = op->outputs; o->role; o++) {
        const bool given = attn_tensor_find(problem, o->role) != NULL;
        if ((o->flags & REF_NEEDED) && !given)
            return refuse(why, size, "a tensor of role %u is needed", o->role);
        by_default = by_default || (o->flags & REF_DEFAULT);
        any = any || (o->flags & REF_DEFAULT && given);
    }
    return any || !by_default ||
           refuse(why, size, "one of the outputs that op=%s has by default is needed", op->name);
}

/* Parameters of scores go with their score, where the operator has scores. */
static bool score_given(const struct ref_operands *operands, char *why, size_t size)
{
    for (const struct ref_score *const *score = ref_scores_known; *score; score++) {
        const bool own = operands->problem->score == (*score)->score;
        for (const uint32_t *role = (*score)->params; *role; role++)
            if (own != (operands->by_role[*role] != NULL))
                return refuse(why, size, "%s", (*score)->rule);
        for (const uint32_t *role = (*score)->options; role && *role; role++)
            if (!own && operands->by_role[*role])
                return refuse(why, size, "%s", (*score)->rule);
    }
    return true;
}

/* Each role known, once, in host memory; those that the rest relies on are there. */
static bool roles_fit(const struct ref_op *op, const struct ref_operands *operands, char *why,
                      size_t size)
{
    const struct attn_problem *problem = operands->problem;
    struct form form;

    for (uint32_t x = 0; x < problem->n_tensors; x++) {
        const struct attn_tensor *tensor = &problem->tensors[x];
        if (!form_of(op, tensor->role, &form))
            return refuse(why, size, "role %u has no place in this operation", tensor->role);
        if (attn_tensor_find(problem, tensor->role) != tensor)
            return refuse(why, size, "role %u is given twice", tensor->role);
        if (tensor->space != ATTN_HOST)
            return refuse(why, size, "tensor of role %u is not in host memory", tensor->role);
    }
    if (!needed_given(op, problem, why, size) || (op->scores && !score_given(operands, why, size)))
        return false;
    for (const struct ref_gradient *g = op->gradients; g && g->output; g++)
        if (operands->by_role[g->output] && !operands->by_role[g->operand])
            return refuse(why, size, "role %u is the gradient of role %u, which is not given",
                          g->output, g->operand);
    if (operands->by_role[ATTN_KEEP] && !(problem->flags & ATTN_FLAG_DROPOUT))
        return refuse(why, size, "a keep mask is given without dropout");
    return true;
}

static bool lengths_fit(const struct ref_operands *operands, char *why, size_t size)
{
    const struct attn_problem *problem = operands->problem;
    const struct attn_tensor *len = operands->by_role[ATTN_LEN];

    if (!len)
        return true;
    if (len->rank == 2 && (problem->flags & ATTN_FLAG_OFF_BR))
        return refuse(why, size, "bottom-right needs one length a batch, not one a query");
    for (int64_t b = 0; len->data && b < problem->b; b++)
        for (int64_t i = 0; i < (len->rank == 2 ? problem->sq : 1); i++) {
            double valid = ref_load(len, (const int64_t[]){b, i});
            if (valid < 0.0 || valid > (double)problem->sk)
                return refuse(why, size, "length %.0f of batch %lld is outside 0..%lld", valid,
                              (long long)b, (long long)problem->sk);
        }
    return true;
}

static bool dilations_fit(const struct ref_operands *operands, char *why, size_t size)
{
    const struct attn_tensor *dilation = operands->by_role[ATTN_DILATION];

    for (int64_t h = 0; dilation && dilation->data && h < operands->problem->hq; h++)
        if (ref_load(dilation, &h) < 1.0)
            return refuse(why, size, "the dilation of head %lld is below 1", (long long)h);
    return true;
}

static bool buckets_fit(const struct ref_operands *operands, char *why, size_t size)
{
    const struct attn_tensor *given = operands->by_role[ATTN_BUCKETS];
    const int64_t buckets = operands->problem->buckets;
    int64_t at[ATTN_MAX_RANK], count = given && given->data ? 1 : 0;

    for (uint32_t x = 0; given && x < given->rank; x++)
        count *= given->shape[x];
    for (int64_t n = 0; n < count; n++) {
        int64_t rest = n;
        for (uint32_t x = given->rank; x-- > 0; rest /= given->shape[x])
            at[x] = rest % given->shape[x];
        const double bucket = ref_load(given, at);
        if (bucket < 0.0 || bucket >= (double)buckets)
            return refuse(why, size, "bucket %.0f is outside 0..%lld", bucket,
                          (long long)buckets - 1);
    }
    return true;
}

int ref_check_problem(const struct attn_problem *problem, char *why, size_t size)
{
    const struct ref_op *op = ref_op_find(problem->op);
    const struct ref_tie *tie;
    struct ref_operands operands;
    struct ref_shape shape;

    if (!op) {
        refuse(why, size, "operation %u is not known", problem->op);
        return ATTN_INVALID;
    }
    if (!parameters_fit(op, problem, why, size) || !sizes_fit(op, problem, why, size))
        return ATTN_INVALID;
    ref_operands_init(&operands, problem);
    if (!roles_fit(op, &operands, why, size))
        return ATTN_INVALID;
    if (op->check && op->check(&operands, why, size) != ATTN_OK)
        return ATTN_INVALID;
    ref_shape_of_problem(op, problem, &shape);
    tie = ref_shape_misfit(op, &shape);
    if (tie) {
        refuse(why, size, "%s", tie->why);
        return ATTN_INVALID;
    }
    for (uint32_t t = 0; t < problem->n_tensors; t++)
        if (!tensor_fits(op, &operands, &shape, &problem->tensors[t], why, size))
            return ATTN_INVALID;
    if (!lengths_fit(&operands, why, size) || !dilations_fit(&operands, why, size) ||
        !buckets_fit(&operands, why, size))
        return ATTN_INVALID;
    const struct ref_score *score = op->scores ? ref_score_find(problem->score) : NULL;
    return score && score->check ? score->check(&operands, why, size) : ATTN_OK;
}
