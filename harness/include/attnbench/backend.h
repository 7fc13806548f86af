/* SPDX-License-Identifier: Apache-2.0 */
/* backend.h - the attnbench plugin ABI: everything that a backend sees and may rely on.
 *
 * A plugin is a shared object that exports one const data symbol, `attn_plugin` (see the end of
 * this file). The harness loads it into a worker process, never into the host, and calls it in
 * this order:
 *
 *   init                               once per process, before any other slot
 *   probe                              says whether this backend can run on this machine
 *   for each problem:
 *     supports                         says whether the backend does this problem, or why not
 *     create                           makes a plan: picks a path, allocates; reads no tensor data
 *     numerics describe workspace_bytes
 *     bind                             attaches tensors to the plan (several bindings may live)
 *     run run run ...                  computes; the only slot that is timed
 *     fetch                            copies results into the bound output tensors
 *     release                          frees one binding
 *     destroy                          frees the plan
 *
 * Threads: the harness calls all slots of one process from one thread, never concurrently. A
 * backend may use up to services->threads threads, including the calling one. Affinity to exactly
 * that many processors is set before the process starts.
 *
 * Ownership: what the harness passes in belongs to the harness. Pointers in a problem or in a
 * services structure are valid until `destroy` of the plan that was created with them. Tensor data
 * are valid from `bind` until `release` of that binding. A plan and a binding belong to the
 * backend, which frees them in `destroy` and `release`.
 *
 * Failure: a slot that returns anything except ATTN_OK writes one sentence, without newline, to
 * (why, size). It leaves its out parameters untouched and holds no memory for the failed call.
 * `why` is never NULL. size is at least 256.
 *
 * Growth: every structure that the harness may extend starts with struct_size. Fields are only
 * appended. Each enumeration and the flag set are open: a backend MUST answer ATTN_UNSUPPORTED,
 * with the reason, to any op, score, role, type, space or flag that it does not know. A new
 * feature of the operator always comes with a new flag, role or value. So an old backend refuses
 * it and never computes something else. It refuses a struct_size below its own structure, too.
 *
 * problem.h, in the same folder, is optional. It checks a problem against a backend's limits and
 * reads masks, dropout and 16-bit types.
 */
#ifndef ATTNBENCH_BACKEND_H
#define ATTNBENCH_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Increases when a plugin compiled for the older version can no longer be called. */
#define ATTN_ABI_VERSION 1u
#define ATTN_MAX_RANK    6

#if defined(__GNUC__)
#define ATTN_EXPORT __attribute__((visibility("default")))
#else
#define ATTN_EXPORT
#endif

enum attn_result {
    ATTN_OK = 0,
    ATTN_UNSUPPORTED = 1,   /* the backend does not do this problem */
    ATTN_NO_DEVICE = 2,     /* the machine lacks what this backend needs */
    ATTN_OUT_OF_MEMORY = 3, /* host or device memory could not be allocated */
    ATTN_INVALID = 4,       /* an option or an argument is wrong */
    ATTN_FAILED = 5         /* anything else */
};

/* Element types. bool is one byte: 0 is false, anything else is true. */
enum attn_dtype {
    ATTN_F64 = 1,
    ATTN_F32 = 2,
    ATTN_F16 = 3,
    ATTN_BF16 = 4,
    ATTN_F8_E4M3 = 5, /* reserved */
    ATTN_F8_E5M2 = 6, /* reserved */
    ATTN_I8 = 7,      /* reserved */
    ATTN_U8 = 8,      /* reserved */
    ATTN_BOOL = 16,
    ATTN_I32 = 17,
    ATTN_I64 = 18
};

/* Where data lie. Every tensor of ABI version 1 is ATTN_HOST, device 0. A device backend copies in
 * `bind` and in `fetch`. The others are reserved. */
enum attn_space { ATTN_HOST = 0, ATTN_CUDA = 1, ATTN_HIP = 2, ATTN_SYCL = 3 };

enum attn_op {
    ATTN_OP_ATTENTION = 1,
    ATTN_OP_MHA = 2,                /* projections, attention, concatenation, output projection */
    ATTN_OP_ATTENTION_BACKWARD = 3, /* gradients of attention, OUT and LSE being given */
    ATTN_OP_CHUNKED = 4,            /* FLASH: relu^2 attention in chunks, linear beyond them */
    ATTN_OP_WKV = 5,                /* RWKV-4: each channel a softmax over its past, which decays */
    ATTN_OP_LINEAR_DECAY = 6,       /* linear attention whose state decays */
    ATTN_OP_LINFORMER = 7,          /* attention over keys and values projected to a few rows */
    ATTN_OP_PERFORMER = 8,          /* attention by positive random features (FAVOR+) */
    ATTN_OP_NYSTROM = 9,            /* attention through means of segments (Nystroemformer) */
    ATTN_OP_LSH = 10                /* attention within buckets of a hash (Reformer) */
};

