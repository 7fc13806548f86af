/* SPDX-License-Identifier: Apache-2.0 */
/* places_bugs.h - what can be wrong with disentangled scores. */
#ifndef ATTN_PLACES_BUGS_H
#define ATTN_PLACES_BUGS_H

/* clang-format off */
#define PLACES_BUGS                                                                                \
    BUG(places_paper, "f32 bf16", "places", "p2c reads the distance of the paper, not of the code") \
    BUG(places_code, "f32 bf16", "places_paper", "p2c reads the distance of the code, not of the paper") \
    BUG(places_reversed, "f32 bf16", "places", "distances of the other sign for both parts")       \
    BUG(places_row_more, "f32 bf16", "places_shared places_heads", "distances clipped at 2 span, one row beyond the table") \
    BUG(places_no_offset, "f32 bf16", "places_br places_past", "distances without the offset of queries") \
    BUG(places_scale_dk, "f32 bf16", "places", "scale 1/sqrt(dk)")                                 \
    BUG(places_p2c_kr, "f32 bf16", "places", "p2c reads KR")                                       \
    BUG(places_head_0, "f32 bf16", "places_heads", "the tables of head 0 for all heads")           \
    BUG(places_untransposed, "f32 bf16", "places", "p2c of query j and key i")                     \
    BUG(places_bias_scaled, "f32 bf16", "places_bias", "the bias added before the scale")          \
    BUG(places_near_c2p, "f32 bf16", "places", "no c2p at distances of the span and beyond")       \
    BUG(places_near_p2c, "f32 bf16", "places", "no p2c at distances of the span and beyond")       \
    BUG(places_8_bits, "f32 bf16", "places_long", "distances in 8 bits")                           \
    BUG(places_first_key, "f32 bf16", "places_cross", "with Sq other than Sk, distances of key 0 for all keys") \
    BUG(places_both_parts, "f32 bf16", "places_c2p places_p2c", "both parts whatever is asked for") \
    BUG(places_centre, "f32 bf16", "places_table_cross", "a table of distances centred on Sq")     \
    BUG(places_table_lost, "f32 bf16", "places_table", "a table of distances not read")            \
    BUG(places_parts_bf16, "f32", "places", "both parts kept in bf16")
/* clang-format on */

#endif
