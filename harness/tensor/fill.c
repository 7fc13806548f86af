/* SPDX-License-Identifier: Apache-2.0 */
/* fill.c - adversarial inputs. README.md has the rules, one line per fill.
 *
 * A chosen score f_j is put into the operands by the kind of score: a product is spread over all
 * columns with random signs (q = signs, k = f signs / (scale D), M = identity); the Gaussian has
 * q = 0 and one column of k; additive scores have W_q = 0 and f = A tanh(x_j); tables of positions
 * are 0. */
#include "tensor/fill.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "case/operator.h"
#include "reference/operands.h"
#include "tensor/craft.h"
#include "tensor/fill_few.h"
#include "tensor/operand.h"

#define SPIKE_LEAKED 1e30 /* above any finite constant that masks by addition */
#define SPIKE_SHARED 60.0 /* if other rows may see the key */
#define EXACT_ZEROS  16   /* scores of 0 in a whole row */
/* Signs of v_global differ from those of v: a census tells which of the two was read. */
#define OF_GLOBAL UINT64_C(0x676c6f62616c)

static double uniform(const struct craft *f, uint32_t stream, uint64_t index)
{
    return attn_random_uniform(f->c->seed, stream, index);
}

static double sign_of(const struct craft *f, int64_t column)
{
    return uniform(f, STREAM_SIGNS, (uint64_t)column) < 0.5 ? -1.0 : 1.0;
}

static double drawn(const struct craft *f, uint64_t index)
{
    return attn_random_normal(f->c->seed, f->role, index);
}

int attn_fill_census_sign(uint64_t seed, int64_t head, int64_t key, int64_t column)
{
    const int64_t place = key + (head + column) % 2;
    const uint64_t index =
        ((uint64_t)head << 40) ^ ((uint64_t)(place / 2) << 16) ^ (uint64_t)column;
    const int sign = attn_random_uniform(seed, STREAM_SIGNS, index) < 0.5 ? -1 : 1;
    return place % 2 ? -sign : sign;
}

/* ---- scores that are chosen ---- */

static double chosen_score(const struct craft *f, int64_t head, int64_t key)
{
    const int64_t sk = f->c->sk;
    const uint64_t index = (uint64_t)(head * sk + key);
    switch (f->c->fill) {
    case ATTN_FILL_EXACT: {
        const int64_t step = (sk + EXACT_ZEROS - 1) / EXACT_ZEROS;
        return (key + head) % step == 0 ? 0.0 : EXACT_LOW;
    }
    case ATTN_FILL_STAIR_UP:
    case ATTN_FILL_STAIR_DOWN: { /* sixteen steps of 4, and 30 more for the last */
        const int64_t at = f->c->fill == ATTN_FILL_STAIR_UP ? key : sk - 1 - key;
        const int64_t step = 16 * at / sk;
        return 4.0 * (double)step + (step == 15 ? 30.0 : 0.0) + uniform(f, STREAM_SCORES, index);
    }
    default:
        return 0.0;
    }
}

static double amplitude(const struct craft *f)
{
    return 1.25 * fmax(fabs(f->least), fabs(f->most)) + 1.0;
}

/* Rows differ by up to a quarter, so that swapped rows show. */
static double scored_q(const void *context, uint64_t index)
{
    const struct craft *f = context;
    const uint64_t row = index / (uint64_t)f->width;
    if (f->score->traits & REF_SCORE_DISTANCE)
        return 0.0;
    return sign_of(f, (int64_t)(index % (uint64_t)f->width)) *
           (0.75 + 0.5 * uniform(f, STREAM_ROWS, row));
}

static double scored_k(const void *context, uint64_t index)
{
    const struct craft *f = context;
    const int64_t column = (int64_t)(index % (uint64_t)f->width);
    const double score = f->scores[index / (uint64_t)f->width], scale = f->c->scale;
    if (f->score->traits & REF_SCORE_DISTANCE)
        return column > 0
                   ? 0.0
                   : sqrt(2 * (scale > 0 ? f->most - score : score - f->least) / fabs(scale));
    if (f->score->hidden)
        return sign_of(f, column) * atanh(score / amplitude(f));
    return column < f->columns ? sign_of(f, column) * score / (scale * (double)f->columns) : 0.0;
}

static double identity_m(const void *context, uint64_t index)
{
    const struct craft *f = context;
    const uint64_t cell = index % (uint64_t)(f->c->dq * f->c->dk);
    return cell / (uint64_t)f->c->dk == cell % (uint64_t)f->c->dk;
}

