/* SPDX-License-Identifier: Apache-2.0 */
/* chunked_template.h - the kernel of chunked, after flash_template.h. All of it is products of
 * matrices: scores of some rows with their chunk, weights with v, lin_q with the state, and lin_k^T
 * with v into the state. */
#include "recurrent.h"

/* The scratch of a part, by name, and its sizes. Rows are whole vectors. */
struct chunked_work {
    const struct attn_recurrent_part *part;
    int64_t dk, dl;        /* rounded up to 16 */
    int64_t keys, columns; /* of a chunk and of the part, rounded up to the micro-kernel */
    int64_t width, valid;  /* columns of lin_q; keys that len leaves */
    bool causal;
    float *kt;    /* [dk][keys] keys of a chunk, transposed */
    float *lin_k; /* [tokens][dl] and */
    float *room;  /* [tokens][columns] v of a chunk, unless it is read in place */
    const float *v;
    int64_t v_row;
    bool finite;  /* v of the chunk is */
    float *state; /* [dl][columns] */
    float *q;     /* [ROWS][dk], */
    float *lin_q; /* [ROWS][dl], times the scale of the linear part, */
    float *p;     /* [ROWS][keys] scores, then weights, and */
    float *out;   /* [ROWS][columns] of rows at a time */
    float *row;   /* one row of the bias or of the gate */
};

static struct chunked_work chunked_work_of(const struct attn_recurrent_part *part)
{
    const struct attn_problem *p = part->problem;
    const struct attn_chunked_sizes sizes = attn_chunked_sizes_of(p);
    struct chunked_work w = {.part = part,
                             .dk = sizes.dk,
                             .dl = sizes.dl,
                             .keys = sizes.keys,
                             .columns = sizes.columns,
                             .width = attn_problem_extent(p, 'l'),
                             .valid = attn_keys_valid(p, &part->operands->len, part->b, 0),
                             .causal = p->flags & ATTN_FLAG_CAUSAL,
                             .kt = part->scratch};
    w.lin_k = w.kt + w.dk * w.keys;
    w.room = w.lin_k + w.keys * w.dl;
    w.state = w.room + w.keys * w.columns;
    w.q = w.state + w.dl * w.columns;
    w.lin_q = w.q + ATTN_CHUNKED_ROWS * w.dk;
    w.p = w.lin_q + ATTN_CHUNKED_ROWS * w.dl;
    w.out = w.p + ATTN_CHUNKED_ROWS * w.keys;
    w.row = w.out + ATTN_CHUNKED_ROWS * w.columns;
    return w;
}

/* Row t of an operand of the part's head. */
static void chunked_widen(const struct chunked_work *w, const struct attn_tensor *x, int64_t t,
                          int64_t first, int64_t count, float *to)
{
    const int64_t at = attn_row_start(x, w->part->b, w->part->h, t) + first * x->stride[3];
    widen(x, at, x->stride[3], count, to);
}

/* The same in place if it is whole vectors of f32; else in `to`. */
static const float *chunked_floats(const struct chunked_work *w, const struct attn_tensor *x,
                                   int64_t t, int64_t first, int64_t count, float *to)
{
    if (x->dtype == ATTN_F32 && x->stride[3] == 1 && count % VF_LANES == 0)
        return (const float *)x->data + attn_row_start(x, w->part->b, w->part->h, t) + first;
    chunked_widen(w, x, t, first, count, to);
    return to;
}

/* v and lin_k of keys [first, end). */
static void chunked_take_values(struct chunked_work *w, int64_t first, int64_t end)
{
    const struct attn_recurrent_part *part = w->part;
    const struct attn_tensor *v = &part->operands->v, *lin_k = &part->operands->lin_k;
    const float *given =
        (const float *)v->data + attn_row_start(v, part->b, part->h, first) + part->first;
    const bool in_place = v->dtype == ATTN_F32 && v->stride[3] == 1 && part->count == w->columns &&
                          v->stride[2] % VF_LANES == 0 && (uintptr_t)given % sizeof(vf) == 0;
    w->v = in_place ? given : w->room;
    w->v_row = in_place ? v->stride[2] : w->columns;
    w->finite = true;
    for (int64_t j = first; j < end; j++) {
        const int64_t at = (j - first) * w->v_row;
        if (!in_place)
            chunked_widen(w, v, j, part->first, part->count, w->room + at);
        w->finite = w->finite && (!w->causal || finite_floats(w->v + at, w->columns));
        chunked_widen(w, lin_k, j, 0, w->width, w->lin_k + (j - first) * w->dl);
    }
}

