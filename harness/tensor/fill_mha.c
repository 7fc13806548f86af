/* SPDX-License-Identifier: Apache-2.0 */
/* fill_mha.c - crafted inputs of multi-head attention. README.md has the rules.
 *
 * x is what one attention problem of all heads would need, side by side in its columns: first
 * columns of control (factors of rows, scores, codes of keys), then free ones. A row of w_q, w_k or
 * w_v selects one of them, times a sign and a power of two. So q, k and v are known, and no order
 * of summation rounds them. w_o is a permutation with signs. Only fill=whole adds several columns
 * up, all of small whole multiples of 1/8. */
#include <math.h>

#include "case/operator.h"
#include "reference/operands.h"
#include "reference/reference.h"
#include "tensor/craft.h"
#include "tensor/fill.h"
#include "tensor/operand.h"

/* fill=whole: so many weights of a row are not 0; x is a multiple of GRID within +-MOST, a bias one
 * within +-BIAS. A sum of absolute values is below 256 GRID, so 8 bits hold it. */
enum { TERMS = 4 };
#define GRID 0.125
#define MOST 3.875
#define BIAS 4.0
/* The spread of its scores: wide enough that a scale 2 % off shows, so narrow that many keys count.
 */
#define SPREAD 4.0

enum part { OF_Q, OF_K, OF_V, PARTS };

struct craft_mha {
    const struct craft *f;
    const struct attn_tensor *tensor;   /* at work */
    int64_t e;                          /* width of x */
    int64_t control;                    /* columns before the free ones */
    int64_t first[PARTS], count[PARTS]; /* the free columns for q, k and v */
    int64_t classes;                    /* key heads with scores of their own, or targets */
    int64_t bits;                       /* one_hot: columns of a code */
    double on_q, on_k;                  /* factors in w_q and w_k */
};

static double random_at(const struct craft_mha *m, uint32_t stream, int64_t a, int64_t b)
{
    return attn_random_uniform(m->f->c->seed, stream, (uint64_t)a << 32 ^ (uint64_t)b);
}

static double sign_at(const struct craft_mha *m, int64_t a, int64_t b)
{
    return random_at(m, STREAM_SIGNS, a, b) < 0.5 ? -1.0 : 1.0;
}

/* The nearest number of 8 bits: every type holds it. */
static double narrow(double x)
{
    int exponent;
    const double fraction = frexp(x, &exponent);

    return ldexp(nearbyint(fraction * 256.0), exponent - 8);
}

static bool is_chosen(enum attn_fill fill)
{
    return fill == ATTN_FILL_EXACT || fill == ATTN_FILL_STAIR_UP || fill == ATTN_FILL_STAIR_DOWN;
}

static bool is_shifted(enum attn_fill fill)
{
    return fill == ATTN_FILL_SPIKE || fill == ATTN_FILL_OVERFLOW || fill == ATTN_FILL_NEGATIVE;
}

/* ---- x ---- */

/* An element of x: batch b as it is stored, row i, column. */
struct place {
    int64_t b, i, column;
};

static double drawn_at(const struct craft_mha *m, int64_t b, int64_t i, int64_t column)
{
    const uint64_t row = (uint64_t)(b * m->tensor->shape[1] + i);

    return narrow(attn_random_normal(m->f->c->seed, m->tensor->role,
                                     row * (uint64_t)m->e + (uint64_t)column));
}

static double bit_sign(int64_t number, int64_t bit)
{
    return number >> bit & 1 ? 1.0 : -1.0;
}

static double control(const struct craft_mha *m, const struct place *at)
{
    const struct attn_case *c = m->f->c;
    const bool query = m->tensor->role == ATTN_X_Q, key = !query || !c->cross;

    if (c->fill == ATTN_FILL_ONE_HOT && at->column < m->bits)
        return bit_sign(at->i, at->column);
    if (c->fill == ATTN_FILL_ONE_HOT) {
        const int64_t h = at->column / m->bits - 1;
        return query ? bit_sign(m->f->targets[(at->b * c->hq + h) * c->sq + at->i],
                                at->column % m->bits)
                     : 0.0;
    }
    if (is_shifted(c->fill))
        return at->column == 0 ? 1.0
               : key ? narrow(attn_craft_spike(m->f, (uint64_t)(at->b * c->hkv * c->sk + at->i)))
                     : 0.0;
    if (at->column == 0) /* 0.75, 1 or 1.25, so that swapped rows show */
        return 0.75 + 0.25 * floor(3.0 * random_at(m, STREAM_ROWS, at->b, at->i));
    if (!key)
        return 0.0;
    const double score = m->f->scores[(at->b * c->hkv + at->column - 1) * c->sk + at->i];
    return c->fill == ATTN_FILL_EXACT ? score != 0.0 : narrow(score);
}

