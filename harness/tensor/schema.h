/* SPDX-License-Identifier: Apache-2.0 */
/* schema.h - the one table of operands: name, shape in symbols, type, of every role. Random
 * instances, packs and messages all read it. */
#ifndef ATTN_SCHEMA_H
#define ATTN_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "case/case.h"

/* The extents that shapes are made of (see backend.h). */
enum attn_extent {
    ATTN_EXT_B,
    ATTN_EXT_HQ,
    ATTN_EXT_SQ,
    ATTN_EXT_SK,
    ATTN_EXT_HKV,
    ATTN_EXT_DQ,
    ATTN_EXT_DK,
    ATTN_EXT_DV,
    ATTN_EXT_DH,
    ATTN_EXT_EQ, /* model widths of x_q, x_k, x_v and the output */
    ATTN_EXT_EK,
    ATTN_EXT_EV,
    ATTN_EXT_EO,
    ATTN_EXT_HQ_DQ, /* projected widths */
    ATTN_EXT_HKV_DK,
    ATTN_EXT_HKV_DV,
    ATTN_EXT_HQ_DV,
    ATTN_EXT_COUNT
};

enum attn_type_rule {
    ATTN_TYPE_MAIN,  /* the problem's type */
    ATTN_TYPE_SIDE,  /* the problem's type; in a pack f32 is legal too */
    ATTN_TYPE_WIDE,  /* f32, or f64 where the problem's type is f64; in a pack as SIDE, widened */
    ATTN_TYPE_BOOL,  /* bool */
    ATTN_TYPE_INDEX, /* i32; in a pack i64 is legal too */
    ATTN_TYPE_ANSWER /* only in a pack: f32 or f64 */
};

enum { ATTN_FOR_ATTENTION = 1, ATTN_FOR_MHA = 2, ATTN_FOR_BOTH = 3 };

struct attn_schema {
    uint32_t role;    /* 0: known to packs alone */
    const char *name; /* in packs and messages */
    unsigned ops;     /* ATTN_FOR_* */
    enum attn_type_rule type;
    uint32_t rank, min_rank; /* min_rank 0: rank only */
    enum attn_extent extent[4];
    unsigned one;  /* bit a: axis a may have extent 1 in a pack, and is then broadcast */
    bool activate; /* follows layout= and the views `permuted` and `huge` */
    bool output;
};

extern const struct attn_schema attn_schemas[];
extern const size_t attn_schema_count;

/* The row of a role, or of a name; NULL when there is none for this op. */
const struct attn_schema *attn_schema_of_role(uint32_t op, uint32_t role);
const struct attn_schema *attn_schema_of_name(uint32_t op, const char *name);

/* "q", "k", "w_o", "score_w_v", ... */
const char *attn_role_name(uint32_t role);

/* "Hq", "Sk", ... as messages spell them. */
const char *attn_extent_name(enum attn_extent extent);

/* The extents of a case with all sizes known; 0, or -1 when a product overflows. */
int attn_extents_of_case(const struct attn_case *c, int64_t extents[ATTN_EXT_COUNT]);

#endif