/* k of keys [first, end), transposed. Keys beyond them are 0 in the last vector. */
static void chunked_take_keys(const struct chunked_work *w, int64_t first, int64_t end)
{
    const struct attn_tensor *k = &w->part->operands->k;
    for (int64_t j = first; j < end; j += VF_LANES) {
        for (int64_t n = 0; n < VF_LANES; n++)
            if (j + n < end)
                chunked_widen(w, k, j + n, 0, w->part->problem->dk, w->q + n * w->dk);
            else
                memset(w->q + n * w->dk, 0, (size_t)w->dk * sizeof(float));
        for (int64_t c = 0; c < w->dk; c += VF_LANES)
            vf_transpose(w->q + c, w->dk, 1, w->kt + c * w->keys + (j - first), w->keys);
    }
}

/* Keys that were taken enter the state. */
static void chunked_collect(const struct chunked_work *w, int64_t keys)
{
    const struct matrix_product x = {.a = w->lin_k,
                                     .a_row = 1,
                                     .a_step = w->dl,
                                     .b = w->v,
                                     .b_row = w->v_row,
                                     .c = w->state,
                                     .c_row = w->columns,
                                     .rows = w->width,
                                     .columns = w->columns,
                                     .depth = keys};
    if (keys > 0)
        matrix_multiply(&x);
}

/* p = relu(scale q.k + bias)^2 for the first `keys` keys of the chunk. With causal, row r of these
 * sees `before` + r + 1 of them; later ones have 0. */
static void chunked_weigh(const struct chunked_work *w, int64_t i, int64_t rows, int64_t before,
                          int64_t keys)
{
    const struct attn_problem *p = w->part->problem;
    const struct attn_tensor *bias = &w->part->operands->bias;
    const int64_t wide = attn_round_up(keys, FLASH_NR);
    const struct matrix_product x = {.a = w->q,
                                     .a_row = w->dk,
                                     .a_step = 1,
                                     .b = w->kt,
                                     .b_row = w->keys,
                                     .c = w->p,
                                     .c_row = w->keys,
                                     .rows = rows,
                                     .columns = wide,
                                     .depth = p->dk,
                                     .fresh = true};
    const float *more = w->row;
    matrix_multiply(&x);
    memset(w->row, 0, (size_t)wide * sizeof(float));
    for (int64_t r = 0; r < rows; r++) {
        float *s = w->p + r * w->keys;
        const int64_t seen = w->causal ? attn_clamp(before + r + 1, 0, keys) : keys;
        if (bias->dtype)
            more = chunked_floats(w, bias, (i + r) % p->chunk, 0, keys, w->row);
        for (int64_t n = 0; n < seen; n += VF_LANES) {
            vf score = vf_fma(vf_load(s + n), vf_set1((float)p->scale), vf_loadu(more + n));
            score = vf_max(vf_set1(0), score); /* NaN stays */
            vf_store(s + n, vf_mul(score, score));
        }
        memset(s + seen, 0, (size_t)(keys - seen) * sizeof *s);
    }
}

/* out += p v, or out = p v */
static void chunked_join(const struct chunked_work *w, int64_t rows, int64_t before, int64_t keys,
                         bool fresh)
{
    const struct matrix_product x = {.a = w->p,
                                     .a_row = w->keys,
                                     .a_step = 1,
                                     .b = w->v,
                                     .b_row = w->v_row,
                                     .c = w->out,
                                     .c_row = w->columns,
                                     .rows = rows,
                                     .columns = w->columns,
                                     .depth = keys,
                                     .fresh = fresh,
                                     .causal = w->causal && w->finite,
                                     .before = before};
    if (w->causal && !w->finite)
        matrix_multiply_causal(&x, before);
    else
        matrix_multiply(&x);
}