static double value(const struct craft_mha *m, const struct place *at)
{
    const struct attn_case *c = m->f->c;

    switch (c->fill) {
    case ATTN_FILL_EXACT:
        return floor(17.0 * random_at(m, m->tensor->role, at->b * c->sk + at->i, at->column)) - 8.0;
    case ATTN_FILL_SPIKE: {
        const int64_t key = at->b * c->hkv * c->sk + at->i;
        return narrow(drawn_at(m, at->b, at->i, at->column) *
                      (attn_craft_spike(m->f, (uint64_t)key) != 0.0 ? SPIKE_VALUE : 1.0));
    }
    case ATTN_FILL_ROUNDING:
        return narrow(0.5 + random_at(m, m->tensor->role, at->b * c->sk + at->i, at->column));
    case ATTN_FILL_CONSTANT:
        return drawn_at(m, at->b, 0, at->column);
    case ATTN_FILL_CANCEL:
        return (at->i % 2 ? -1.0 : 1.0) * drawn_at(m, at->b, at->i / 2 * 2, at->column);
    case ATTN_FILL_TINY:
        return narrow(1e-6 * drawn_at(m, at->b, at->i, at->column));
    default:
        return drawn_at(m, at->b, at->i, at->column);
    }
}

static double x_value(const void *context, uint64_t index)
{
    const struct craft_mha *m = context;
    const struct attn_case *c = m->f->c;
    const int64_t row = (int64_t)index / m->e, rows = m->tensor->shape[1];
    const struct place at = {row / rows, row % rows, (int64_t)index % m->e};
    const bool key = m->tensor->role != ATTN_X_Q || !c->cross;

    if (c->fill == ATTN_FILL_WHOLE)
        return fmax(-MOST, fmin(MOST, GRID * nearbyint(drawn_at(m, at.b, at.i, at.column) / GRID)));
    if (at.column < m->control)
        return control(m, &at);
    if (key && c->fill == ATTN_FILL_CENSUS)
        return attn_fill_census_sign(c->seed, at.b, at.i, at.column);
    if (key && at.column >= m->first[OF_V])
        return value(m, &at);
    if (key && at.column >= m->first[OF_K] && c->fill == ATTN_FILL_CONSTANT)
        return drawn_at(m, at.b, 0, at.column);
    if (key && at.column >= m->first[OF_K] && c->fill == ATTN_FILL_CANCEL)
        return drawn_at(m, at.b, at.i / 2 * 2, at.column);
    return drawn_at(m, at.b, at.i, at.column);
}

/* ---- weights ---- */

/* One free column for each row of w, with a sign. */
static double select_free(const struct craft_mha *m, enum part part, int64_t row, int64_t column)
{
    return column == m->first[part] + row % m->count[part] ? sign_at(m, part, row) : 0.0;
}

/* fill=whole: TERMS columns for each row, at equal distances. Each role begins elsewhere. */
static double select_several(const struct craft_mha *m, enum part part, int64_t row, int64_t column)
{
    const int64_t terms = m->e < TERMS ? m->e : TERMS, step = m->e / terms;
    const int64_t start = (row + part * (m->e / PARTS + 1)) % m->e;
    const int64_t distance = (column - start + m->e) % m->e, term = distance / step;
    const double sign = sign_at(m, part, row * TERMS + term);

    return distance % step == 0 && term < terms ? sign : 0.0;
}

/* Sign of column c of the queries and keys of a key head: products lose it. */
static double shared_sign(const struct craft_mha *m, int64_t g, int64_t c)
{
    return sign_at(m, PARTS, g << 16 ^ c);
}

