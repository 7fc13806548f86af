/* SPDX-License-Identifier: Apache-2.0 */
/* emulation_hopper.h - the functions of device_hopper.h on the host, beside emulation.h. hopper.cpp
 * checks:
 *
 * - Products run when they are waited for, not before: accumulators are NaN until then, and
 * operands in registers are read then. The descriptor of an operand in shared memory is decoded as
 * the PTX manual defines it.
 *
 * - A product reads what a copy has brought only if its warp has seen the phase end that counts
 *   these bytes. A copy writes only where all reads are over, as far as the thread that issues it
 *   can know.
 *
 * - What never comes ends the launch. */
#ifndef ATTN_CUDA_EMULATION_HOPPER_H
#define ATTN_CUDA_EMULATION_HOPPER_H

/* A product of a lane. */
struct emulated_product {
    bool bf16, adds;
    float *c;
    int count;
    const uint32_t *a_registers; /* else a_shared */
    uint64_t a_shared, b;
};

/* What a driver is told of a tensor, in the words of a map. */
struct emulated_map {
    uint64_t data, extent[4], stride[4], rows, magic; /* innermost first; strides in bytes */
};
constexpr uint64_t EMULATED_MAP = 0x6d6170;

void phase_init(uint32_t at, int arrivals);
void phase_init_done();
void phase_arrive(uint32_t at);
void phase_expect(uint32_t at, uint32_t bytes);
void phase_wait(uint32_t at, uint32_t parity);
void meet(int number, int threads);
void announce(int number, int threads);
void copy_box(uint32_t to, const attn_cuda_map &map, int column, int row, int head, int batch,
              uint32_t phase);
void emulated_products_commit();
void emulated_products_wait(int pending);

/* A base that is aligned as little as the hardware promises. */
inline uint32_t shared_base()
{
    return 16;
}
template <int registers> inline void registers_down()
{
}
template <int registers> inline void registers_up()
{
}
inline void products_begin()
{
}
inline void products_commit()
{
    emulated_products_commit();
}
template <int pending> inline void products_wait()
{
    emulated_products_wait(pending);
}
template <class T, int count> inline void pin(T (&)[count])
{
}
inline void emulated_product_of(const emulated_product &product)
{
    lane_operands o = {};
    o.product = &product;
    emulated_collective(WARP_PRODUCT, o);
}
inline bool emulated_is_bf16(f16)
{
    return false;
}
inline bool emulated_is_bf16(bf16)
{
    return true;
}
template <class T, int count>
inline void multiply_shared(T, float (&c)[count], uint64_t a, uint64_t b, bool adds)
{
    emulated_product_of({emulated_is_bf16(T()), adds, c, count, NULL, a, b});
}
template <class T, int count>
inline void multiply_registers(T, float (&c)[count], const uint32_t *a, uint64_t b)
{
    emulated_product_of({emulated_is_bf16(T()), true, c, count, a, 0, b});
}
inline float exp2_flushed(float x)
{
    const float y = exp2_fast(x);
    return y < 0x1p-126f ? 0.0f : y;
}

#endif