static double nothing(const void *context, uint64_t index)
{
    (void)context;
    (void)index;
    return 0.0;
}

static double additive_wk(const void *context, uint64_t index)
{
    const struct craft *f = context;
    return sign_of(f, (int64_t)(index % (uint64_t)f->c->dk)) / (double)f->c->dk;
}

static double additive_wv(const void *context, uint64_t index)
{
    const struct craft *f = context;
    (void)index;
    return amplitude(f) / (f->c->scale * (double)f->c->dh);
}

/* ---- scores with one column added to random ones ---- */

static double common_score(const struct craft *f)
{
    return f->c->fill == ATTN_FILL_OVERFLOW ? OVERFLOW_SCORE : NEGATIVE_SCORE;
}

static double shifted_q(const struct craft *f, uint64_t index, double drawn)
{
    if (index % (uint64_t)f->width > 0)
        return drawn;
    return f->c->fill == ATTN_FILL_SPIKE ? 1.0 : sqrt(fabs(common_score(f) / f->c->scale));
}

/* The sight of the keys of the tensor at work. */
static const unsigned char *sight_of(const struct craft *f)
{
    const bool global = f->role == ATTN_K_GLOBAL || f->role == ATTN_V_GLOBAL;
    return global ? f->seen_global : f->seen;
}

static bool is_spike(const struct craft *f, uint64_t key)
{
    const unsigned char seen = sight_of(f)[key];
    return seen == SEEN_BY_NONE || (seen == SEEN_BY_SOME && uniform(f, STREAM_SPIKES, key) < 0.25);
}

double attn_craft_spike(const struct craft *f, uint64_t key)
{
    if (!is_spike(f, key))
        return 0.0;
    if (sight_of(f)[key] == SEEN_BY_SOME)
        return SPIKE_SHARED / f->c->scale;
    return copysign(f->c->dtype == ATTN_F16 ? 6e4 : SPIKE_LEAKED, f->c->scale);
}

static double shifted_k(const struct craft *f, uint64_t index, double drawn)
{
    if (index % (uint64_t)f->width > 0)
        return drawn;
    if (f->c->fill == ATTN_FILL_SPIKE)
        return attn_craft_spike(f, index / (uint64_t)f->width);
    const double product = common_score(f) / f->c->scale;
    return copysign(sqrt(fabs(product)), product);
}

/* ---- one key per row ---- */

int64_t attn_craft_bits(int64_t keys)
{
    int64_t bits = 1;
    while (keys > (int64_t)1 << bits)
        bits++;
    return bits;
}

/* Under two_hot, keys 2t and 2t+1 have one code. Its columns begin after the one that tells them
 * apart, in which q is 0: so a row has two keys of the same score. */
static bool is_paired(const struct craft *f)
{
    return f->c->fill == ATTN_FILL_TWO_HOT;
}

static int64_t codes(const struct craft *f)
{
    return is_paired(f) ? (f->c->sk + 1) / 2 : f->c->sk;
}

/* Sign of a column in the code of a key: the key's binary digits, repeated, so that two codes
 * differ in at least columns / bits places. Each head numbers its keys from another start. */
static double code_sign(const struct craft *f, int64_t head, int64_t key, int64_t column)
{
    const int64_t number = ((is_paired(f) ? key / 2 : key) + head) % codes(f);
    return number >> (column % attn_craft_bits(codes(f))) & 1 ? 1.0 : -1.0;
}

static double coded_q(const void *context, uint64_t index)
{
    const struct craft *f = context;
    const struct attn_case *c = f->c;
    const int64_t column = (int64_t)index % f->width, row = (int64_t)index / f->width;
    const int64_t h = row / c->sq % c->hq, b = row / c->sq / c->hq;
    const int64_t head = b * c->hkv + h / (c->hq / c->hkv);
    const int64_t apart = (f->columns - is_paired(f)) / attn_craft_bits(codes(f));
    if (is_paired(f) && column == 0)
        return 0.0;
    return ONE_HOT_GAP / (2.0 * (double)apart * c->scale) *
           code_sign(f, head, f->targets[row], column);
}

static double coded_k(const void *context, uint64_t index)
{
    const struct craft *f = context;
    const int64_t row = (int64_t)index / f->width, column = (int64_t)index % f->width;
    if (is_paired(f) && column == 0)
        return row % f->c->sk % 2 ? -1.0 : 1.0;
    return code_sign(f, row / f->c->sk, row % f->c->sk, column);
}

/* ---- values ---- */