static double w_q(const void *context, uint64_t index)
{
    const struct craft_mha *m = context;
    const struct attn_case *c = m->f->c;
    const int64_t row = (int64_t)index / m->e, column = (int64_t)index % m->e;
    const int64_t h = row / c->dq, at = row % c->dq, g = h / (c->hq / c->hkv);

    if (c->fill == ATTN_FILL_WHOLE)
        return m->on_q * select_several(m, OF_Q, row, column);
    if (is_chosen(c->fill))
        return column == 0 ? shared_sign(m, g, at) : 0.0;
    if (is_shifted(c->fill) && at == 0)
        return column == 0 ? m->on_q : 0.0;
    if (c->fill != ATTN_FILL_ONE_HOT)
        return select_free(m, OF_Q, row, column);
    return column == m->bits * (1 + h % m->classes) + (at + g) % m->bits
               ? m->on_q * shared_sign(m, g, at)
               : 0.0;
}

static double w_k(const void *context, uint64_t index)
{
    const struct craft_mha *m = context;
    const struct attn_case *c = m->f->c;
    const int64_t row = (int64_t)index / m->e, column = (int64_t)index % m->e;
    const int64_t g = row / c->dk, at = row % c->dk;

    if (c->fill == ATTN_FILL_CENSUS)
        return 0.0;
    if (c->fill == ATTN_FILL_WHOLE)
        return m->on_k * select_several(m, OF_K, row, column);
    if (is_chosen(c->fill))
        return column == 1 + g % m->classes ? m->on_k * shared_sign(m, g, at) : 0.0;
    if (is_shifted(c->fill) && at == 0)
        return column == m->control - 1 ? m->on_k : 0.0;
    if (c->fill != ATTN_FILL_ONE_HOT)
        return select_free(m, OF_K, row, column);
    return column == (at + g) % m->bits ? shared_sign(m, g, at) : 0.0;
}

