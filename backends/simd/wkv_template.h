/* SPDX-License-Identifier: Apache-2.0 */
/* wkv_template.h - the kernel of wkv, after flash_template.h. Exponents lie in the log2 domain.
 *
 * Each step takes two exponentials and not four: of two weights relative to the larger exponent,
 * one is 1. Groups are as wide as a micro-kernel's rows, so that exponentials of several vectors
 * overlap. */
#include "recurrent.h"

/* The state of a group of channels, their decay and bonus. */
struct wkv_group {
    vf a[FLASH_NV], b[FLASH_NV], o[FLASH_NV], decay[FLASH_NV], bonus[FLASH_NV];
};

/* Elements [at, at + count) of a row; other lanes are 0 and are not read. */
FLASH_INLINE void take_channels(const uint32_t type, const struct attn_tensor *x, int64_t at,
                                int64_t step, int64_t count, vf to[FLASH_NV])
{
    _Alignas(64) float row[FLASH_NR] = {0};
    if (step == 1) {
#pragma GCC unroll 4
        for (int n = 0; n < FLASH_NV; n++) {
            const int64_t left = count - n * VF_LANES;
            to[n] = left >= VF_LANES ? load_as(type, x->data, at + n * VF_LANES)
                    : left > 0       ? load_first_as(type, x->data, at + n * VF_LANES, left)
                                     : vf_set1(0);
        }
        return;
    }
    for (int64_t c = 0; c < count; c++)
        row[c] = attn_element_read(type, x->data, at + c * step);
    for (int n = 0; n < FLASH_NV; n++)
        to[n] = vf_load(row + n * VF_LANES);
}

FLASH_INLINE void put_channels(const uint32_t type, const struct attn_tensor *x, int64_t at,
                               int64_t step, int64_t count, const vf from[FLASH_NV])
{
    _Alignas(64) float row[FLASH_NR];
    if (step == 1 && count == FLASH_NR) {
#pragma GCC unroll 4
        for (int n = 0; n < FLASH_NV; n++)
            store_as(type, x->data, at + n * VF_LANES, from[n]);
        return;
    }
    for (int n = 0; n < FLASH_NV; n++)
        vf_store(row + n * VF_LANES, from[n]);
    for (int64_t c = 0; c < count; c++)
        attn_element_write(type, x->data, at + c * step, row[c]);
}

/* The larger of two exponents, and 2^(both - it). A key of +inf makes a weight NaN. */
FLASH_INLINE vf weigh_two(vf old, vf key, vf *of_old, vf *of_key)
{
    const vf one = vf_set1(1), top = vf_max(old, key);
    vf less = exp2_negative(vf_sub(vf_min(old, key), top));
    less = vf_fma(vf_max(key, vf_set1(0)), vf_set1(0), less);
    *of_old = vf_select_equal(old, top, one, less);
    *of_key = vf_select_equal(key, top, one, less);
    return top;
}

/* Out of one step for one vector, and the state after it. */
FLASH_INLINE vf step_of(struct wkv_group *g, const int n, vf k, vf v)
{
    vf old, own;
    weigh_two(g->o[n], vf_add(g->bonus[n], k), &old, &own);
    const vf out = vf_div(vf_fma(old, g->a[n], vf_mul(own, v)), vf_fma(old, g->b[n], own));
    g->o[n] = weigh_two(vf_sub(g->o[n], g->decay[n]), k, &old, &own);
    g->a[n] = vf_fma(old, g->a[n], vf_mul(own, v));
    g->b[n] = vf_fma(old, g->b[n], own);
    return out;
}