/* linear_decay: does the state decay before a step reads it? */
enum attn_decay { ATTN_DECAY_EXCLUSIVE = 0, ATTN_DECAY_INCLUSIVE = 1 };

/* nystrom: the iteration begins with A^T over the largest column sum of A. Of which A? */
enum attn_nystrom {
    ATTN_NYSTROM_HEAD = 0, /* of each head its own */
    ATTN_NYSTROM_BATCH = 1 /* of all heads and batches the one with the largest */
};

/* lsh: does a query see its own token? LAST: only if it sees no other. PLAIN: as any other. */
enum attn_lsh_self { ATTN_LSH_LAST = 0, ATTN_LSH_PLAIN = 1 };

/* Raw score of query q and key k, before scale (see attn_problem.scale):
 *   scaled_dot, dot  q.k
 *   bilinear         q^T M k
 *   gaussian         -0.5 |q - k|^2
 *   additive         w_v^T tanh(W_q q + W_k k)
 *   disentangled     q_i.k_j + q_i.KR[h,d] + k_j.QR[h,e], of query i and key j; attn_problem.parts
 *                    may leave out a product. d = clip(i + off - j + span, 0, 2 span - 1), or
 *                    REL_POS[i - j + Sk - 1] if it is given. e is d, unless attn_problem.variant is
 *                    ATTN_POSITIONS_PAPER: then e = clip(j - i - off + span, 0, 2 span - 1), or
 *                    min(2 span - d, 2 span - 1) with REL_POS. off as for ALiBi */
enum attn_score {
    ATTN_SCORE_SCALED_DOT = 1,
    ATTN_SCORE_DOT = 2,
    ATTN_SCORE_BILINEAR = 3,
    ATTN_SCORE_GAUSSIAN = 4,
    ATTN_SCORE_ADDITIVE = 5,
    ATTN_SCORE_DISENTANGLED = 6 /* DeBERTa; op attention only */
};

/* Disentangled scores: which products with positions they have, and where the second one reads. */
enum attn_parts { ATTN_PARTS_BOTH = 0, ATTN_PARTS_C2P = 1, ATTN_PARTS_P2C = 2 };
enum attn_positions { ATTN_POSITIONS_CODE = 0, ATTN_POSITIONS_PAPER = 1 };

/* Weight of a key with score s. All but softmax depend on s alone: nothing divides them.
 *   sigmoid  1 / (1 + exp(-s))
 *   relu2    max(s, 0)^2
 *   laplace  (1 + erf((s - mu) / (sd sqrt 2))) / 2, mu = sqrt(1/2), sd = sqrt(1 / (4 pi)) */
enum attn_weight_fn {
    ATTN_WEIGHT_SOFTMAX = 0,
    ATTN_WEIGHT_SIGMOID = 1,
    ATTN_WEIGHT_RELU2 = 2,
    ATTN_WEIGHT_LAPLACE = 3
};

/* What a tensor is, with its logical shape. Shapes are always complete and in this axis order,
 * whatever the memory layout. Strides say where elements lie; a stride of 0 broadcasts. Dq is the
 * width of one head of q, Dk of k, Dv of v, and Eq is the model width of x_q, Ek of x_k, Ev of x_v.
 */
enum attn_role {
    ATTN_Q = 1,   /* [B,Hq,Sq,Dq]   attention, chunked */
    ATTN_K = 2,   /* [B,Hkv,Sk,Dk]  attention; wkv: logits [B,1,S,C] */
    ATTN_V = 3,   /* [B,Hkv,Sk,Dv]  attention; wkv: [B,1,S,C] */
    ATTN_OUT = 4, /* output: attention, wkv [B,Hq,Sq,Dv], mha [B,Sq,Eo]. Eo = Hq*Dv without w_o
                     attention_backward: an input, the result of the forward pass */
    ATTN_LSE = 5, /* output, optional: [B,Hq,Sq], natural log, before dropout; f32, or f64 for f64
                     attention_backward: an input */
    ATTN_WEIGHTS = 6, /* output, optional: [B,Hq,Sq,Sk], before dropout, type of q */

