/* SPDX-License-Identifier: Apache-2.0 */
/* problem.h - what backends have in common: a table of operands, a check of a problem against
 * a backend's limits, and (in rows.h) the keys that a query sees, dropout, and element types.
 *
 * Optional: backend.h alone says what a plugin must do. Both headers are C11 and C++17 and need
 * only backend.h and the C library. All their functions are inline. A plugin compiles them in, so
 * nothing here is part of the binary interface.
 *
 * While ATTN_ABI_VERSION stays the same, names, arguments and meanings stay the same. Structures
 * grow only at their end. A backend accepts what its limits list, so new rows, flags and values
 * never make it accept more than before.
 *
 *     static const uint32_t optional[] = {ATTN_LSE, ATTN_MASK, 0};
 *     static const struct attn_limits limits = {
 *         .ops = ATTN_BIT(ATTN_OP_ATTENTION),
 *         .scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT) | ATTN_BIT(ATTN_SCORE_DOT),
 *         .dtypes = ATTN_BIT(ATTN_F32),
 *         .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_DETERMINISTIC,
 *         .optional = optional,
 *     };
 *
 *     supports   return attn_problem_check(problem, &limits, why, size);
 *     bind       attn_operands_set(&binding->operands, tensors, n_tensors);
 *     run        struct attn_keys keys = attn_keys_seen(problem, &operands->len, b, i); */
#ifndef ATTNBENCH_PROBLEM_H
#define ATTNBENCH_PROBLEM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "attnbench/backend.h"
#include "attnbench/rows.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A set of ops, of scores or of types: ATTN_BIT(ATTN_F32) | ATTN_BIT(ATTN_F16). */
#define ATTN_BIT(value) (1u << (value))

/* In a set of types: the type of the problem; and f32, or f64 if the problem is f64. */
#define ATTN_LIKE_Q   (1u << 0)
#define ATTN_LIKE_LSE (1u << 31)

/* Is a value in a set. Values from 31 on are in no set. */
static inline int attn_set_has(uint32_t set, uint32_t value)
{
    return value > 0 && value < 31 && (set >> value & 1u) != 0;
}

/* ---- Operands ---- */

/* The operands of a problem by name. dtype 0 means not given. As in attn_tensor, data is NULL
 * before `bind`, and shape and stride are in the axis order of the role. */
struct attn_operands {
    struct attn_tensor q, k, v, out, lse, weights;
    struct attn_tensor mask, bias, len, alibi, sink, keep, head_mask;
    struct attn_tensor m, score_w_q, score_w_k, score_w_v;
    struct attn_tensor x_q, x_k, x_v; /* a missing x_k is x_q, a missing x_v is x_k; see .role */
    struct attn_tensor w_q, w_k, w_v, w_o, b_q, b_k, b_v, b_o;
    struct attn_tensor decay, bonus, state_in, state_out; /* recurrences */
    struct attn_tensor score_kr, score_qr, rel_buckets;   /* disentangled scores */
    struct attn_tensor features;                          /* performer */
    struct attn_tensor gate;
    struct attn_tensor global, dilation, q_global, k_global, v_global;
    struct attn_tensor lin_q, lin_k;                       /* chunked */
    struct attn_tensor proj_e, proj_f;                     /* a missing proj_f is proj_e */
    struct attn_tensor rotations, buckets_in, buckets_out; /* lsh */
    struct attn_tensor dout, grad_q, grad_k, grad_v, grad_bias, grad_sink, grad_alibi;
    struct attn_tensor dlse;
};

/* One form of a role. A role with several forms has one row for each. */
struct attn_problem_role {
    uint32_t role;
    const char *name;     /* as in packs and messages */
    const char *axes;     /* one letter per axis, see attn_problem_extent */
    uint32_t types;       /* a set */
    uint32_t ops, scores; /* sets; scores 0 means any */
    uint32_t needed;      /* 1: the ops and scores of this row need it */
    size_t place;         /* its offset in struct attn_operands */
};

