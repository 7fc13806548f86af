/* SPDX-License-Identifier: Apache-2.0 */
/* landmarks.h - nystrom: two plans for attention, and the iterated inverse between them.
 *
 * G V is attention of the means of q over k and v. F (Z G V) is attention of q over the means of k,
 * with Z G V for values. Between them, each head's A and Z are products of small matrices
 * (landmarks_template.h). Heads are shared out over the threads. What lies between is f32. */
#ifndef ATTN_SIMD_LANDMARKS_H
#define ATTN_SIMD_LANDMARKS_H

#include "plan.h"

/* Buffers of f32. The first three are used with operands of 16 bits alone. */
enum {
    ATTN_MARK_Q,
    ATTN_MARK_K,
    ATTN_MARK_V,
    ATTN_MARK_Q_MEAN,
    ATTN_MARK_K_MEAN,
    ATTN_MARK_GV,
    ATTN_MARK_ZGV,
    ATTN_MARK_A,
    ATTN_MARK_BUFFERS
};

struct attn_landmarks {
    const struct attn_services *services;
    struct attn_services alike; /* the same, with as many threads as both plans have */
    const struct attn_problem *problem;
    int64_t m;                        /* segments */
    struct attn_problem values, rows; /* attention that gives G V, and out */
    struct attn_tensor values_tensors[4], rows_tensors[4];
    struct attn_plan *first; /* that of `values`; its pool is the other plan's */
    struct attn_tensor buffers[ATTN_MARK_BUFFERS];
    float *norm;     /* [B*H] largest column sums of A */
    int64_t scratch; /* floats of one thread: four matrices, or column sums and keys, turned */
    float *memory;   /* scratch of all threads, norm, then the buffers */
};

/* One head of a batch entry. */
struct attn_landmark_part {
    const struct attn_landmarks *landmarks;
    const struct attn_tensor *q, *k; /* as given, or in f32 */
    int64_t b, h;
    float *scratch;
};

/* As attn_plan_create, for nystrom. The plan is that of `rows` with its `landmarks` set;
 * attn_landmarks_destroy frees it. */
int attn_landmarks_create(const struct attn_flash_isa *isa, const struct attn_problem *problem,
                          const struct attn_services *services, struct attn_plan **plan, char *why,
                          size_t size);
void attn_landmarks_destroy(struct attn_plan *plan);

/* Computes a problem with all threads of the plan. */
void attn_landmarks_run(struct attn_plan *plan, const struct attn_operands *given);

#endif
