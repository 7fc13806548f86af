/* SPDX-License-Identifier: Apache-2.0 */
/* warp.cpp - the common operations of a warp as the PTX manual defines them: fragments of
 * mma.m16n8k16 and ldmatrix, shuffles, votes. Also the arithmetic of one lane. */
#include <math.h>
#include <vector>

#include "launch.h"

int emulated_plant;
emulated_thread emulated_current;

namespace
{

constexpr int LANES = 32, M = 16, N = 8, K = 16;

float f16_value(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const float sign = bits >> 15 ? -1.0f : 1.0f;
    if (exponent == 31)
        return fraction ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexpf((float)(fraction + 1024), exponent - 25)
                            : ldexpf((float)fraction, -24));
}

float half_of(warp_operation operation, uint32_t pair, int high)
{
    const uint16_t bits = (uint16_t)(pair >> high * 16);
    return operation == WARP_MULTIPLY_F16 ? emulated_f16_value(bits)
                                          : value_of((uint32_t)bits << 16);
}

/* c[M x N] += a[M x K] b[K x N]. Lane l = 4g + t holds, of a, rows g and g+8 at columns 2t, 2t+1
 * and 2t+8, 2t+9; of b, column g at those rows; of c, rows g and g+8 at columns 2t, 2t+1. */
void multiply(warp_operation operation, lane_operands *const *lanes)
{
    double a[M][K], b[K][N];
    for (int l = 0; l < LANES; l++) {
        const int g = l / 4, t = l % 4;
        for (int r = 0; r < 4; r++)
            for (int e = 0; e < 2; e++)
                a[g + r % 2 * 8][2 * t + e + r / 2 * 8] = half_of(operation, lanes[l]->in[r], e);
        for (int r = 0; r < 2; r++)
            for (int e = 0; e < 2; e++)
                b[2 * t + e + r * 8][g] = half_of(operation, lanes[l]->in[4 + r], e);
    }
    for (int row = 0; row < M; row++) {
        double sum[N] = {};
        for (int k = 0; k < K; k++)
            for (int n = 0; n < N; n++)
                sum[n] += a[row][k] * b[k][n];
        for (int n = 0; n < N; n++) {
            float &c = lanes[row % 8 * 4 + n / 2]->sum[row / 8 * 2 + n % 2];
            c = emulated_cut((double)c + sum[n]);
        }
    }
}

/* Matrix m of four. Lane l gave its row l - 8m. Lane 4g + t receives elements 2t and 2t+1 of row g,
 * or of column g if transposed. */
void load_four(bool transposed, int base, lane_operands *const *lanes)
{
    for (int m = 0; m < 4; m++) {
        uint16_t matrix[8][8];
        for (int row = 0; row < 8; row++)
            emulated_shared_read_by(base + m * 8 + row, lanes[m * 8 + row]->in[0], matrix[row],
                                    sizeof(matrix[row]));
        for (int l = 0; l < LANES; l++) {
            const int g = l / 4, t = l % 4;
            const uint16_t low = transposed ? matrix[2 * t][g] : matrix[g][2 * t];
            const uint16_t high = transposed ? matrix[2 * t + 1][g] : matrix[g][2 * t + 1];
            lanes[l]->out[m] = low | (uint32_t)high << 16;
        }
    }
}

} /* namespace */

void emulated_operate(warp_operation operation, int base, lane_operands *const *lanes)
{
    uint32_t votes = 0;
    switch (operation) {
    case WARP_BALLOT:
        for (int l = 0; l < LANES; l++)
            votes |= lanes[l]->in[0] << l;
        for (int l = 0; l < LANES; l++)
            lanes[l]->out[0] = votes;
        break;
    case WARP_SHUFFLE:
        for (int l = 0; l < LANES; l++)
            lanes[l]->out[0] = lanes[lanes[l]->lane % LANES]->in[0];
        break;
    case WARP_SHUFFLE_XOR:
        for (int l = 0; l < LANES; l++)
            lanes[l]->out[0] = lanes[l ^ lanes[l]->lane]->in[0];
        break;
    case WARP_MATRICES:
    case WARP_MATRICES_TRANSPOSED:
        load_four(operation == WARP_MATRICES_TRANSPOSED, base, lanes);
        break;
    case WARP_MULTIPLY_F16:
    case WARP_MULTIPLY_BF16:
        multiply(operation, lanes);
        break;
    case WARP_MEETING:
        emulated_warp_met(base);
        break;
    case WARP_EXIT:
    case WARP_BARRIER:
        break;
    case WARP_ANNOUNCE:
    case WARP_PRODUCT:
    case WARP_COMMIT:
    case WARP_PRODUCTS_WAIT:
        emulated_hopper_operate(operation, base, lanes);
        break;
    }
}

float emulated_cut(double value)
{
    const float nearest = (float)value;
    return fabs((double)nearest) > fabs(value) && fabsf(nearest) < INFINITY
               ? nextafterf(nearest, 0.0f)
               : nearest;
}

float emulated_f16_value(uint16_t bits)
{
    static std::vector<float> table;
    if (table.empty())
        for (uint32_t b = 0; b < 65536; b++)
            table.push_back(f16_value((uint16_t)b));
    return table[bits];
}

uint16_t emulated_f16_bits(float value)
{
    const uint16_t sign = (uint16_t)(bits_of(value) >> 16 & 0x8000);
    const float size = fabsf(value);
    if (size != size)
        return 0x7fff; /* what cvt gives for NaN */
    if (size >= 65520.0f)
        return sign | 0x7c00;
    int exponent = -24; /* 0 counts as subnormal */
    if (size > 0)
        frexpf(size, &exponent);
    /* the unit in the last place, at least that of subnormals; rintf rounds to even */
    const int unit = exponent - 11 < -24 ? -24 : exponent - 11;
    const int steps = (int)rintf(ldexpf(size, -unit));
    return (uint16_t)(sign + ((unit + 24) << 10) + steps);
}

uint16_t emulated_bf16_bits(float value)
{
    const uint32_t bits = bits_of(value);
    if (value != value)
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* The hardware has an error of up to 2^-22, except at 0. Here the bits of x choose the error, so
 * that no result depends on an exact exponential. */
float exp2_fast(float x)
{
    const int error = (int)((bits_of(x) * 2654435761u >> 24) % 3) - 1;
    return x == 0 ? 1.0f : exp2f(x) * (1.0f + (float)error * 0x1p-23f);
}

const char *emulated_launch(emulated_kernel *kernel, const void *args, int blocks_x, int blocks_z,
                            int threads, uint32_t shared_bytes)
{
    emulated_launch_begin();
    for (int z = 0; z < blocks_z; z++)
        for (int x = 0; x < blocks_x; x++) {
            emulated_current = {0, x, z};
            emulated_shared_reset(shared_bytes, threads);
            const char *wrong = emulated_run_block(kernel, args, threads);
            wrong = wrong ? wrong : emulated_block_left();
            if (wrong)
                return wrong;
        }
    return NULL;
}
