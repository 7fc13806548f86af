/* SPDX-License-Identifier: Apache-2.0 */
/* supports.c - which problems are put to cuDNN: those whose meaning is the same there, and whose
 * operands its kernels can load. Whether it has an engine for one of them, only it knows. */
#include <stdio.h>
#include <string.h>

#include "../cuda/transfer.h"
#include "graph.h"

/* Its positions are 32 bits wide. */
#define LARGEST_EXTENT (INT64_C(1) << 30)
#define LARGEST_WIDTH  256
/* Elements of a vector that its kernels load. It does not check that rows lie on multiples of it,
 * and gives wrong results where they do not (its frontend, sdpa_support_surface.h). */
#define VECTOR 8

static const uint64_t known_flags =
    ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR | ATTN_FLAG_DETERMINISTIC;

/* SAME: the type of q; EITHER: that or f32. An axis is a letter of extent(). */
enum { SAME = 0, EITHER = -1 };
static const struct operand {
    uint32_t role;
    int dtype;
    const char *axes, *name;
} operands[] = {
    {ATTN_Q, SAME, "bhik", "q"},        {ATTN_K, SAME, "bgjk", "k"},
    {ATTN_V, SAME, "bgjv", "v"},        {ATTN_OUT, SAME, "bhiv", "out"},
    {ATTN_LSE, ATTN_F32, "bhi", "lse"}, {ATTN_BIAS, EITHER, "bhij", "bias"},
    {ATTN_LEN, ATTN_I32, "b", "len"},   {ATTN_ALIBI, ATTN_F32, "h", "alibi"},
    {ATTN_SINK, ATTN_F32, "h", "sink"},
};

static int64_t extent(const struct attn_problem *p, char axis)
{
    switch (axis) {
    case 'b':
        return p->b;
    case 'h':
        return p->hq;
    case 'g':
        return p->hkv;
    case 'i':
        return p->sq;
    case 'j':
        return p->sk;
    case 'k':
        return p->dk;
    default: /* 'v' */
        return p->dv;
    }
}

struct attn_cudnn_band attn_cudnn_band(const struct attn_problem *p)
{
    const int causal = (p->flags & ATTN_FLAG_CAUSAL) != 0;
    const int window = (p->flags & ATTN_FLAG_WINDOW) != 0;
    const int by_len = attn_tensor_find(p, ATTN_LEN) != NULL;
    struct attn_cudnn_band band = {
        .left = window ? p->window_left : -1,
        .right = window ? p->window_right : -1,
    };
    if (causal && band.right != 0)
        band.right = 0;
    if (band.left >= p->sq + p->sk)
        band.left = -1;
    if (band.right >= p->sq + p->sk)
        band.right = -1;
    /* of as many keys as queries, both corners are on one diagonal */
    if (p->flags & ATTN_FLAG_OFF_BR)
        band.bottom_right = by_len || p->sk != p->sq;
    else
        band.bottom_right = !by_len && p->off != 0 && p->off == p->sk - p->sq;
    if (band.bottom_right && p->sq == 1) /* the last row: its engines are better without a mask */
        band.right = -1;
    if (band.left < 0 && band.right < 0)
        band.bottom_right = 0;
    /* the first row begins before the first key, or the last row's window behind the last key */
    if (band.bottom_right && band.right >= 0)
        band.least = p->sq - band.right;
    else if (!band.bottom_right && band.left >= 0)
        band.least = p->sq - band.left;
    band.least = band.least > 1 ? band.least : 1;
    return band;
}

/* NULL, or what cuDNN is not asked for. */
static const char *kind_fault(const struct attn_problem *p)
{
    if (p->struct_size < sizeof *p)
        return "the problem structure is older than this plugin";
    if (p->op != ATTN_OP_ATTENTION)
        return "only attention itself is implemented, without projections";
    if (p->score != ATTN_SCORE_SCALED_DOT && p->score != ATTN_SCORE_DOT)
        return "only dot products are implemented as scores";
    if (p->dtype != ATTN_F16 && p->dtype != ATTN_BF16)
        return "only f16 and bf16 are implemented";
    if (p->flags & ~known_flags)
        return "a flag of the problem is not supported";
    return NULL;
}