/* The table of roles. Local names are lower case, because macros of a plugin rarely are. */
static inline const struct attn_problem_role *attn_problem_roles(size_t *count)
{
    enum {
        att = 1 << ATTN_OP_ATTENTION,
        mha = 1 << ATTN_OP_MHA,
        wkv = 1 << ATTN_OP_WKV,
        decays = 1 << ATTN_OP_LINEAR_DECAY,
        performer = 1 << ATTN_OP_PERFORMER,
        chunked = 1 << ATTN_OP_CHUNKED,
        lin = 1 << ATTN_OP_LINFORMER,
        nys = 1 << ATTN_OP_NYSTROM,
        lsh = 1 << ATTN_OP_LSH,
        bwd = 1 << ATTN_OP_ATTENTION_BACKWARD,
        masked = att | mha | bwd,
        both = att | mha,
        bilinear = 1 << ATTN_SCORE_BILINEAR,
        additive = 1 << ATTN_SCORE_ADDITIVE,
        places = 1 << ATTN_SCORE_DISENTANGLED,
        same = ATTN_LIKE_Q,
        side = ATTN_LIKE_Q | 1 << ATTN_F32,
        truth = 1 << ATTN_BOOL,
        whole = 1 << ATTN_I32
    };
#define ATTN_PLACE(field) offsetof(struct attn_operands, field)
    static const struct attn_problem_role roles[] = {
        /* role, name, axes, types, ops, scores, needed, place */
        {ATTN_Q, "q", "bhiq", same, att | decays | performer | chunked | lin | nys | lsh | bwd, 0,
         1, ATTN_PLACE(q)},
        {ATTN_K, "k", "bgjk", same, att | wkv | decays | performer | chunked | lin | nys | bwd, 0,
         1, ATTN_PLACE(k)},
        {ATTN_V, "v", "bgjv", same,
         att | wkv | decays | performer | chunked | lin | nys | lsh | bwd, 0, 1, ATTN_PLACE(v)},
        {ATTN_OUT, "out", "bhiv", same,
         att | wkv | decays | performer | chunked | lin | nys | lsh | bwd, 0, 1, ATTN_PLACE(out)},
        {ATTN_OUT, "out", "biY", same, mha, 0, 1, ATTN_PLACE(out)},
        {ATTN_LSE, "lse", "bhi", ATTN_LIKE_LSE, both | lin | lsh, 0, 0, ATTN_PLACE(lse)},
        {ATTN_LSE, "lse", "bhi", ATTN_LIKE_LSE, bwd, 0, 1, ATTN_PLACE(lse)},
        {ATTN_WEIGHTS, "weights", "bhij", same, both, 0, 0, ATTN_PLACE(weights)},
        {ATTN_MASK, "mask", "bhij", truth, masked, 0, 0, ATTN_PLACE(mask)},
        {ATTN_BIAS, "bias", "bhij", side, masked, 0, 0, ATTN_PLACE(bias)},
        {ATTN_BIAS, "bias", "bhcc", side, chunked, 0, 0, ATTN_PLACE(bias)},
        {ATTN_LEN, "len", "b", whole, masked | performer | chunked | lin, 0, 0, ATTN_PLACE(len)},
        {ATTN_LEN, "len", "bi", whole, masked, 0, 0, ATTN_PLACE(len)},
        {ATTN_ALIBI, "alibi", "h", side, masked, 0, 0, ATTN_PLACE(alibi)},
        {ATTN_SINK, "sink", "h", side, masked, 0, 0, ATTN_PLACE(sink)},
        {ATTN_KEEP, "keep", "bhij", truth, masked, 0, 0, ATTN_PLACE(keep)},
        {ATTN_GATE, "gate", "bhiv", same, att | chunked, 0, 0, ATTN_PLACE(gate)},
        {ATTN_HEAD_MASK, "head_mask", "h", truth, mha, 0, 0, ATTN_PLACE(head_mask)},
        {ATTN_GLOBAL, "global", "bj", truth, att, 0, 0, ATTN_PLACE(global)},
        {ATTN_DILATION, "dilation", "h", whole, att, 0, 0, ATTN_PLACE(dilation)},
        {ATTN_Q_GLOBAL, "q_global", "bhiq", same, att, 0, 0, ATTN_PLACE(q_global)},
        {ATTN_K_GLOBAL, "k_global", "bgjk", same, att, 0, 0, ATTN_PLACE(k_global)},
        {ATTN_V_GLOBAL, "v_global", "bgjv", same, att, 0, 0, ATTN_PLACE(v_global)},
        {ATTN_SCORE_M, "m", "hqk", side, both, bilinear, 1, ATTN_PLACE(m)},
        {ATTN_SCORE_WQ, "score_w_q", "hdq", side, both, additive, 1, ATTN_PLACE(score_w_q)},
        {ATTN_SCORE_WK, "score_w_k", "hdk", side, both, additive, 1, ATTN_PLACE(score_w_k)},
        {ATTN_SCORE_WV, "score_w_v", "hd", side, both, additive, 1, ATTN_PLACE(score_w_v)},
        {ATTN_SCORE_KR, "score_kr", "hPk", side, att, places, 1, ATTN_PLACE(score_kr)},
        {ATTN_SCORE_QR, "score_qr", "hPk", side, att, places, 1, ATTN_PLACE(score_qr)},
        {ATTN_REL_POS, "rel_buckets", "D", whole, att, places, 0, ATTN_PLACE(rel_buckets)},
        {ATTN_X_Q, "x_q", "biE", same, mha, 0, 1, ATTN_PLACE(x_q)},
        {ATTN_X_K, "x_k", "bjF", same, mha, 0, 0, ATTN_PLACE(x_k)},
        {ATTN_X_V, "x_v", "bjG", same, mha, 0, 0, ATTN_PLACE(x_v)},
        {ATTN_W_Q, "w_q", "QE", same, mha, 0, 1, ATTN_PLACE(w_q)},
        {ATTN_W_K, "w_k", "KF", same, mha, 0, 1, ATTN_PLACE(w_k)},
        {ATTN_W_V, "w_v", "VG", same, mha, 0, 1, ATTN_PLACE(w_v)},
        {ATTN_W_O, "w_o", "YO", same, mha, 0, 0, ATTN_PLACE(w_o)},
        {ATTN_B_Q, "b_q", "Q", same, mha, 0, 0, ATTN_PLACE(b_q)},
        {ATTN_B_K, "b_k", "K", same, mha, 0, 0, ATTN_PLACE(b_k)},
        {ATTN_B_V, "b_v", "V", same, mha, 0, 0, ATTN_PLACE(b_v)},
        {ATTN_B_O, "b_o", "Y", same, mha, 0, 0, ATTN_PLACE(b_o)},
        {ATTN_DECAY, "decay", "v", ATTN_LIKE_LSE, wkv, 0, 1, ATTN_PLACE(decay)},
        {ATTN_DECAY, "decay", "bgjk", ATTN_LIKE_LSE, decays, 0, 1, ATTN_PLACE(decay)},
        {ATTN_BONUS, "bonus", "v", ATTN_LIKE_LSE, wkv, 0, 1, ATTN_PLACE(bonus)},
        {ATTN_BONUS, "bonus", "gk", ATTN_LIKE_LSE, decays, 0, 0, ATTN_PLACE(bonus)},
        {ATTN_STATE_IN, "state_in", "bv3", ATTN_LIKE_LSE, wkv, 0, 0, ATTN_PLACE(state_in)},
        {ATTN_STATE_IN, "state_in", "bgkv", ATTN_LIKE_LSE, decays, 0, 0, ATTN_PLACE(state_in)},
        {ATTN_STATE_OUT, "state_out", "bgkv", ATTN_LIKE_LSE, decays, 0, 0, ATTN_PLACE(state_out)},
        {ATTN_STATE_OUT, "state_out", "bv3", ATTN_LIKE_LSE, wkv, 0, 0, ATTN_PLACE(state_out)},
        {ATTN_FEATURES, "features", "hmk", side, performer, 0, 1, ATTN_PLACE(features)},
        {ATTN_LIN_Q, "lin_q", "bhil", same, chunked, 0, 1, ATTN_PLACE(lin_q)},
        {ATTN_LIN_K, "lin_k", "bgjl", same, chunked, 0, 1, ATTN_PLACE(lin_k)},
        {ATTN_PROJ_E, "proj_e", "grj", same, lin, 0, 1, ATTN_PLACE(proj_e)},
        {ATTN_PROJ_F, "proj_f", "grj", same, lin, 0, 0, ATTN_PLACE(proj_f)},
        {ATTN_ROTATIONS, "rotations", "hqRN", same, lsh, 0, 1, ATTN_PLACE(rotations)},
        {ATTN_BUCKETS, "buckets_in", "bhRi", whole, lsh, 0, 0, ATTN_PLACE(buckets_in)},
        {ATTN_BUCKETS_OUT, "buckets_out", "bhRi", whole, lsh, 0, 0, ATTN_PLACE(buckets_out)},
        {ATTN_GRAD_OUT, "dout", "bhiv", same, bwd, 0, 1, ATTN_PLACE(dout)},
        {ATTN_GRAD_LSE, "dlse", "bhi", ATTN_LIKE_LSE, bwd, 0, 0, ATTN_PLACE(dlse)},
        {ATTN_GRAD_Q, "dq", "bhiq", same, bwd, 0, 1, ATTN_PLACE(grad_q)},
        {ATTN_GRAD_K, "dk", "bgjk", same, bwd, 0, 1, ATTN_PLACE(grad_k)},
        {ATTN_GRAD_V, "dv", "bgjv", same, bwd, 0, 1, ATTN_PLACE(grad_v)},
        {ATTN_GRAD_BIAS, "dbias", "ABCS", ATTN_LIKE_LSE, bwd, 0, 0, ATTN_PLACE(grad_bias)},
        {ATTN_GRAD_SINK, "dsink", "h", ATTN_LIKE_LSE, bwd, 0, 0, ATTN_PLACE(grad_sink)},
        {ATTN_GRAD_ALIBI, "dalibi", "h", ATTN_LIKE_LSE, bwd, 0, 0, ATTN_PLACE(grad_alibi)},
    };
#undef ATTN_PLACE
    *count = sizeof(roles) / sizeof(roles[0]);
    return roles;
}

