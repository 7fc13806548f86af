/* SPDX-License-Identifier: Apache-2.0 */
/* scramble.c - bits of mantissas, turned by a generator. */
#include "host/scramble.h"

#include <endian.h>
#include <string.h>

#include "host/splitmix.h"
#include "host/walk.h"
#include "reference/dtype.h"

/* An element as bits: its exponent, and bits of the mantissa that each type has. */
struct form {
    uint64_t exponent;
    uint32_t bytes;
    int turned; /* place of the lowest of the bits that are turned */
};

static const struct form forms[] = {
    [ATTN_F64] = {UINT64_C(0x7FF) << 52, 8, 46},
    [ATTN_F32] = {UINT64_C(0xFF) << 23, 4, 17},
    [ATTN_F16] = {UINT64_C(0x1F) << 10, 2, 4},
    [ATTN_BF16] = {UINT64_C(0xFF) << 7, 2, 1},
};

static void scramble_run(const struct form *form, unsigned char *run, size_t bytes,
                         uint64_t *random)
{
    const size_t low = __BYTE_ORDER == __LITTLE_ENDIAN ? 0 : sizeof(uint64_t) - form->bytes;
    uint64_t drawn = 0;
    for (size_t at = 0; at < bytes; at += form->bytes, drawn >>= 6) {
        uint64_t bits = 0;
        drawn = drawn ? drawn : attn_splitmix(random);
        memcpy((char *)&bits + low, run + at, form->bytes);
        if ((bits & form->exponent) != form->exponent && (bits & form->exponent) != 0)
            bits ^= (drawn & 63) << form->turned;
        memcpy(run + at, (char *)&bits + low, form->bytes);
    }
}

void attn_scramble(const struct attn_tensor *tensor, uint32_t index, uint64_t seed)
{
    if (!attn_dtype_is_float(tensor->dtype))
        return;
    const struct form *form = &forms[tensor->dtype];
    uint64_t random = seed + index;
    struct attn_walk walk;
    size_t offset;
    random = attn_splitmix(&random);
    attn_walk_begin(&walk, tensor, form->bytes);
    while (attn_walk_next(&walk, &offset))
        scramble_run(form, (unsigned char *)tensor->data + offset, walk.run, &random);
}
