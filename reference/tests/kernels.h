/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h - attention as backends compute it, with every operation rounded to a declared type.
 * The bound must accept these kernels, and must refuse them with a planted error. One batch, widths
 * up to 64, at most KERNEL_KEYS keys. */
#ifndef ATTN_REFERENCE_TESTS_KERNELS_H
#define ATTN_REFERENCE_TESTS_KERNELS_H

#include "reference/tests/made.h"

#define KERNEL_KEYS 4096

enum kernel_bug { BUG_NONE, BUG_SCALE, BUG_OUTPUT, BUG_KEY };

struct kernel {
    const char *name;
    uint32_t acc;        /* type that every operation rounds to */
    uint32_t score_type; /* 0: acc */
    uint32_t p_type;     /* 0: acc */
    int64_t tile;        /* keys per tile of an online softmax; 0: one tile */
    int64_t splits;      /* 0: none */
    double tau;
    bool normalised; /* p is divided by the sum before it is stored (one tile) */
    bool sums_stored;
    bool truncates; /* f32 only */
    bool by_norms;
    uint32_t partial; /* type of partial sums of q.k and p v, of fused products; 0: none */
    uint32_t terms;   /* products per partial sum */
    bool stores;      /* every step of a score is rounded to score_type, and ALiBi's factors */
    bool tf32_pv;     /* p and v are rounded to 11 bits before p v */
    bool by_key;      /* ALiBi under causal as slope * j */
    bool stochastic;  /* p is rounded up or down at random */
    bool silent;      /* the four above are not declared */
    enum kernel_bug bug;
};

/* The declaration of such a kernel. */
struct attn_numerics kernel_numerics(const struct kernel *kernel);

/* Computes out, rounded to the type of the problem, and lse [Hq,Sq] and weights [Hq,Sq,Sk], which
 * are not rounded to an output type. */
void kernel_run(const struct kernel *kernel, struct made *m, double *out, double *lse,
                double *weights);

#endif