/* The first row of a role, or NULL. */
static inline const struct attn_problem_role *attn_problem_role_any(uint32_t role)
{
    size_t count;
    const struct attn_problem_role *roles = attn_problem_roles(&count);
    for (size_t r = 0; r < count; r++)
        if (roles[r].role == role)
            return &roles[r];
    return NULL;
}

/* The name of a role; NULL if no row has it. */
static inline const char *attn_problem_role_name(uint32_t role)
{
    const struct attn_problem_role *row = attn_problem_role_any(role);
    return row ? row->name : NULL;
}

/* Does a row apply to the op and the score of a problem. */
static inline int attn_problem_role_fits(const struct attn_problem *p,
                                         const struct attn_problem_role *role)
{
    return attn_set_has(role->ops, p->op) &&
           (!role->scores || attn_set_has(role->scores, p->score));
}

/* The form that a role has in this problem. If there are several, the one of this rank, else the
 * last one. NULL if the role has no place in this problem. */
static inline const struct attn_problem_role *attn_problem_role_find(const struct attn_problem *p,
                                                                     uint32_t role, uint32_t rank)
{
    size_t count;
    const struct attn_problem_role *rows = attn_problem_roles(&count), *found = NULL;
    for (size_t r = 0; r < count; r++) {
        if (rows[r].role != role || !attn_problem_role_fits(p, &rows[r]))
            continue;
        found = &rows[r];
        if (strlen(found->axes) == rank)
            break;
    }
    return found;
}

