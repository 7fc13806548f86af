/* SPDX-License-Identifier: Apache-2.0 */
/* decay_template.h - the kernel of linear_decay, after flash_template.h and matrix_tile.h. A block
 * of steps is products of matrices, or, where those might lose more than the recurrence, one step
 * after another. */
#include "recurrent.h"

/* The scratch of a part, by name. Rows of q, k and decay are `rows` apart, those of the state, of v
 * and of out `columns`. What lies beyond dk in their last vector is 0. */
struct decay_room {
    int64_t rows, columns;
    int64_t width; /* dk in whole vectors */
    float *state, *q, *k, *decay, *v, *out, *bonus;
    float *faded, *weights; /* decay_blocks.h */
};

/* Steps that pass the state together, one after another. */
enum { DECAY_TOGETHER = 4 };

static struct decay_room decay_room_of(const struct attn_recurrent_part *part)
{
    const struct attn_decay_sizes s = attn_decay_sizes_of(part->problem);
    const int64_t dk = part->problem->dk;
    struct decay_room r = {.rows = s.rows, .columns = s.row, .state = part->scratch};
    r.width = attn_round_up(dk, VF_LANES);
    r.q = r.state + dk * s.row;
    r.k = r.q + ATTN_DECAY_STEPS * s.rows;
    r.decay = r.k + ATTN_DECAY_STEPS * s.rows;
    r.v = r.decay + ATTN_DECAY_STEPS * s.rows;
    r.out = r.v + ATTN_DECAY_STEPS * s.row;
    r.bonus = r.out + ATTN_DECAY_STEPS * s.row;
    r.faded = r.bonus + s.rows;
    r.weights = r.faded + s.rows;
    return r;
}

#include "decay_blocks.h"

/* The same with step n as its first. */
static struct decay_room decay_step(const struct decay_room *room, int64_t n)
{
    struct decay_room r = *room;
    r.q += n * r.rows;
    r.k += n * r.rows;
    r.decay += n * r.rows;
    r.v += n * r.columns;
    r.out += n * r.columns;
    return r;
}

/* Row t of an operand of the part's head, columns from `first` on. */
static void widen_row(const struct attn_recurrent_part *part, const struct attn_tensor *x,
                      int64_t t, int64_t first, int64_t count, float *to)
{
    const int64_t at = attn_row_start(x, part->b, part->h, t) + first * x->stride[3];
    widen(x, at, x->stride[3], count, to);
}

/* size + the squares of `count` floats, in lanes. NaN and infinities stay. */
static vf add_squares(const float *x, int64_t count, vf size)
{
    for (int64_t c = 0; c < count; c += VF_LANES)
        size = vf_fma(vf_load(x + c), vf_load(x + c), size);
    return size;
}

/* Steps [t, t + steps): operands as floats, and decays. Returns the sum of the squares of q, k and
 * v. */
static float take_steps(const struct attn_recurrent_part *part, const struct decay_room *room,
                        int64_t t, int64_t steps)
{
    const struct attn_operands *o = part->operands;
    const int64_t dk = part->problem->dk;
    vf size = vf_set1(0);
    for (int64_t n = 0; n < steps; n++) {
        const struct decay_room r = decay_step(room, n);
        widen_row(part, &o->q, t + n, 0, dk, r.q);
        widen_row(part, &o->k, t + n, 0, dk, r.k);
        widen_row(part, &o->decay, t + n, 0, dk, r.decay);
        widen_row(part, &o->v, t + n, part->first, part->count, r.v);
        size = add_squares(r.q, dk, add_squares(r.k, dk, add_squares(r.v, part->count, size)));
        for (int64_t c = 0; c < r.width; c += VF_LANES)
            vf_store(r.decay + c, exp2_negative(vf_mul(vf_load(r.decay + c), vf_set1(LOG2_E))));
    }
    return vf_sum(size);
}

/* out = what the first step gives itself. */
static void take_own(const struct decay_room *r, int64_t count)
{
    vf own = vf_set1(0);
    for (int64_t c = 0; c < r->width; c += VF_LANES) {
        const vf both = vf_mul(vf_load(r->q + c), vf_load(r->k + c));
        own = vf_fma(both, vf_load(r->bonus + c), own);
    }
    const vf sum = vf_set1(vf_sum(own));
    for (int64_t c = 0; c < count; c += VF_LANES)
        vf_store(r->out + c, vf_mul(sum, vf_load(r->v + c)));
}

