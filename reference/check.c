/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - is this problem one of the operator: enumerations, shapes, sizes, lengths. */
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "reference/dtype.h"
#include "reference/operands.h"
#include "reference/reference.h"

#define KNOWN_FLAGS                                                                                \
    (ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR | ATTN_FLAG_SOFTCAP |                  \
     ATTN_FLAG_DROPOUT | ATTN_FLAG_RESIDUAL | ATTN_FLAG_DETERMINISTIC)

/* Offsets and windows beyond this cannot matter, and would overflow sums of two. */
#define FAR (INT64_C(1) << 60)

enum element { SAME, FLOATING, BOOLEAN, INDEX, LSE };
enum { BOTH = 0, IN_ATTENTION = 1, IN_MHA = 2, OUTPUT = 4, NEEDED = 8, ANY_RANK = 16 };

/* What each role looks like. Axes: b B, h Hq, g Hkv, s Sq, t Sk, q Dq, k Dk, v Dv, x Dh, Q Hq*Dq,
 * K Hkv*Dk, V Hkv*Dv, H Hq*Dv, and the widths e Eq, f Ek, w Ev, o Eo. */
static const struct form {
    uint32_t role;
    const char *axes;
    enum element element;
    int flags;
} forms[] = {
    {ATTN_Q, "bhsq", SAME, IN_ATTENTION | NEEDED},
    {ATTN_K, "bgtk", SAME, IN_ATTENTION | NEEDED},
    {ATTN_V, "bgtv", SAME, IN_ATTENTION | NEEDED},
    {ATTN_OUT, "bhsv", SAME, IN_ATTENTION | OUTPUT | NEEDED},
    {ATTN_OUT, "bso", SAME, IN_MHA | OUTPUT | NEEDED},
    {ATTN_LSE, "bhs", LSE, OUTPUT},
    {ATTN_WEIGHTS, "bhst", SAME, OUTPUT},
    {ATTN_MASK, "bhst", BOOLEAN, BOTH},
    {ATTN_BIAS, "bhst", FLOATING, BOTH},
    {ATTN_LEN, "bs", INDEX, ANY_RANK},
    {ATTN_ALIBI, "h", FLOATING, BOTH},
    {ATTN_SINK, "h", FLOATING, BOTH},
    {ATTN_KEEP, "bhst", BOOLEAN, BOTH},
    {ATTN_HEAD_MASK, "h", BOOLEAN, IN_MHA},
    {ATTN_SCORE_M, "hqk", FLOATING, BOTH},
    {ATTN_SCORE_WQ, "hxq", FLOATING, BOTH},
    {ATTN_SCORE_WK, "hxk", FLOATING, BOTH},
    {ATTN_SCORE_WV, "hx", FLOATING, BOTH},
    {ATTN_X_Q, "bse", SAME, IN_MHA | NEEDED},
    {ATTN_X_K, "btf", SAME, IN_MHA},
    {ATTN_X_V, "btw", SAME, IN_MHA},
    {ATTN_W_Q, "Qe", SAME, IN_MHA | NEEDED},
    {ATTN_W_K, "Kf", SAME, IN_MHA | NEEDED},
    {ATTN_W_V, "Vw", SAME, IN_MHA | NEEDED},
    {ATTN_W_O, "oH", SAME, IN_MHA},
    {ATTN_B_Q, "Q", SAME, IN_MHA},
    {ATTN_B_K, "K", SAME, IN_MHA},
    {ATTN_B_V, "V", SAME, IN_MHA},
    {ATTN_B_O, "o", SAME, IN_MHA},
};

__attribute__((format(printf, 3, 4))) static bool refuse(char *why, size_t size, const char *format,
                                                         ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why, size, format, arguments);
    va_end(arguments);
    return false;
}

static const struct form *form_of(uint32_t op, uint32_t role)
{
    int place = op == ATTN_OP_MHA ? IN_MHA : IN_ATTENTION;

    for (size_t f = 0; f < sizeof(forms) / sizeof(*forms); f++)
        if (forms[f].role == role &&
            (!(forms[f].flags & (IN_MHA | IN_ATTENTION)) || (forms[f].flags & place)))
            return &forms[f];
    return NULL;
}

