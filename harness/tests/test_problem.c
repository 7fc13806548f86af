/* SPDX-License-Identifier: Apache-2.0 */
/* test_problem.c - problem.h: its table is that of the harness, and every error in a problem is
 * refused with a sentence that names the error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "attnbench/problem.h"
#include "pack/make.h"
#include "tensor/instance.h"

uint32_t attn_test_problem_c11(const struct attn_problem *problem, char *why, size_t size);
uint32_t attn_test_problem_cxx17(const struct attn_problem *problem, char *why, size_t size);
int64_t attn_test_problem_row_cxx17(const struct attn_problem *problem);

static const uint32_t all_roles[] = {ATTN_LSE,
                                     ATTN_WEIGHTS,
                                     ATTN_MASK,
                                     ATTN_BIAS,
                                     ATTN_LEN,
                                     ATTN_ALIBI,
                                     ATTN_SINK,
                                     ATTN_KEEP,
                                     ATTN_HEAD_MASK,
                                     ATTN_X_K,
                                     ATTN_X_V,
                                     ATTN_W_O,
                                     ATTN_B_Q,
                                     ATTN_B_K,
                                     ATTN_B_V,
                                     ATTN_B_O,
                                     ATTN_BONUS,
                                     ATTN_STATE_IN,
                                     ATTN_STATE_OUT,
                                     ATTN_REL_POS,
                                     ATTN_GATE,
                                     ATTN_GLOBAL,
                                     ATTN_DILATION,
                                     ATTN_Q_GLOBAL,
                                     ATTN_K_GLOBAL,
                                     ATTN_V_GLOBAL,
                                     ATTN_PROJ_F,
                                     ATTN_BUCKETS,
                                     ATTN_BUCKETS_OUT,
                                     ATTN_GRAD_BIAS,
                                     ATTN_GRAD_SINK,
                                     ATTN_GRAD_ALIBI,
                                     ATTN_GRAD_Q,
                                     ATTN_GRAD_K,
                                     ATTN_GRAD_V,
                                     ATTN_GRAD_LSE,
                                     0};

static const struct attn_limits everything = {
    .ops = ATTN_BIT(ATTN_OP_ATTENTION) | ATTN_BIT(ATTN_OP_MHA) | ATTN_BIT(ATTN_OP_WKV) |
           ATTN_BIT(ATTN_OP_LINEAR_DECAY) | ATTN_BIT(ATTN_OP_PERFORMER) |
           ATTN_BIT(ATTN_OP_CHUNKED) | ATTN_BIT(ATTN_OP_LINFORMER) | ATTN_BIT(ATTN_OP_NYSTROM) |
           ATTN_BIT(ATTN_OP_LSH) | ATTN_BIT(ATTN_OP_ATTENTION_BACKWARD),
    .scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT) | ATTN_BIT(ATTN_SCORE_DOT) |
              ATTN_BIT(ATTN_SCORE_BILINEAR) | ATTN_BIT(ATTN_SCORE_GAUSSIAN) |
              ATTN_BIT(ATTN_SCORE_ADDITIVE) | ATTN_BIT(ATTN_SCORE_DISENTANGLED),
    .dtypes = ATTN_BIT(ATTN_F64) | ATTN_BIT(ATTN_F32) | ATTN_BIT(ATTN_F16) | ATTN_BIT(ATTN_BF16),
    .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR | ATTN_FLAG_SOFTCAP |
             ATTN_FLAG_DROPOUT | ATTN_FLAG_RESIDUAL | ATTN_FLAG_DETERMINISTIC | ATTN_FLAG_WEIGHT,
    .optional = all_roles,
};

#define MOST 32

/* A problem with every operand that its op and score can have. */
struct full {
    struct attn_problem p;
    struct attn_tensor tensors[MOST];
};

static struct attn_tensor *add(struct full *full, uint32_t role, uint32_t dtype, uint32_t rank,
                               const int64_t *shape)
{
    struct attn_tensor *t = &full->tensors[full->p.n_tensors++];
    *t = (struct attn_tensor){.role = role, .dtype = dtype, .rank = rank};
    int64_t step = 1;
    for (uint32_t a = rank; a-- > 0; step *= shape[a]) {
        t->shape[a] = shape[a];
        t->stride[a] = step;
    }
    return t;
}

#define ADD(role, dtype, ...)                                                                      \
    add(full, role, dtype, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                     \
        (const int64_t[]){__VA_ARGS__})