/* The operand of a role in struct attn_operands; NULL if no row has the role. */
static inline struct attn_tensor *attn_operands_at(struct attn_operands *operands, uint32_t role)
{
    const struct attn_problem_role *row = attn_problem_role_any(role);
    return row ? (struct attn_tensor *)(void *)((char *)operands + row->place) : NULL;
}

/* The same, read-only. */
static inline const struct attn_tensor *attn_operands_find(const struct attn_operands *operands,
                                                           uint32_t role)
{
    const struct attn_problem_role *row = attn_problem_role_any(role);
    return row ? (const struct attn_tensor *)(const void *)((const char *)operands + row->place)
               : NULL;
}

/* Uses x_q for a missing x_k, x_k for a missing x_v, and proj_e for a missing proj_f. Call it again
 * after you change one that may stand in. */
static inline void attn_operands_default(struct attn_operands *operands)
{
    if (operands->x_k.role != ATTN_X_K)
        operands->x_k = operands->x_q;
    if (operands->x_v.role != ATTN_X_V)
        operands->x_v = operands->x_k;
    if (operands->proj_f.role != ATTN_PROJ_F)
        operands->proj_f = operands->proj_e;
}

/* Sets all operands of a problem, or of a binding. Tensors of roles that are not in the table are
 * ignored. */
static inline void attn_operands_set(struct attn_operands *operands,
                                     const struct attn_tensor *tensors, uint32_t n_tensors)
{
    memset(operands, 0, sizeof(*operands));
    for (uint32_t t = 0; t < n_tensors; t++) {
        struct attn_tensor *at = attn_operands_at(operands, tensors[t].role);
        if (at)
            *at = tensors[t];
    }
    attn_operands_default(operands);
}

/* The width of x_q, x_k or x_v; -1 if not given. */
static inline int64_t attn_problem_model_width(const struct attn_problem *p, uint32_t role)
{
    const struct attn_tensor *x = attn_tensor_find(p, role);
    if (!x && role == ATTN_X_V)
        x = attn_tensor_find(p, ATTN_X_K);
    if (!x)
        x = attn_tensor_find(p, ATTN_X_Q);
    return x ? x->shape[2] : -1;
}

/* The extent of an axis of the gradient of BIAS: 1 where that has stride 0. -1: there is no BIAS.
 */
static inline int64_t attn_problem_bias_extent(const struct attn_problem *p, uint32_t axis)
{
    const struct attn_tensor *bias = attn_tensor_find(p, ATTN_BIAS);
    if (!bias || axis >= bias->rank)
        return -1;
    return bias->stride[axis] == 0 ? 1 : bias->shape[axis];
}

/* The extent of an axis:
 *   b batch   h query heads   g key/value heads   i queries   j keys
 *   q k v     widths of one head: dq, dk, dv        d   hidden width of an additive score: dh
 *   Q K V O   heads side by side: hq*dq, hkv*dk, hkv*dv, hq*dv
 *   E F G Y   model widths: of x_q, x_k, x_v, and of out
 *   P   rows of a table of positions: 2 span        D   distances: sq + sk - 1
 *   c l       tokens of a chunk; width of lin_q
 *   r         landmarks
 *   R N       rounds of hashing, and half the buckets of a round
 *   3         three numbers
 *   m         random features of performer
 *   A B C S   the axes of BIAS, 1 where it has stride 0
 * -1 if the letter is not known, or if the operand that decides it is not given. */
static inline int64_t attn_problem_extent(const struct attn_problem *p, char axis)
{
    const struct attn_tensor *w_o, *positions, *features, *lin_q;
    switch (axis) {
    case 'A':
        return attn_problem_bias_extent(p, 0);
    case 'B':
        return attn_problem_bias_extent(p, 1);
    case 'C':
        return attn_problem_bias_extent(p, 2);
    case 'S':
        return attn_problem_bias_extent(p, 3);
    case 'b':
        return p->b;
    case 'h':
        return p->hq;
    case 'g':
        return p->hkv;
    case 'i':
        return p->sq;
    case 'j':
        return p->sk;
    case 'q':
        return p->dq;
    case 'k':
        return p->dk;
    case 'v':
        return p->dv;
    case 'd':
        return p->dh;
    case 'r':
        return p->landmarks;
    case 'Q':
        return p->hq * p->dq;
    case 'K':
        return p->hkv * p->dk;
    case 'V':
        return p->hkv * p->dv;
    case 'O':
        return p->hq * p->dv;
    case 'E':
        return attn_problem_model_width(p, ATTN_X_Q);
    case 'F':
        return attn_problem_model_width(p, ATTN_X_K);
    case 'G':
        return attn_problem_model_width(p, ATTN_X_V);
    case 'Y':
        w_o = attn_tensor_find(p, ATTN_W_O);
        return w_o ? w_o->shape[0] : p->hq * p->dv;
    case 'P':
        positions = attn_tensor_find(p, ATTN_SCORE_KR);
        return positions && positions->rank == 3 ? positions->shape[1] : -1;
    case 'D':
        return p->sq + p->sk - 1;
    case 'c':
        return p->chunk;
    case 'l':
        lin_q = attn_tensor_find(p, ATTN_LIN_Q);
        return lin_q ? lin_q->shape[3] : -1;
    case 'R':
        return p->rounds;
    case 'N':
        return p->buckets / 2;
    case '3':
        return 3;
    case 'm':
        features = attn_tensor_find(p, ATTN_FEATURES);
        return features ? features->shape[1] : -1;
    default:
        return -1;
    }
}