static double crafted_v(const void *context, uint64_t index)
{
    const struct craft *f = context;
    const uint64_t row = index / (uint64_t)f->width, column = index % (uint64_t)f->width;
    const uint64_t sk = (uint64_t)f->c->sk, head = row / sk, key = row % sk;
    switch (f->c->fill) {
    case ATTN_FILL_CENSUS:
        return attn_fill_census_sign(f->c->seed ^ (f->role == ATTN_V_GLOBAL ? OF_GLOBAL : 0),
                                     (int64_t)head, (int64_t)key, (int64_t)column);
    case ATTN_FILL_EXACT:
        return floor(17.0 * uniform(f, f->role, index)) - 8.0;
    case ATTN_FILL_ROUNDING:
        return 0.5 + uniform(f, f->role, index);
    case ATTN_FILL_CONSTANT:
        return drawn(f, head * (uint64_t)f->width + column);
    default: { /* cancel */
        const double value = drawn(f, index - key % 2 * (uint64_t)f->width);
        return key % 2 ? -value : value;
    }
    }
}

static double spiked_v(const struct craft *f, uint64_t index, double drawn)
{
    return drawn * (is_spike(f, index / (uint64_t)f->width) ? SPIKE_VALUE : 1.0);
}

static double tiny_v(const struct craft *f, uint64_t index, double drawn)
{
    (void)f;
    (void)index;
    return 1e-6 * drawn;
}

/* All keys of a head are alike, or every two keys. */
static double repeated_k(const void *context, uint64_t index)
{
    const struct craft *f = context;
    const uint64_t width = (uint64_t)f->width, sk = (uint64_t)f->c->sk;
    const uint64_t head = index / width / sk, key = index / width % sk, column = index % width;
    const uint64_t same = f->c->fill == ATTN_FILL_CONSTANT ? 0 : key / 2 * 2;
    return drawn(f, (head * sk + same) * width + column);
}

/* Keys that no row sees hold NaN, Inf and -Inf in turn. Of the keys that some rows see, the last
 * one holds NaN, which must reach only these rows. In self-attention, the row of x that makes such
 * a key makes a query, too. It holds NaN always: an infinite query may have scores of -Inf, and the
 * weights of these are unknown in a row of NaN, so the result could not be trusted. */
static double poisoned(const struct craft *f, uint64_t index, double drawn)
{
    static const double poison[] = {NAN, INFINITY, -INFINITY};
    const struct attn_case *c = f->c;
    const uint64_t row = index / (uint64_t)f->width, sk = (uint64_t)c->sk;
    const uint64_t heads = ref_op_is(c->op, REF_PROJECTED) ? (uint64_t)c->hkv : 1;
    const unsigned char *seen = sight_of(f) + row / sk * heads * sk;
    uint64_t key = row % sk;
    if (seen[key] == SEEN_BY_NONE)
        return f->role == ATTN_X_Q ? NAN : poison[key % 3];
    if (seen[key] == SEEN_BY_SOME) {
        while (++key < sk && seen[key] != SEEN_BY_SOME)
            continue;
        if (key == sk)
            return NAN;
    }
    return drawn;
}

/* Of q the rows of global tokens, and of q_global all others: nobody may read them. */
static double poisoned_query(const struct craft *f, uint64_t index, double drawn)
{
    const struct attn_case *c = f->c;
    const int64_t row = (int64_t)index / f->width, b = row / c->sq / c->hq;
    struct ref_operands operands;
    ref_operands_init(&operands, &f->instance->problem);
    return ref_is_global(&operands, b, row % c->sq) == (f->role == ATTN_Q) ? NAN : drawn;
}

/* ---- putting it together ---- */

static int choose_scores(struct craft *f, int64_t batches)
{
    const struct attn_case *c = f->c;
    const int64_t count = batches * c->hkv * c->sk;
    f->scores = calloc((size_t)count, sizeof *f->scores);
    if (f->scores == NULL)
        return -1;
    f->least = INFINITY;
    f->most = -INFINITY;
    for (int64_t at = 0; at < count; at++) {
        f->scores[at] = chosen_score(f, at / c->sk, at % c->sk);
        f->least = fmin(f->least, f->scores[at]);
        f->most = fmax(f->most, f->scores[at]);
    }
    return 0;
}

