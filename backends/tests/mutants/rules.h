/* SPDX-License-Identifier: Apache-2.0 */
/* rules.h - acceptance rules as they are published, to be held beside this project's verdict. */
#ifndef ATTN_MUTANT_RULES_H
#define ATTN_MUTANT_RULES_H

#include <stdbool.h>
#include <stdint.h>

/* One element of an output. */
struct rule_element {
    double got, want;
    double peer;      /* what a correct computation of the same precision gives */
    double magnitude; /* sum p |v| of an element of out; 0: not known */
};

enum rule {
    RULE_ALLCLOSE,   /* |got - want| <= 1e-2 + 1e-2 |want| */
    RULE_NMSE,       /* ggml: sum (got - want)^2 <= 5e-4 sum want^2 */
    RULE_FLASHINFER, /* flashinfer-bench: absolute or relative error <= 1e-2 */
    RULE_FLASH_2X,   /* FlashAttention: max |got - want| <= 2 max |peer - want| + what adding and
                        taking off 0.3 does to want */
    RULE_ONEDNN,     /* oneDNN's SDPA: relative error <= 8 (1 + n) eps, or error <= eps sum p |v| */
    RULES
};

extern const char *const rule_names[RULES];

/* What the rules say of `count` elements of one output; `keys` is n. accepted[] is only ever
 * lowered, so that outputs can be put one after the other. An infinity agrees with itself, and NaN
 * with NaN. */
void rules_apply(const struct rule_element *elements, int64_t count, uint32_t dtype, int64_t keys,
                 bool accepted[RULES]);

#endif