/* Bytes from the first element of a tensor to the end of its last one. 0 if it has no element; -1
 * if a stride is negative or the bytes are too many to count. */
static inline int64_t attn_problem_span(const struct attn_tensor *tensor)
{
    const int64_t bytes = attn_element_bytes(tensor->dtype);
    int64_t last = 0;
    for (uint32_t a = 0; a < tensor->rank && a < ATTN_MAX_RANK; a++)
        if (tensor->shape[a] == 0)
            return 0;
    for (uint32_t a = 0; a < tensor->rank && a < ATTN_MAX_RANK; a++) {
        const int64_t steps = tensor->shape[a] - 1, stride = tensor->stride[a];
        if (steps < 0 || stride < 0 || (stride > 0 && steps > (INT64_MAX - last) / stride))
            return -1;
        last += steps * stride;
    }
    return bytes == 0 || last >= INT64_MAX / bytes ? -1 : (last + 1) * bytes;
}

/* ---- The check of a problem ---- */

/* An operand that a backend accepts in other forms than the table's. */
struct attn_limit {
    uint32_t role;
    uint32_t types; /* a set; 0: as in the table */
    /* Strides. 0: any. 1: the last axis has stride 1. n > 1: the last axis has stride 1, and the
     * strides of the other axes are multiples of n and not 0. An axis of one element may have any
     * stride. */
    uint32_t multiple;
    const char *axes; /* the only form accepted; NULL: those of the table */
    const char *name; /* in messages; NULL: as in the table */
};

/* What a backend accepts. A field that is 0 accepts nothing, unless its comment says otherwise. */
struct attn_limits {
    uint32_t ops, scores, dtypes;    /* sets; dtypes: types of the problem */
    uint64_t flags;                  /* ATTN_FLAG_* */
    const uint32_t *optional;        /* more roles than the needed ones, and those of GRAD_Q, GRAD_K
                                        and GRAD_V that it can do without; ends with 0; or NULL */
    const struct attn_limit *narrow; /* other forms than the table's; ends with role 0; or NULL */
    int64_t widest;                  /* largest dq, dk, dv; 0: any */
    /* Sentences for what is not in the sets above. NULL: a sentence that names it. */
    const char *no_op, *no_score, *no_dtype, *no_flag, *no_role;
};

/* Writes `sentence`, or "KIND NAME is not supported" if it is NULL. */
static inline int attn_problem_refuse(const char *sentence, const char *kind, const char *name,
                                      char *why, size_t size)
{
    if (sentence)
        snprintf(why, size, "%s", sentence);
    else
        snprintf(why, size, "%s %s is not supported", kind, name);
    return ATTN_UNSUPPORTED;
}

/* The same for a value. It is named if it is below `count` and has a name, else it is a number. */
static inline int attn_problem_refuse_value(const char *sentence, const char *kind, uint32_t value,
                                            const char *const *names, size_t count, char *why,
                                            size_t size)
{
    char number[16];
    snprintf(number, sizeof(number), "%u", (unsigned)value);
    return attn_problem_refuse(sentence, kind,
                               value < count && names[value] ? names[value] : number, why, size);
}

/* Writes which types are accepted: "only f32, f16 and bf16 are implemented". */
static inline int attn_problem_refuse_dtype(const struct attn_limits *limits, char *why,
                                            size_t size)
{
    static const char *const names[] = {"", "f64", "f32", "f16", "bf16"};
    char text[64] = "only ";
    uint32_t left = limits->dtypes & 0x1eu, taken = 0;
    for (uint32_t d = ATTN_F64; d <= ATTN_BF16; d++) {
        if (!attn_set_has(left, d))
            continue;
        left &= ~ATTN_BIT(d);
        strcat(text, taken == 0 ? "" : left ? ", " : " and ");
        strcat(text, names[d]);
        taken++;
    }
    strcat(text, taken == 1 ? " is implemented" : " are implemented");
    return attn_problem_refuse(limits->no_dtype ? limits->no_dtype : text, "", "", why, size);
}

/* Names the lowest flag that is not accepted. */
static inline int attn_problem_refuse_flag(const struct attn_problem *p,
                                           const struct attn_limits *limits, char *why, size_t size)
{
    static const char *const names[] = {"causal",  "window",   "off_br",        "softcap",
                                        "dropout", "residual", "deterministic", "approximate",
                                        "stream",  "weight"};
    uint64_t flags = p->flags & ~limits->flags;
    uint32_t bit = 0;
    while (!(flags >> bit & 1u))
        bit++;
    return attn_problem_refuse_value(limits->no_flag, "flag", bit, names,
                                     sizeof(names) / sizeof(names[0]), why, size);
}