    ATTN_MASK = 16,  /* bool [B,Hq,Sq,Sk], true = attend; usually broadcast on some axes */
    ATTN_BIAS = 17,  /* [B,Hq,Sq,Sk], added to the score after softcap
                        chunked: [B,H,chunk,chunk], the same for every chunk */
    ATTN_LEN = 18,   /* i32 number of valid keys, each in 0..Sk: [B], or [B,Sq] for one per query
                        chunked: [B] */
    ATTN_ALIBI = 19, /* [Hq] slopes: score -= slope_h * |i + off - j| */
    ATTN_SINK = 20,  /* [Hq] a logit that is added to the denominator only */
    ATTN_KEEP = 21,  /* bool [B,Hq,Sq,Sk]: explicit dropout mask, true = kept */
    ATTN_HEAD_MASK = 22, /* mha: bool [Hq], false = pruned: zero before the concatenation */
    /* attention: bool [B,Sk], Sq = Sk. A global token sees the tokens outside its window, too, and
     * they see it. len, causal and MASK hold for it as for others. */
    ATTN_GLOBAL = 23,
    ATTN_GATE = 24, /* attention, chunked: [B,Hq,Sq,Dv], out is multiplied by it as the last step */
    /* attention, with ATTN_FLAG_WINDOW: i32 [Hq], each >= 1. The window of head h counts in steps
     * of D = dilation_h keys: it has the keys j at which i+off-j is a multiple of D, and
     * -window_right D <= i+off-j <= window_left D. */
    ATTN_DILATION = 25,
    /* attention, with ATTN_GLOBAL, all three or none: shapes and type of q, k and v. A row i whose
     * token is global uses these for all of its keys. Other rows use q, k and v, towards global
     * keys, too. So nobody reads q of global rows, or q_global of others. */
    ATTN_Q_GLOBAL = 26,
    ATTN_K_GLOBAL = 27,
    ATTN_V_GLOBAL = 28,
    ATTN_REL_POS = 29, /* disentangled, optional: i32 [Sq+Sk-1], rows of KR and QR by distance: that
                          of query i and key j is entry i - j + Sk - 1, each in 0..2 span - 1 */

    ATTN_SCORE_M = 32,  /* bilinear: [Hq,Dq,Dk]; a shared matrix has stride 0 on axis 0 */
    ATTN_SCORE_WQ = 33, /* additive: [Hq,Dh,Dq] */
    ATTN_SCORE_WK = 34, /* additive: [Hq,Dh,Dk] */
    ATTN_SCORE_WV = 35, /* additive: [Hq,Dh] */
    ATTN_SCORE_KR = 36, /* disentangled: [Hq,2 span,Dk], projected positions that meet q; */
    ATTN_SCORE_QR = 37, /* the same for k. Both are given, even if parts leaves one of them out */

    ATTN_X_Q = 48, /* mha: [B,Sq,Eq] */
    ATTN_X_K = 49, /* mha: [B,Sk,Ek]; if absent, x_q */
    ATTN_X_V = 50, /* mha: [B,Sk,Ev]; if absent, x_k */
    ATTN_W_Q = 51, /* mha: [Hq*Dq,Eq], q = x_q w_q^T + b_q; head h is rows h*Dq .. (h+1)*Dq-1 */
    ATTN_W_K = 52, /* mha: [Hkv*Dk,Ek] */
    ATTN_W_V = 53, /* mha: [Hkv*Dv,Ev] */
    ATTN_W_O = 54, /* mha: [Eo,Hq*Dv]; if absent, there is no output projection */
    ATTN_B_Q = 55, /* mha, each bias optional: [Hq*Dq] */
    ATTN_B_K = 56, /* [Hkv*Dk] */
    ATTN_B_V = 57, /* [Hkv*Dv] */
    ATTN_B_O = 58, /* [Eo] */

    /* Reserved: named now so that no two extensions use the same number. */
    ATTN_CU_SEQLENS_Q = 64, /* ragged batches: i32 [B+1] */
    ATTN_CU_SEQLENS_K = 65,
    ATTN_BLOCK_TABLE = 66, /* paged keys: i32 [B,pages] */
    ATTN_Q_SCALE = 67,     /* quantised operands */
    ATTN_K_SCALE = 68,
    ATTN_V_SCALE = 69,
    ATTN_K_ZERO = 70,
    ATTN_V_ZERO = 71,
    ATTN_PAST_K = 72, /* key/value cache in and out */
    ATTN_PAST_V = 73,
    ATTN_PRESENT_K = 74,
    ATTN_PRESENT_V = 75,

    /* attention_backward. GRAD_BIAS, GRAD_SINK and GRAD_ALIBI are f32, or f64 for f64. */
    ATTN_GRAD_OUT = 80, /* input: [B,Hq,Sq,Dv], the gradient of OUT */
    ATTN_GRAD_Q = 81, /* outputs: shapes and type of q, k and v; each optional, but one is there. A
                         key that no query sees, and a query that sees no key, have 0 */
    ATTN_GRAD_K = 82, /* GRAD_K and GRAD_V: added up over the query heads of a key head */
    ATTN_GRAD_V = 83,
    ATTN_GRAD_BIAS = 84,  /* output, optional: as BIAS, but 1 long where that has stride 0: added up
                             over what it broadcasts to */
    ATTN_GRAD_SINK = 85,  /* output, optional: [Hq] */
    ATTN_GRAD_ALIBI = 86, /* output, optional: [Hq], the gradient of the slopes */
    ATTN_GRAD_LSE = 87,   /* input, optional: as LSE, the gradient of LSE */
    ATTN_GRAD_SCORE_M = 88, /* reserved: the gradients of scores' parameters */
    ATTN_GRAD_SCORE_WQ = 89,
    ATTN_GRAD_SCORE_WK = 90,
    ATTN_GRAD_SCORE_WV = 91,

