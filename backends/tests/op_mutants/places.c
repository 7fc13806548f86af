/* SPDX-License-Identifier: Apache-2.0 */
/* places.c - attention with disentangled scores, cell by cell. */
#include <math.h>
#include <stdbool.h>

#include "op_mutant.h"

/* One row of one head. */
struct row {
    const struct attn_problem *p;
    const struct attn_operands *o;
    int64_t b, h, i;
    float *s; /* [Sk] */
};

static float q_at(const struct row *x, int64_t i, int64_t c)
{
    const struct attn_tensor *t = &x->o->q;
    return op_mutant_get(t, attn_row_start(t, x->b, x->h, i) + c * t->stride[3]);
}

/* Element c of key j, or of value j. */
static float key_at(const struct row *x, const struct attn_tensor *t, int64_t j, int64_t c)
{
    const int64_t g = x->h / (x->p->hq / x->p->hkv);
    return op_mutant_get(t, attn_row_start(t, x->b, g, j) + c * t->stride[3]);
}

static float table_at(const struct row *x, const struct attn_tensor *t, int64_t r, int64_t c)
{
    const int64_t h = bug(places_head_0) ? 0 : x->h;
    return op_mutant_get(t, h * t->stride[0] + r * t->stride[1] + c * t->stride[2]);
}

static int64_t distance(const struct row *x, int64_t j)
{
    const int64_t off = attn_keys_offset(x->p, &x->o->len, x->b);
    if (bug(places_first_key) && x->p->sq != x->p->sk)
        j = 0;
    const int64_t far = x->i + (bug(places_no_offset) ? 0 : off) - j;
    return bug(places_8_bits) ? (int8_t)far : bug(places_reversed) ? -far : far;
}

/* Rows of KR and QR that query i and key j read. */
static void find_rows(const struct row *x, int64_t j, int64_t *d, int64_t *e)
{
    const struct attn_tensor *table = &x->o->rel_buckets;
    const int64_t rows = x->o->score_kr.shape[1], span = rows / 2, far = distance(x, j);
    const int64_t last = rows - (bug(places_row_more) ? 0 : 1);
    const bool paper = x->p->variant == ATTN_POSITIONS_PAPER;
    *d = attn_clamp(far + span, 0, last);
    int64_t turned = attn_clamp(span - far, 0, last);
    if (table->dtype && !bug(places_table_lost)) {
        const int64_t centre = (bug(places_centre) ? x->p->sq : x->p->sk) - 1;
        const int64_t at = attn_clamp(x->i - j + centre, 0, table->shape[0] - 1);
        *d = ((const int32_t *)table->data)[at * table->stride[0]];
        turned = attn_clamp(rows - *d, 0, last);
    }
    *e = (paper || bug(places_paper)) && !bug(places_code) ? turned : *d;
}

/* The product of query i and a row of KR. */
static float c2p(const struct row *x, int64_t j, int64_t d)
{
    const int64_t span = x->o->score_kr.shape[1] / 2, far = distance(x, j);
    float sum = 0;
    if (bug(places_near_c2p) && (far >= span || far <= -span))
        return 0;
    for (int64_t c = 0; c < x->p->dk; c++)
        sum += q_at(x, x->i, c) * table_at(x, &x->o->score_kr, d, c);
    return bug(places_parts_bf16) ? op_mutant_bf16(sum) : sum;
}

/* The product of key j and a row of QR. */
static float p2c(const struct row *x, int64_t j, int64_t e)
{
    const struct attn_tensor *table = bug(places_p2c_kr) ? &x->o->score_kr : &x->o->score_qr;
    const int64_t span = table->shape[1] / 2, far = distance(x, j);
    float sum = 0;
    if (bug(places_near_p2c) && (far >= span || far <= -span))
        return 0;
    if (bug(places_untransposed) && x->p->sq == x->p->sk) {
        e = attn_clamp(span - far, 0, 2 * span - 1);
        j = x->i;
    }
    for (int64_t c = 0; c < x->p->dk; c++)
        sum += key_at(x, &x->o->k, j, c) * table_at(x, table, e, c);
    return bug(places_parts_bf16) ? op_mutant_bf16(sum) : sum;
}

static float score(const struct row *x, int64_t j)
{
    const struct attn_problem *p = x->p;
    const struct attn_tensor *bias = &x->o->bias;
    const float scale = bug(places_scale_dk) ? 1 / sqrtf((float)p->dk) : (float)p->scale;
    float raw = 0, added = 0;
    int64_t d, e;
    find_rows(x, j, &d, &e);
    for (int64_t c = 0; c < p->dk; c++)
        raw += q_at(x, x->i, c) * key_at(x, &x->o->k, j, c);
    if (p->parts != ATTN_PARTS_P2C || bug(places_both_parts))
        raw += c2p(x, j, d);
    if (p->parts != ATTN_PARTS_C2P || bug(places_both_parts))
        raw += p2c(x, j, e);
    if (bias->dtype)
        added = op_mutant_get(bias, attn_row_start(bias, x->b, x->h, x->i) + j * bias->stride[3]);
    return bug(places_bias_scaled) ? scale * (raw + added) : scale * raw + added;
}

static void compute(const struct row *x)
{
    const struct attn_tensor *out = &x->o->out;
    const struct attn_keys keys = attn_keys_seen(x->p, &x->o->len, x->b, x->i);
    float top = -INFINITY, sum = 0;
    for (int64_t j = keys.first; j < keys.end; j++) {
        x->s[j] = score(x, j);
        top = x->s[j] > top || isnan(x->s[j]) ? x->s[j] : top;
    }
    for (int64_t j = keys.first; j < keys.end; j++) {
        x->s[j] = expf(x->s[j] - top);
        sum += x->s[j];
    }
    for (int64_t c = 0; c < x->p->dv; c++) {
        float y = 0;
        for (int64_t j = keys.first; j < keys.end; j++)
            y += x->s[j] * key_at(x, &x->o->v, j, c);
        op_mutant_put(out, attn_row_start(out, x->b, x->h, x->i) + c * out->stride[3],
                      keys.first < keys.end ? y / sum : 0);
    }
}

static int64_t floats(const struct attn_problem *p)
{
    return p->sk + 1;
}

static void run(const struct attn_problem *p, const struct attn_operands *o, float *memory)
{
    struct row x = {.p = p, .o = o, .s = memory};
    for (x.b = 0; x.b < p->b; x.b++)
        for (x.h = 0; x.h < p->hq; x.h++)
            for (x.i = 0; x.i < p->sq; x.i++)
                compute(&x);
}

static const uint32_t takes[] = {ATTN_BIAS, ATTN_LEN, ATTN_REL_POS, 0};

const struct op_mutant op_mutant_places = {.op = ATTN_OP_ATTENTION,
                                           .score = ATTN_SCORE_DISENTANGLED,
                                           .takes = takes,
                                           .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_OFF_BR,
                                           .floats = floats,
                                           .run = run};