/* What is wrong with the parameters of lsh, or NULL. */
static inline const char *attn_problem_hash_fault(const struct attn_problem *p)
{
    if (p->rounds < 1 || p->buckets < 2 || p->buckets % 2 != 0)
        return "lsh has at least one round, and an even number of buckets";
    if (p->chunk < 0 || (p->chunk > 0 && p->sq % p->chunk != 0))
        return "the chunk of lsh divides the sequence";
    return p->variant == ATTN_LSH_LAST || p->variant == ATTN_LSH_PLAIN
               ? NULL
               : "this variant of lsh is not known";
}

/* What is wrong with the sizes of a problem for any backend, or NULL. */
static inline const char *attn_problem_size_fault(const struct attn_problem *p)
{
    const int64_t heads[] = {p->hq, p->hkv, p->hkv, p->hq}, widths[] = {p->dq, p->dk, p->dv, p->dv};
    const int additive = p->score == ATTN_SCORE_ADDITIVE;
    int fits = p->b >= 1 && p->hkv >= 1 && p->hq >= 1 && p->hq % p->hkv == 0 && p->sq >= 1 &&
               p->sk >= 0 && p->dq >= 1 && p->dk >= 1 && p->dv >= 1 && (!additive || p->dh >= 1);
    for (int n = 0; fits && n < 4; n++)
        fits = heads[n] <= INT64_MAX / widths[n];
    if (p->dq != p->dk && !additive && p->score != ATTN_SCORE_BILINEAR)
        fits = 0;
    if (fits && p->op == ATTN_OP_WKV && (p->hq != 1 || p->sq != p->sk || p->dk != p->dv))
        return "wkv has hq = hkv = 1, sq = sk and dk = dv";
    if (fits && p->op == ATTN_OP_LINEAR_DECAY && (p->hq != p->hkv || p->sq != p->sk))
        return "linear_decay has hq = hkv and sq = sk";
    if (fits && p->op == ATTN_OP_PERFORMER && (p->flags & ATTN_FLAG_CAUSAL) &&
        (p->sq != p->sk || p->off != 0 || p->eps != 0))
        return "a causal performer has sq = sk, no offset and eps = 0";
    if (fits && p->op == ATTN_OP_CHUNKED && (p->hq != p->hkv || p->sq != p->sk))
        return "chunked has hq = hkv and sq = sk";
    if (fits && p->op == ATTN_OP_CHUNKED && (p->chunk < 1 || p->chunk > ATTN_FAR))
        return "a chunk has 1 to 2^60 tokens";
    if (fits && p->op == ATTN_OP_LINFORMER && p->landmarks < 1)
        return "linformer has at least one landmark";
    if (fits && p->op == ATTN_OP_NYSTROM &&
        (p->hq != p->hkv || p->sq != p->sk || p->landmarks < 1 || p->iterations < 0))
        return "nystrom has hq = hkv, sq = sk and at least one landmark";
    if (fits && p->op == ATTN_OP_LSH && (p->hq != p->hkv || p->sq != p->sk))
        return "lsh has hq = hkv and sq = sk";
    if (fits && p->op == ATTN_OP_LSH)
        return attn_problem_hash_fault(p);
    return fits ? NULL : "the sizes do not make an attention problem";
}

/* What is wrong with the values that go with flags, or NULL. */
static inline const char *attn_problem_flag_fault(const struct attn_problem *p)
{
    if ((p->flags & ATTN_FLAG_WINDOW) && (p->window_left < -1 || p->window_right < -1))
        return "a window side is below -1";
    if ((p->flags & ATTN_FLAG_DROPOUT) && !(p->dropout_p >= 0 && p->dropout_p < 1))
        return "the dropout probability is outside [0,1)";
    if ((p->flags & ATTN_FLAG_RESIDUAL) && p->op != ATTN_OP_MHA)
        return "a residual is part of multi-head attention only";
    if ((p->flags & ATTN_FLAG_WEIGHT) &&
        (p->op != ATTN_OP_ATTENTION || p->weight_fn < ATTN_WEIGHT_SIGMOID ||
         p->weight_fn > ATTN_WEIGHT_LAPLACE))
        return "the weight function is not known";
    if (p->op == ATTN_OP_CHUNKED && p->off != 0)
        return "chunked has no offset";
    if (p->op == ATTN_OP_ATTENTION_BACKWARD && p->score != ATTN_SCORE_SCALED_DOT &&
        p->score != ATTN_SCORE_DOT)
        return "gradients are those of dot products only";
    return NULL;
}

