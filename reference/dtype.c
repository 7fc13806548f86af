/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.c - element types of the ABI: sizes, names, exact widening to double, rounding from it. */
#include "reference/dtype.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* An IEEE 754 binary interchange format, or a cut of one. */
struct format {
    int precision; /* bits of the significand, the hidden one included */
    int emin;      /* exponent of the least normal number, 2^emin */
    int emax;      /* exponent of the largest binade */
};

static const struct format f64_format = {53, -1022, 1023};
static const struct format f32_format = {24, -126, 127};
static const struct format f16_format = {11, -14, 15};
static const struct format bf16_format = {8, -126, 127};

static const struct format *format_of(uint32_t dtype)
{
    switch (dtype) {
    case ATTN_F64:
        return &f64_format;
    case ATTN_F32:
        return &f32_format;
    case ATTN_F16:
        return &f16_format;
    case ATTN_BF16:
        return &bf16_format;
    default:
        assert(0 && "a floating type");
        return &f64_format;
    }
}

size_t attn_dtype_size(uint32_t dtype)
{
    switch (dtype) {
    case ATTN_F64:
    case ATTN_I64:
        return 8;
    case ATTN_F32:
    case ATTN_I32:
        return 4;
    case ATTN_F16:
    case ATTN_BF16:
        return 2;
    case ATTN_BOOL:
        return 1;
    default:
        return 0;
    }
}

const char *attn_dtype_name(uint32_t dtype)
{
    switch (dtype) {
    case ATTN_F64:
        return "f64";
    case ATTN_F32:
        return "f32";
    case ATTN_F16:
        return "f16";
    case ATTN_BF16:
        return "bf16";
    case ATTN_BOOL:
        return "bool";
    case ATTN_I32:
        return "i32";
    case ATTN_I64:
        return "i64";
    default:
        return "?";
    }
}

double attn_dtype_roundoff(uint32_t dtype)
{
    return ldexp(1.0, -format_of(dtype)->precision);
}

double attn_dtype_max(uint32_t dtype)
{
    const struct format *f = format_of(dtype);
    return ldexp(2.0 - ldexp(1.0, 1 - f->precision), f->emax);
}

double attn_dtype_min_normal(uint32_t dtype)
{
    return ldexp(1.0, format_of(dtype)->emin);
}

double attn_dtype_min_subnormal(uint32_t dtype)
{
    const struct format *f = format_of(dtype);
    return ldexp(1.0, f->emin - (f->precision - 1));
}

double attn_dtype_ulp(uint32_t dtype, double value)
{
    const struct format *f = format_of(dtype);
    if (isnan(value))
        return value;
    int exponent = f->emin;
    if (value != 0 && !isinf(value))
        exponent = ilogb(value);
    else if (isinf(value))
        exponent = f->emax;
    if (exponent < f->emin)
        exponent = f->emin;
    if (exponent > f->emax)
        exponent = f->emax;
    return ldexp(1.0, exponent - (f->precision - 1));
}

/* The 16-bit pattern nearest to a double, ties to even: one rounding, on the double's own bits. */
static uint16_t narrow16(const struct format *f, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const int mantissa_bits = f->precision - 1;
    const uint32_t sign = (uint32_t)(bits >> 63) << 15;
    const uint32_t infinity = (uint32_t)(f->emax + f->emax + 1) << mantissa_bits;
    const uint64_t fraction = bits & ((1ull << 52) - 1);
    const int field = (int)(bits >> 52 & 0x7ff);

    if (field == 0x7ff) {
        if (fraction == 0)
            return (uint16_t)(sign | infinity);
        const uint32_t quiet = 1u << (mantissa_bits - 1);
        const uint32_t payload = (uint32_t)(fraction >> (52 - mantissa_bits));
        return (uint16_t)(sign | infinity | quiet | payload);
    }
    const int exponent = field - 1023;
    if (field == 0 || exponent < f->emin - f->precision)
        return (uint16_t)sign; /* below half of the least subnormal */
    if (exponent > f->emax)
        return (uint16_t)(sign | infinity);

    const uint64_t significand = fraction | 1ull << 52;
    int shift = 52 - mantissa_bits;
    uint32_t base = 0; /* exponent field less one: the hidden bit adds the one */
    if (exponent < f->emin)
        shift += f->emin - exponent;
    else
        base = (uint32_t)(exponent - f->emin) << mantissa_bits;
    uint64_t kept = significand >> shift;
    const uint64_t rest = significand & ((1ull << shift) - 1);
    const uint64_t half = 1ull << (shift - 1);
    if (rest > half || (rest == half && (kept & 1)))
        kept++;
    /* A carry out of the mantissa raises the exponent, and out of the last binade gives infinity:
     * the encoding is ordered. */
    return (uint16_t)(sign | (base + (uint32_t)kept));
}