    ATTN_STREAM = 96,     /* device stream handle */
    ATTN_PROJ_E = 100,    /* linformer: [Hkv,r,Sk] multiplies k, r = landmarks; a matrix that all
                             heads share has stride 0 on axis 0 */
    ATTN_PROJ_F = 101,    /* the same for v; if absent, proj_e */
    ATTN_FEATURES = 102,  /* performer: [Hq,m,Dk], random directions w of the features; one set for
                             all heads has stride 0 on axis 0. Type of q, or f32 */
    ATTN_ROTATIONS = 103, /* lsh: [H,D,R,nb/2] what each round of hashing multiplies a query by */
    ATTN_BUCKETS = 104,   /* lsh, optional: i32 [B,H,R,S] the bucket of each token in each round */

    /* Recurrences. Each is f32, or f64 for f64. */
    ATTN_DECAY = 105,     /* wkv: [Dv] decay w of a step, w >= 0
                             linear_decay: [B,H,S,Dk] logarithm g of the decay of a step, g <= 0 */
    ATTN_BONUS = 106,     /* wkv: [Dv] added to the key of the query's own step
                             linear_decay, optional: [H,Dk] weight of the own step, instead of 1 */
    ATTN_STATE_IN = 107,  /* optional: what went before (wkv: nothing, if a = b = 0)
                             wkv: [B,Dv,3] a, b, p: numerator a exp(p), denominator b exp(p), b > 0
                             linear_decay: [B,H,Dk,Dv] */
    ATTN_STATE_OUT = 108, /* output, optional: the same after the last step. wkv: compared are a/b
                             and p + log b, for a, b, p are not unique */
    ATTN_LIN_Q = 109,     /* chunked: [B,H,S,Dl] query and key of the linear part, type of q */
    ATTN_LIN_K = 110,
    ATTN_BUCKETS_OUT = 111, /* lsh, output, optional: i32 [B,H,R,S] the buckets that out comes from.
                               Not together with BUCKETS */

    ATTN_ROLE_USER = 4096 /* roles from here on are private to a harness and a plugin */
};

/* Features of a problem that are not tensors. A backend must refuse every bit that it does not
 * know. */
#define ATTN_FLAG_CAUSAL        (1ull << 0) /* j <= i + off */
#define ATTN_FLAG_WINDOW        (1ull << 1) /* i+off-window_left <= j <= i+off+window_right */
#define ATTN_FLAG_OFF_BR        (1ull << 2) /* off = Sk-Sq, or len[b]-Sq if len is [B] */
#define ATTN_FLAG_SOFTCAP       (1ull << 3) /* s <- softcap * tanh(s / softcap) */
#define ATTN_FLAG_DROPOUT       (1ull << 4) /* by ATTN_KEEP if present, else by Philox */
#define ATTN_FLAG_RESIDUAL      (1ull << 5) /* mha: out += x_q, as the last step */
#define ATTN_FLAG_DETERMINISTIC (1ull << 6) /* asks for the same bits on every run */
#define ATTN_FLAG_APPROXIMATE   (1ull << 7) /* reserved: asks for an approximate variant */
#define ATTN_FLAG_STREAM        (1ull << 8) /* reserved: run on the given stream */
#define ATTN_FLAG_WEIGHT        (1ull << 9) /* attention: weight_fn is not softmax */

/* One operand. In `supports` and `create`, data is NULL: a plan depends on shapes alone. */
struct attn_tensor {
    uint32_t role;   /* enum attn_role; at most one tensor of a role in a problem */
    uint32_t dtype;  /* enum attn_dtype */
    uint32_t space;  /* enum attn_space */
    uint32_t device; /* index within the space */
    uint32_t rank;   /* 1 .. ATTN_MAX_RANK */
    uint32_t reserved;
    int64_t shape[ATTN_MAX_RANK];  /* logical extents; 0 only for axes of length Sk = 0 */
    int64_t stride[ATTN_MAX_RANK]; /* in elements, never negative; 0 broadcasts (only inputs) */
    void *data;                    /* aligned only to the element; inputs must not be written */
};