/* The first half of attn_problem_check: everything except the operands. */
static inline int attn_problem_check_scalars(const struct attn_problem *p,
                                             const struct attn_limits *limits, char *why,
                                             size_t size)
{
    static const char *const ops[] = {
        NULL,        "attention", "mha",          "attention_backward",
        "chunked",   "wkv",       "linear_decay", "linformer",
        "performer", "nystrom",   "lsh"};
    static const char *const scores[] = {NULL,       "scaled_dot", "dot",         "bilinear",
                                         "gaussian", "additive",   "disentangled"};
    const char *fault;
    if (p->struct_size < sizeof(*p))
        return attn_problem_refuse("the problem structure is older than this backend", "", "", why,
                                   size);
    if (!attn_set_has(limits->ops, p->op))
        return attn_problem_refuse_value(limits->no_op, "op", p->op, ops,
                                         sizeof(ops) / sizeof(ops[0]), why, size);
    if (!attn_set_has(limits->scores, p->score))
        return attn_problem_refuse_value(limits->no_score, "score", p->score, scores,
                                         sizeof(scores) / sizeof(scores[0]), why, size);
    if (!attn_set_has(limits->dtypes, p->dtype))
        return attn_problem_refuse_dtype(limits, why, size);
    if (p->flags & ~limits->flags)
        return attn_problem_refuse_flag(p, limits, why, size);
    fault = attn_problem_size_fault(p);
    if (!fault)
        fault = attn_problem_flag_fault(p);
    if (fault)
        return attn_problem_refuse(fault, "", "", why, size);
    if (limits->widest &&
        (p->dq > limits->widest || p->dk > limits->widest || p->dv > limits->widest)) {
        snprintf(why, size, "heads wider than %lld are not supported", (long long)limits->widest);
        return ATTN_UNSUPPORTED;
    }
    return ATTN_OK;
}

/* Do the strides of a tensor fit; see attn_limit.multiple. */
static inline int attn_problem_strides_fit(const struct attn_tensor *tensor, uint32_t multiple)
{
    for (uint32_t a = 0; multiple && a < tensor->rank; a++) {
        const int64_t stride = tensor->stride[a];
        if (tensor->shape[a] == 1)
            continue;
        if (a + 1 == tensor->rank ? stride != 1
                                  : multiple > 1 && (stride == 0 || stride % multiple != 0))
            return 0;
    }
    return attn_problem_span(tensor) >= 0;
}

static inline int attn_problem_type_fits(const struct attn_problem *p, uint32_t types,
                                         uint32_t dtype)
{
    return attn_set_has(types, dtype) || (types & ATTN_LIKE_Q && dtype == p->dtype) ||
           (types & ATTN_LIKE_LSE &&
            (dtype == ATTN_F32 || (dtype == ATTN_F64 && p->dtype == ATTN_F64)));
}

static inline int attn_problem_shape_fits(const struct attn_problem *p,
                                          const struct attn_tensor *tensor, const char *axes)
{
    for (uint32_t a = 0; a < tensor->rank; a++) {
        const int64_t extent = attn_problem_extent(p, axes[a]);
        const int64_t least = axes[a] == 'j' || axes[a] == 'D' || axes[a] == 'S' ? 0 : 1;
        if (tensor->shape[a] != extent || extent < least)
            return 0;
    }
    return 1;
}

/* What property of a tensor is not accepted, or NULL. */
static inline const char *attn_problem_tensor_fault(const struct attn_problem *p,
                                                    const struct attn_tensor *tensor,
                                                    const struct attn_problem_role *role,
                                                    const struct attn_limit *limit)
{
    const char *axes = limit && limit->axes ? limit->axes : role->axes;
    if (!attn_problem_type_fits(p, limit && limit->types ? limit->types : role->types,
                                tensor->dtype))
        return "type";
    if (tensor->space != ATTN_HOST || tensor->device != 0)
        return "memory space";
    if (tensor->rank != strlen(axes))
        return "rank";
    if (!attn_problem_shape_fits(p, tensor, axes))
        return "shape";
    if (!attn_problem_strides_fit(tensor, limit ? limit->multiple : 0))
        return "stride";
    return NULL;
}

/* Is a role listed among the optional ones. */
static inline int attn_problem_takes(const struct attn_limits *limits, uint32_t role)
{
    const uint32_t *taken = limits->optional;
    while (taken && *taken && *taken != role)
        taken++;
    return taken && *taken;
}

/* Checks one operand: it has a place in this problem, and the limits accept it in this form. */
static inline int attn_problem_check_tensor(const struct attn_problem *p,
                                            const struct attn_tensor *tensor,
                                            const struct attn_limits *limits, char *why,
                                            size_t size)
{
    const struct attn_problem_role *role = attn_problem_role_find(p, tensor->role, tensor->rank);
    const struct attn_limit *limit = limits->narrow;
    const char *fault, *name = attn_problem_role_name(tensor->role);
    char number[16];
    if (!role || (!role->needed && !attn_problem_takes(limits, tensor->role))) {
        snprintf(number, sizeof(number), "%u", (unsigned)tensor->role);
        return attn_problem_refuse(limits->no_role, "operand", name ? name : number, why, size);
    }
    while (limit && limit->role && limit->role != tensor->role)
        limit++;
    if (limit && !limit->role)
        limit = NULL;
    fault = attn_tensor_find(p, tensor->role) == tensor
                ? attn_problem_tensor_fault(p, tensor, role, limit)
                : "second tensor";
    if (!fault)
        return ATTN_OK;
    snprintf(why, size, "this %s of %s is not supported", fault,
             limit && limit->name ? limit->name : name);
    return ATTN_UNSUPPORTED;
}

