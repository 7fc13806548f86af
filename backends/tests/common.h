/* SPDX-License-Identifier: Apache-2.0 */
/* common.h - the tests that all backends share.
 *
 * A backend's test program describes the backend in a test_subject and calls test_common. Tests of
 * that backend alone run in addition. Each common test is a cmocka test whose state points to a
 * subject, so a program may also run it on another path of the same backend. */
#ifndef ATTN_TEST_COMMON_H
#define ATTN_TEST_COMMON_H

#include "problem.h"

#define ALL_OUT (WITH_LSE | WITH_WEIGHTS)

struct test_subject {
    const struct attn_backend *backend;
    const uint32_t *dtypes; /* the common problems run in each of these; 0 ends the list */
    /* Does the backend support this common problem. NULL: all. */
    int (*takes)(const struct test_spec *spec);
    const struct test_spec *own; /* problems for this backend alone, in their type */
    size_t n_own;
    const struct test_spec *refused; /* problems that this backend refuses and another may accept */
    size_t n_refused;
};

/* The common problems. None names a type. */
extern const struct test_spec test_cases[];
extern const size_t test_cases_n;

/* Runs the common problems that `takes` accepts (NULL: all) in one type, and compares with the
 * oracle. */
void test_cases_run(const struct attn_backend *backend, int (*takes)(const struct test_spec *),
                    uint32_t dtype);

/* Runs the tests that hold for every backend as one group. Returns how many failed. */
int test_common(struct test_subject *subject);

/* One of them; *state is a struct test_subject. */
void test_keeps_nan_to_its_rows(void **state);

#endif
