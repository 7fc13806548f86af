/* SPDX-License-Identifier: Apache-2.0 */
/* def.c - lsh, attention of Reformer: its tables. OP.md has the definition.
 *
 * Letters of its own: B buckets of a round, C the chunk as it is given, R rounds. From these follow
 * N half the buckets, c the tokens of a piece, and E and W, which must be B and the sequence. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "reference/ops/lsh/lsh.h"

enum hashes { HASHES_OUT, HASHES_GIVEN, HASHES_NONE }; /* words of hashes= */

static const struct ref_operand own[] = {
    {ATTN_Q, "q", "bhiq", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_V, "v", "bgjv", "", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, 0},
    {ATTN_ROTATIONS, "rotations", "hqRN", "h", REF_TYPE_MAIN, REF_NEEDED, 0},
    {ATTN_BUCKETS, "buckets_in", "bhRi", "", REF_TYPE_INDEX, 0, 0},
    {0}};
static const struct ref_operand *const groups[] = {own, NULL};

static const struct ref_output outputs[] = {
    {ATTN_OUT, "out", "bhiv", "bhi", REF_TYPE_MAIN, REF_NEEDED | REF_ACTIVATION, REF_LSH_OUT},
    {ATTN_LSE, "lse", "bhi", "bhi", REF_TYPE_WIDE, 0, REF_LSH_OUT},
    {ATTN_BUCKETS_OUT, "buckets_out", "bhRi", "bhRi", REF_TYPE_INDEX, 0, REF_LSH_BUCKETS},
    {0}};

static const struct ref_param params[] = {
    {"chunk", "N", "tokens of a piece, which divide the sequence; 0: all", REF_PARAM_INT, 'C', 0, 0,
     (1 << 20) - 1, offsetof(struct attn_problem, chunk)},
    {"rounds", "N", "rounds of hashing", REF_PARAM_INT, 'R', 1, 1, 16,
     offsetof(struct attn_problem, rounds)},
    {"buckets", "N", "buckets of a round, an even number", REF_PARAM_INT, 'B', 2, 2, 1 << 16,
     offsetof(struct attn_problem, buckets)},
    {"hashes", "out|given|none", "buckets: an output, an input, or not shown", REF_PARAM_WORD, 0,
     HASHES_OUT, HASHES_OUT, HASHES_NONE, 0},
    {"self", "last|plain", "the own token: seen only if no other is, or as any other",
     REF_PARAM_WORD, 0, ATTN_LSH_LAST, ATTN_LSH_LAST, ATTN_LSH_PLAIN,
     offsetof(struct attn_problem, variant)},
    {0}};

static const struct ref_choice choices[] = {
    {"hashes", HASHES_OUT, ATTN_BUCKETS_OUT}, {"hashes", HASHES_GIVEN, ATTN_BUCKETS}, {0}};

static const struct ref_tie ties[] = {{'g', 'h', "lsh has a value head for each query head"},
                                      {'j', 'i', "lsh has one sequence: sk = sq"},
                                      {'k', 'q', "lsh has keys as wide as queries: dk = dq"},
                                      {'W', 'i', "lsh: chunk must divide the sequence"},
                                      {'E', 'B', "lsh: buckets must be an even number"},
                                      {0}};

static const char *const none[] = {NULL};
static const char *const fills[] = {"census", "clusters", "rounding", "cancel", "tiny", NULL};

static void extents(struct ref_shape *shape)
{
    int64_t *x = shape->extent;

    if (x['C'] >= 0 && x['i'] >= 0) {
        x['c'] = x['C'] > 0 ? x['C'] : x['i'];
        x['W'] = x['c'] > 0 ? x['i'] / x['c'] * x['c'] : x['i'];
    }
    if (x['B'] >= 0) {
        x['N'] = x['B'] / 2;
        x['E'] = 2 * x['N'];
    }
}

static int check(const struct ref_operands *operands, char *why, size_t size)
{
    const struct attn_problem *p = operands->problem;
    const char *fault = p->rounds < 1                 ? "lsh has at least one round"
                        : p->buckets < 2              ? "lsh has at least two buckets"
                        : p->chunk < 0                ? "a chunk of lsh is below 0"
                        : p->off != 0                 ? "lsh has no offset"
                        : p->variant < 0              ? "this variant of lsh is not known"
                        : p->variant > ATTN_LSH_PLAIN ? "this variant of lsh is not known"
                        : operands->by_role[ATTN_BUCKETS] && operands->by_role[ATTN_BUCKETS_OUT]
                            ? "buckets are given, or they are asked for"
                            : NULL;

    if (fault)
        snprintf(why, size, "%s", fault);
    return fault ? ATTN_INVALID : ATTN_OK;
}

