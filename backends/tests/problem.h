/* SPDX-License-Identifier: Apache-2.0 */
/* problem.h - for the tests of backends: small problems with random tensors, an oracle in double,
 * and a run of a backend on them through its table, as the harness does it. */
#ifndef ATTN_TEST_PROBLEM_H
#define ATTN_TEST_PROBLEM_H

#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"

#include "services.h"

/* Tensors that a problem has in addition to those that its op and score need. */
enum {
    WITH_LSE = 1 << 0,
    WITH_WEIGHTS = 1 << 1,
    WITH_MASK = 1 << 2,
    WITH_BIAS = 1 << 3, /* some cells are -inf */
    WITH_LEN = 1 << 4,
    WITH_LEN_2D = 1 << 5,
    WITH_ALIBI = 1 << 6,
    WITH_SINK = 1 << 7,
    WITH_KEEP = 1 << 8,
    WITH_HEAD_MASK = 1 << 9,
    WITH_W_O = 1 << 10,
    WITH_PROJ_BIAS = 1 << 11,
    WITH_X_K = 1 << 12,         /* and x_v: cross attention */
    WITH_HEAD_PARAMS = 1 << 13, /* one set of score parameters per head, else one shared set */
    WITH_GAPS = 1 << 14,        /* rows have gaps between them in memory */
    WITH_BSHD = 1 << 15,        /* memory order b s h d of q, k, v, out */
    WITH_BHDS = 1 << 16,        /* memory order b h d s */
    WITH_POISON = 1 << 17,      /* NaN and infinity in K and V of keys that no query may see */
    WITH_BUCKETS = 1 << 18      /* disentangled: any row of the tables at any distance */
};

/* What to make. A field that is 0 stands for b=2, hq=hkv=1, dk=dq, dv=dq, scale 1/sqrt(dk), f32 or
 * scaled_dot. */
struct test_spec {
    const char *name;
    uint32_t op, score, dtype, with;
    uint64_t flags;
    int64_t b, hq, hkv, sq, sk, dq, dk, dv, dh, e;
    double scale, softcap, dropout_p;
    int64_t off, left, right;
    int64_t span, parts, variant; /* disentangled */
};

#define TEST_TENSORS 32

struct test_problem {
    struct attn_problem problem;
    struct attn_tensor tensors[TEST_TENSORS];
    size_t bytes[TEST_TENSORS]; /* of each tensor's memory, gaps included */
};

void test_problem_make(const struct test_spec *spec, struct test_problem *made);
void test_problem_free(struct test_problem *made);

/* Element of a tensor as a double. idx has one entry per axis. */
double test_at(const struct attn_tensor *tensor, const int64_t *idx);
void test_set(const struct attn_tensor *tensor, const int64_t *idx, double value);

/* Does the position, len and mask allow this cell. */
int test_allowed(const struct attn_problem *p, int64_t b, int64_t h, int64_t i, int64_t j);

/* One row of one head: out [Dv], weights [Sk], in double. Returns lse. */
double test_oracle_row(const struct attn_problem *p, int64_t b, int64_t h, int64_t i, double *out,
                       double *weights);

/* Runs the backend twice on the problem. Outputs hold NaN before each run. Fails the test if a slot
 * fails, an input or a gap is written, the two runs differ, or memory is not freed. */
void test_run(const struct attn_backend *backend, struct test_problem *made);

/* Fails the test if an output differs from the oracle. */
void test_check(const struct test_spec *spec, const struct test_problem *made);

/* Does all of this for one spec. */
void test_spec_run(const struct attn_backend *backend, const struct test_spec *spec);

/* Asserts that `supports` refuses the problem, or the problem of the spec, with a reason. */
void test_problem_refused(const struct attn_backend *backend, const struct attn_problem *problem);
void test_spec_refused(const struct attn_backend *backend, const struct test_spec *spec);

#endif