static double w_v(const void *context, uint64_t index)
{
    const struct craft_mha *m = context;
    const int64_t row = (int64_t)index / m->e, column = (int64_t)index % m->e;

    return m->f->c->fill == ATTN_FILL_WHOLE ? select_several(m, OF_V, row, column)
                                            : select_free(m, OF_V, row, column);
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Row o selects a column of the concatenated heads: golden-ratio steps around a circle, so every
 * row of few has a head of its own. */
static double w_o(const void *context, uint64_t index)
{
    const struct craft_mha *m = context;
    const int64_t width = m->tensor->shape[1];
    const int64_t row = (int64_t)index / width, column = (int64_t)index % width;
    int64_t step = (int64_t)(0.618 * (double)width) + 1;

    while (common_divisor(step, width) != 1)
        step++;
    return column == (row * step + width / 3) % width ? sign_at(m, PARTS + 1, row) : 0.0;
}

/* fill=whole: a whole multiple of the grid; other fills have no biases. */
static double bias(const void *context, uint64_t index)
{
    const struct craft_mha *m = context;
    const uint32_t role = m->tensor->role;
    const double steps = floor((2.0 * BIAS / GRID + 1.0) * random_at(m, role, 0, (int64_t)index));
    const double factor = role == ATTN_B_Q ? m->on_q : role == ATTN_B_K ? m->on_k : 1.0;

    return m->f->c->fill == ATTN_FILL_WHOLE ? factor * (steps * GRID - BIAS) : 0.0;
}

/* ---- putting it together ---- */

static double power_of_two(double x)
{
    return exp2(fmax(-24.0, fmin(24.0, ceil(log2(x)))));
}

/* Factors of w_q and w_k that spread the scores of fill=whole. q and k have columns of deviation 2,
 * m a unit bilinear form. */
static void spread_scores(struct craft_mha *m)
{
    const struct attn_case *c = m->f->c;
    const double scale = fabs(c->scale) > 0 ? fabs(c->scale) : 1.0, d = (double)c->dk;

    if (m->f->score->traits & REF_SCORE_DISTANCE) /* half the square of a distance */
        m->on_q = m->on_k = power_of_two(sqrt(SPREAD / (scale * 4.0 * sqrt(2.0 * d))));
    else if (c->score == ATTN_SCORE_BILINEAR)
        m->on_q = power_of_two(SPREAD / (scale * 4.0));
    else if (!m->f->score->hidden)
        m->on_q = power_of_two(SPREAD / (scale * 4.0 * sqrt(d)));
}

/* Control columns, and factors of w_q and w_k, by fill. */
static void lay_out(struct craft_mha *m)
{
    const struct attn_case *c = m->f->c;
    const double scale = c->scale, columns = (double)m->f->columns;

    m->on_q = m->on_k = 1.0;
    m->classes = 1;
    if (c->fill == ATTN_FILL_WHOLE) {
        spread_scores(m);
    } else if (is_chosen(c->fill)) {
        const int64_t room = m->e - 1 - PARTS;
        const double size = c->fill == ATTN_FILL_EXACT ? -EXACT_LOW / 0.75 : 1.0;
        m->classes = c->hkv < room ? c->hkv : room;
        m->control = 1 + m->classes;
        m->on_k = power_of_two(size / (fabs(scale) * columns));
        m->on_k *= (scale < 0) != (c->fill == ATTN_FILL_EXACT) ? -1.0 : 1.0;
    } else if (is_shifted(c->fill)) {
        const double product =
            (c->fill == ATTN_FILL_OVERFLOW ? OVERFLOW_SCORE : NEGATIVE_SCORE) / scale;
        m->control = c->fill == ATTN_FILL_SPIKE ? 2 : 1;
        if (c->fill != ATTN_FILL_SPIKE) {
            m->on_q = narrow(sqrt(fabs(product)));
            m->on_k = copysign(m->on_q, product);
        }
    } else if (c->fill == ATTN_FILL_ONE_HOT) {
        m->bits = attn_craft_bits(c->sk);
        const int64_t room = (m->e - 1) / m->bits - 1, apart = m->f->columns / m->bits;
        m->classes = c->hq < room ? c->hq : room;
        m->control = m->bits * (1 + m->classes);
        m->on_q = copysign(power_of_two(ONE_HOT_GAP / (2.0 * (double)apart * fabs(scale))), scale);
    }
    const int64_t free = m->e - m->control;
    for (int part = OF_Q; part < PARTS; part++) {
        m->first[part] = m->control + part * free / PARTS;
        m->count[part] = m->control + (part + 1) * free / PARTS - m->first[part];
    }
    for (int part = OF_Q; c->fill == ATTN_FILL_CENSUS && part < PARTS; part++) {
        m->first[part] = 0; /* k is 0, so all columns are values */
        m->count[part] = m->e;
    }
}

typedef double (*value_function)(const void *context, uint64_t index);

/* The function that makes an operand; NULL: it stays as drawn. */
static value_function maker(enum attn_fill fill, uint32_t role)
{
    const bool dense = fill == ATTN_FILL_ONE_HOT; /* every key of every row has one v: it is read
                                                     through dense w_v and w_o */
    switch (role) {
    case ATTN_X_Q:
    case ATTN_X_K:
    case ATTN_X_V:
        return x_value;
    case ATTN_W_Q:
        return w_q;
    case ATTN_W_K:
        return w_k;
    case ATTN_W_V:
        return dense ? NULL : w_v;
    case ATTN_W_O:
        return dense ? NULL : w_o;
    case ATTN_B_Q:
    case ATTN_B_K:
        return bias;
    case ATTN_B_V:
    case ATTN_B_O:
        return dense ? NULL : bias;
    default:
        return NULL;
    }
}

bool attn_craft_makes(const struct attn_case *c, uint32_t role)
{
    return ref_op_is(c->op, REF_PROJECTED) && c->fill >= ATTN_FILL_CENSUS &&
           c->fill != ATTN_FILL_POISON && maker(c->fill, role);
}

void attn_craft_projected(const struct craft *f, int threads)
{
    const struct attn_problem *p = &f->instance->problem;
    struct craft_mha m = {.f = f, .e = f->c->e};

    lay_out(&m);
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        const value_function make = maker(f->c->fill, p->tensors[t].role);
        m.tensor = &p->tensors[t];
        if (make)
            attn_operand_fill(m.tensor, threads, make, &m);
    }
}
