/* SPDX-License-Identifier: Apache-2.0 */
/* made.c - small problems with dense random tensors. */
#include "reference/tests/made.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/dtype.h"

double made_uniform(uint64_t *state)
{
    /* splitmix64: Steele, Lea, Flood, OOPSLA 2014. */
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

double made_normal(uint64_t *state)
{
    double radius = sqrt(-2.0 * log(1.0 - made_uniform(state)));
    return radius * cos(6.283185307179586 * made_uniform(state));
}

int64_t made_count(const struct attn_tensor *t)
{
    int64_t count = 1;

    for (uint32_t a = 0; a < t->rank; a++)
        count *= t->shape[a];
    return count;
}

static int64_t place(const struct attn_tensor *t, int64_t index)
{
    int64_t offset = 0;

    for (uint32_t a = t->rank; a-- > 0; index /= t->shape[a])
        offset += index % t->shape[a] * t->stride[a];
    return offset;
}

double made_get(const struct attn_tensor *t, int64_t index)
{
    return attn_dtype_load(t->dtype, t->data, place(t, index));
}

void made_set(struct attn_tensor *t, int64_t index, double value)
{
    attn_dtype_store(t->dtype, t->data, place(t, index), value);
}

/* Takes away the axes whose bits are set. */
static void broadcast(struct attn_tensor *t, unsigned axes)
{
    int64_t stride = 1;

    for (uint32_t a = t->rank; a-- > 0;) {
        t->stride[a] = axes >> a & 1 ? 0 : stride;
        stride *= axes >> a & 1 ? 1 : t->shape[a];
    }
}

struct attn_tensor *made_tensor(struct made *m, uint32_t role)
{
    for (uint32_t t = 0; t < m->problem.n_tensors; t++)
        if (m->tensors[t].role == role)
            return &m->tensors[t];
    abort();
}

struct attn_tensor *made_add(struct made *m, uint32_t role, uint32_t dtype, uint32_t rank,
                             const int64_t *shape)
{
    struct attn_tensor *t = &m->tensors[m->problem.n_tensors++];
    int64_t stride = 1;

    *t = (struct attn_tensor){.role = role, .dtype = dtype, .rank = rank};
    for (uint32_t a = rank; a-- > 0; stride *= shape[a]) {
        t->shape[a] = shape[a];
        t->stride[a] = stride;
    }
    t->data = calloc((size_t)made_count(t) + 1, attn_dtype_size(dtype));
    if (!t->data)
        abort();
    return t;
}

#define SHAPE(...)                                                                                 \
    sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[])                          \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void fill_normal(struct made *m, struct attn_tensor *t, double spread)
{
    for (int64_t x = 0; x < made_count(t); x++)
        made_set(t, x, spread * made_normal(&m->state));
}

static void fill_bool(struct made *m, struct attn_tensor *t, double share)
{
    for (int64_t x = 0; x < made_count(t); x++)
        made_set(t, x, made_uniform(&m->state) < share);
}

static void fill_len(struct made *m, struct attn_tensor *t)
{
    for (int64_t x = 0; x < made_count(t); x++)
        made_set(t, x, floor(made_uniform(&m->state) * (double)(m->problem.sk + 1)));
}

static void add_attention(struct made *m, double spread)
{
    const struct attn_problem *p = &m->problem;
    uint32_t type = p->dtype;

    fill_normal(m, made_add(m, ATTN_Q, type, SHAPE(p->b, p->hq, p->sq, p->dq)), spread);
    fill_normal(m, made_add(m, ATTN_K, type, SHAPE(p->b, p->hkv, p->sk, p->dk)), spread);
    fill_normal(m, made_add(m, ATTN_V, type, SHAPE(p->b, p->hkv, p->sk, p->dv)), spread);
    made_add(m, ATTN_OUT, type, SHAPE(p->b, p->hq, p->sq, p->dv));
}