/* A random key among those that a row may see; any key if the row sees none. */
static int choose_targets(struct craft *f)
{
    const struct attn_problem *p = &f->instance->problem;
    const int64_t rows = p->b * p->hq * p->sq;
    f->targets = calloc((size_t)rows, sizeof *f->targets);
    if (f->targets == NULL)
        return -1;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t i = row % p->sq, h = row / p->sq % p->hq, b = row / p->sq / p->hq;
        const int64_t start =
            (int64_t)(uniform(f, STREAM_TARGETS, (uint64_t)row) * (double)p->sk) % p->sk;
        f->targets[row] = start;
        for (int64_t n = 0; n < p->sk; n++) {
            const int64_t key = (start + n) % p->sk;
            if (ref_allowed(p, b, h, i, key)) {
                f->targets[row] = key;
                break;
            }
        }
    }
    return 0;
}

/* Has each row keys that were chosen for it? */
static bool chooses_keys(enum attn_fill fill)
{
    return fill == ATTN_FILL_ONE_HOT || fill == ATTN_FILL_TWO_HOT;
}

/* How the fill makes an operand: each value anew, or from the one that is drawn at its place. */
struct maker {
    double (*value)(const void *context, uint64_t index);
    double (*change)(const struct craft *f, uint64_t index, double drawn);
};

#define MADE(function)    ((struct maker){.value = (function)})
#define CHANGED(function) ((struct maker){.change = (function)})
#define AS_DRAWN          ((struct maker){NULL, NULL})

static bool chooses_scores(enum attn_fill fill)
{
    return fill == ATTN_FILL_EXACT || fill == ATTN_FILL_STAIR_UP || fill == ATTN_FILL_STAIR_DOWN;
}

static bool shifts_scores(enum attn_fill fill)
{
    return fill == ATTN_FILL_SPIKE || fill == ATTN_FILL_OVERFLOW || fill == ATTN_FILL_NEGATIVE;
}

static struct maker maker_of_q(enum attn_fill fill)
{
    return chooses_scores(fill)  ? MADE(scored_q)
           : shifts_scores(fill) ? CHANGED(shifted_q)
           : chooses_keys(fill)  ? MADE(coded_q)
                                 : AS_DRAWN;
}

static struct maker maker_of_k(enum attn_fill fill)
{
    return chooses_scores(fill)                                     ? MADE(scored_k)
           : shifts_scores(fill)                                    ? CHANGED(shifted_k)
           : chooses_keys(fill)                                     ? MADE(coded_k)
           : fill == ATTN_FILL_CENSUS                               ? MADE(nothing)
           : fill == ATTN_FILL_CONSTANT || fill == ATTN_FILL_CANCEL ? MADE(repeated_k)
           : fill == ATTN_FILL_POISON                               ? CHANGED(poisoned)
                                                                    : AS_DRAWN;
}

static struct maker maker_of_v(enum attn_fill fill)
{
    switch (fill) {
    case ATTN_FILL_CENSUS:
    case ATTN_FILL_EXACT:
    case ATTN_FILL_ROUNDING:
    case ATTN_FILL_CONSTANT:
    case ATTN_FILL_CANCEL:
        return MADE(crafted_v);
    case ATTN_FILL_SPIKE:
        return CHANGED(spiked_v);
    case ATTN_FILL_TINY:
        return CHANGED(tiny_v);
    case ATTN_FILL_POISON:
        return CHANGED(poisoned);
    default:
        return AS_DRAWN;
    }
}

static struct maker maker_of(const struct attn_case *c, uint32_t role)
{
    const enum attn_fill fill = c->fill;
    const bool chosen = chooses_scores(fill), poison = fill == ATTN_FILL_POISON;
    switch (role) {
    case ATTN_Q:
    case ATTN_Q_GLOBAL:
        return poison && c->global_proj ? CHANGED(poisoned_query) : maker_of_q(fill);
    case ATTN_K:
    case ATTN_K_GLOBAL:
        return maker_of_k(fill);
    case ATTN_V:
    case ATTN_V_GLOBAL:
        return maker_of_v(fill);
    case ATTN_SCORE_M:
        return chosen || shifts_scores(fill) || fill == ATTN_FILL_ONE_HOT ? MADE(identity_m)
                                                                          : AS_DRAWN;
    case ATTN_SCORE_KR: /* no scores but those that the fill chooses */
    case ATTN_SCORE_QR:
        return chosen || shifts_scores(fill) || fill == ATTN_FILL_ONE_HOT ||
                       fill == ATTN_FILL_CENSUS
                   ? MADE(nothing)
                   : AS_DRAWN;
    case ATTN_SCORE_WQ:
        return chosen ? MADE(nothing) : AS_DRAWN;
    case ATTN_SCORE_WK:
        return chosen ? MADE(additive_wk) : AS_DRAWN;
    case ATTN_SCORE_WV:
        return chosen ? MADE(additive_wv) : AS_DRAWN;
    case ATTN_LIN_K:
    case ATTN_X_K:
    case ATTN_X_V:
        return poison ? CHANGED(poisoned) : AS_DRAWN;
    case ATTN_X_Q: /* which is x_k, too, in self-attention */
        return poison && !c->cross ? CHANGED(poisoned) : AS_DRAWN;
    default:
        return AS_DRAWN;
    }
}