static void add_sides(struct full *full)
{
    const struct attn_problem p = full->p;
    ADD(ATTN_LSE, ATTN_F32, p.b, p.hq, p.sq);
    ADD(ATTN_WEIGHTS, p.dtype, p.b, p.hq, p.sq, p.sk);
    ADD(ATTN_MASK, ATTN_BOOL, p.b, p.hq, p.sq, p.sk);
    ADD(ATTN_BIAS, ATTN_F32, p.b, p.hq, p.sq, p.sk);
    ADD(ATTN_LEN, ATTN_I32, p.b);
    ADD(ATTN_ALIBI, ATTN_F32, p.hq);
    ADD(ATTN_SINK, p.dtype, p.hq);
    ADD(ATTN_KEEP, ATTN_BOOL, p.b, p.hq, p.sq, p.sk);
    if (p.score == ATTN_SCORE_BILINEAR)
        ADD(ATTN_SCORE_M, p.dtype, p.hq, p.dq, p.dk);
    if (p.score != ATTN_SCORE_ADDITIVE)
        return;
    ADD(ATTN_SCORE_WQ, ATTN_F32, p.hq, p.dh, p.dq);
    ADD(ATTN_SCORE_WK, ATTN_F32, p.hq, p.dh, p.dk);
    ADD(ATTN_SCORE_WV, ATTN_F32, p.hq, p.dh);
}

/* b=2 hq=6 hkv=3 sq=5 sk=7, widths that differ from each other. */
static void make(struct full *full, uint32_t op, uint32_t score)
{
    const int wide = score == ATTN_SCORE_BILINEAR || score == ATTN_SCORE_ADDITIVE;
    *full = (struct full){.p = {.struct_size = sizeof(full->p),
                                .op = op,
                                .score = score,
                                .dtype = ATTN_BF16,
                                .flags = ATTN_FLAG_DROPOUT | ATTN_FLAG_WINDOW,
                                .b = 2,
                                .hq = 6,
                                .hkv = 3,
                                .sq = 5,
                                .sk = 7,
                                .dq = wide ? 9 : 8,
                                .dk = 8,
                                .dv = 11,
                                .dh = score == ATTN_SCORE_ADDITIVE ? 13 : 0,
                                .window_left = -1,
                                .window_right = 2,
                                .dropout_p = 0.5}};
    const struct attn_problem p = full->p;
    full->p.tensors = full->tensors;
    if (op == ATTN_OP_ATTENTION) {
        ADD(ATTN_Q, p.dtype, p.b, p.hq, p.sq, p.dq);
        ADD(ATTN_K, p.dtype, p.b, p.hkv, p.sk, p.dk);
        ADD(ATTN_V, p.dtype, p.b, p.hkv, p.sk, p.dv);
        ADD(ATTN_OUT, p.dtype, p.b, p.hq, p.sq, p.dv);
    } else {
        const int64_t eq = 21, ek = 22, ev = 23;
        ADD(ATTN_X_Q, p.dtype, p.b, p.sq, eq);
        ADD(ATTN_X_K, p.dtype, p.b, p.sk, ek);
        ADD(ATTN_X_V, p.dtype, p.b, p.sk, ev);
        ADD(ATTN_W_Q, p.dtype, p.hq * p.dq, eq);
        ADD(ATTN_W_K, p.dtype, p.hkv * p.dk, ek);
        ADD(ATTN_W_V, p.dtype, p.hkv * p.dv, ev);
        ADD(ATTN_W_O, p.dtype, eq, p.hq * p.dv);
        ADD(ATTN_B_Q, p.dtype, p.hq * p.dq);
        ADD(ATTN_B_K, p.dtype, p.hkv * p.dk);
        ADD(ATTN_B_V, p.dtype, p.hkv * p.dv);
        ADD(ATTN_B_O, p.dtype, eq);
        ADD(ATTN_OUT, p.dtype, p.b, p.sq, eq);
        ADD(ATTN_HEAD_MASK, ATTN_BOOL, p.hq);
        full->p.flags |= ATTN_FLAG_RESIDUAL;
    }
    add_sides(full);
}

static struct attn_tensor *at(struct full *full, uint32_t role)
{
    for (uint32_t t = 0; t < full->p.n_tensors; t++)
        if (full->tensors[t].role == role)
            return &full->tensors[t];
    fail_msg("no tensor of role %u", role);
    return NULL;
}

static void drop(struct full *full, uint32_t role)
{
    struct attn_tensor *gone = at(full, role);
    *gone = full->tensors[--full->p.n_tensors];
}

static void accepts(const struct full *full, const struct attn_limits *limits)
{
    char why[256] = "";
    if (attn_problem_check(&full->p, limits, why, sizeof(why)) != ATTN_OK)
        fail_msg("op %u, score %u refused: %s", full->p.op, full->p.score, why);
}

