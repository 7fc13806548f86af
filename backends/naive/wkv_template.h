/* SPDX-License-Identifier: Apache-2.0 */
/* wkv_template.h - wkv as its recurrence: a state of three numbers for each channel, one step after
 * the other. Include it after rows_template.h. */

/* Workspace; every array has an entry for each channel. */
struct NAME(wkv) {
    REAL *k, *v, *out;
    REAL *decay, *bonus;
    REAL *a, *b, *o; /* numerator and denominator, both without the factor exp(o) */
};

static size_t lay_out_wkv(const struct attn_problem *p, char *base, struct NAME(wkv) * w)
{
    REAL **const arrays[] = {&w->k, &w->v, &w->out, &w->decay, &w->bonus, &w->a, &w->b, &w->o};
    size_t used = 0;
    for (size_t n = 0; n < sizeof(arrays) / sizeof(arrays[0]); n++)
        *arrays[n] = take(base, &used, p->dv, 1, sizeof(REAL));
    return used;
}

/* The state before the first step. Without one, a finite exponent far below every key. */
static void begin_wkv(const struct attn_problem *p, const struct attn_tensor *state, int64_t batch,
                      const struct NAME(wkv) * w)
{
    REAL *const parts[] = {w->a, w->b, w->o};
    for (int64_t c = 0; c < p->dv; c++) {
        w->a[c] = w->b[c] = 0;
        w->o[c] = (REAL)-1e38;
    }
    for (int n = 0; state->dtype && n < 3; n++)
        load(parts[n], state, batch * state->stride[0] + n * state->stride[2], state->stride[1],
             p->dv);
}

static void end_wkv(const struct attn_problem *p, const struct attn_tensor *state, int64_t batch,
                    const struct NAME(wkv) * w)
{
    const REAL *const parts[] = {w->a, w->b, w->o};
    for (int n = 0; state->dtype && n < 3; n++)
        store(state, batch * state->stride[0] + n * state->stride[2], state->stride[1], p->dv,
              parts[n]);
}

/* Out of one step, and the state after it. The larger of two exponents is taken out, so that no exp
 * is above 1. */
static void step_wkv(const struct attn_problem *p, const REAL *k, const REAL *v,
                     const struct NAME(wkv) * w)
{
    for (int64_t c = 0; c < p->dv; c++) {
        const REAL own = w->bonus[c] + k[c], top = own > w->o[c] ? own : w->o[c];
        const REAL before = EXP(w->o[c] - top), now = EXP(own - top);
        w->out[c] = (before * w->a[c] + now * v[c]) / (before * w->b[c] + now);
    }
    for (int64_t c = 0; c < p->dv; c++) {
        const REAL faded = w->o[c] - w->decay[c], top = k[c] > faded ? k[c] : faded;
        const REAL before = EXP(faded - top), now = EXP(k[c] - top);
        w->a[c] = before * w->a[c] + now * v[c];
        w->b[c] = before * w->b[c] + now;
        w->o[c] = top;
    }
}

static void run_wkv(const struct attn_problem *p, const struct attn_operands *o,
                    const struct NAME(wkv) * w)
{
    const struct attn_tensor *out = &o->out;
    load(w->decay, &o->decay, 0, o->decay.stride[0], p->dv);
    load(w->bonus, &o->bonus, 0, o->bonus.stride[0], p->dv);
    for (int64_t b = 0; b < p->b; b++) {
        begin_wkv(p, &o->state_in, b, w);
        for (int64_t t = 0; t < p->sq; t++) {
            const REAL *k = row(&o->k, attn_row_start(&o->k, b, 0, t), o->k.stride[3], p->dk, w->k);
            const REAL *v = row(&o->v, attn_row_start(&o->v, b, 0, t), o->v.stride[3], p->dv, w->v);
            step_wkv(p, k, v, w);
            store(out, attn_row_start(out, b, 0, t), out->stride[3], p->dv, w->out);
        }
        end_wkv(p, &o->state_out, b, w);
    }
}