static int64_t axis_extent(const struct ref_operands *operands, char axis)
{
    const struct attn_problem *problem = operands->problem;
    const struct attn_tensor *const *t = operands->by_role;

    switch (axis) {
    case 'b':
        return problem->b;
    case 'h':
        return problem->hq;
    case 'g':
        return problem->hkv;
    case 's':
        return problem->sq;
    case 't':
        return problem->sk;
    case 'q':
        return problem->dq;
    case 'k':
        return problem->dk;
    case 'v':
        return problem->dv;
    case 'x':
        return problem->dh;
    case 'Q':
        return problem->hq * problem->dq;
    case 'K':
        return problem->hkv * problem->dk;
    case 'V':
        return problem->hkv * problem->dv;
    case 'H':
        return problem->hq * problem->dv;
    case 'e':
        return t[ATTN_X_Q]->shape[2];
    case 'f':
        return t[ATTN_X_K]->shape[2];
    case 'w':
        return t[ATTN_X_V]->shape[2];
    default: /* 'o' */
        return t[ATTN_W_O] ? t[ATTN_OUT]->shape[2] : problem->hq * problem->dv;
    }
}

static bool element_fits(const struct attn_problem *problem, enum element element, uint32_t dtype)
{
    switch (element) {
    case SAME:
        return dtype == problem->dtype;
    case FLOATING:
        return dtype == problem->dtype || dtype == ATTN_F32;
    case BOOLEAN:
        return dtype == ATTN_BOOL;
    case INDEX:
        return dtype == ATTN_I32;
    default: /* LSE */
        return dtype == ATTN_F32 || (dtype == ATTN_F64 && problem->dtype == ATTN_F64);
    }
}

static bool sizes_fit(const struct attn_problem *p, char *why, size_t size)
{
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
    if (p->score == ATTN_SCORE_ADDITIVE ? p->dh < 1 : p->dh != 0)
        return refuse(why, size, "dh = %lld does not go with this score", (long long)p->dh);
    if (p->dq != p->dk && p->score != ATTN_SCORE_BILINEAR && p->score != ATTN_SCORE_ADDITIVE)
        return refuse(why, size, "dq and dk differ, which this score cannot have");
    for (size_t c = 0; c < sizeof(chains) / sizeof(*chains); c++) {
        int64_t product = 16; /* the widest element and its double, in bytes */
        for (int f = 0; f < 4; f++)
            if (__builtin_mul_overflow(product, chains[c][f], &product))
                return refuse(why, size, "the product of the sizes does not fit in 64 bits");
    }
    return true;
}

static bool parameters_fit(const struct attn_problem *p, char *why, size_t size)
{
    if (p->op != ATTN_OP_ATTENTION && p->op != ATTN_OP_MHA)
        return refuse(why, size, "operation %u is not known", p->op);
    if (p->score < ATTN_SCORE_SCALED_DOT || p->score > ATTN_SCORE_ADDITIVE)
        return refuse(why, size, "score %u is not known", p->score);
    if (p->dtype < ATTN_F64 || p->dtype > ATTN_BF16)
        return refuse(why, size, "element type %u is not known", p->dtype);
    if (p->flags & ~(uint64_t)KNOWN_FLAGS)
        return refuse(why, size, "flags 0x%llx are not known",
                      (unsigned long long)(p->flags & ~(uint64_t)KNOWN_FLAGS));
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
    if ((p->flags & ATTN_FLAG_RESIDUAL) && p->op != ATTN_OP_MHA)
        return refuse(why, size, "a residual goes with multi-head attention only");
    return true;
}

static bool tensor_fits(const struct ref_operands *operands, const struct attn_tensor *tensor,
                        char *why, size_t size)
{
    const struct attn_problem *problem = operands->problem;
    const struct form *form = form_of(problem->op, tensor->role);
    size_t rank = 0;

    while (form->axes[rank])
        rank++;
    if (tensor->rank != rank && !((form->flags & ANY_RANK) && tensor->rank == 1))
        return refuse(why, size, "tensor of role %u has rank %u", tensor->role, tensor->rank);
    if (!element_fits(problem, form->element, tensor->dtype))
        return refuse(why, size, "tensor of role %u has element type %s", tensor->role,
                      attn_dtype_name(tensor->dtype));
    for (uint32_t a = 0; a < tensor->rank; a++) {
        int64_t extent = axis_extent(operands, form->axes[a]);
        if (tensor->shape[a] != extent)
            return refuse(why, size, "axis %u of the tensor of role %u is %lld, not %lld", a,
                          tensor->role, (long long)tensor->shape[a], (long long)extent);
        if (tensor->stride[a] < 0 ||
            ((form->flags & OUTPUT) && tensor->stride[a] == 0 && extent > 1))
            return refuse(why, size, "axis %u of the tensor of role %u has stride %lld", a,
                          tensor->role, (long long)tensor->stride[a]);
    }
    return true;
}