static void refuses(const struct full *full, const struct attn_limits *limits, const char *sentence)
{
    char why[256] = "accepted";
    const int status = attn_problem_check(&full->p, limits, why, sizeof(why));
    assert_string_equal(why, sentence);
    assert_int_equal(status, ATTN_UNSUPPORTED);
}

/* What the harness makes of a case is a problem by this header, with the same names for its
 * operands. Sizes differ from each other, so that an axis of a shape cannot stand for another. */
static void test_accepts_what_the_harness_makes(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "b=2 hq=6 hkv=3 sq=5 sk=7 dk=8 dv=11 score=scaled_dot,dot,gaussian dtype=f64,f32,f16,bf16 "
        "mask=causal+window:2:1+br+len:3/7+bool:0.5 bias=normal+alibi sink=1 softcap=3 dropout=0.3 "
        "out=lse+weights layout=bhsd,bshd,bhds",
        "b=2 hq=6 hkv=3 sq=5 sk=7 dq=9 dk=8 dv=11 score=bilinear params=head,shared "
        "mask=len2d:rand+bool:0.5:bk view=gaps+broadcast",
        "b=2 hq=6 hkv=3 sq=5 sk=7 dq=9 dk=8 dv=11 dh=13 score=additive params=head,shared "
        "dtype=f64,bf16",
        "op=mha b=2 hq=6 hkv=3 sq=5 sk=5,7 kv=cross dk=8 dv=11 e=19 proj_bias=1 residual=1 "
        "prune=1/4 out=lse+weights score=scaled_dot,bilinear,additive",
        "op=mha b=2 hq=6 hkv=3 sq=5 dk=8 dv=11 e=66 wo=0 residual=0,1",
        "hq=2 sq=5 sk=0 dk=8",
        "b=2 hq=6 hkv=3 sq=5 sk=7 d=8 score=disentangled span=4 params=shared,head",
        "h=2 s=5 d=8 score=disentangled span=4 parts=c2p,p2c variant=paper rel_buckets=log:4",
        "b=2 hq=6 hkv=3 sq=5 sk=7 dk=8 dv=11 weight_fn=sigmoid,relu2,laplace gate=1 "
        "bias=const:-log(sk) out=weights dtype=f64,f32,f16,bf16 layout=bshd,bhds view=gaps",
        "b=2 hq=6 hkv=3 s=5 dk=8 dv=11 mask=window:1:2:2/1/3+global:rand:0.5 global_proj=1 out=lse "
        "dtype=f64,bf16",
        "op=wkv b=2 s=5 d=8 state_in=1 out=state_out dtype=f64,bf16",
        "op=linear_decay b=2 h=3 s=5 dk=8 dv=11 bonus=1 state_in=1 out=state_out dtype=f64,bf16",
        "op=performer b=2 hq=6 hkv=3 s=5 dk=8 dv=11 features=9 params=shared,head "
        "mask=dense,causal,len:3 dtype=f64,bf16",
        "op=performer b=2 h=3 sq=5 sk=7 dk=8 features=9 eps=0.5",
        "op=chunked b=2 h=3 s=5 dk=8 dv=11 dl=13 chunk=4 bias=normal:hqk mask=causal+len:3 gate=1 "
        "dtype=f64,bf16",
        "op=linformer b=2 hq=6 hkv=3 sq=5 sk=7 dk=8 dv=11 landmarks=4 proj_f=0,1 mask=len:3/7 "
        "out=lse",
        "op=nystrom b=2 h=3 s=7 dk=8 dv=11 landmarks=4,9 start=head,batch",
        "op=lsh b=2 h=3 s=6 dk=8 dv=11 chunk=3 rounds=2 buckets=4 hashes=out,given,none out=lse",
        "op=attention_backward b=2 hq=6 hkv=3 sq=5 sk=7 dk=8 dv=11 bias=normal,normal:hk "
        "mask=causal_br+len:3/7 out=dbias dtype=f64,bf16 layout=bshd,bhds view=gaps",
        "op=attention_backward b=2 hq=6 hkv=3 sq=5 sk=7 d=8 bias=alibi sink=1 out=dsink+dalibi "
        "mask=len2d:rand+bool:0.5 dropout=0.3 score=dot softcap=2 dlse=0,1",
        "op=attention_backward b=2 hq=6 hkv=3 sq=5 sk=7 dk=8 dv=11 out=dq,dk,dv,dq+dv "
        "dtype=f64,bf16",
    };
    size_t count;
    const struct attn_problem_role *roles = attn_problem_roles(&count);
    bool met[96] = {false};
    struct attn_case_list list = {0};
    char why[512] = "";
    for (size_t n = 0; n < sizeof(lines) / sizeof(lines[0]); n++)
        if (attn_case_parse_line(lines[n], strlen(lines[n]), NULL, 0, &list, why, sizeof(why)))
            fail_msg("%s", why);
    for (size_t c = 0; c < list.count; c++) {
        struct attn_instance *instance = NULL;
        if (attn_instance_create(&list.items[c], 1, &instance, why, sizeof(why)))
            fail_msg("%s", why);
        const struct attn_problem *p = &instance->problem;
        if (attn_problem_check(p, &everything, why, sizeof(why)) != ATTN_OK)
            fail_msg("case %zu: %s", c, why);
        for (uint32_t t = 0; t < p->n_tensors; t++) {
            const struct attn_tensor *tensor = &p->tensors[t];
            const struct attn_problem_role *role =
                attn_problem_role_find(p, tensor->role, tensor->rank);
            assert_string_equal(role->name, attn_role_name(tensor->role));
            met[role - roles] = true;
        }
        attn_instance_free(instance);
    }
    attn_case_list_free(&list);
    for (size_t r = 0; r < count; r++)
        if (!met[r] && roles[r].role != ATTN_KEEP && roles[r].role != ATTN_X_V) /* only in packs */
            fail_msg("no case has %s", roles[r].name);
}

