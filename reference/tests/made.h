/* SPDX-License-Identifier: Apache-2.0 */
/* made.h - small problems with dense random tensors, for the tests of the reference. */
#ifndef ATTN_REFERENCE_TESTS_MADE_H
#define ATTN_REFERENCE_TESTS_MADE_H

#include <stdbool.h>
#include <stdint.h>

#include "attnbench/backend.h"

enum {
    MADE_MASK = 1,
    MADE_BIAS = 2,
    MADE_LEN = 4,
    MADE_LEN2D = 8,
    MADE_ALIBI = 16,
    MADE_SINK = 32,
    MADE_KEEP = 64,
    MADE_PHILOX = 128,
    MADE_CAUSAL = 256,
    MADE_WINDOW = 512,
    MADE_BR = 1024,
    MADE_SOFTCAP = 2048,
    MADE_HEAD_MASK = 4096,
    MADE_RESIDUAL = 8192,
    MADE_PROJ_BIAS = 16384,
    MADE_NO_WO = 32768,
    MADE_CROSS = 65536,
    MADE_BROADCAST = 131072, /* masks, biases and keep lack two axes each, in turn by the seed */
    MADE_SHARED = 262144,    /* one M, W_q, W_k, w_v for all heads */
    MADE_SCALE = 524288,     /* spec.scale instead of the default */
    MADE_REL_POS = 1048576,  /* disentangled scores: a random table of distances */
    MADE_GATE = 2097152,
    MADE_GLOBAL = 4194304,    /* a fifth of the tokens is global; sk = sq */
    MADE_DILATION = 8388608,  /* 1 .. 4 for each head; with MADE_WINDOW */
    MADE_PROJECTED = 16777216 /* q_global, k_global, v_global; with MADE_GLOBAL */
};

/* The problem to make. Zeros mean: b = hq = 1, hkv = hq, sk = sq, dq = dv = dk, dh = dk, f64,
 * attention, scaled_dot. sk = -1 makes no keys. */
struct made_spec {
    uint32_t op, score, dtype;
    int features;
    int64_t b, hq, hkv, sq, sk, dq, dk, dv, dh;
    int64_t off;
    double spread; /* standard deviation of q, k, v; 0: 1 */
    double scale;
    uint64_t seed;
    int64_t span, parts, variant; /* of disentangled scores; span 0: 3 */
    int64_t weight_fn;
};

struct made {
    struct attn_problem problem;
    struct attn_tensor tensors[32];
    uint64_t state;
};

void made_create(struct made *m, const struct made_spec *spec);
void made_free(struct made *m);

/* Another tensor, dense and of zeros. */
struct attn_tensor *made_add(struct made *m, uint32_t role, uint32_t dtype, uint32_t rank,
                             const int64_t *shape);

/* The tensor of a role, which must exist. */
struct attn_tensor *made_tensor(struct made *m, uint32_t role);

/* Element `index` in the order of the logical axes, whatever the strides. */
double made_get(const struct attn_tensor *t, int64_t index);
void made_set(struct attn_tensor *t, int64_t index, double value);
int64_t made_count(const struct attn_tensor *t);

/* Deterministic random numbers. */
double made_uniform(uint64_t *state);
double made_normal(uint64_t *state);

#endif