static const char *size_fault(const struct attn_problem *p)
{
    if (p->b < 1 || p->hkv < 1 || p->hq < 1 || p->hq % p->hkv || p->sq < 1 || p->sk < 0 ||
        p->dk < 1 || p->dv < 1 || p->dq != p->dk)
        return "the sizes do not make an attention problem";
    if (p->dk % VECTOR || p->dv % VECTOR || p->dk > LARGEST_WIDTH || p->dv > LARGEST_WIDTH)
        return "only heads whose width is a multiple of 8 up to 256 are supported";
    if (p->b > LARGEST_EXTENT || p->hq > LARGEST_EXTENT || p->sq > LARGEST_EXTENT ||
        p->sk > LARGEST_EXTENT)
        return "extents beyond 2^30 are not supported";
    if (!(p->scale > 0))
        return "only scales above 0 are supported";
    return NULL;
}

/* What cuDNN's frontend refuses of masks, and what it means otherwise. */
static const char *mask_fault(const struct attn_problem *p)
{
    const struct attn_cudnn_band band = attn_cudnn_band(p);
    const int banded = band.left >= 0 || band.right >= 0;
    const int alibi = attn_tensor_find(p, ATTN_ALIBI) != NULL;
    if ((p->flags & ATTN_FLAG_WINDOW) && (p->window_left < -1 || p->window_right < -1))
        return "a window side is below -1";
    if ((banded || alibi) && !(p->flags & ATTN_FLAG_OFF_BR) && p->off != 0 && !band.bottom_right)
        return "only diagonals from the first or to the last row and key are supported";
    if (p->sk < band.least)
        return "rows without keys are not supported";
    if (band.left >= 0 && !attn_tensor_find(p, ATTN_LEN) && p->sq > p->sk)
        return "a window of more queries than keys is not supported";
    if (alibi && (band.right != 0 || (p->flags & ATTN_FLAG_OFF_BR && band.bottom_right)))
        return "ALiBi is only supported under a causal mask from the first row and key";
    if (band.bottom_right && (alibi || attn_tensor_find(p, ATTN_BIAS)))
        return "a bias beside a mask to the last row and key is not supported";
    if (p->sq == 1 && attn_tensor_find(p, ATTN_SINK))
        return "a sink for a single query is not supported";
    return NULL;
}

/* NULL, or what is wrong with a tensor of a known role. */
static const char *tensor_fault(const struct attn_problem *p, const struct attn_tensor *tensor,
                                const struct operand *known)
{
    const uint32_t rank = (uint32_t)strlen(known->axes);
    const int same = known->dtype <= 0 && tensor->dtype == p->dtype;
    const int vectors = known->dtype == SAME; /* q, k, v and out */
    if (!same && (known->dtype == SAME ||
                  tensor->dtype != (uint32_t)(known->dtype == EITHER ? ATTN_F32 : known->dtype)))
        return "type";
    if (tensor->space != ATTN_HOST || tensor->device != 0)
        return "memory space";
    if (tensor->rank != rank)
        return "rank";
    for (uint32_t a = 0; a < rank; a++) {
        if (tensor->shape[a] != extent(p, known->axes[a]))
            return "shape";
        if (tensor->shape[a] == 1)
            continue;
        if (vectors && (a == 3 ? tensor->stride[a] != 1
                               : tensor->stride[a] % VECTOR != 0 || tensor->stride[a] == 0))
            return "stride";
        if (!vectors && rank != 3 && a == rank - 1 && tensor->stride[a] != 1)
            return "stride";
    }
    return attn_transfer_span(tensor) < 0 ? "stride" : NULL;
}

static const struct operand *find_operand(uint32_t role)
{
    for (size_t o = 0; o < sizeof operands / sizeof *operands; o++)
        if (operands[o].role == role)
            return &operands[o];
    return NULL;
}

int attn_cudnn_supports(const struct attn_problem *p, char *why, size_t size)
{
    const char *fault = kind_fault(p);
    if (!fault)
        fault = size_fault(p);
    for (uint32_t t = 0; !fault && t < p->n_tensors; t++) {
        const struct operand *known = find_operand(p->tensors[t].role);
        const char *wrong = known ? tensor_fault(p, &p->tensors[t], known) : NULL;
        if (wrong) {
            snprintf(why, size, "this %s of %s is not supported", wrong, known->name);
            return ATTN_UNSUPPORTED;
        }
        if (!known)
            fault = "an operand of the problem is not supported";
    }
    if (!fault && (!attn_tensor_find(p, ATTN_Q) || !attn_tensor_find(p, ATTN_K) ||
                   !attn_tensor_find(p, ATTN_V) || !attn_tensor_find(p, ATTN_OUT)))
        fault = "q, k, v and out must all be given";
    if (!fault)
        fault = mask_fault(p);
    if (!fault)
        return ATTN_OK;
    snprintf(why, size, "%s", fault);
    return ATTN_UNSUPPORTED;
}