/* Operands of global tokens and of dilated windows that do not go together. */
static void test_refuses_global(void **state)
{
    (void)state;
    static const struct {
        uint32_t gone;
        int window;
        int64_t keys;
        const char *sentence;
    } cases[] = {
        {0, 1, 5, NULL},
        {0, 1, 6, "global tokens need as many keys as queries"},
        {ATTN_K_GLOBAL, 1, 5, "q_global, k_global and v_global go together"},
        {ATTN_Q_GLOBAL, 1, 5, "q_global, k_global and v_global go together"},
        {ATTN_GLOBAL, 1, 5, "q_global needs global tokens"},
        {0, 0, 5, "a dilation without a window"},
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        const int64_t sk = cases[c].keys;
        struct full made, *full = &made;
        make(full, ATTN_OP_ATTENTION, ATTN_SCORE_DOT);
        full->p.flags = cases[c].window ? ATTN_FLAG_WINDOW : 0;
        full->p.n_tensors = 4;
        full->p.sk = full->tensors[1].shape[2] = full->tensors[2].shape[2] = sk;
        ADD(ATTN_GLOBAL, ATTN_BOOL, full->p.b, sk);
        ADD(ATTN_DILATION, ATTN_I32, full->p.hq);
        ADD(ATTN_Q_GLOBAL, full->p.dtype, full->p.b, full->p.hq, full->p.sq, full->p.dq);
        ADD(ATTN_K_GLOBAL, full->p.dtype, full->p.b, full->p.hkv, sk, full->p.dk);
        ADD(ATTN_V_GLOBAL, full->p.dtype, full->p.b, full->p.hkv, sk, full->p.dv);
        if (cases[c].gone)
            drop(full, cases[c].gone);
        if (cases[c].sentence)
            refuses(full, &everything, cases[c].sentence);
        else
            accepts(full, &everything);
    }
}

static void test_accepts_what_is_right(void **state)
{
    (void)state;
    struct full full;
    for (uint32_t score = ATTN_SCORE_SCALED_DOT; score <= ATTN_SCORE_ADDITIVE; score++)
        for (uint32_t op = ATTN_OP_ATTENTION; op <= ATTN_OP_MHA; op++) {
            make(&full, op, score);
            accepts(&full, &everything);
            at(&full, ATTN_LEN)->rank = 2;
            at(&full, ATTN_LEN)->shape[1] = full.p.sq;
            accepts(&full, &everything);
        }
    make(&full, ATTN_OP_ATTENTION, ATTN_SCORE_DOT);
    full.p.n_tensors = 4; /* only what is needed */
    accepts(&full, &everything);
    full.p.sk = full.tensors[1].shape[2] = full.tensors[2].shape[2] = 0;
    accepts(&full, &everything);

    make(&full, ATTN_OP_MHA, ATTN_SCORE_DOT);
    drop(&full, ATTN_B_O);
    drop(&full, ATTN_W_O);
    full.p.flags &= ~(uint64_t)ATTN_FLAG_RESIDUAL;
    at(&full, ATTN_OUT)->shape[2] = full.p.hq * full.p.dv;
    drop(&full, ATTN_X_V); /* x_k stands for it */
    at(&full, ATTN_W_V)->shape[1] = at(&full, ATTN_X_K)->shape[2];
    accepts(&full, &everything);
}