static void add_mha(struct made *m, double spread, int features)
{
    const struct attn_problem *p = &m->problem;
    uint32_t type = p->dtype;
    int64_t e = p->hq * p->dv, ek = features & MADE_CROSS ? e + 1 : e;
    int64_t ev = features & MADE_CROSS ? e + 2 : ek;
    int64_t eo = features & (MADE_NO_WO | MADE_RESIDUAL) ? e : e + 3;
    double shrink = spread / sqrt((double)e);

    fill_normal(m, made_add(m, ATTN_X_Q, type, SHAPE(p->b, p->sq, e)), spread);
    if (features & MADE_CROSS) {
        fill_normal(m, made_add(m, ATTN_X_K, type, SHAPE(p->b, p->sk, ek)), spread);
        fill_normal(m, made_add(m, ATTN_X_V, type, SHAPE(p->b, p->sk, ev)), spread);
    }
    fill_normal(m, made_add(m, ATTN_W_Q, type, SHAPE(p->hq * p->dq, e)), shrink);
    fill_normal(m, made_add(m, ATTN_W_K, type, SHAPE(p->hkv * p->dk, ek)), shrink);
    fill_normal(m, made_add(m, ATTN_W_V, type, SHAPE(p->hkv * p->dv, ev)), shrink);
    if (!(features & MADE_NO_WO))
        fill_normal(m, made_add(m, ATTN_W_O, type, SHAPE(eo, p->hq * p->dv)), shrink);
    if (features & MADE_PROJ_BIAS) {
        fill_normal(m, made_add(m, ATTN_B_Q, type, SHAPE(p->hq * p->dq)), spread);
        fill_normal(m, made_add(m, ATTN_B_K, type, SHAPE(p->hkv * p->dk)), spread);
        fill_normal(m, made_add(m, ATTN_B_V, type, SHAPE(p->hkv * p->dv)), spread);
        if (!(features & MADE_NO_WO))
            fill_normal(m, made_add(m, ATTN_B_O, type, SHAPE(eo)), spread);
    }
    if (features & MADE_HEAD_MASK)
        fill_bool(m, made_add(m, ATTN_HEAD_MASK, ATTN_BOOL, SHAPE(p->hq)), 0.5);
    made_add(m, ATTN_OUT, type, SHAPE(p->b, p->sq, eo));
}

static void add_positions(struct made *m, const struct made_spec *s)
{
    const struct attn_problem *p = &m->problem;
    const int64_t rows = 2 * (s->span ? s->span : 3);

    fill_normal(m, made_add(m, ATTN_SCORE_KR, p->dtype, SHAPE(p->hq, rows, p->dk)), 0.5);
    fill_normal(m, made_add(m, ATTN_SCORE_QR, p->dtype, SHAPE(p->hq, rows, p->dk)), 0.5);
    if (!(s->features & MADE_REL_POS))
        return;
    struct attn_tensor *table = made_add(m, ATTN_REL_POS, ATTN_I32, SHAPE(p->sq + p->sk - 1));
    for (int64_t d = 0; d < made_count(table); d++)
        made_set(table, d, floor(made_uniform(&m->state) * (double)rows));
}

static void add_scoring(struct made *m, const struct made_spec *s)
{
    const struct attn_problem *p = &m->problem;
    uint32_t type = p->dtype;

    if (p->score == ATTN_SCORE_BILINEAR)
        fill_normal(m, made_add(m, ATTN_SCORE_M, type, SHAPE(p->hq, p->dq, p->dk)),
                    1.0 / sqrt((double)p->dk));
    if (p->score == ATTN_SCORE_DISENTANGLED)
        add_positions(m, s);
    if (p->score != ATTN_SCORE_ADDITIVE)
        return;
    fill_normal(m, made_add(m, ATTN_SCORE_WQ, type, SHAPE(p->hq, p->dh, p->dq)), 0.5);
    fill_normal(m, made_add(m, ATTN_SCORE_WK, type, SHAPE(p->hq, p->dh, p->dk)), 0.5);
    fill_normal(m, made_add(m, ATTN_SCORE_WV, type, SHAPE(p->hq, p->dh)), 1.0);
}

static void add_features(struct made *m, int features)
{
    const struct attn_problem *p = &m->problem;
    uint32_t wide = p->dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    const int64_t cells[] = {p->b, p->hq, p->sq, p->sk};

    if (features & MADE_MASK)
        fill_bool(m, made_add(m, ATTN_MASK, ATTN_BOOL, 4, cells), 0.6);
    if (features & MADE_BIAS)
        fill_normal(m, made_add(m, ATTN_BIAS, p->dtype, 4, cells), 1.0);
    if (features & MADE_LEN)
        fill_len(m, made_add(m, ATTN_LEN, ATTN_I32, SHAPE(p->b)));
    if (features & MADE_LEN2D)
        fill_len(m, made_add(m, ATTN_LEN, ATTN_I32, SHAPE(p->b, p->sq)));
    if (features & MADE_ALIBI)
        fill_normal(m, made_add(m, ATTN_ALIBI, wide, SHAPE(p->hq)), 0.3);
    if (features & MADE_SINK)
        fill_normal(m, made_add(m, ATTN_SINK, wide, SHAPE(p->hq)), 1.0);
    if (features & MADE_KEEP)
        fill_bool(m, made_add(m, ATTN_KEEP, ATTN_BOOL, 4, cells), 0.7);
    if (features & MADE_GATE)
        fill_normal(m, made_add(m, ATTN_GATE, p->dtype, SHAPE(p->b, p->hq, p->sq, p->dv)), 1.0);
}