/* What `steps` steps read of the state, for one vector of columns, and the state after them. */
FLASH_INLINE void pass_steps(const int steps, const int inclusive, const struct decay_room *r,
                             int64_t dk, int64_t column)
{
    vf out[DECAY_TOGETHER], v[DECAY_TOGETHER];
#pragma GCC unroll 4
    for (int n = 0; n < steps; n++) {
        out[n] = vf_load(r->out + n * r->columns + column);
        v[n] = vf_load(r->v + n * r->columns + column);
    }
    for (int64_t c = 0; c < dk; c++) {
        float *row = r->state + c * r->columns + column;
        vf s = vf_load(row);
#pragma GCC unroll 4
        for (int n = 0; n < steps; n++) {
            const int64_t at = n * r->rows + c;
            const vf faded = vf_mul(s, vf_set1(r->decay[at]));
            out[n] = vf_fma(vf_set1(r->q[at]), inclusive ? faded : s, out[n]);
            s = vf_fma(vf_set1(r->k[at]), v[n], faded);
        }
        vf_store(row, s);
    }
#pragma GCC unroll 4
    for (int n = 0; n < steps; n++)
        vf_store(r->out + n * r->columns + column, out[n]);
}

/* `steps` steps one after another, and the state after them. */
FLASH_INLINE void walk_steps(const int inclusive, const struct decay_room *room, int64_t dk,
                             int64_t count, int64_t steps)
{
    for (int64_t n = 0; n < steps; n++) {
        const struct decay_room r = decay_step(room, n);
        take_own(&r, count);
    }
    for (int64_t n = 0, together; n < steps; n += together) {
        const struct decay_room r = decay_step(room, n);
        together = steps - n < DECAY_TOGETHER ? 1 : DECAY_TOGETHER;
        for (int64_t column = 0; column < count; column += VF_LANES)
            if (together == 1)
                pass_steps(1, inclusive, &r, dk, column);
            else
                pass_steps(DECAY_TOGETHER, inclusive, &r, dk, column);
    }
}

FLASH_INLINE void run_decay_as(const int inclusive, const struct attn_recurrent_part *part,
                               const struct decay_room *r, bool small)
{
    const struct attn_problem *p = part->problem;
    const struct attn_tensor *out = &part->operands->out;
    for (int64_t t = 0; t < p->sq; t += ATTN_DECAY_STEPS) {
        const int64_t steps = attn_clamp(p->sq - t, 1, ATTN_DECAY_STEPS);
        small = take_steps(part, r, t, steps) <= DECAY_MOST && small;
        if (small && steps == ATTN_DECAY_STEPS)
            multiply_steps(inclusive, r, p->dk, part->count);
        else
            walk_steps(inclusive, r, p->dk, part->count, steps);
        for (int64_t n = 0; n < steps; n++)
            narrow(out, attn_row_start(out, part->b, part->h, t + n) + part->first * out->stride[3],
                   out->stride[3], part->count, r->out + n * r->columns, (float)p->scale);
    }
}

static void run_decay(const struct attn_recurrent_part *part)
{
    const struct attn_operands *o = part->operands;
    const struct attn_problem *p = part->problem;
    const struct decay_room r = decay_room_of(part);
    vf size = vf_set1(0);
    for (int64_t c = 0; c < p->dk; c++)
        r.bonus[c] = 1;
    if (o->bonus.dtype)
        widen(&o->bonus, part->h * o->bonus.stride[0], o->bonus.stride[1], p->dk, r.bonus);
    for (int64_t c = 0; o->state_in.dtype && c < p->dk; c++) {
        float *row = r.state + c * r.columns;
        widen_row(part, &o->state_in, c, part->first, part->count, row);
        size = add_squares(row, part->count, size);
    }
    const bool small = vf_sum(size) <= DECAY_MOST_STATE;
    if (p->variant == ATTN_DECAY_INCLUSIVE)
        run_decay_as(1, part, &r, small);
    else
        run_decay_as(0, part, &r, small);
    const struct attn_tensor *after = &o->state_out;
    for (int64_t c = 0; after->dtype && c < p->dk; c++)
        narrow(after, attn_row_start(after, part->b, part->h, c) + part->first * after->stride[3],
               after->stride[3], part->count, r.state + c * r.columns, 1);
}