/* Every operand: another type, place, rank, extent; twice; and where it is needed, not at all. */
static void test_refuses_each_operand(void **state)
{
    (void)state;
    for (int n = 0; n < 4; n++) {
        const uint32_t score = n % 2 ? ATTN_SCORE_ADDITIVE : ATTN_SCORE_BILINEAR;
        const uint32_t op = n / 2 ? ATTN_OP_MHA : ATTN_OP_ATTENTION;
        struct full full;
        make(&full, op, score);
        const uint32_t count = full.p.n_tensors;
        for (uint32_t t = 0; t < count; t++) {
            const char *name = attn_problem_role_name(full.tensors[t].role);
            const uint32_t role = full.tensors[t].role, rank = full.tensors[t].rank;
            char sentence[5][96];
            static const char *const faults[] = {"type", "memory space", "rank", "shape",
                                                 "second tensor"};
            for (int f = 0; f < 5; f++)
                snprintf(sentence[f], sizeof(sentence[f]), "this %s of %s is not supported",
                         faults[f], name);
            make(&full, op, score);
            full.tensors[t].dtype = ATTN_I64;
            refuses(&full, &everything, sentence[0]);
            make(&full, op, score);
            full.tensors[t].space = ATTN_CUDA;
            refuses(&full, &everything, sentence[1]);
            full.tensors[t].space = ATTN_HOST;
            full.tensors[t].device = 1;
            refuses(&full, &everything, sentence[1]);
            make(&full, op, score);
            full.tensors[t].rank = rank + (role == ATTN_LEN ? 2 : 1);
            refuses(&full, &everything, sentence[2]);
            for (uint32_t a = 0; a < rank; a++) {
                char why[256];
                make(&full, op, score);
                full.tensors[t].shape[a]++;
                /* a model width is wrong in the operand that it is compared with */
                if ((role >= ATTN_X_Q && role <= ATTN_X_V && a == 2) || (role == ATTN_W_O && !a))
                    assert_int_equal(attn_problem_check(&full.p, &everything, why, sizeof(why)),
                                     ATTN_UNSUPPORTED);
                else
                    refuses(&full, &everything, sentence[3]);
            }
            make(&full, op, score);
            full.tensors[full.p.n_tensors] = full.tensors[t];
            full.p.n_tensors++;
            refuses(&full, &everything, sentence[4]);
        }
    }
}

static void test_refuses_what_is_missing(void **state)
{
    (void)state;
    static const struct {
        uint32_t op, score, role;
        const char *sentence;
    } cases[] = {
        {ATTN_OP_ATTENTION, ATTN_SCORE_DOT, ATTN_Q, "operand q is missing"},
        {ATTN_OP_ATTENTION, ATTN_SCORE_DOT, ATTN_K, "operand k is missing"},
        {ATTN_OP_ATTENTION, ATTN_SCORE_DOT, ATTN_V, "operand v is missing"},
        {ATTN_OP_ATTENTION, ATTN_SCORE_DOT, ATTN_OUT, "operand out is missing"},
        {ATTN_OP_ATTENTION, ATTN_SCORE_BILINEAR, ATTN_SCORE_M, "operand m is missing"},
        {ATTN_OP_MHA, ATTN_SCORE_ADDITIVE, ATTN_SCORE_WV, "operand score_w_v is missing"},
        {ATTN_OP_MHA, ATTN_SCORE_DOT, ATTN_W_K, "operand w_k is missing"},
        {ATTN_OP_MHA, ATTN_SCORE_DOT, ATTN_W_O, "this shape of b_o is not supported"},
        {ATTN_OP_MHA, ATTN_SCORE_DOT, ATTN_X_K, "this shape of w_k is not supported"},
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct full full;
        make(&full, cases[c].op, cases[c].score);
        drop(&full, cases[c].role);
        refuses(&full, &everything, cases[c].sentence);
    }
}