struct changing {
    const struct craft *craft;
    struct maker maker;
    uint64_t count; /* elements; the last run ends beyond them */
};

static void changed_values(const void *context, uint64_t first, double values[ATTN_RANDOM_RUN])
{
    const struct changing *c = context;
    attn_random_normals(c->craft->c->seed, c->craft->role, first, values);
    for (unsigned n = 0; n < ATTN_RANDOM_RUN && first + n < c->count; n++)
        values[n] = c->maker.change(c->craft, first + n, values[n]);
}

/* Is the fill made here, out of q, k and v? Operators may draw it by themselves, except
 * poison, which depends on the mask alone. */
static bool is_made(const struct attn_case *c)
{
    return c->fill == ATTN_FILL_POISON ||
           (c->fill >= ATTN_FILL_CENSUS &&
            !attn_op_fills(attn_case_op(c), attn_fill_name(c->fill)) &&
            (ref_op_is(c->op, REF_QKV) || ref_op_is(c->op, REF_PROJECTED) ||
             attn_op_crafts(attn_case_op(c), attn_fill_name(c->fill))));
}

bool attn_fill_makes(const struct attn_case *c, uint32_t role)
{
    if (!is_made(c) || c->fill == ATTN_FILL_FEW_QUERIES)
        return false;
    const struct maker maker = maker_of(c, role);
    return attn_craft_makes(c, role) || maker.value || maker.change;
}

static int look(struct craft *f, int64_t batches, int threads)
{
    const bool two = f->c->global_proj;
    f->seen = attn_craft_look(f->instance, batches, two ? ATTN_ROWS_LOCAL : ATTN_ROWS_ALL, threads);
    if (two)
        f->seen_global = attn_craft_look(f->instance, batches, ATTN_ROWS_GLOBAL, threads);
    return f->seen && (f->seen_global || !two) ? 0 : -1;
}

int attn_fill_craft(struct attn_instance *instance, int threads, char *why, size_t size)
{
    const struct attn_case *c = &instance->c;
    struct craft f = {.instance = instance, .c = c, .score = attn_case_score(c)};
    if (!is_made(c))
        return 0;
    if (c->fill == ATTN_FILL_FEW_QUERIES)
        return attn_fill_few_queries(instance, threads, why, size);
    const struct attn_tensor *k = attn_tensor_find(&instance->problem, ATTN_K);
    if (k == NULL)
        k = attn_tensor_find(&instance->problem, ATTN_X_K);
    const int64_t batches = k != NULL && k->stride[0] == 0 && c->b > 1 ? 1 : c->b;
    f.columns = c->dq < c->dk ? c->dq : c->dk;
    int status = 0;
    if (chooses_scores(c->fill))
        status = choose_scores(&f, batches);
    else if (chooses_keys(c->fill))
        status = choose_targets(&f);
    else if (c->fill == ATTN_FILL_SPIKE || c->fill == ATTN_FILL_POISON)
        status = look(&f, batches, threads);
    if (status == 0 && ref_op_is(c->op, REF_PROJECTED) && c->fill != ATTN_FILL_POISON)
        attn_craft_projected(&f, threads);
    for (uint32_t t = 0; status == 0 && t < instance->problem.n_tensors; t++) {
        const struct attn_tensor *tensor = &instance->tensors[t];
        const struct maker maker = maker_of(c, tensor->role);
        f.width = tensor->shape[tensor->rank - 1];
        f.role = tensor->role;
        if (maker.value)
            attn_operand_fill(tensor, threads, maker.value, &f);
        else if (maker.change)
            attn_operand_fill_runs(
                tensor, threads, changed_values,
                &(struct changing){&f, maker, (uint64_t)attn_operand_count(tensor)});
    }
    if (status != 0)
        snprintf(why, size, "no memory for fill=%s", attn_fill_name(c->fill));
    free(f.scores);
    free(f.targets);
    free(f.seen);
    free(f.seen_global);
    return status;
}
