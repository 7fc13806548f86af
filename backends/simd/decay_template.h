/* SPDX-License-Identifier: Apache-2.0 */
/* decay_template.h - the kernel of linear_decay, after flash_template.h. */
#include "recurrent.h"

/* The scratch of a part, by name. Rows of q, k and decay are `rows` apart. */
struct decay_room {
    int64_t rows;
    float *state, *q, *k, *decay, *v, *out, *bonus;
};

static struct decay_room decay_room_of(const struct attn_recurrent_part *part)
{
    const int64_t rows = attn_round_up(part->problem->dk, 16);
    struct decay_room r = {.rows = rows, .state = part->scratch};
    r.q = r.state + rows * ATTN_DECAY_COLUMNS;
    r.k = r.q + ATTN_DECAY_STEPS * rows;
    r.decay = r.k + ATTN_DECAY_STEPS * rows;
    r.v = r.decay + ATTN_DECAY_STEPS * rows;
    r.out = r.v + ATTN_DECAY_STEPS * ATTN_DECAY_COLUMNS;
    r.bonus = r.out + ATTN_DECAY_STEPS * ATTN_DECAY_COLUMNS;
    return r;
}

/* The same with step n as its first. */
static struct decay_room decay_step(const struct decay_room *room, int64_t n)
{
    struct decay_room r = *room;
    r.q += n * r.rows;
    r.k += n * r.rows;
    r.decay += n * r.rows;
    r.v += n * ATTN_DECAY_COLUMNS;
    r.out += n * ATTN_DECAY_COLUMNS;
    return r;
}

/* Row t of an operand of the part's head, columns from `first` on. */
static void widen_row(const struct attn_recurrent_part *part, const struct attn_tensor *x,
                      int64_t t, int64_t first, int64_t count, float *to)
{
    const int64_t at = attn_row_start(x, part->b, part->h, t) + first * x->stride[3];
    widen(x, at, x->stride[3], count, to);
}

/* Steps [t, t + steps): operands as floats, decays, and in out what the own step gives. */
static void take_steps(const struct attn_recurrent_part *part, const struct decay_room *r,
                       int64_t t, int64_t steps)
{
    const struct attn_operands *o = part->operands;
    const int64_t dk = part->problem->dk;
    for (int64_t n = 0; n < steps; n++) {
        float *q = r->q + n * r->rows, *k = r->k + n * r->rows, *decay = r->decay + n * r->rows;
        float *v = r->v + n * ATTN_DECAY_COLUMNS, *out = r->out + n * ATTN_DECAY_COLUMNS;
        vf own = vf_set1(0);
        widen_row(part, &o->q, t + n, 0, dk, q);
        widen_row(part, &o->k, t + n, 0, dk, k);
        widen_row(part, &o->decay, t + n, 0, dk, decay);
        widen_row(part, &o->v, t + n, part->first, part->count, v);
        for (int64_t c = 0; c < r->rows; c += VF_LANES) {
            const vf both = vf_mul(vf_load(q + c), vf_load(k + c));
            own = vf_fma(both, vf_load(r->bonus + c), own);
            vf_store(decay + c, exp2_negative(vf_mul(vf_load(decay + c), vf_set1(LOG2_E))));
        }
        const vf sum = vf_set1(vf_sum(own));
        for (int c = 0; c < ATTN_DECAY_COLUMNS; c += VF_LANES)
            vf_store(out + c, vf_mul(sum, vf_load(v + c)));
    }
}

/* What `steps` steps read of the state, for one vector of columns, and the state after them. */
FLASH_INLINE void pass_steps(const int steps, const int inclusive, const struct decay_room *r,
                             int64_t dk, int64_t column)
{
    vf out[ATTN_DECAY_STEPS], v[ATTN_DECAY_STEPS];
#pragma GCC unroll 4
    for (int n = 0; n < steps; n++) {
        out[n] = vf_load(r->out + n * ATTN_DECAY_COLUMNS + column);
        v[n] = vf_load(r->v + n * ATTN_DECAY_COLUMNS + column);
    }
    for (int64_t c = 0; c < dk; c++) {
        float *row = r->state + c * ATTN_DECAY_COLUMNS + column;
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
        vf_store(r->out + n * ATTN_DECAY_COLUMNS + column, out[n]);
}

FLASH_INLINE void run_decay_as(const int inclusive, const struct attn_recurrent_part *part,
                               const struct decay_room *r)
{
    const struct attn_problem *p = part->problem;
    const struct attn_tensor *out = &part->operands->out;
    for (int64_t t = 0; t < p->sq; t += ATTN_DECAY_STEPS) {
        const int64_t left = p->sq - t, steps = left < ATTN_DECAY_STEPS ? left : ATTN_DECAY_STEPS;
        take_steps(part, r, t, steps);
        for (int64_t column = 0; column < part->count; column += VF_LANES) {
            if (steps == ATTN_DECAY_STEPS)
                pass_steps(ATTN_DECAY_STEPS, inclusive, r, p->dk, column);
            for (int64_t n = 0; steps < ATTN_DECAY_STEPS && n < steps; n++) {
                const struct decay_room alone = decay_step(r, n);
                pass_steps(1, inclusive, &alone, p->dk, column);
            }
        }
        for (int64_t n = 0; n < steps; n++)
            narrow(out, attn_row_start(out, part->b, part->h, t + n) + part->first * out->stride[3],
                   out->stride[3], part->count, r->out + n * ATTN_DECAY_COLUMNS, (float)p->scale);
    }
}

static void run_decay(const struct attn_recurrent_part *part)
{
    const struct attn_operands *o = part->operands;
    const struct attn_problem *p = part->problem;
    const struct decay_room r = decay_room_of(part);
    for (int64_t c = 0; c < p->dk; c++)
        r.bonus[c] = 1;
    if (o->bonus.dtype)
        widen(&o->bonus, part->h * o->bonus.stride[0], o->bonus.stride[1], p->dk, r.bonus);
    for (int64_t c = 0; o->state_in.dtype && c < p->dk; c++)
        widen_row(part, &o->state_in, c, part->first, part->count,
                  r.state + c * ATTN_DECAY_COLUMNS);
    if (p->variant == ATTN_DECAY_INCLUSIVE)
        run_decay_as(1, part, &r);
    else
        run_decay_as(0, part, &r);
    const struct attn_tensor *after = &o->state_out;
    for (int64_t c = 0; after->dtype && c < p->dk; c++)
        narrow(after, attn_row_start(after, part->b, part->h, c) + part->first * after->stride[3],
               after->stride[3], part->count, r.state + c * ATTN_DECAY_COLUMNS, 1);
}
