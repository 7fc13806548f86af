/* SPDX-License-Identifier: Apache-2.0 */
/* wkv.c - wkv step by step, in blocks of steps. */
#include <math.h>

#include "op_mutant.h"

enum { BLOCK = 16 }; /* steps, as far as bugs of blocks go */

struct state {
    float a, b, o;
};

static float faded(float o, float decay)
{
    return bug(wkv_decay_is_log) ? o - expf(decay) : o - decay;
}

/* How far an exponent is above what is taken out. */
static float weight(float exponent, float top)
{
    return bug(wkv_no_maximum) ? expf(exponent) : expf(exponent - top);
}

static struct state updated(struct state s, float decay, float k, float v)
{
    const float before = faded(s.o, decay), top = fmaxf(before, k);
    const float old = weight(before, bug(wkv_no_maximum) ? 0 : top), now = weight(k, top);
    if (bug(wkv_no_maximum)) /* a and b are the sums themselves */
        return (struct state){expf(-decay) * s.a + now * v, expf(-decay) * s.b + now, 0};
    s = (struct state){old * s.a + now * v, old * s.b + now, top};
    if (bug(wkv_state_bf16))
        s = (struct state){op_mutant_bf16(s.a), op_mutant_bf16(s.b), s.o};
    return s;
}

static float output(struct state s, float own, float v)
{
    const float top = fmaxf(s.o, own), now = weight(own, top);
    const float old = bug(wkv_no_maximum) ? 1 : expf(s.o - top);
    return (old * s.a + now * v) / (old * s.b + (bug(wkv_own_uncounted) ? 0 : now));
}

static struct state begin(const struct attn_tensor *t, int64_t b, int64_t c, float decay)
{
    const int64_t at = b * t->stride[0] + c * t->stride[1];
    struct state s = {0, 0, bug(wkv_starts_at_zero) ? 0 : -1e38f};
    if (t->dtype && !bug(wkv_state_in_ignored))
        s = (struct state){op_mutant_get(t, at), op_mutant_get(t, at + t->stride[2]),
                           op_mutant_get(t, at + 2 * t->stride[2])};
    if (t->dtype && bug(wkv_state_in_decays))
        s.o -= decay;
    if (bug(wkv_no_maximum))
        s = (struct state){expf(s.o) * s.a, expf(s.o) * s.b, 0};
    return s;
}

static void hand_on(const struct attn_tensor *t, int64_t b, int64_t c, struct state s)
{
    const int64_t at = b * t->stride[0] + c * t->stride[1];
    if (!t->dtype)
        return;
    op_mutant_put(t, at, s.a);
    op_mutant_put(t, at + t->stride[2], s.b);
    op_mutant_put(t, at + 2 * t->stride[2], s.o);
}

static void channel(const struct attn_problem *p, const struct attn_operands *o, int64_t b,
                    int64_t c, float *kept)
{
    const int64_t of_decay = bug(wkv_channel_32) ? c % 32 : c;
    const float decay = op_mutant_get(&o->decay, of_decay * o->decay.stride[0]);
    const float bonus = op_mutant_get(&o->bonus, c * o->bonus.stride[0]);
    const int64_t steps = bug(wkv_tail_lost) ? p->sq - p->sq % BLOCK : p->sq;
    struct state s = begin(&o->state_in, b, c, decay), early;
    if (bug(wkv_state_kept) && b > 0)
        s = (struct state){kept[0], kept[1], kept[2]};
    early = s;
    for (int64_t t = 0; t < steps; t++) {
        const int64_t at = attn_row_start(&o->k, b, 0, t) + c * o->k.stride[3];
        const float k = op_mutant_get(&o->k, at);
        const float v = op_mutant_get(&o->v, attn_row_start(&o->v, b, 0, t) + c * o->v.stride[3]);
        const float own = bug(wkv_bonus_missing) ? k : bonus + k;
        const struct state next = updated(s, decay, bug(wkv_bonus_in_state) ? own : k, v);
        struct state seen = bug(wkv_updated_first) ? next : s;
        if (bug(wkv_decay_late))
            seen.o = faded(s.o, decay);
        op_mutant_put(&o->out, attn_row_start(&o->out, b, 0, t) + c * o->out.stride[3],
                      output(seen, own, v));
        early = s;
        if (!(bug(wkv_block_end_lost) && t % BLOCK == BLOCK - 1))
            s = next;
    }
    kept[0] = s.a, kept[1] = s.b, kept[2] = s.o;
    hand_on(&o->state_out, b, c, bug(wkv_state_early) ? early : s);
}

static int64_t floats(const struct attn_problem *p)
{
    return 3 * p->dv;
}

static void run(const struct attn_problem *p, const struct attn_operands *o, float *memory)
{
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t c = 0; c < p->dv; c++)
            channel(p, o, b, c, memory + 3 * c);
}

const struct op_mutant op_mutant_wkv = {.op = ATTN_OP_WKV, .floats = floats, .run = run};