/* One problem. Steps for query i and key j of head h, in this order; key/value head is
 * h / (hq/hkv):
 *   1  s = scale * raw score          2  softcap
 *   3  s += bias, s -= alibi          4  mask: len, causal, window, MASK; all that are given.
 *                                        The window does not bind global tokens: ATTN_GLOBAL
 *   5  softmax over allowed keys, with the sink in the denominator
 *      with ATTN_FLAG_WEIGHT: p = weight_fn(s), and there is no denominator
 *   6  dropout: kept weights are divided by 1-p; nothing is renormalised
 *   7  out = sum_j p v_j
 *   8  out *= gate, column by column, if there is a gate
 * A cell with a score of -inf counts as not allowed. A cell that is not allowed takes no part,
 * whatever K and V hold there. NaN or +inf in the score of an allowed cell makes the row NaN (out,
 * lse and its allowed weights). So does a sink of NaN or +inf. A row with no allowed key has out =
 * 0, weights = 0 and lse = -inf (with a sink, lse = the sink), unless numerics declares another
 * rule. With ATTN_FLAG_WEIGHT there is no lse and no sink. A score of +inf has the limit of
 * weight_fn as its weight, and NaN has NaN: of an allowed key that is not dropped it makes out NaN.
 * A row with no allowed key has out = 0 in any case.
 *
 * attention_backward: the gradient of sum GRAD_OUT out, and of sum GRAD_LSE lse where that is
 * given, by q, k, v and what else is asked for, out being that of the steps above at these
 * operands. OUT and LSE are that result, rounded to their types. With kappa the factor of dropout:
 *   p = exp(s - LSE)                      dP = kappa GRAD_OUT_i . v_j
 *   delta_i = sum_j p dP = GRAD_OUT_i . OUT_i, less GRAD_LSE_i where that is given
 *   dS = p (dP - delta_i)                 dZ = dS, with a softcap dS (1 - tanh^2)
 *   GRAD_Q_i = scale sum_j dZ k_j         GRAD_K_j = scale sum_i dZ q_i
 *   GRAD_V_j = sum_i p kappa GRAD_OUT_i   GRAD_BIAS = sum dS, over what the bias broadcasts to
 *   GRAD_SINK = -sum exp(sink - LSE) delta    GRAD_ALIBI = -sum dS |i + off - j|
 * A cell that is not allowed takes no part, whatever q, k, v, OUT or GRAD_OUT hold there. NaN in an
 * allowed score, or in LSE, makes p NaN. The rule for empty rows is ATTN_EMPTY_ZERO; with a sink
 * the lse of such a row is the sink, so GRAD_SINK has its GRAD_LSE. */
struct attn_problem {
    uint32_t struct_size; /* sizeof of the harness's structure */
    uint32_t op;          /* enum attn_op */
    uint32_t score;       /* enum attn_score */
    uint32_t dtype;       /* of q, k, v, out, x_*, w_*, b_* */
    uint64_t flags;       /* ATTN_FLAG_* */
    int64_t b, hq, hkv;   /* hkv divides hq */
    int64_t sq, sk;       /* sk may be 0 */
    int64_t dq, dk, dv;   /* widths of one head; dq == dk except for bilinear and additive */
    int64_t dh;           /* hidden width of additive scores, else 0 */
    double scale;         /* always set: the harness fills in defaults */
    double softcap;       /* > 0 with ATTN_FLAG_SOFTCAP, else 0 */
    int64_t off;          /* offset of causal, window and alibi; ignored with ATTN_FLAG_OFF_BR */
    int64_t window_left;  /* with ATTN_FLAG_WINDOW; -1 means unbounded */
    int64_t window_right;
    double dropout_p;      /* with ATTN_FLAG_DROPOUT, 0 <= p < 1 */
    uint64_t dropout_seed; /* Philox4x32-10: key {low, high} of the seed; counter {low, high, 0, 0}
                              of the linear index of [b,h,i,j]; kept if (word0 >> 8) * 2^-24 >= p */
    uint32_t n_tensors;
    uint32_t reserved;
    const struct attn_tensor *tensors;
    /* 0 where they have no meaning: */
    int64_t variant;    /* linear_decay: enum attn_decay; disentangled scores: enum attn_positions;
                           nystrom: enum attn_nystrom; lsh: enum attn_lsh_self */
    int64_t weight_fn;  /* with ATTN_FLAG_WEIGHT: enum attn_weight_fn, not softmax */
    int64_t parts;      /* disentangled scores: enum attn_parts */
    int64_t chunk;      /* chunked, lsh: tokens of a chunk */
    int64_t landmarks;  /* linformer: rows of the projected k and v; nystrom: segments */
    int64_t iterations; /* nystrom: steps towards the inverse */
    int64_t rounds;     /* lsh: rounds of hashing */
    int64_t buckets;    /* lsh: buckets of a round */
    double eps;         /* performer: added to each feature, 0..1 */
    double lin_scale;   /* chunked: factor of the linear part; 0: 1/S, under CAUSAL 1/chunk */
};

/* The tensor of a role, or NULL. */
static inline const struct attn_tensor *attn_tensor_find(const struct attn_problem *problem,
                                                         uint32_t role)
{
    for (uint32_t t = 0; t < problem->n_tensors; t++)
        if (problem->tensors[t].role == role)
            return &problem->tensors[t];
    return NULL;
}