/* Why operands of global tokens and dilated windows do not go together, or NULL. */
static inline const char *attn_problem_global_fault(const struct attn_problem *p)
{
    const int global = attn_tensor_find(p, ATTN_GLOBAL) != NULL;
    const int q = attn_tensor_find(p, ATTN_Q_GLOBAL) != NULL;
    if (global && p->sq != p->sk)
        return "global tokens need as many keys as queries";
    if (q != (attn_tensor_find(p, ATTN_K_GLOBAL) != NULL) ||
        q != (attn_tensor_find(p, ATTN_V_GLOBAL) != NULL))
        return "q_global, k_global and v_global go together";
    if (q && !global)
        return "q_global needs global tokens";
    if (attn_tensor_find(p, ATTN_DILATION) && !(p->flags & ATTN_FLAG_WINDOW))
        return "a dilation without a window";
    return NULL;
}

/* Why operands do not go together for any backend, or NULL. */
static inline const char *attn_problem_operands_fault(const struct attn_problem *p)
{
    const struct attn_tensor *len = attn_tensor_find(p, ATTN_LEN);
    if (len && len->rank == 2 && (p->flags & ATTN_FLAG_OFF_BR))
        return "a bottom-right offset needs one length a batch";
    if (p->score == ATTN_SCORE_DISENTANGLED && attn_problem_extent(p, 'P') % 2 != 0)
        return "a table of positions has 2 span rows";
    if (p->score == ATTN_SCORE_DISENTANGLED &&
        (p->parts < ATTN_PARTS_BOTH || p->parts > ATTN_PARTS_P2C ||
         p->variant < ATTN_POSITIONS_CODE || p->variant > ATTN_POSITIONS_PAPER))
        return "parts or variant of the disentangled score is not known";
    if (attn_tensor_find(p, ATTN_KEEP) && !(p->flags & ATTN_FLAG_DROPOUT))
        return "a keep mask without dropout";
    if ((p->flags & ATTN_FLAG_WEIGHT) &&
        (attn_tensor_find(p, ATTN_SINK) || attn_tensor_find(p, ATTN_LSE)))
        return "a sink or lse without the denominator of a softmax";
    if ((attn_tensor_find(p, ATTN_GRAD_SINK) && !attn_tensor_find(p, ATTN_SINK)) ||
        (attn_tensor_find(p, ATTN_GRAD_ALIBI) && !attn_tensor_find(p, ATTN_ALIBI)))
        return "a gradient of an operand that is not given";
    if (p->op == ATTN_OP_ATTENTION_BACKWARD && !attn_tensor_find(p, ATTN_GRAD_Q) &&
        !attn_tensor_find(p, ATTN_GRAD_K) && !attn_tensor_find(p, ATTN_GRAD_V))
        return "none of dq, dk and dv is asked for";
    if (attn_tensor_find(p, ATTN_BUCKETS) && attn_tensor_find(p, ATTN_BUCKETS_OUT))
        return "buckets are given, or they are asked for";
    if (p->op != ATTN_OP_MHA)
        return attn_problem_global_fault(p);
    if (!attn_tensor_find(p, ATTN_X_K) && p->sk != p->sq)
        return "without x_k there are as many keys as queries";
    if (!attn_tensor_find(p, ATTN_W_O) && attn_tensor_find(p, ATTN_B_O))
        return "an output bias without an output projection";
    if ((p->flags & ATTN_FLAG_RESIDUAL) &&
        attn_problem_extent(p, 'E') != attn_problem_extent(p, 'Y'))
        return "a residual needs equal widths of x_q and out";
    return NULL;
}

/* The second half of attn_problem_check: each operand, missing operands, and their combination. */
static inline int attn_problem_check_operands(const struct attn_problem *p,
                                              const struct attn_limits *limits, char *why,
                                              size_t size)
{
    size_t count;
    const struct attn_problem_role *roles = attn_problem_roles(&count);
    const char *fault;
    for (uint32_t t = 0; t < p->n_tensors; t++)
        if (attn_problem_check_tensor(p, &p->tensors[t], limits, why, size) != ATTN_OK)
            return ATTN_UNSUPPORTED;
    for (size_t r = 0; r < count; r++) {
        const int gradient = roles[r].role >= ATTN_GRAD_Q && roles[r].role <= ATTN_GRAD_V;
        if (!roles[r].needed || !attn_problem_role_fits(p, &roles[r]) ||
            attn_tensor_find(p, roles[r].role) ||
            (gradient && attn_problem_takes(limits, roles[r].role)))
            continue;
        snprintf(why, size, "operand %s is missing", roles[r].name);
        return ATTN_UNSUPPORTED;
    }
    fault = attn_problem_operands_fault(p);
    return fault ? attn_problem_refuse(fault, "", "", why, size) : ATTN_OK;
}

/* The first check of `supports`. ATTN_OK if the problem makes sense and lies within the limits,
 * else ATTN_UNSUPPORTED with the reason in (why, size). Call the two halves yourself if a
 * constraint of your own comes between them. */
static inline int attn_problem_check(const struct attn_problem *p, const struct attn_limits *limits,
                                     char *why, size_t size)
{
    int status = attn_problem_check_scalars(p, limits, why, size);
    return status == ATTN_OK ? attn_problem_check_operands(p, limits, why, size) : status;
}

#ifdef __cplusplus
}
#endif

#endif