/* The linear part of rows [i, i + rows). */
static void chunked_read_state(const struct chunked_work *w, int64_t i, int64_t rows)
{
    const vf by = vf_set1((float)attn_chunked_lin_scale(w->part->problem));
    const struct matrix_product x = {.a = w->lin_q,
                                     .a_row = w->dl,
                                     .a_step = 1,
                                     .b = w->state,
                                     .b_row = w->columns,
                                     .c = w->out,
                                     .c_row = w->columns,
                                     .rows = rows,
                                     .columns = w->columns,
                                     .depth = w->width,
                                     .fresh = true};
    for (int64_t r = 0; r < rows; r++) {
        float *q = w->lin_q + r * w->dl;
        chunked_widen(w, &w->part->operands->lin_q, i + r, 0, w->width, q);
        for (int64_t c = 0; c < w->dl; c += VF_LANES)
            vf_store(q + c, vf_mul(by, vf_load(q + c)));
    }
    matrix_multiply(&x);
}

static void chunked_store(const struct chunked_work *w, int64_t i, int64_t rows)
{
    const struct attn_recurrent_part *part = w->part;
    const struct attn_tensor *out = &part->operands->out, *gate = &part->operands->gate;
    for (int64_t r = 0; r < rows; r++) {
        float *from = w->out + r * w->columns;
        const float *by = w->row;
        if (gate->dtype)
            by = chunked_floats(w, gate, i + r, part->first, part->count, w->row);
        for (int64_t c = 0; gate->dtype && c < part->count; c += VF_LANES)
            vf_store(from + c, vf_mul(vf_loadu(by + c), vf_load(from + c)));
        narrow(out, attn_row_start(out, part->b, part->h, i + r) + part->first * out->stride[3],
               out->stride[3], part->count, from, 1);
    }
}

/* Rows [i, i + rows) of the chunk that begins at `first` and of which `keys` keys take part. */
static void chunked_rows(const struct chunked_work *w, int64_t first, int64_t i, int64_t rows,
                         int64_t keys, bool state)
{
    const int64_t seen = w->causal ? attn_clamp(i + rows - first, 0, keys) : keys;
    if (state)
        chunked_read_state(w, i, rows);
    else if (seen == 0)
        memset(w->out, 0, (size_t)(rows * w->columns) * sizeof(float));
    for (int64_t r = 0; seen > 0 && r < rows; r++)
        chunked_widen(w, &w->part->operands->q, i + r, 0, w->part->problem->dk, w->q + r * w->dk);
    if (seen > 0) {
        chunked_weigh(w, i, rows, i - first, seen);
        chunked_join(w, rows, i - first, seen, !state);
    }
    chunked_store(w, i, rows);
}

static void run_chunked(const struct attn_recurrent_part *part)
{
    const struct attn_problem *p = part->problem;
    struct chunked_work w = chunked_work_of(part);
    for (int64_t first = 0; !w.causal && first < w.valid; first += p->chunk) {
        const int64_t end = attn_clamp(first + p->chunk, 0, w.valid);
        chunked_take_values(&w, first, end);
        chunked_collect(&w, end - first);
    }
    for (int64_t first = 0; first < p->sq; first += p->chunk) {
        const int64_t end = attn_clamp(first + p->chunk, 0, p->sq);
        const int64_t keys = attn_clamp(w.valid - first, 0, end - first);
        const bool state = w.valid > 0 && (!w.causal || first > 0);
        chunked_take_values(&w, first, first + keys);
        chunked_take_keys(&w, first, first + keys);
        for (int64_t i = first; i < end; i += ATTN_CHUNKED_ROWS)
            chunked_rows(&w, first, i, attn_clamp(end - i, 1, ATTN_CHUNKED_ROWS), keys, state);
        if (w.causal)
            chunked_collect(&w, keys);
    }
}
