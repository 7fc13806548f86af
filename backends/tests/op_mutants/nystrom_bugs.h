/* SPDX-License-Identifier: Apache-2.0 */
/* nystrom_bugs.h - what can be wrong with nystrom. */
#ifndef ATTN_NYSTROM_BUGS_H
#define ATTN_NYSTROM_BUGS_H

/* clang-format off */
#define NYSTROM_BUGS                                                                               \
    BUG(nys_one_less, "f32 bf16", "nys", "one iteration less")                                     \
    BUG(nys_one_more, "f32 bf16", "nys", "one iteration more")                                     \
    BUG(nys_start_batch, "f32 bf16", "nys", "the start of variant batch in variant head")          \
    BUG(nys_start_head, "f32 bf16", "nys_batch", "the start of variant head in variant batch")     \
    BUG(nys_start_straight, "f32 bf16", "nys", "the iteration begins with A, not transposed")      \
    BUG(nys_start_rows, "f32 bf16", "nys", "the start is divided by the largest row sum")          \
    BUG(nys_last_token, "f32 bf16", "nys", "the last token of a segment is missing")               \
    BUG(nys_divisor, "f32 bf16", "nys", "means divided by one token too many")                     \
    BUG(nys_shifted, "f32 bf16", "nys", "segments begin one token late")                           \
    BUG(nys_first_token, "f32 bf16", "nys", "the first token of a segment, not its mean")          \
    BUG(nys_scale_once, "f32 bf16", "nys", "the root of the scale applied to q only")              \
    BUG(nys_constants, "f32 bf16", "nys", "13 and 15 exchanged")                                   \
    BUG(nys_axis, "f32 bf16", "nys", "softmax of A over the wrong axis")                           \
    BUG(nys_no_inverse, "f32 bf16", "nys", "F A (G V): the inverse is forgotten")                  \
    BUG(nys_inverse_bf16, "f32 bf16", "nys", "the iteration in bf16")                              \
    BUG(nys_exact, "f32 bf16", "nys", "softmax attention itself")
/* clang-format on */

#endif
