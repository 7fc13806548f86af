/* SPDX-License-Identifier: Apache-2.0 */
/* chunked_template.h - the kernel of chunked, after flash_template.h. All of it is products of
 * matrices: scores of some rows with their chunk, weights with v, lin_q with the state, and lin_k^T
 * with v into the state. chunked_floats.h and chunked_pairs.h are two ways in which their operands
 * lie:
 *
 *   chunked_take_values   v and lin_k of some keys
 *   chunked_take_keys     k of some keys
 *   chunked_collect       keys that were taken enter the state
 *   chunked_end_state     no more of them do until it is read
 *   chunked_score         products of some rows of q with the keys
 *   chunked_join          weights with v
 *   chunked_read_state    lin_q of some rows with the state
 */
#include "chunked.h"
#include "recurrent.h"

struct chunked_work {
    const struct attn_recurrent_part *part;
    struct attn_chunked_room r;
    int64_t width, valid; /* columns of lin_q; keys that len leaves */
    bool causal;
    const float *v; /* of a chunk */
    int64_t v_row;
    bool finite;   /* with causal: v of the chunk is */
    int64_t first; /* its first key */
};

static struct chunked_work chunked_work_of(const struct attn_recurrent_part *part)
{
    const struct attn_problem *p = part->problem;
    struct chunked_work w = {.part = part,
                             .width = attn_problem_extent(p, 'l'),
                             .valid = attn_keys_valid(p, &part->operands->len, part->b, 0),
                             .causal = p->flags & ATTN_FLAG_CAUSAL};
    attn_chunked_lay_out(p, FLASH_STEP, part->scratch, &w.r);
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

#if FLASH_PAIRS
#include "chunked_pairs.h"
#else
#include "chunked_floats.h"
#endif

/* p = relu(scale q.k + bias)^2 for the first `keys` keys of the chunk. With causal, row r of these
 * sees `before` + r + 1 of them; later ones have 0, and so have those that fill FLASH_STEP. */
static void chunked_weigh(const struct chunked_work *w, int64_t i, int64_t rows, int64_t before,
                          int64_t keys)
{
    const struct attn_problem *p = w->part->problem;
    const struct attn_tensor *bias = &w->part->operands->bias;
    const float *more = w->r.row;
    chunked_score(w, i, rows, keys);
    memset(w->r.row, 0, (size_t)attn_round_up(keys, FLASH_NR) * sizeof(float));
    for (int64_t r = 0; r < rows; r++) {
        float *s = w->r.s + r * w->r.keys;
        const int64_t seen = w->causal ? attn_clamp(before + r + 1, 0, keys) : keys;
        if (bias->dtype)
            more = chunked_floats(w, bias, (i + r) % p->chunk, 0, keys, w->r.row);
        for (int64_t n = 0; n < seen; n += VF_LANES) {
            vf score = vf_fma(vf_load(s + n), vf_set1((float)p->scale), vf_loadu(more + n));
            score = vf_max(vf_set1(0), score); /* NaN stays */
            vf_store(s + n, vf_mul(score, score));
        }
        memset(s + seen, 0, (size_t)(attn_round_up(keys, 2 * VF_LANES) - seen) * sizeof *s);
    }
}

static void chunked_store(const struct chunked_work *w, int64_t i, int64_t rows)
{
    const struct attn_recurrent_part *part = w->part;
    const struct attn_tensor *out = &part->operands->out, *gate = &part->operands->gate;
    for (int64_t r = 0; r < rows; r++) {
        float *from = w->r.out + r * w->r.columns;
        const float *by = w->r.row;
        if (gate->dtype)
            by = chunked_floats(w, gate, i + r, part->first, part->count, w->r.row);
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
        memset(w->r.out, 0, (size_t)(rows * w->r.columns) * sizeof(float));
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
    chunked_end_state(&w);
    for (int64_t first = 0; first < p->sq; first += p->chunk) {
        const int64_t end = attn_clamp(first + p->chunk, 0, p->sq);
        const int64_t keys = attn_clamp(w.valid - first, 0, end - first);
        const bool state = w.valid > 0 && (!w.causal || first > 0);
        chunked_take_values(&w, first, first + keys);
        chunked_take_keys(&w, first, first + keys);
        for (int64_t i = first; i < end; i += w.r.rows)
            chunked_rows(&w, first, i, attn_clamp(end - i, 1, w.r.rows), keys, state);
        if (w.causal) {
            chunked_collect(&w, keys);
            chunked_end_state(&w);
        }
    }
}
