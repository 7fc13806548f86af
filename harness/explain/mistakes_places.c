/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes_places.c - mistakes in disentangled scores: which rows of which table, and which parts.
 */
#include "explain/mistakes.h"
#include "reference/operands.h"

static bool is_placed(const struct attn_mutation *m)
{
    return m->problem.score == ATTN_SCORE_DISENTANGLED;
}

static bool other_variant(struct attn_mutation *m, double unused)
{
    (void)unused;
    struct attn_problem *p = &m->problem;
    const bool paper = p->variant == ATTN_POSITIONS_PAPER;
    p->variant = paper ? ATTN_POSITIONS_CODE : ATTN_POSITIONS_PAPER;
    ATTN_SAY(m, "variant=%s instead of %s", paper ? "code" : "paper", paper ? "paper" : "code");
    return is_placed(m) && p->parts != ATTN_PARTS_C2P;
}

/* The default scale of a problem stays: only the sums change. */
static bool other_parts(struct attn_mutation *m, double parts)
{
    static const char *const names[] = {"both parts of positions", "c2p alone", "p2c alone"};
    const int64_t old = m->problem.parts;
    m->problem.parts = (int64_t)parts;
    ATTN_SAY(m, "%s", names[(int)parts]);
    return is_placed(m) && old != m->problem.parts;
}

static bool without_positions(struct attn_mutation *m, double unused)
{
    (void)unused;
    const bool placed = is_placed(m);
    attn_mutated_drop(m, ATTN_REL_POS);
    attn_mutated_drop(m, ATTN_SCORE_KR);
    attn_mutated_drop(m, ATTN_SCORE_QR);
    m->problem.score = ATTN_SCORE_DOT;
    ATTN_SAY(m, "no products with positions");
    return placed;
}

/* One table for both parts. */
static bool one_table(struct attn_mutation *m, double role)
{
    const bool is_kr = (uint32_t)role == ATTN_SCORE_KR;
    struct attn_tensor *kr = attn_mutated(m, ATTN_SCORE_KR), *qr = attn_mutated(m, ATTN_SCORE_QR);
    if (!kr || !qr)
        return false;
    const struct attn_tensor from = is_kr ? *kr : *qr;
    struct attn_tensor *to = is_kr ? qr : kr;
    const uint32_t other = to->role;
    *to = from;
    to->role = other;
    ATTN_SAY(m, "%s read as %s", attn_role_name(from.role), attn_role_name(other));
    return true;
}

static bool tables_swapped(struct attn_mutation *m, double unused)
{
    (void)unused;
    struct attn_tensor *kr = attn_mutated(m, ATTN_SCORE_KR), *qr = attn_mutated(m, ATTN_SCORE_QR);
    if (!kr || !qr)
        return false;
    kr->role = ATTN_SCORE_QR;
    qr->role = ATTN_SCORE_KR;
    ATTN_SAY(m, "score_kr and score_qr swapped");
    return true;
}

static bool first_tables(struct attn_mutation *m, double unused)
{
    (void)unused;
    struct attn_tensor *kr = attn_mutated(m, ATTN_SCORE_KR), *qr = attn_mutated(m, ATTN_SCORE_QR);
    if (!kr || !qr || kr->shape[0] < 2 || (kr->stride[0] == 0 && qr->stride[0] == 0))
        return false;
    kr->stride[0] = qr->stride[0] = 0;
    ATTN_SAY(m, "tables of positions of head 0 for all of them");
    return true;
}

enum distance { REVERSED, NO_OFFSET, EIGHT_BITS, DISTANCES };

/* Other distances, as a table of them. */
static bool other_distances(struct attn_mutation *m, double kind)
{
    static const char *const names[] = {[REVERSED] = "distances of key and query for both parts",
                                        [NO_OFFSET] = "distances without the offset of queries",
                                        [EIGHT_BITS] = "distances in 8 bits"};
    const struct attn_problem *p = &m->problem;
    const struct attn_tensor *kr = attn_mutated(m, ATTN_SCORE_KR), *len = attn_mutated(m, ATTN_LEN);
    const bool by_len = (p->flags & ATTN_FLAG_OFF_BR) && len;
    struct ref_operands operands;
    if (!is_placed(m) || !kr || attn_mutated(m, ATTN_REL_POS) || p->variant || by_len)
        return false;
    ref_operands_init(&operands, p);
    const int64_t off = ref_offset(&operands, 0), count = p->sq + p->sk - 1, rows = kr->shape[1];
    int32_t *data = count > 0 ? attn_mutated_room(m, count, sizeof *data) : NULL;
    if (!data || (kind == NO_OFFSET && off == 0))
        return false;
    for (int64_t t = 0; t < count; t++) {
        int64_t far = t - (p->sk - 1) + (kind == NO_OFFSET ? 0 : off);
        far = kind == REVERSED ? -far : kind == EIGHT_BITS ? (int8_t)far : far;
        const int64_t row = far + rows / 2;
        data[t] = (int32_t)(row < 0 ? 0 : row < rows ? row : rows - 1);
    }
    attn_mutated_add(m, &(struct attn_tensor){.role = ATTN_REL_POS,
                                              .dtype = ATTN_I32,
                                              .rank = 1,
                                              .shape = {count},
                                              .stride = {1},
                                              .data = data});
    ATTN_SAY(m, "%s", names[(int)kind]);
    return true;
}

const struct attn_mistake attn_mistakes_places[] = {
    {other_variant, 1, {0}},
    {other_parts, 3, {ATTN_PARTS_BOTH, ATTN_PARTS_C2P, ATTN_PARTS_P2C}},
    {without_positions, 1, {0}},
    {one_table, 2, {ATTN_SCORE_KR, ATTN_SCORE_QR}},
    {tables_swapped, 1, {0}},
    {first_tables, 1, {0}},
    {other_distances, DISTANCES, {REVERSED, NO_OFFSET, EIGHT_BITS}},
    {attn_mistake_without, 1, {ATTN_REL_POS}},
    {NULL, 0, {0}},
};
