/* SPDX-License-Identifier: Apache-2.0 */
/* functions.h - the keys of the check `functions`, and how each score tells them apart. Private to
 * this folder.
 *
 * A row compares two keys, `first` and `other`, at a known distance of their scores. In the dense
 * form `other` is every key but `first`. Else all remaining keys are so far below that they have
 * the weight 0. */
#ifndef ATTN_FUNCTIONS_H
#define ATTN_FUNCTIONS_H

#include "run/relation.h"

#define ATTN_FAR_BELOW 256.0 /* exp of it is 0 in f32, and nothing beside 1 in f64 */

/* Columns of x that multi-head attention needs: q's two, k's two, and one of v. */
#define ATTN_FUNCTIONS_X 5

/* The two keys of a batch and key/value head. */
struct attn_function_pair {
    int64_t first, other;
};

/* How one kind of score makes them. */
struct attn_function_form {
    bool (*fits)(const struct attn_relation_work *work);
    /* The score of `other` less that of `first`, before a softcap: a number that every step up to
     * there holds exactly, but for what is counted below. */
    double (*distance)(const struct attn_relation_work *work, int64_t b, int64_t h, int64_t i);
    /* Element `at` of an input that this form makes. */
    double (*value)(const struct attn_relation_work *work, const struct attn_tensor *tensor,
                    const int64_t *at);
    double roundings; /* of that score, relative to it, in units of u */
    bool tanh;        /* it has the declared error of tanh */
    bool equal_rows;  /* rows at distance 0 have no key far below */
    bool dense_first; /* in the dense form `first` has a score, not `other` */
};

/* function_forms.c: the form for the case's operator and score; NULL: there is none. */
const struct attn_function_form *attn_function_form_of(const struct attn_relation_work *work);

/* function_pairs.c */
bool attn_functions_projected(const struct attn_relation_work *work); /* multi-head attention */
bool attn_functions_has(const struct attn_relation_work *work, uint32_t role); /* of the score */
/* Columns of q and k that can be chosen on their own. */
int64_t attn_functions_columns(const struct attn_relation_work *work);
bool attn_functions_dense(const struct attn_relation_work *work);
bool attn_functions_long(const struct attn_relation_work *work); /* has the keys of the case */
int64_t attn_functions_keys(const struct attn_relation_work *work);
/* The batch whose keys batch b of the made problem has: they may be shared by all. */
int64_t attn_functions_batch(const struct attn_relation_work *work, int64_t b);
double attn_functions_scale(const struct attn_relation_work *work);
struct attn_function_pair attn_functions_pair(const struct attn_relation_work *work, int64_t b,
                                              int64_t g);

/* What key j is to a batch and key/value head. */
bool attn_functions_is_first(const struct attn_relation_work *work, int64_t b, int64_t g,
                             int64_t j);
bool attn_functions_is_other(const struct attn_relation_work *work, int64_t b, int64_t g,
                             int64_t j);
bool attn_functions_is_far(const struct attn_relation_work *work, int64_t b, int64_t g, int64_t j);
/* Element `at` of v: each column is one of the two weights. */
double attn_functions_v(const struct attn_relation_work *work, const int64_t *at);

double attn_functions_narrow(double x); /* to 8 significant bits */
/* Number n of a sequence that is spread over (0, most], dense near 0: 8 significant bits. */
double attn_functions_spread(const struct attn_relation_work *work, int64_t n);

#endif