static void add_global(struct made *m, double spread, int features)
{
    const struct attn_problem *p = &m->problem;
    uint32_t type = p->dtype;

    if (features & MADE_GLOBAL)
        fill_bool(m, made_add(m, ATTN_GLOBAL, ATTN_BOOL, SHAPE(p->b, p->sk)), 0.2);
    if (features & MADE_DILATION) {
        struct attn_tensor *dilation = made_add(m, ATTN_DILATION, ATTN_I32, SHAPE(p->hq));
        for (int64_t h = 0; h < p->hq; h++)
            made_set(dilation, h, 1.0 + floor(4.0 * made_uniform(&m->state)));
    }
    if (features & MADE_PROJECTED) {
        fill_normal(m, made_add(m, ATTN_Q_GLOBAL, type, SHAPE(p->b, p->hq, p->sq, p->dq)), spread);
        fill_normal(m, made_add(m, ATTN_K_GLOBAL, type, SHAPE(p->b, p->hkv, p->sk, p->dk)), spread);
        fill_normal(m, made_add(m, ATTN_V_GLOBAL, type, SHAPE(p->b, p->hkv, p->sk, p->dv)), spread);
    }
}

static int64_t given(int64_t value, int64_t fallback)
{
    return value ? value : fallback;
}

static void set_parameters(struct made *m, const struct made_spec *s)
{
    struct attn_problem *p = &m->problem;

    p->flags = (s->features & MADE_CAUSAL ? ATTN_FLAG_CAUSAL : 0) |
               (s->features & MADE_WINDOW ? ATTN_FLAG_WINDOW : 0) |
               (s->features & MADE_BR ? ATTN_FLAG_OFF_BR : 0) |
               (s->features & MADE_SOFTCAP ? ATTN_FLAG_SOFTCAP : 0) |
               (s->features & (MADE_KEEP | MADE_PHILOX) ? ATTN_FLAG_DROPOUT : 0) |
               (s->features & MADE_RESIDUAL ? ATTN_FLAG_RESIDUAL : 0) |
               (s->weight_fn ? ATTN_FLAG_WEIGHT : 0);
    p->weight_fn = s->weight_fn;
    p->scale = p->score == ATTN_SCORE_SCALED_DOT ? 1.0 / sqrt((double)p->dk) : 1.0;
    if (p->score == ATTN_SCORE_DISENTANGLED) {
        p->parts = s->parts;
        p->variant = s->variant;
        p->scale = 1.0 / sqrt((p->parts == ATTN_PARTS_BOTH ? 3.0 : 2.0) * (double)p->dk);
    }
    if (s->features & MADE_SCALE)
        p->scale = s->scale;
    p->softcap = s->features & MADE_SOFTCAP ? 1.5 : 0.0;
    p->off = s->off;
    p->window_left = s->features & MADE_WINDOW ? 2 : 0;
    p->window_right = s->features & MADE_WINDOW ? 1 : 0;
    p->dropout_p = p->flags & ATTN_FLAG_DROPOUT ? 0.25 : 0.0;
    p->dropout_seed = s->seed * 77 + 5;
}

void made_create(struct made *m, const struct made_spec *s)
{
    struct attn_problem *p = &m->problem;
    double spread = s->spread > 0.0 ? s->spread : 1.0;

    memset(m, 0, sizeof(*m));
    m->state = s->seed + 1;
    p->struct_size = sizeof(*p);
    p->op = s->op ? s->op : ATTN_OP_ATTENTION;
    p->score = s->score ? s->score : ATTN_SCORE_SCALED_DOT;
    p->dtype = s->dtype ? s->dtype : ATTN_F64;
    p->b = given(s->b, 1);
    p->hq = given(s->hq, 1);
    p->hkv = given(s->hkv, p->hq);
    p->sq = given(s->sq, 1);
    p->sk = s->sk < 0 ? 0 : given(s->sk, p->sq);
    p->dk = given(s->dk, 1);
    p->dq = given(s->dq, p->dk);
    p->dv = given(s->dv, p->dk);
    p->dh = p->score == ATTN_SCORE_ADDITIVE ? given(s->dh, p->dk) : 0;
    p->tensors = m->tensors;
    set_parameters(m, s);
    if (p->op == ATTN_OP_MHA)
        add_mha(m, spread, s->features);
    else
        add_attention(m, spread);
    add_scoring(m, s);
    add_features(m, s->features);
    add_global(m, spread, s->features);
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        uint32_t role = m->tensors[t].role;
        static const unsigned axes[] = {3, 5, 9, 6, 10, 12, 15};
        if ((s->features & MADE_SHARED) && role >= ATTN_SCORE_M && role <= ATTN_SCORE_QR)
            broadcast(&m->tensors[t], 1);
        if ((s->features & MADE_BROADCAST) &&
            (role == ATTN_MASK || role == ATTN_BIAS || role == ATTN_KEEP))
            broadcast(&m->tensors[t], axes[(s->seed + role) % 7]);
    }
}

void made_free(struct made *m)
{
    for (uint32_t t = 0; t < m->problem.n_tensors; t++)
        free(m->tensors[t].data);
}
