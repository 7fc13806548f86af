/* SPDX-License-Identifier: Apache-2.0 */
/* supports.c - which problems are put to cuDNN: those whose meaning is the same there, and whose
 * operands its kernels can load. Whether it has an engine for one of them, only it knows. */
#include "supports.h"

#include <stdio.h>

#include "attnbench/problem.h"

/* Its positions are 32 bits wide. */
#define LARGEST_EXTENT (INT64_C(1) << 30)
#define LARGEST_WIDTH  256
/* Elements of a vector that its kernels load. It does not check that rows lie on multiples of it,
 * and gives wrong results where they do not (its frontend, sdpa_support_surface.h). */
#define VECTOR 8
/* Rows and keys of a block of its kernels for gradients. */
#define BLOCK 128

static const uint32_t optional[] = {ATTN_LSE, ATTN_BIAS, ATTN_LEN, ATTN_ALIBI, ATTN_SINK, 0};
/* cuDNN takes no gradient of LSE, has none of slopes, and only gives a bias one of 16 bits. */
static const uint32_t optional_backward[] = {ATTN_BIAS, ATTN_LEN, ATTN_ALIBI, 0};

static const struct attn_limit narrow[] = {
    {.role = ATTN_Q, .multiple = VECTOR},
    {.role = ATTN_K, .multiple = VECTOR},
    {.role = ATTN_V, .multiple = VECTOR},
    {.role = ATTN_OUT, .multiple = VECTOR},
    {.role = ATTN_GRAD_OUT, .multiple = VECTOR},
    {.role = ATTN_GRAD_Q, .multiple = VECTOR},
    {.role = ATTN_GRAD_K, .multiple = VECTOR},
    {.role = ATTN_GRAD_V, .multiple = VECTOR},
    {.role = ATTN_BIAS, .multiple = 1},
    {.role = ATTN_LEN, .multiple = 1, .axes = "b"},
    {.role = ATTN_ALIBI, .types = ATTN_BIT(ATTN_F32), .multiple = 1},
    {.role = ATTN_SINK, .types = ATTN_BIT(ATTN_F32), .multiple = 1},
    {0},
};

static const struct attn_limits forward = {
    .ops = ATTN_BIT(ATTN_OP_ATTENTION),
    .scores = ATTN_BIT(ATTN_SCORE_SCALED_DOT) | ATTN_BIT(ATTN_SCORE_DOT),
    .dtypes = ATTN_BIT(ATTN_F16) | ATTN_BIT(ATTN_BF16),
    .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW | ATTN_FLAG_OFF_BR | ATTN_FLAG_DETERMINISTIC,
    .optional = optional,
    .narrow = narrow,
    .no_op = "only attention itself is implemented, without projections",
    .no_score = "only dot products are implemented as scores",
    .no_flag = "a flag of the problem is not supported",
    .no_role = "an operand of the problem is not supported",
};

static struct attn_limits limits_of(int gradients)
{
    struct attn_limits limits = forward;
    if (gradients) {
        limits.ops = ATTN_BIT(ATTN_OP_ATTENTION_BACKWARD);
        limits.flags &= ~ATTN_FLAG_DETERMINISTIC;
        limits.optional = optional_backward;
    }
    return limits;
}

/* In blocks that are not full, the kernels for gradients take exp(0 - LSE) of what is beyond the
 * end. That is infinity below an LSE of -88, and infinity times 0 spoils GRAD_Q, or GRAD_K and
 * GRAD_V. A padding mask avoids it (github.com/NVIDIA/cudnn-frontend/issues/160 and 1072,
 * pull/628). */
int attn_cudnn_is_padded(const struct attn_problem *p)
{
    return attn_tensor_find(p, ATTN_LEN) ||
           (p->op == ATTN_OP_ATTENTION_BACKWARD && (p->sq % BLOCK != 0 || p->sk % BLOCK != 0));
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

static const char *size_fault(const struct attn_problem *p)
{
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
    if ((banded || alibi) && !(p->flags & ATTN_FLAG_OFF_BR) && p->off != 0 && !band.bottom_right)
        return "only diagonals from the first or to the last row and key are supported";
    if (p->sk < band.least)
        return "rows without keys are not supported";
    if (band.left >= 0 && !attn_tensor_find(p, ATTN_LEN) && p->sq > p->sk)
        return "a window of more queries than keys is not supported";
    if (alibi && (band.right != 0 || (p->flags & ATTN_FLAG_OFF_BR && band.bottom_right)))
        return "ALiBi is only supported under a causal mask from the first row and key";
    if (band.bottom_right && (alibi || attn_tensor_find(p, ATTN_BIAS)))
        return "a bias together with a mask to the last row and key is not supported";
    if (p->sq == 1 && attn_tensor_find(p, ATTN_SINK))
        return "a sink for a single query is not supported";
    return NULL;
}

/* What the frontend refuses of gradients, and a broadcast LSE, which it does not know. */
static const char *backward_fault(const struct attn_problem *p)
{
    const struct attn_tensor *lse = attn_tensor_find(p, ATTN_LSE);
    for (uint32_t a = 0; a < lse->rank; a++)
        if (lse->stride[a] == 0 && lse->shape[a] > 1)
            return "gradients of a broadcast lse are not supported";
    if (p->sq == 1 && p->sk == 1)
        return "gradients of a single query and key are not supported";
    if (attn_cudnn_band(p).bottom_right && p->sq > p->sk && !attn_tensor_find(p, ATTN_LEN))
        return "gradients of more queries than keys under a mask to the last are not supported";
    return NULL;
}

int attn_cudnn_supports(const struct attn_problem *p, char *why, size_t size)
{
    const int gradients = p->op == ATTN_OP_ATTENTION_BACKWARD;
    const struct attn_limits limits = limits_of(gradients);
    const char *fault = NULL;
    int status = attn_problem_check_scalars(p, &limits, why, size);
    if (status == ATTN_OK)
        fault = size_fault(p);
    if (status == ATTN_OK && !fault)
        status = attn_problem_check_operands(p, &limits, why, size);
    if (status == ATTN_OK && !fault)
        fault = mask_fault(p);
    if (status == ATTN_OK && !fault && gradients)
        fault = backward_fault(p);
    if (!fault)
        return status;
    snprintf(why, size, "%s", fault);
    return ATTN_UNSUPPORTED;
}
