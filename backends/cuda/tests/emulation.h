/* SPDX-License-Identifier: Apache-2.0 */
/* emulation.h - the functions of device.h on the host, for tests. The threads of a block run one
 * after another, and each has its own stack. They switch at operations in which the hardware brings
 * lanes or warps together. Every access is checked:
 *
 *   shared memory   It is inside what the launch asked for, aligned, and written before it is
 *                   read. No copy of cp.async is pending in it, then or at the end. It is a race if
 *                   two threads touch a word without a barrier between them and one of them writes,
 *                   whatever their order.
 *   global memory   It is inside an allocation of the emulated device. Other threads touch what a
 *                   thread has written only after a barrier or a meeting of their warp. Other
 * blocks do not touch it. lanes           All 32 take part in each operation of a warp, and in the
 * same one.
 *
 * A violation ends the launch with one sentence. The emulation does not model time, caches, or the
 * order of memory between blocks. */
#ifndef ATTN_CUDA_EMULATION_H
#define ATTN_CUDA_EMULATION_H

#include <stddef.h>
#include <string.h>

#define DEVICE inline
#define DEVICE_CALL
#define PLANTED(name) (emulated_plant == plant_##name)

/* The bugs that can be planted in the kernels. From `hopper` on, which is none, devices have
 * capability 9.0. */
#define EMULATED_PLANTS(X)                                                                         \
    X(none)                                                                                        \
    X(lane)                                                                                        \
    X(barrier)                                                                                     \
    X(copy_wait)                                                                                   \
    X(past_keys)                                                                                   \
    X(past_width)                                                                                  \
    X(rescale)                                                                                     \
    X(diagonal)                                                                                    \
    X(repair)                                                                                      \
    X(edge)                                                                                        \
    X(transposed)                                                                                  \
    X(unfilled)                                                                                    \
    X(past_depth)                                                                                  \
    X(meeting)                                                                                     \
    X(old_driver)                                                                                  \
    X(delta)                                                                                       \
    X(heads)                                                                                       \
    X(forbidden)                                                                                   \
    X(hopper)                                                                                      \
    X(hopper_full)                                                                                 \
    X(hopper_free)                                                                                 \
    X(hopper_wait)                                                                                 \
    X(hopper_settle)                                                                               \
    X(hopper_part)                                                                                 \
    X(hopper_parity)                                                                               \
    X(hopper_repair)
#define EMULATED_PLANT_ENUM(name) plant_##name,
enum emulated_plant_name { EMULATED_PLANTS(EMULATED_PLANT_ENUM) PLANTS };
#undef EMULATED_PLANT_ENUM
extern int emulated_plant;

enum warp_operation {
    WARP_EXIT,
    WARP_BARRIER,
    WARP_MEETING,
    WARP_BALLOT,
    WARP_SHUFFLE,
    WARP_SHUFFLE_XOR,
    WARP_MATRICES,
    WARP_MATRICES_TRANSPOSED,
    WARP_MULTIPLY_F16,
    WARP_MULTIPLY_BF16,
    /* of hopper.cpp */
    WARP_ANNOUNCE,
    WARP_PRODUCT,
    WARP_COMMIT,
    WARP_PRODUCTS_WAIT
};

/* The operands and results of a lane in an operation of its warp. */
struct lane_operands {
    uint32_t in[6]; /* bits, an address, or the fragments of a (4) and b (2) */
    uint32_t out[4];
    float sum[4]; /* the accumulator, in and out */
    int lane;     /* of a shuffle */
    const void *product;
};
void emulated_collective(enum warp_operation operation, lane_operands &operands);

struct emulated_thread {
    int thread, block_x, block_z;
};
extern emulated_thread emulated_current;

void emulated_check_global(const void *from, size_t bytes, bool writes);
void emulated_shared_read(uint32_t at, void *to, size_t bytes);
void emulated_shared_write(uint32_t at, const void *from, size_t bytes);
void emulated_copy(uint32_t to, const void *from, bool wanted);
void emulated_copy_commit();
void emulated_copy_wait(int pending);

float emulated_f16_value(uint16_t bits);
uint16_t emulated_f16_bits(float value);
uint16_t emulated_bf16_bits(float value);

inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}
inline float value_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