/* How a plan computes, as its author declares it. The error bound is built from this alone; a wrong
 * declaration is a bug that verification finds. The harness initialises it with zeros; comments say
 * what 0 means. u(T) is the unit roundoff of T: f64 2^-53, f32 2^-24, f16 2^-11, bf16 2^-8.
 *
 * A field that widens the bound has a limit. Beyond it no result is better than `mistrusted`,
 * because the bound would pass wrong results. The limits follow the coarsest arithmetic with which
 * kernels of the problem's type are known to work, U: f32 for f64, tf32 (2^-11) for f32, else the
 * type itself. harness/judge/README.md says why each limit is what it is.
 *   acc_type                           u at most that of the problem's type
 *   score_type p_type proj_type
 *   state_type                         u at most that of U
 *   partial_type partial_terms         u at most that of U, 64 terms, terms * u at most 2^-5
 *   u_in u_pv                          u(U)
 *   e_exp                              2^-22 f64, 2^-11 f32, 2^-9 f16, 2^-7 bf16
 *   e_exp * (1 + number of tiles)      16 u(U)
 *   e_arg                              u(U) / 8
 *   e_tanh                             2^-22 f64, 2^-10 f32 and f16, 2^-7 bf16
 *   e_log                              2^-22 f64, 2^-11 else
 *   e_f                                as e_exp
 *   a_f                                as e_tanh
 *   chain, splits, tau, score_stores   Sk + 256, Sk, 11, 8
 *   decay_chunk                        512
 *   ds_type delta_type
 *   grad_partial_type dq_acc_type
 *   dkv_acc_type                       u at most that of U
 *   grad_chain                         Hq/Hkv Sq + 256 */
struct attn_numerics {
    uint32_t struct_size;  /* set by the harness: fields past it must not be written */
    uint32_t acc_type;     /* accumulation type of all sums; 0: the type of q */
    uint32_t score_type;   /* type in which scores are stored; 0: acc_type */
    uint32_t p_type;       /* type in which p is stored before p v; 0: acc_type */
    uint32_t proj_type;    /* of what mha, linformer, nystrom store between sums (OP.md); 0: q's */
    uint32_t p_normalised; /* 1: the stored p is divided by the row sum */
    uint32_t denominator;  /* 0: not declared; 1: sum of unrounded p; 2: sum of p as stored */
    uint32_t acc_toward_zero;   /* 1: sums are truncated, not rounded */
    uint32_t out_toward_zero;   /* 1: the final store truncates out */
    uint32_t ftz;               /* 1: subnormals are flushed */
    uint32_t empty_row;         /* enum attn_empty_row */
    uint32_t deterministic;     /* 1: every run of a plan gives the same bits */
    uint32_t gaussian_by_norms; /* 1: |q-k|^2 is computed as |q|^2 - 2 q.k + |k|^2, which cancels */
    uint32_t invariant;         /* ATTN_INVARIANT_*: more that does not change the bits */
    int64_t key_tile;           /* keys per tile of an online softmax; 0: all keys in one tile */
    int64_t chain;              /* longest addition chain over keys; 0: keys + tiles */
    int64_t splits; /* number of parts that keys are split into and merged by lse; 0: none */
    double u_in;    /* relative rounding of q or k before the product (2^-11 for tf32); 0: none */
    double e_exp;   /* exp: |computed/exact - 1| <= e_exp + e_arg |x| */
    double e_arg;
    double e_tanh;      /* softcap and additive: |computed - exact| <= e_tanh * |exact| */
    double e_log;       /* lse: |computed - exact| <= e_log * |exact| */
    double tau;         /* lazy rescaling: how far the running maximum may lag; 0: it never lags */
    const char *source; /* NULL: the backend's author declares these values; else where the values
                           of a closed library come from */

    /* q.k and p.v may be summed in a narrower type, a few products at a time, fused or not. Each
     * such partial sum is then added to a sum in acc_type. acc_type must then be given, and must
     * hold the narrower type exactly. All other sums are in acc_type. */
    uint32_t partial_type;  /* type of partial sums; 0: there are none */
    uint32_t partial_terms; /* most products in one; 0 without partial_type */