/* The pattern's exponent and fraction, put into a double's, are the number times a power of two
 * that depends on the format alone: subnormals too. */
static inline double widen16(int precision, int emax, uint16_t pattern)
{
    const uint64_t bits = (uint64_t)(pattern & 0x7fff) << (53 - precision);
    const uint64_t infinity = (uint64_t)(2 * emax + 1) << 52;
    const uint64_t power = (uint64_t)(1023 + 1023 - emax) << 52;
    double magnitude, factor;

    memcpy(&magnitude, &bits, sizeof magnitude);
    memcpy(&factor, &power, sizeof factor);
    magnitude *= factor;
    magnitude = bits == infinity ? (double)INFINITY : magnitude;
    magnitude = bits > infinity ? (double)NAN : magnitude;
    return pattern & 0x8000 ? -magnitude : magnitude;
}

/* Inlined where `dtype` is known, so that a loop over elements has no switch in it. */
static inline __attribute__((always_inline)) double load(uint32_t dtype, const unsigned char *at)
{
    union {
        double f64;
        float f32;
        uint16_t half;
        int32_t i32;
        int64_t i64;
    } value;
    switch (dtype) {
    case ATTN_F64:
        memcpy(&value.f64, at, sizeof value.f64);
        return value.f64;
    case ATTN_F32:
        memcpy(&value.f32, at, sizeof value.f32);
        return (double)value.f32;
    case ATTN_F16:
        memcpy(&value.half, at, sizeof value.half);
        return widen16(11, 15, value.half);
    case ATTN_BF16:
        memcpy(&value.half, at, sizeof value.half);
        return widen16(8, 127, value.half);
    case ATTN_BOOL:
        return *at ? 1.0 : 0.0;
    case ATTN_I32:
        memcpy(&value.i32, at, sizeof value.i32);
        return (double)value.i32;
    case ATTN_I64:
        memcpy(&value.i64, at, sizeof value.i64);
        return (double)value.i64;
    default:
        assert(0 && "a known type");
        return (double)NAN;
    }
}

double attn_dtype_load(uint32_t dtype, const void *base, int64_t index)
{
    return load(dtype, (const unsigned char *)base + index * (int64_t)attn_dtype_size(dtype));
}

static inline __attribute__((always_inline)) void
load_many(uint32_t dtype, const unsigned char *at, int64_t bytes, int64_t count, double *out)
{
    for (int64_t c = 0; c < count; c++)
        out[c] = load(dtype, at + c * bytes);
}

void attn_dtype_load_many(uint32_t dtype, const void *base, int64_t index, int64_t step,
                          int64_t count, double *out)
{
    const int64_t size = (int64_t)attn_dtype_size(dtype);
    const unsigned char *at = (const unsigned char *)base + index * size;

    switch (dtype) {
    case ATTN_F32:
        load_many(ATTN_F32, at, step * size, count, out);
        break;
    case ATTN_F16:
        load_many(ATTN_F16, at, step * size, count, out);
        break;
    case ATTN_BF16:
        load_many(ATTN_BF16, at, step * size, count, out);
        break;
    default:
        load_many(dtype, at, step * size, count, out);
    }
}

/* Truncates, and keeps within [low, high]: C leaves a conversion out of range undefined. */
static int64_t to_integer(double value, int64_t low, int64_t high)
{
    if (isnan(value))
        return 0;
    if (value <= (double)low)
        return low;
    if (value >= (double)high)
        return high;
    return (int64_t)value;
}

void attn_dtype_store(uint32_t dtype, void *base, int64_t index, double value)
{
    unsigned char *at = (unsigned char *)base + index * (int64_t)attn_dtype_size(dtype);
    switch (dtype) {
    case ATTN_F64:
        memcpy(at, &value, sizeof value);
        break;
    case ATTN_F32: {
        const float single = (float)value;
        memcpy(at, &single, sizeof single);
        break;
    }
    case ATTN_F16:
    case ATTN_BF16: {
        const uint16_t half = narrow16(format_of(dtype), value);
        memcpy(at, &half, sizeof half);
        break;
    }
    case ATTN_BOOL:
        *at = value != 0;
        break;
    case ATTN_I32: {
        const int32_t word = (int32_t)to_integer(value, INT32_MIN, INT32_MAX);
        memcpy(at, &word, sizeof word);
        break;
    }
    case ATTN_I64: {
        const int64_t word = to_integer(value, INT64_MIN, INT64_MAX);
        memcpy(at, &word, sizeof word);
        break;
    }
    default:
        assert(0 && "a known type");
    }
}