/* Each role known, once, in host memory; those that the rest relies on are there. */
static bool roles_fit(const struct ref_operands *operands, char *why, size_t size)
{
    const struct attn_problem *problem = operands->problem;
    const struct attn_tensor *const *t = operands->by_role;
    int place = problem->op == ATTN_OP_MHA ? IN_MHA : IN_ATTENTION;

    for (uint32_t x = 0; x < problem->n_tensors; x++) {
        const struct attn_tensor *tensor = &problem->tensors[x];
        if (!form_of(problem->op, tensor->role))
            return refuse(why, size, "role %u has no place in this operation", tensor->role);
        if (attn_tensor_find(problem, tensor->role) != tensor)
            return refuse(why, size, "role %u is given twice", tensor->role);
        if (tensor->space != ATTN_HOST)
            return refuse(why, size, "tensor of role %u is not in host memory", tensor->role);
    }
    for (size_t f = 0; f < sizeof(forms) / sizeof(*forms); f++)
        if ((forms[f].flags & NEEDED) && (forms[f].flags & place) &&
            !attn_tensor_find(problem, forms[f].role))
            return refuse(why, size, "a tensor of role %u is needed", forms[f].role);
    if ((problem->score == ATTN_SCORE_BILINEAR) != (t[ATTN_SCORE_M] != NULL))
        return refuse(why, size, "a matrix M and the bilinear score go together");
    for (uint32_t role = ATTN_SCORE_WQ; role <= ATTN_SCORE_WV; role++)
        if ((problem->score == ATTN_SCORE_ADDITIVE) != (t[role] != NULL))
            return refuse(why, size, "W_q, W_k, w_v and the additive score go together");
    if (t[ATTN_KEEP] && !(problem->flags & ATTN_FLAG_DROPOUT))
        return refuse(why, size, "a keep mask is given without dropout");
    if (t[ATTN_B_O] && !t[ATTN_W_O])
        return refuse(why, size, "b_o is given without w_o");
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

int ref_check_problem(const struct attn_problem *problem, char *why, size_t size)
{
    struct ref_operands operands;

    if (!parameters_fit(problem, why, size) || !sizes_fit(problem, why, size))
        return ATTN_INVALID;
    ref_operands_init(&operands, problem);
    if (!roles_fit(&operands, why, size))
        return ATTN_INVALID;
    if (problem->op == ATTN_OP_MHA) {
        /* Widths are read from these three, so their ranks come first. */
        for (uint32_t role = ATTN_X_Q; role <= ATTN_X_V; role++)
            if (operands.by_role[role]->rank != 3 || operands.by_role[ATTN_OUT]->rank != 3) {
                refuse(why, size, "x_q, x_k, x_v and out of multi-head attention have rank 3");
                return ATTN_INVALID;
            }
        /* A default stands for a tensor of the keys' length. */
        if (operands.by_role[ATTN_X_K]->shape[1] != problem->sk ||
            operands.by_role[ATTN_X_V]->shape[1] != problem->sk) {
            refuse(why, size, "without x_k, sk must be sq");
            return ATTN_INVALID;
        }
        if ((problem->flags & ATTN_FLAG_RESIDUAL) &&
            operands.by_role[ATTN_X_Q]->shape[2] != operands.by_role[ATTN_OUT]->shape[2]) {
            refuse(why, size, "a residual needs x_q and out of equal width");
            return ATTN_INVALID;
        }
    }
    for (uint32_t t = 0; t < problem->n_tensors; t++)
        if (!tensor_fits(&operands, &problem->tensors[t], why, size))
            return ATTN_INVALID;
    return lengths_fit(&operands, why, size) ? ATTN_OK : ATTN_INVALID;
}