    /* 0: the score is rounded to score_type once, before or after the bias. Else: how often it is
     * on its longest way (product, scale, softcap's division, tanh and product, bias, ALiBi). A
     * constant that is rounded to score_type counts like a store. */
    uint32_t score_stores;
    uint32_t alibi_by_key; /* 1: under ATTN_FLAG_CAUSAL, ALiBi is added as slope * j. It differs
                              from the operator's by the same number for all keys of a row, which
                              lse must not keep */
    uint32_t p_stochastic; /* 1: p is stored as one of its two neighbours in p_type, drawn so that
                              its mean is p, and drawn anew for each p */
    uint32_t rescale_on_rise; /* 1: tiles are visited in the order of keys, up or down, and a tile
                                 that does not raise the maximum multiplies by exactly 1 */
    double u_pv; /* relative rounding of p and of v before p v (2^-11 for tf32); 0: none */
    /* ATTN_FLAG_WEIGHT: |computed f(s) - f(s)| <= e_f f(s) + a_f for the weight_fn f and the
     * computed score s. Not counted: the rounding of the square of relu2, the rounded argument of
     * laplace's erf, and e_arg |s| f(s) of sigmoid. */
    double e_f;
    double a_f;
    /* linear_decay: the exponents of decays are differences of sums over up to so many steps, a
     * chunk. The state decays and is stored at the end of each; q and k times exp may be rounded to
     * u_in, and their products stored in p_type. 0: exp of each step's decay, and the state decays
     * at each step. */
    int64_t decay_chunk;
    uint32_t state_type; /* linear_decay, wkv: type of the state between steps, or chunks; 0:
                            acc_type */
    /* attention_backward. A type of 0 is acc_type. */
    uint32_t bwd_lse;           /* 1: LSE is computed anew, not read */
    uint32_t bwd_delta;         /* 1: delta is the sum of p dP, not GRAD_OUT . OUT */
    uint32_t ds_type;           /* type in which dS is stored before its products */
    uint32_t delta_type;        /* type in which delta is stored */
    uint32_t grad_partial_type; /* type of the parts of dK and dV that single heads have */
    uint32_t dq_acc_type;       /* type in which dQ is added up over tiles of keys */
    int64_t grad_chain;         /* longest addition chain over queries; 0: queries + tiles */
    int64_t query_tile;         /* queries per tile; 0: all in one */
    uint32_t dkv_acc_type;      /* type in which dK and dV are added up over tiles of queries, head
                                   after head */
    uint32_t reserved;
};

/* Verification checks what a backend declares here bit for bit. What it does not declare is checked
 * within rounding. */
#define ATTN_INVARIANT_BATCH   (1u << 0) /* a batch entry gives the same alone and among others */
#define ATTN_INVARIANT_THREADS (1u << 1) /* every number of threads gives the same */

enum attn_empty_row {
    ATTN_EMPTY_ZERO = 0,    /* out 0, weights 0, lse -inf: the suite's rule */
    ATTN_EMPTY_NAN = 1,     /* out, weights NaN; lse NaN or -inf */
    ATTN_EMPTY_UNIFORM = 2, /* weights 1/Sk over all keys */
    ATTN_EMPTY_INF = 3      /* out 0, weights 0, lse +inf */
};

/* An option from the user (-b NAME:key=value,...), checked against the backend's table. */
struct attn_option {
    const char *key;
    const char *value;
};

enum attn_option_type { ATTN_OPTION_INT = 1, ATTN_OPTION_BOOL = 2, ATTN_OPTION_CHOICE = 3 };

struct attn_option_spec {
    const char *key;
    uint32_t type; /* INT: decimal, int64; BOOL: 0 or 1; CHOICE: one of `choices` */
    uint32_t reserved;
    const char *choices;       /* CHOICE: "a|b|c"; else NULL */
    const char *default_value; /* used if the option is not given */
    const char *help;          /* one line */
};

/* What the harness offers a backend. */
struct attn_services {
    uint32_t struct_size;
    uint32_t threads; /* how many threads may run at a time, including the caller; >= 1 */
    uint32_t n_options;
    uint32_t reserved;
    const struct attn_option *options;
    void *context; /* pass to the functions below */
    /* Allocates memory that counts as workspace. alignment is a power of two >= 8. Returns NULL if
     * memory is refused. Must not be called from `run`. */
    void *(*alloc)(void *context, size_t bytes, size_t alignment);
    void (*free)(void *context, void *memory);
    /* Writes one line of text to the worker's log file. */
    void (*log)(void *context, const char *text);
};

/* The value of an option, or `fallback`. */
static inline const char *attn_option_get(const struct attn_services *services, const char *key,
                                          const char *fallback)
{
    for (uint32_t o = 0; o < services->n_options; o++) {
        const char *a = services->options[o].key, *b = key;
        while (*a && *a == *b)
            a++, b++;
        if (*a == *b)
            return services->options[o].value;
    }
    return fallback;
}

enum attn_exactness {
    ATTN_EXACT = 0,       /* computes the operator and must meet its bound */
    ATTN_APPROXIMATE = 1, /* its status is `approx` with the measured error, never `pass` */
    ATTN_NONE = 2         /* computes nothing; measures the harness's own cost; never compared */
};

/* A device as it is now. The harness initialises it with zeros: 0 and "" mean not known. */
struct attn_device {
    uint32_t struct_size; /* set by the harness: fields past it must not be written */
    uint32_t reserved;
    uint64_t cache_bytes;     /* its largest cache */
    uint64_t allocated_bytes; /* peak of this process's plans and bindings */
    uint64_t used_bytes;      /* memory in use by all processes, as the driver says */
    double launch_ns;         /* time of one empty launch, out of many */
    double copy_gbs;          /* a copy within its memory, counting bytes read and written */
    double clock_mhz, memory_clock_mhz, temperature_c, power_w;
    char throttled[128]; /* what holds the clocks down, "none", or why it is not known */
};

