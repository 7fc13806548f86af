/* SPDX-License-Identifier: Apache-2.0 */
/* flash_convert.h - part of flash_template.h: elements of f32, f16 and bf16 as vectors of floats,
 * and back. Inlined functions take `type` as a constant, so their loops hold no decision. The
 * others choose once per call. */

/* The address of element `at`. */
FLASH_INLINE const void *element_at(const uint32_t type, const void *data, int64_t at)
{
    return (const char *)data + at * attn_element_bytes(type);
}

/* A vector of elements, from index `at` on. */
FLASH_INLINE vf load_as(const uint32_t type, const void *data, int64_t at)
{
    if (type == ATTN_F32)
        return vf_loadu((const float *)data + at);
    const uint16_t *from = (const uint16_t *)data + at;
    return type == ATTN_F16 ? vf_load_f16(from, VF_LANES) : vf_load_bf16(from, VF_LANES);
}

/* The first `count` of them, at most all. Other lanes are 0 and are not read. */
FLASH_INLINE vf load_first_as(const uint32_t type, const void *data, int64_t at, int64_t count)
{
    if (type == ATTN_F32)
        return vf_load_first((const float *)data + at, count);
    const uint16_t *from = (const uint16_t *)data + at;
    return type == ATTN_F16 ? vf_load_f16(from, count) : vf_load_bf16(from, count);
}

FLASH_INLINE void store_as(const uint32_t type, void *data, int64_t at, vf x)
{
    if (type == ATTN_F32)
        vf_storeu((float *)data + at, x);
    else if (type == ATTN_F16)
        vf_store_f16((uint16_t *)data + at, x);
    else
        vf_store_bf16((uint16_t *)data + at, x);
}

FLASH_INLINE void widen_as(const uint32_t type, const void *data, int64_t at, int64_t step,
                           int64_t count, float *to)
{
    int64_t c = 0;
    for (; step == 1 && c + VF_LANES <= count; c += VF_LANES)
        vf_store(to + c, load_as(type, data, at + c));
    if (step == 1 && c < count)
        vf_store(to + c, load_first_as(type, data, at + c, count - c));
    for (; step != 1 && c < attn_round_up(count, VF_LANES); c++)
        to[c] = c < count ? attn_element_read(type, data, at + c * step) : 0.0f;
}

/* `count` elements, `step` apart, from index `at` on, and zeros up to a whole vector. `to` is
 * aligned to the vector. */
static inline void widen(const struct attn_tensor *x, int64_t at, int64_t step, int64_t count,
                         float *to)
{
    if (x->dtype == ATTN_F32)
        widen_as(ATTN_F32, x->data, at, step, count, to);
    else if (x->dtype == ATTN_F16)
        widen_as(ATTN_F16, x->data, at, step, count, to);
    else
        widen_as(ATTN_BF16, x->data, at, step, count, to);
}

FLASH_INLINE void hold_as(const uint32_t type, const void *data, int64_t stride, int64_t rows,
                          int64_t width, float *to)
{
    for (int64_t n = 0; n < rows; n++, to += attn_round_up(width, VF_LANES))
        widen_as(type, data, n * stride, 1, width, to);
}

/* Rows of 16-bit elements, `stride` apart. widen describes each row of the result. */
static inline void hold_rows(uint32_t dtype, const void *data, int64_t stride, int64_t rows,
                             int64_t width, float *to)
{
    if (dtype == ATTN_F16)
        hold_as(ATTN_F16, data, stride, rows, width, to);
    else
        hold_as(ATTN_BF16, data, stride, rows, width, to);
}

FLASH_INLINE void narrow_as(const uint32_t type, void *data, int64_t at, int64_t step,
                            int64_t count, const float *from, float by)
{
    int64_t c = 0;
    for (; step == 1 && c + VF_LANES <= count; c += VF_LANES)
        store_as(type, data, at + c, vf_mul(vf_set1(by), vf_loadu(from + c)));
    if (step == 1 && c < count && type != ATTN_F32) { /* one by one is dear for 16 bits */
        uint16_t rest[VF_LANES];
        store_as(type, rest, 0, vf_mul(vf_set1(by), vf_load_first(from + c, count - c)));
        memcpy((uint16_t *)data + at + c, rest, (size_t)(count - c) * sizeof *rest);
        return;
    }
    for (; c < count; c++)
        attn_element_write(type, data, at + c * step, from[c] * by);
}

/* Stores `count` floats times `by`, rounded once, `step` apart, from index `at` on. */
static void narrow(const struct attn_tensor *x, int64_t at, int64_t step, int64_t count,
                   const float *from, float by)
{
    if (x->dtype == ATTN_F32)
        narrow_as(ATTN_F32, x->data, at, step, count, from, by);
    else if (x->dtype == ATTN_F16)
        narrow_as(ATTN_F16, x->data, at, step, count, from, by);
    else
        narrow_as(ATTN_BF16, x->data, at, step, count, from, by);
}

/* An operand of one number per query head. */
static inline float of_head(const struct attn_tensor *x, int64_t h)
{
    return attn_element_read(x->dtype, x->data, h * x->stride[0]);
}