inline int thread_index()
{
    return emulated_current.thread;
}
inline int block_x()
{
    return emulated_current.block_x;
}
inline int block_z()
{
    return emulated_current.block_z;
}
inline void barrier()
{
    lane_operands o = {};
    emulated_collective(WARP_BARRIER, o);
}
inline void warp_barrier()
{
    lane_operands o = {};
    emulated_collective(WARP_MEETING, o);
}
inline uint32_t lanes_where(bool predicate)
{
    lane_operands o = {};
    o.in[0] = predicate;
    emulated_collective(WARP_BALLOT, o);
    return o.out[0];
}
inline int lowest_bit(uint32_t bits)
{
    return __builtin_ctz(bits);
}
inline float shuffle(float value, int lane)
{
    lane_operands o = {};
    o.in[0] = bits_of(value);
    o.lane = lane;
    emulated_collective(WARP_SHUFFLE, o);
    return value_of(o.out[0]);
}
inline float shuffle_xor(float value, int mask)
{
    lane_operands o = {};
    o.in[0] = bits_of(value);
    o.lane = mask;
    emulated_collective(WARP_SHUFFLE_XOR, o);
    return value_of(o.out[0]);
}
template <class T> inline T load(const T *from)
{
    emulated_check_global(from, sizeof(T), false);
    return *from;
}
template <class T> inline void store(T *to, T value)
{
    emulated_check_global(to, sizeof(T), true);
    *to = value;
}
inline chunk load_shared(uint32_t at)
{
    chunk c;
    emulated_shared_read(at, &c, sizeof(c));
    return c;
}
inline void store_shared(uint32_t at, chunk c)
{
    emulated_shared_write(at, &c, sizeof(c));
}
inline void copy_async(uint32_t to, const void *from, bool wanted)
{
    emulated_copy(to, from, wanted);
}
inline void copy_commit()
{
    emulated_copy_commit();
}
template <int pending> inline void copy_wait()
{
    emulated_copy_wait(pending);
}
inline void load_matrices(uint32_t (&r)[4], uint32_t row)
{
    lane_operands o = {};
    o.in[0] = row;
    emulated_collective(WARP_MATRICES, o);
    memcpy(r, o.out, sizeof(r));
}
inline void load_matrices_transposed(uint32_t (&r)[4], uint32_t row)
{
    lane_operands o = {};
    o.in[0] = row;
    emulated_collective(WARP_MATRICES_TRANSPOSED, o);
    memcpy(r, o.out, sizeof(r));
}
inline void emulated_multiply(enum warp_operation operation, float (&c)[4], const uint32_t (&a)[4],
                              uint32_t b0, uint32_t b1)
{
    lane_operands o = {{a[0], a[1], a[2], a[3], b0, b1}, {}, {c[0], c[1], c[2], c[3]}, 0, NULL};
    emulated_collective(operation, o);
    memcpy(c, o.sum, sizeof(c));
}
inline void multiply_add(f16, float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    emulated_multiply(WARP_MULTIPLY_F16, c, a, b0, b1);
}
inline void multiply_add(bf16, float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    emulated_multiply(WARP_MULTIPLY_BF16, c, a, b0, b1);
}
inline float to_float(float value)
{
    return value;
}
inline float to_float(f16 value)
{
    return emulated_f16_value(value.bits);
}
inline float to_float(bf16 value)
{
    return value_of((uint32_t)value.bits << 16);
}
inline uint32_t pack(f16, float first, float second)
{
    return emulated_f16_bits(first) | (uint32_t)emulated_f16_bits(second) << 16;
}
inline uint32_t pack(bf16, float first, float second)
{
    return emulated_bf16_bits(first) | (uint32_t)emulated_bf16_bits(second) << 16;
}
float exp2_fast(float x);

/* ---- for the launch ---- */

typedef void emulated_kernel(const void *args);

/* Runs every block, with warps in random order. Returns NULL, or a sentence that says what is
 * wrong.
 */
const char *emulated_launch(emulated_kernel *kernel, const void *args, int blocks_x, int blocks_z,
                            int threads, uint32_t shared_bytes);

/* Memory of the emulated device. */
void *emulated_alloc(size_t bytes);
bool emulated_free(void *memory);
size_t emulated_size(void *memory); /* 0: not allocated */
/* True if these bytes lie in one allocation. */
bool emulated_holds(const void *from, size_t bytes);

#endif