FLASH_INLINE void run_steps(const uint32_t type, const struct attn_recurrent_part *part,
                            const int64_t step, const int64_t count, struct wkv_group *group)
{
    const struct attn_operands *o = part->operands;
    const int64_t k_step = step ? step : o->k.stride[3], v_step = step ? step : o->v.stride[3];
    const int64_t out_step = step ? step : o->out.stride[3];
    const int64_t k_at = attn_row_start(&o->k, part->b, 0, 0) + part->first * k_step;
    const int64_t v_at = attn_row_start(&o->v, part->b, 0, 0) + part->first * v_step;
    const int64_t out_at = attn_row_start(&o->out, part->b, 0, 0) + part->first * out_step;
    const vf log2_e = vf_set1(LOG2_E);
    struct wkv_group g = *group;
    for (int64_t t = 0; t < part->problem->sq; t++) {
        vf k[FLASH_NV], v[FLASH_NV], out[FLASH_NV];
        take_channels(type, &o->k, k_at + t * o->k.stride[2], k_step, count, k);
        take_channels(type, &o->v, v_at + t * o->v.stride[2], v_step, count, v);
#pragma GCC unroll 4
        for (int n = 0; n < FLASH_NV; n++)
            out[n] = step_of(&g, n, vf_mul(k[n], log2_e), v[n]);
        put_channels(type, &o->out, out_at + t * o->out.stride[2], out_step, count, out);
    }
    *group = g;
}

/* Whole groups of channels that lie side by side have a loop of their own. */
FLASH_INLINE void run_typed(const uint32_t type, const struct attn_recurrent_part *part,
                            struct wkv_group *group)
{
    const struct attn_operands *o = part->operands;
    if (part->count == FLASH_NR && o->k.stride[3] == 1 && o->v.stride[3] == 1 &&
        o->out.stride[3] == 1)
        run_steps(type, part, 1, FLASH_NR, group);
    else
        run_steps(type, part, 0, part->count, group);
}

/* Number n of the state of each channel, times `by`. */
static void take_state(const struct attn_recurrent_part *part, int n, float by, vf to[FLASH_NV])
{
    const struct attn_tensor *x = &part->operands->state_in;
    const int64_t at = part->b * x->stride[0] + part->first * x->stride[1] + n * x->stride[2];
    take_channels(ATTN_F32, x, at, x->stride[1], part->count, to);
    for (int v = 0; v < FLASH_NV; v++)
        to[v] = vf_mul(to[v], vf_set1(by));
}

static void put_state(const struct attn_recurrent_part *part, int n, float by, vf from[FLASH_NV])
{
    const struct attn_tensor *x = &part->operands->state_out;
    const int64_t at = part->b * x->stride[0] + part->first * x->stride[1] + n * x->stride[2];
    for (int v = 0; v < FLASH_NV; v++)
        from[v] = vf_mul(from[v], vf_set1(by));
    put_channels(ATTN_F32, x, at, x->stride[1], part->count, from);
}

static void run_wkv(const struct attn_recurrent_part *part)
{
    const struct attn_operands *o = part->operands;
    const int64_t of_decay = o->decay.stride[0], of_bonus = o->bonus.stride[0];
    struct wkv_group group;
    take_channels(ATTN_F32, &o->decay, part->first * of_decay, of_decay, part->count, group.decay);
    take_channels(ATTN_F32, &o->bonus, part->first * of_bonus, of_bonus, part->count, group.bonus);
    for (int n = 0; n < FLASH_NV; n++) {
        group.decay[n] = vf_mul(group.decay[n], vf_set1(LOG2_E));
        group.bonus[n] = vf_mul(group.bonus[n], vf_set1(LOG2_E));
        group.a[n] = group.b[n] = vf_set1(0);
        group.o[n] = vf_set1(-1e38f);
    }
    if (o->state_in.dtype) {
        take_state(part, 0, 1, group.a);
        take_state(part, 1, 1, group.b);
        take_state(part, 2, LOG2_E, group.o);
    }
    if (o->k.dtype == ATTN_F32)
        run_typed(ATTN_F32, part, &group);
    else if (o->k.dtype == ATTN_F16)
        run_typed(ATTN_F16, part, &group);
    else
        run_typed(ATTN_BF16, part, &group);
    if (o->state_out.dtype) {
        put_state(part, 0, 1, group.a);
        put_state(part, 1, 1, group.b);
        put_state(part, 2, 1 / LOG2_E, group.o);
    }
}