/* One field of a problem at a time. */
static void test_refuses_each_scalar(void **state)
{
    (void)state;
    static const char *const sizes = "the sizes do not make an attention problem";
    struct full full;
#define REFUSES(score, change, sentence)                                                           \
    do {                                                                                           \
        make(&full, ATTN_OP_ATTENTION, score);                                                     \
        full.p.change;                                                                             \
        refuses(&full, &everything, sentence);                                                     \
    } while (0)
    REFUSES(ATTN_SCORE_DOT, struct_size--, "the problem structure is older than this backend");
    REFUSES(ATTN_SCORE_DOT, op = 0, "op 0 is not supported");
    REFUSES(ATTN_SCORE_DOT, op = 40, "op 40 is not supported");
    REFUSES(ATTN_SCORE_DOT, score = 0, "score 0 is not supported");
    REFUSES(ATTN_SCORE_DOT, score = 33, "score 33 is not supported");
    REFUSES(ATTN_SCORE_DOT, dtype = ATTN_F8_E4M3, "only f64, f32, f16 and bf16 are implemented");
    REFUSES(ATTN_SCORE_DOT, flags |= ATTN_FLAG_STREAM, "flag stream is not supported");
    REFUSES(ATTN_SCORE_DOT, flags |= 1ull << 63, "flag 63 is not supported");
    REFUSES(ATTN_SCORE_DOT, flags |= ATTN_FLAG_RESIDUAL,
            "a residual is part of multi-head attention only");
    REFUSES(ATTN_SCORE_DOT, b = 0, sizes);
    REFUSES(ATTN_SCORE_DOT, hkv = 0, sizes);
    REFUSES(ATTN_SCORE_DOT, hkv = 4, sizes);
    REFUSES(ATTN_SCORE_DOT, hq = -6, sizes);
    REFUSES(ATTN_SCORE_DOT, sq = 0, sizes);
    REFUSES(ATTN_SCORE_DOT, sk = -1, sizes);
    REFUSES(ATTN_SCORE_DOT, dq = 9, sizes);
    REFUSES(ATTN_SCORE_DOT, dv = 0, sizes);
    REFUSES(ATTN_SCORE_DOT, dv = INT64_MAX / 2, sizes);
    REFUSES(ATTN_SCORE_ADDITIVE, dh = 0, sizes);
    REFUSES(ATTN_SCORE_DOT, window_left = -2, "a window side is below -1");
    REFUSES(ATTN_SCORE_DOT, dropout_p = 1, "the dropout probability is outside [0,1)");
    REFUSES(ATTN_SCORE_DOT, flags &= ~(uint64_t)ATTN_FLAG_DROPOUT, "a keep mask without dropout");
#undef REFUSES
}

static void test_refuses_operands_that_do_not_go_together(void **state)
{
    (void)state;
    struct full full;
    make(&full, ATTN_OP_ATTENTION, ATTN_SCORE_DOT);
    at(&full, ATTN_LEN)->rank = 2;
    at(&full, ATTN_LEN)->shape[1] = full.p.sq;
    full.p.flags |= ATTN_FLAG_OFF_BR;
    refuses(&full, &everything, "a bottom-right offset needs one length a batch");

    make(&full, ATTN_OP_ATTENTION, ATTN_SCORE_DOT);
    at(&full, ATTN_SINK)->role = ATTN_SCORE_M;
    refuses(&full, &everything, "operand m is not supported");
    at(&full, ATTN_SCORE_M)->role = ATTN_W_O;
    refuses(&full, &everything, "operand w_o is not supported");
    at(&full, ATTN_W_O)->role = ATTN_BLOCK_TABLE;
    refuses(&full, &everything, "operand 66 is not supported");
    at(&full, ATTN_BLOCK_TABLE)->role = ATTN_ROLE_USER + 3;
    refuses(&full, &everything, "operand 4099 is not supported");

    make(&full, ATTN_OP_MHA, ATTN_SCORE_DOT);
    at(&full, ATTN_W_O)->shape[0] = at(&full, ATTN_B_O)->shape[0] = 20;
    at(&full, ATTN_OUT)->shape[2] = 20;
    refuses(&full, &everything, "a residual needs equal widths of x_q and out");
    full.p.flags &= ~(uint64_t)ATTN_FLAG_RESIDUAL;
    accepts(&full, &everything);
    drop(&full, ATTN_W_O);
    at(&full, ATTN_OUT)->shape[2] = at(&full, ATTN_B_O)->shape[0] = full.p.hq * full.p.dv;
    refuses(&full, &everything, "an output bias without an output projection");

    make(&full, ATTN_OP_MHA, ATTN_SCORE_DOT);
    drop(&full, ATTN_X_K);
    drop(&full, ATTN_X_V);
    at(&full, ATTN_W_K)->shape[1] = at(&full, ATTN_W_V)->shape[1] = 21;
    refuses(&full, &everything, "without x_k there are as many keys as queries");
}

/* A backend says which gradients it can do without. */
static void test_refuses_gradients_that_are_left_out(void **state)
{
    (void)state;
    static const uint32_t not_v[] = {ATTN_GRAD_Q, ATTN_GRAD_K, 0};
    struct attn_limits limits = everything;
    struct full gradients, *full = &gradients;
    make(full, ATTN_OP_ATTENTION, ATTN_SCORE_DOT);
    const struct attn_problem p = full->p;
    full->p.op = ATTN_OP_ATTENTION_BACKWARD;
    full->p.flags = 0;
    full->p.n_tensors = 4; /* q, k, v, out */
    ADD(ATTN_LSE, ATTN_F32, p.b, p.hq, p.sq);
    ADD(ATTN_GRAD_OUT, p.dtype, p.b, p.hq, p.sq, p.dv);
    refuses(full, &everything, "none of dq, dk and dv is asked for");
    ADD(ATTN_GRAD_V, p.dtype, p.b, p.hkv, p.sk, p.dv);
    accepts(full, &everything);
    limits.optional = not_v;
    accepts(full, &limits);
    limits.optional = NULL;
    refuses(full, &limits, "operand dq is missing");
    drop(full, ATTN_GRAD_V);
    ADD(ATTN_GRAD_Q, p.dtype, p.b, p.hq, p.sq, p.dq);
    ADD(ATTN_GRAD_K, p.dtype, p.b, p.hkv, p.sk, p.dk);
    limits.optional = not_v;
    refuses(full, &limits, "operand dv is missing");
    accepts(full, &everything);
}