/* Bits that look random, alike on every machine. */
static uint64_t mixed(int64_t n)
{
    uint64_t x = ((uint64_t)n + 1) * UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static double sign(uint64_t bits)
{
    return bits & 1 ? -1 : 1;
}

/* census: plus or minus one vector, so that there are two buckets in each round. clusters: four
 * directions in two lengths, and zeros: buckets larger than a piece, and products that tie. */
static double query(const struct ref_drawn *x, double number)
{
    const int64_t row = x->index / x->shape[3], c = x->index % x->shape[3];
    const uint64_t bits = mixed(row) >> 8;

    if (ref_drawn_under(x, "census"))
        return 0.125 * sign(bits) * sign(mixed(~c) >> 5);
    if (!ref_drawn_under(x, "clusters"))
        return number;
    if (bits % 9 == 0)
        return 0;
    return (bits & 16 ? 0.25 : 0.5) * sign(mixed(~(4 * c + (int64_t)(bits >> 8 & 3))) >> 5);
}

static double value(const struct ref_drawn *x, double number)
{
    const int64_t t = x->index / x->shape[3] % x->shape[2];

    return ref_drawn_under(x, "census")     ? (number < 0 ? -1 : 1)
           : ref_drawn_under(x, "rounding") ? fabs(number)
           : ref_drawn_under(x, "cancel")   ? (t % 2 ? -1 : 1)
           : ref_drawn_under(x, "tiny")     ? 1e-6 * number
                                            : number;
}

static bool draw(const struct ref_drawn *x, double *number)
{
    const bool made = ref_drawn_made(x, fills);

    switch (x->role) {
    case ATTN_Q:
        *number = query(x, *number);
        return made;
    case ATTN_V:
        *number = value(x, *number);
        return made;
    case ATTN_BUCKETS: /* ref_lsh_derive writes them */
        *number = 0;
        return true;
    default:
        return x->role == ATTN_ROTATIONS;
    }
}

/* Tokens that a query looks at in each round: its piece and the one before. */
static double seen(double chunk, double places)
{
    return chunk < places ? 2 * chunk : chunk;
}

/* Products of the hashes, and 2 (dk + dv) for each look at a token; causal gets no credit. */
static double flops(const struct ref_shape *shape, double nnz)
{
    const double places = (double)ref_shape_elements(shape, "bhiR");
    const double of_head = (double)ref_shape_elements(shape, "iR");
    const double dk = (double)shape->extent['k'], dv = (double)shape->extent['v'];

    (void)nnz;
    return 2.0 * places *
           ((double)shape->extent['N'] * dk +
            seen((double)shape->extent['c'], of_head) * (dk + dv));
}

static double unit_cost(const struct attn_problem *problem, int output)
{
    const double keys = (double)problem->sk, dk = (double)problem->dk, dv = (double)problem->dv;
    const double hash = dk * (double)problem->buckets;

    if (output == REF_LSH_BUCKETS)
        return hash;
    return keys * (4.0 * dk + 5.0 * dv + 100.0) + (double)problem->rounds * hash;
}

static uint32_t linear(const struct attn_problem *problem, const char **word)
{
    (void)problem;
    *word = "v";
    return ATTN_V;
}

const struct ref_op ref_op_lsh = {
    .op = ATTN_OP_LSH,
    .name = "lsh",
    .summary = "attention of Reformer: keys in the same bucket of a hash, or in the one before",
    .flags = ATTN_FLAG_CAUSAL,
    .traits = REF_APPROXIMATES,
    .operands = groups,
    .outputs = outputs,
    .params = params,
    .keys = none,
    .needed = none,
    .main_operand = "q",
    .scaled = true,
    .choices = choices,
    .ties = ties,
    .check = check,
    .extents = extents,
    .draw = draw,
    .fills = fills,
    .derive = ref_lsh_derive,
    .chosen = 1u << REF_LSH_BUCKETS,
    .ambiguous = ref_lsh_ambiguous,
    .flops = flops,
    .unit_cost = unit_cost,
    .compute = ref_lsh_compute,
    .linear = linear,
};
