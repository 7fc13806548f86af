/* SPDX-License-Identifier: Apache-2.0 */
/* common.h - the tests that every backend has in common with the others.
 *
 * A backend's test program describes itself in a test_subject, calls test_common, and runs beside
 * it what is particular to that backend. Each common test is a cmocka test whose state points to a
 * subject, so that a program may also put it to another path of the same backend. */
#ifndef ATTN_TEST_COMMON_H
#define ATTN_TEST_COMMON_H

#include "problem.h"

#define ALL_OUT (WITH_LSE | WITH_WEIGHTS)

struct test_subject {
    const struct attn_backend *backend;
    const uint32_t *dtypes; /* the common problems run in each; 0 ends the list */
    /* Is this common problem within the backend's reach; NULL: all are. */
    int (*takes)(const struct test_spec *spec);
    const struct test_spec *own; /* problems that are put to this backend alone, in their type */
    size_t n_own;
    const struct test_spec *refused; /* problems that this backend refuses and another may not */
    size_t n_refused;
};

/* The common problems. None names a type. */
extern const struct test_spec test_cases[];
extern const size_t test_cases_n;

/* Runs the common problems that `takes` admits (NULL: all) in one type, against the oracle. */
void test_cases_run(const struct attn_backend *backend, int (*takes)(const struct test_spec *),
                    uint32_t dtype);

/* Runs the tests that hold for every backend as one group. Returns how many failed. */
int test_common(struct test_subject *subject);

/* One of them; *state is a struct test_subject. */
void test_keeps_nan_to_its_rows(void **state);

#endif