/* Limits narrower than the table, and sentences of a backend's own. */
static void test_limits(void **state)
{
    (void)state;
    static const uint32_t few[] = {ATTN_MASK, ATTN_LEN, ATTN_LSE, 0};
    static const struct attn_limit narrow[] = {
        {.role = ATTN_Q, .multiple = 8},
        {.role = ATTN_MASK, .multiple = 1, .name = "the mask"},
        {.role = ATTN_LEN, .axes = "b"},
        {.role = ATTN_LSE, .types = ATTN_BIT(ATTN_F64)},
        {.role = 0},
    };
    struct attn_limits limits = everything;
    struct full full;
    make(&full, ATTN_OP_ATTENTION, ATTN_SCORE_DOT);
    full.p.flags = 0;
    full.p.n_tensors = 4;
    add(&full, ATTN_LEN, ATTN_I32, 1, &full.p.b);
    limits.optional = few;
    limits.narrow = narrow;
    accepts(&full, &limits);

    full.tensors[0].stride[3] = 2;
    refuses(&full, &limits, "this stride of q is not supported");
    full.tensors[0].stride[3] = 1;
    full.tensors[0].stride[2] = 12; /* no multiple of 8 */
    refuses(&full, &limits, "this stride of q is not supported");
    full.tensors[0].stride[2] = 0;
    refuses(&full, &limits, "this stride of q is not supported");
    full.tensors[0].stride[2] = 16;
    accepts(&full, &limits);
    full.tensors[1].stride[3] = 2; /* k may have any */
    full.tensors[1].stride[2] = 0;
    accepts(&full, &limits);
    full.tensors[1].stride[2] = INT64_MAX / 4; /* but its bytes must be countable */
    refuses(&full, &limits, "this stride of k is not supported");
    full.tensors[1].stride[2] = -1;
    refuses(&full, &limits, "this stride of k is not supported");
    full.tensors[1].stride[2] = 16;

    full.tensors[4].rank = 2;
    full.tensors[4].shape[1] = full.p.sq;
    refuses(&full, &limits, "this rank of len is not supported");
    full.tensors[4] = (struct attn_tensor){.role = ATTN_MASK,
                                           .dtype = ATTN_BOOL,
                                           .rank = 4,
                                           .shape = {2, 6, 5, 7},
                                           .stride = {0, 0, 0, 2}};
    refuses(&full, &limits, "this stride of the mask is not supported");
    full.tensors[4].stride[3] = 1;
    accepts(&full, &limits);
    full.tensors[4] = (struct attn_tensor){
        .role = ATTN_LSE, .dtype = ATTN_F32, .rank = 3, .shape = {2, 6, 5}, .stride = {30, 5, 1}};
    refuses(&full, &limits, "this type of lse is not supported");
    full.tensors[4].role = ATTN_SINK;
    refuses(&full, &limits, "operand sink is not supported");
    limits.no_role = "so it is not";
    refuses(&full, &limits, "so it is not");
    full.p.n_tensors = 4;

    limits.widest = 10;
    refuses(&full, &limits, "heads wider than 10 are not supported");
    limits.widest = 11;
    accepts(&full, &limits);
    limits.ops = ATTN_BIT(ATTN_OP_MHA);
    refuses(&full, &limits, "op attention is not supported");
    limits.no_op = "no op";
    refuses(&full, &limits, "no op");
    limits.ops = ATTN_BIT(ATTN_OP_ATTENTION);
    limits.scores = 0;
    refuses(&full, &limits, "score dot is not supported");
    limits.scores = ATTN_BIT(ATTN_SCORE_DOT);
    limits.dtypes = ATTN_BIT(ATTN_F32);
    refuses(&full, &limits, "only f32 is implemented");
    limits.dtypes |= ATTN_BIT(ATTN_F16);
    refuses(&full, &limits, "only f32 and f16 are implemented");
    limits.no_dtype = "no type";
    refuses(&full, &limits, "no type");
    full.p.dtype = ATTN_F16;
    full.p.flags = ATTN_FLAG_SOFTCAP;
    limits.flags = 0;
    refuses(&full, &limits, "flag softcap is not supported");
}