/* One backend: an immutable table. State lives in the plan. Optional slots may be NULL. */
struct attn_backend {
    uint32_t struct_size;
    uint32_t exactness; /* enum attn_exactness */
    const char *name;   /* [a-z][a-z0-9_]*, at most 31 characters, unique among loaded plugins */
    const char *description;                /* one line */
    const struct attn_option_spec *options; /* NULL with n_options 0 */
    uint32_t n_options;
    uint32_t reserved;

    /* Optional: writes name and version of the library underneath, as found at run time. NULL:
     * there is none. */
    void (*version)(char *text, size_t size);

    /* Optional: says whether this backend can run on this machine. ATTN_OK, or ATTN_NO_DEVICE with
     * the reason. NULL: it runs everywhere. */
    int (*probe)(const struct attn_services *services, char *why, size_t size);

    /* Required: says whether it does this problem. ATTN_OK, or ATTN_UNSUPPORTED with the reason in
     * one sentence. Must keep no allocation after the call. */
    int (*supports)(const struct attn_problem *problem, const struct attn_services *services,
                    char *why, size_t size);

    /* Required: makes a plan. Called only after `supports` accepted the same problem. Allocates
     * everything that `run` needs; sees no data. */
    int (*create)(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size);

    /* Required unless exactness is ATTN_NONE: declares how this plan computes. */
    void (*numerics)(const void *plan, struct attn_numerics *numerics);

    /* Required: attaches tensors to a plan: all of the problem's, in the problem's order, with
     * data. May pack or copy weights and score parameters (W_*, B_*, SCORE_*, FEATURES, PROJ_*),
     * and may copy to a device. Must not transform q, k, v and x_*: that is work of `run`. Several
     * bindings of a plan may live at once, but only one runs at a time. */
    int (*bind)(void *plan, const struct attn_tensor *tensors, uint32_t n_tensors, void **binding,
                char *why, size_t size);

    /* Required: computes the problem. The result is complete when it returns. Called many times on
     * one binding, with the same inputs or with others in the same place: nothing may be carried
     * over. Allocates nothing. The only slot that is timed. */
    int (*run)(void *binding, char *why, size_t size);

    /* Optional, for devices, all three or none. `enqueue` starts one run and returns. `wait`
     * returns when all runs are complete. `time_device` gives nanoseconds by the device's own
     * clock: the time from the start of the first to the end of the last of the runs that the last
     * `wait` waited for, divided by their number. Runs of several bindings of a plan may be
     * enqueued together; they run one after another. */
    int (*enqueue)(void *binding, char *why, size_t size);
    int (*wait)(void *binding, char *why, size_t size);
    int (*time_device)(void *binding, double *ns, char *why, size_t size);

    /* Optional: copies the results of the last run into the bound output tensors. NULL: `run` has
     * written them. */
    int (*fetch)(void *binding, char *why, size_t size);

    /* Required: frees a binding. */
    void (*release)(void *binding);

    /* Optional: names the path or blocking that the plan chose, in one line of at most 255
     * characters. */
    void (*describe)(const void *plan, char *text, size_t size);

    /* Optional: bytes of working memory that this plan holds beyond its operands. Give it if the
     * memory is not allocated through services (a device, a library). NULL: what services->alloc
     * counted is all. */
    uint64_t (*workspace_bytes)(const void *plan);

    /* Required: frees the plan. All its bindings are already released. */
    void (*destroy)(void *plan);

    /* Optional, for devices: reports the device as it is now. Called after `probe`, and before and
     * after a timing or a measurement of memory. If it is NULL, or struct_size ends before this
     * slot, nothing is known of the device: peak memory is the host's, and cold timings are cold
     * only for the processor's caches. */
    void (*device)(struct attn_device *device);
};

/* The exported symbol's type. */
struct attn_plugin {
    uint32_t abi_version; /* ATTN_ABI_VERSION */
    uint32_t struct_size; /* sizeof(struct attn_plugin) */
    /* Optional: called once, before any other slot of any backend. It is the place to set
     * environment that a library reads when it loads. If it does not return ATTN_OK, every backend
     * of the plugin is unavailable, for the reason given. */
    int (*init)(const struct attn_services *services, char *why, size_t size);
    uint32_t n_backends;
    uint32_t reserved;
    const struct attn_backend *const *backends;
};

#define ATTN_PLUGIN_SYMBOL "attn_plugin"

/* What a plugin defines, at the foot of its source (in C++ with the word `struct`, too: the
 * variable hides the type of the same name):
 *
 *     const struct attn_plugin attn_plugin = {
 *         .abi_version = ATTN_ABI_VERSION,
 *         .struct_size = sizeof(struct attn_plugin),
 *         .n_backends = 1,
 *         .backends = table,
 *     }; */
extern ATTN_EXPORT const struct attn_plugin attn_plugin;

#ifdef __cplusplus
}
#endif

#endif