static void test_operands(void **state)
{
    (void)state;
    struct attn_operands operands;
    struct full full;
    make(&full, ATTN_OP_MHA, ATTN_SCORE_BILINEAR);
    full.tensors[full.p.n_tensors++] = (struct attn_tensor){.role = ATTN_ROLE_USER, .dtype = 1};
    attn_operands_set(&operands, full.tensors, full.p.n_tensors);
    for (uint32_t t = 0; t + 1 < full.p.n_tensors; t++)
        assert_memory_equal(attn_operands_at(&operands, full.tensors[t].role), &full.tensors[t],
                            sizeof(struct attn_tensor));
    assert_null(attn_operands_at(&operands, ATTN_ROLE_USER));
    assert_int_equal(operands.b_o.role, ATTN_B_O);
    assert_int_equal(operands.q.dtype, 0);
    assert_int_equal(operands.x_v.role, ATTN_X_V);

    drop(&full, ATTN_X_V);
    attn_operands_set(&operands, full.tensors, full.p.n_tensors);
    assert_int_equal(operands.x_v.role, ATTN_X_K);
    drop(&full, ATTN_X_K);
    attn_operands_set(&operands, full.tensors, full.p.n_tensors);
    assert_int_equal(operands.x_k.role, ATTN_X_Q);
    assert_int_equal(operands.x_v.role, ATTN_X_Q);
}

static void test_span(void **state)
{
    (void)state;
    struct attn_tensor t = {
        .dtype = ATTN_F16, .rank = 3, .shape = {2, 3, 4}, .stride = {100, 10, 2}};
    assert_int_equal(attn_problem_span(&t), 2 * (100 + 20 + 6 + 1));
    t.stride[0] = 0;
    assert_int_equal(attn_problem_span(&t), 2 * (20 + 6 + 1));
    t.stride[0] = INT64_MAX / 2 - 26; /* the last element can be counted, its bytes cannot */
    assert_int_equal(attn_problem_span(&t), -1);
    t.stride[0] = INT64_MAX / 2 - 27;
    assert_int_equal(attn_problem_span(&t), 2 * (INT64_MAX / 2));
    t.stride[0] = INT64_MAX - 25;
    assert_int_equal(attn_problem_span(&t), -1);
    t.stride[0] = -1;
    assert_int_equal(attn_problem_span(&t), -1);
    t.shape[1] = 0;
    assert_int_equal(attn_problem_span(&t), 0);
    t.dtype = ATTN_F8_E4M3;
    t.shape[1] = 1;
    t.stride[0] = 4;
    assert_int_equal(attn_problem_span(&t), -1);
}

/* Both languages read the header alike. */
static void test_languages(void **state)
{
    (void)state;
    char c[256], cxx[256];
    struct full full;
    make(&full, ATTN_OP_ATTENTION, ATTN_SCORE_SCALED_DOT);
    full.p.flags = ATTN_FLAG_CAUSAL;
    for (uint32_t n = 4; n <= full.p.n_tensors; n++) {
        struct attn_problem p = full.p;
        p.n_tensors = n;
        strcpy(c, "-");
        strcpy(cxx, "-");
        assert_int_equal(attn_test_problem_c11(&p, c, sizeof(c)),
                         attn_test_problem_cxx17(&p, cxx, sizeof(cxx)));
        assert_string_equal(c, cxx);
        assert_string_equal(c, n <= 5 ? "-" : "operand weights is not supported");
    }
    unsigned char mask[] = {0, 9, 1, 0, 0, 0, 0}, keep[] = {1, 1, 0, 1, 1, 1, 1};
    full.p.flags = ATTN_FLAG_DROPOUT;
    drop(&full, ATTN_LEN);
    at(&full, ATTN_MASK)->data = mask;
    at(&full, ATTN_KEEP)->data = keep;
    for (int a = 0; a < 3; a++)
        at(&full, ATTN_MASK)->stride[a] = at(&full, ATTN_KEEP)->stride[a] = 0;
    assert_int_equal(attn_test_problem_row_cxx17(&full.p), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts_what_the_harness_makes),
        cmocka_unit_test(test_accepts_what_is_right),
        cmocka_unit_test(test_refuses_global),
        cmocka_unit_test(test_refuses_each_operand),
        cmocka_unit_test(test_refuses_what_is_missing),
        cmocka_unit_test(test_refuses_each_scalar),
        cmocka_unit_test(test_refuses_operands_that_do_not_go_together),
        cmocka_unit_test(test_refuses_gradients_that_are_left_out),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_operands),
        cmocka_unit_test(test_span),
        cmocka_unit_test(test_languages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
