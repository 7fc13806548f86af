/* SPDX-License-Identifier: Apache-2.0 */
/* draw.c - fills the inputs of a case without a pack. The rules are in README.md. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "reference/parallel.h"
#include "tensor/fill.h"
#include "tensor/fill_few.h"
#include "tensor/operand.h"
#include "tensor/random.h"

/* Standard deviation of projection biases: large enough that a dropped one shows, small enough that
 * the projected values still come from the inputs. */
#define BIAS_SCALE 0.5

/* fill=smooth: how much of a row is the one before it. */
#define SMOOTH 0.98

struct stream {
    uint64_t seed;
    uint32_t role;
    double scale;  /* of a normal number, or the value itself */
    int64_t count; /* lengths: the number of possible values; orthogonal rows: where theirs begin */
    double p;      /* booleans: probability of true */
    const struct attn_case *c;
    const int64_t *shape;
};

static double normal_value(const void *context, uint64_t index)
{
    const struct stream *s = context;
    return s->scale * attn_random_normal(s->seed, s->role, index);
}

static struct ref_drawn drawn(const struct stream *s, int64_t index)
{
    return (struct ref_drawn){.role = s->role,
                              .fill = attn_fill_name(s->c->fill),
                              .is_f64 = s->c->dtype == ATTN_F64,
                              .shape = s->shape,
                              .index = index};
}

/* The bucket of a signed distance. A quotient within 1e-9 of a whole number counts as that number,
 * so that the last bit of a logarithm decides nothing. */
static double log_bucket(int64_t distance, double buckets)
{
    const double middle = floor(buckets / 2), far = fabs((double)distance);
    if (far < middle)
        return (double)distance;
    const double steps = log(far / middle) / log((2 * buckets - 1) / middle) * (middle - 1);
    const double whole = fabs(steps - round(steps)) < 1e-9 ? round(steps) : ceil(steps);
    return copysign(whole + middle, (double)distance);
}

/* Does the operator draw this input by itself? */
static bool is_own(const struct stream *s)
{
    const struct ref_op *op = attn_case_op(s->c);
    const struct ref_drawn first = drawn(s, 0);
    return op->draw && op->draw(&first, &(double){0});
}

/* As the operator draws it. */
static double own_value(const void *context, uint64_t index)
{
    const struct stream *s = context;
    double number = normal_value(s, index);
    const struct ref_drawn element = drawn(s, (int64_t)index);
    attn_case_op(s->c)->draw(&element, &number);
    return number;
}

static double uniform_value(const void *context, uint64_t index)
{
    const struct stream *s = context;
    return 2.0 * attn_random_uniform(s->seed, s->role, index) - 1.0;
}

static double constant_value(const void *context, uint64_t index)
{
    (void)index;
    return ((const struct stream *)context)->scale;
}

static void normal_values(const void *context, uint64_t first, double values[ATTN_RANDOM_RUN])
{
    const struct stream *s = context;
    attn_random_normals(s->seed, s->role, first, values);
    for (int i = 0; i < ATTN_RANDOM_RUN; i++)
        values[i] *= s->scale;
}

static void coin_values(const void *context, uint64_t first, double values[ATTN_RANDOM_RUN])
{
    const struct stream *s = context;
    attn_random_uniforms(s->seed, s->role, first, values);
    for (int i = 0; i < ATTN_RANDOM_RUN; i++)
        values[i] = values[i] < s->p;
}

/* An integer in 0 .. count-1; the product may round up to count. */
static double whole_value(const struct stream *s, uint64_t index)
{
    const double value = floor(attn_random_uniform(s->seed, s->role, index) * (double)s->count);
    return value < (double)s->count ? value : (double)(s->count - 1);
}

static double len_value(const void *context, uint64_t index)
{
    const struct stream *s = context;
    switch (s->c->len) {
    case ATTN_LEN_LIST:
        return (double)s->c->len_list->at[index % (uint64_t)s->c->n_len];
    case ATTN_LEN_RAND: /* 1 .. Sk: every row has a key */
        return s->count > 0 ? 1.0 + whole_value(s, index) : 0.0;
    default: /* 0 .. Sk: empty rows occur */
        return whole_value(
            &(struct stream){.seed = s->seed, .role = s->role, .count = s->count + 1}, index);
    }
}

/* The first n tokens of each batch. */
static double first_value(const void *context, uint64_t index)
{
    const struct attn_case *c = ((const struct stream *)context)->c;
    return (int64_t)index % c->sk < c->n_global;
}

static double dilation_value(const void *context, uint64_t head)
{
    const struct attn_case *c = ((const struct stream *)context)->c;
    return (double)c->dilation->at[head % (uint64_t)c->n_dilation];
}

static double keep_head_value(const void *context, uint64_t index)
{
    const struct attn_case *c = ((const struct stream *)context)->c;
    for (int p = 0; p < c->n_prune; p++)
        if (c->prune->at[p] == (int64_t)index)
            return 0;
    return 1;
}

/* Slopes 2^(-8(h+1)/n) for a power of two n = Hq; else those of the next lower power n for the
 * first n heads, then entries 0, 2, 4, ... of 2n. */
static double alibi_value(const void *context, uint64_t head)
{
    const struct attn_case *c = ((const struct stream *)context)->c;
    unsigned log2_heads = 0;
    while (2ll << log2_heads <= c->hq)
        log2_heads++;
    const unsigned heads = 1u << log2_heads, h = (unsigned)head;
    if (h < heads)
        return attn_random_exp2_neg(8 * (h + 1), log2_heads);
    return attn_random_exp2_neg(8 * (2 * (h - heads) + 1), log2_heads + 1);
}

/* Row of distance d = index - (Sk - 1) of i and j: about half of the buckets hold one distance
 * each, the others more and more of them, on a logarithm up to twice the number of buckets. */
static double bucket_value(const void *context, uint64_t index)
{
    const struct attn_case *c = ((const struct stream *)context)->c;
    const int64_t off = c->off_br ? c->sk - c->sq : c->off;
    const int64_t distance = (int64_t)index - (c->sk - 1) + off;
    const double span = attn_case_value(c, "span");
    const double row = log_bucket(distance, attn_case_value(c, "rel_buckets")) + span;
    return fmin(fmax(row, 0), 2 * span - 1);
}

struct orthonormal {
    double *vectors;
    int64_t rows, columns;
    struct stream stream;
};

/* Element of the matrix. Vectors are its rows, or its columns if it has more rows than columns. */
static double orthonormal_value(const void *context, uint64_t index)
{
    const struct orthonormal *o = context;
    if (o->rows <= o->columns)
        return o->vectors[index];
    const int64_t row = (int64_t)index / o->columns, column = (int64_t)index % o->columns;
    return o->vectors[column * o->rows + row];
}

static void draw_vectors(void *context, int64_t begin, int64_t end)
{
    struct orthonormal *o = context;
    const int64_t length = o->rows > o->columns ? o->rows : o->columns;
    for (int64_t at = begin; at < end; at++) {
        const int64_t vector = at / length, element = at % length;
        const int64_t index = o->rows <= o->columns ? at : element * o->columns + vector;
        o->vectors[at] = normal_value(&o->stream, (uint64_t)index);
    }
}

static int draw_orthonormal(const struct attn_tensor *tensor, const struct stream *stream,
                            int threads, char *why, size_t size)
{
    struct orthonormal o = {.rows = tensor->shape[0], .columns = tensor->shape[1]};
    o.stream = *stream;
    o.stream.scale = 1;
    const int64_t count = o.rows * o.columns; /* the tensor itself is in memory: no overflow */
    o.vectors = calloc((size_t)count, sizeof *o.vectors);
    if (o.vectors == NULL) {
        snprintf(why, size, "no memory for an orthonormal %s", attn_role_name(tensor->role));
        return -1;
    }
    attn_parallel_for(threads, count, 16384, draw_vectors, &o);
    const bool by_rows = o.rows <= o.columns;
    attn_stiefel(o.vectors, by_rows ? o.rows : o.columns, by_rows ? o.columns : o.rows, threads);
    attn_operand_fill(tensor, threads, orthonormal_value, &o);
    free(o.vectors);
    return 0;
}

/* Blocks of orthogonal rows, one after the other. Their lengths are those of rows of N(0,1) numbers
 * that follow those of the tensor. */
static void orthogonal_blocks(double *vectors, int64_t count, int64_t width,
                              const struct stream *stream, int threads)
{
    for (int64_t first = 0; first < count; first += width) {
        const int64_t rows = count - first < width ? count - first : width;
        attn_stiefel(vectors + first * width, rows, width, threads);
        for (int64_t at = first * width; at < (first + rows) * width; at += width) {
            double square = 0;
            for (int64_t c = 0; c < width; c++) {
                const double x = normal_value(stream, (uint64_t)(stream->count + at + c));
                square += x * x;
            }
            for (int64_t c = 0; c < width; c++)
                vectors[at + c] *= sqrt(square);
        }
    }
}

static double stored_value(const void *context, uint64_t index)
{
    return ((const double *)context)[index];
}

/* An operand of REF_ORTHOGONAL: blocks for each matrix, whose rows are the last but one axis. */
static int draw_orthogonal(const struct attn_tensor *tensor, struct stream *stream, int threads,
                           char *why, size_t size)
{
    const int64_t width = tensor->shape[tensor->rank - 1], rows = tensor->shape[tensor->rank - 2];
    const int64_t count = attn_operand_count(tensor);
    double *vectors = calloc((size_t)count, sizeof *vectors);
    if (vectors == NULL) {
        snprintf(why, size, "no memory for an orthogonal %s", attn_role_name(tensor->role));
        return -1;
    }
    stream->count = count;
    for (int64_t at = 0; at < count; at++)
        vectors[at] = normal_value(stream, (uint64_t)at);
    for (int64_t at = 0; at < count; at += rows * width) {
        orthogonal_blocks(vectors + at, rows, width, stream, threads);
        stream->count += rows * width;
    }
    attn_operand_fill(tensor, threads, stored_value, vectors);
    free(vectors);
    return 0;
}

/* q, k, v, x_q, x_k, x_v */
static void draw_activation(const struct attn_case *c, const struct attn_tensor *tensor,
                            struct stream *stream, int threads)
{
    if (attn_fill_few_writes(c, tensor->role))
        return;
    switch (c->fill) {
    default: /* fills that change parts of a normal draw */
        attn_operand_fill_runs(tensor, threads, normal_values, stream);
        break;
    case ATTN_FILL_UNIFORM:
        attn_operand_fill(tensor, threads, uniform_value, stream);
        break;
    case ATTN_FILL_ONES:
    case ATTN_FILL_ZEROS:
        stream->scale = c->fill == ATTN_FILL_ONES;
        attn_operand_fill(tensor, threads, constant_value, stream);
        break;
    }
}

/* q or k of fill=smooth: [B,H,S,D], in which rows of one head follow each other. */
struct smooth {
    const struct stream *stream;
    int64_t steps, width;
    double *numbers;
};

static void smooth_heads(void *context, int64_t begin, int64_t end)
{
    const struct smooth *s = context;
    const int64_t count = s->steps * s->width;
    for (int64_t at = begin * count; at < end * count; at++)
        s->numbers[at] = normal_value(s->stream, (uint64_t)at);
    for (int64_t head = begin; head < end; head++)
        attn_random_smooth(s->numbers + head * count, s->steps, s->width, SMOOTH);
}

static double smooth_value(const void *context, uint64_t index)
{
    return ((const struct smooth *)context)->numbers[index];
}

static bool is_smooth(const struct attn_case *c, uint32_t role)
{
    return c->fill == ATTN_FILL_SMOOTH && (role == ATTN_Q || role == ATTN_K);
}

static int draw_smooth(const struct attn_tensor *tensor, const struct stream *stream, int threads,
                       char *why, size_t size)
{
    const int64_t count = attn_operand_count(tensor);
    struct smooth s = {.stream = stream, .steps = tensor->shape[2], .width = tensor->shape[3]};
    s.numbers = calloc((size_t)count + 1, sizeof *s.numbers);
    if (s.numbers == NULL) {
        snprintf(why, size, "no memory for fill=smooth");
        return -1;
    }
    if (count > 0)
        attn_parallel_for(threads, count / (s.steps * s.width), 1, smooth_heads, &s);
    attn_operand_fill(tensor, threads, smooth_value, &s);
    free(s.numbers);
    return 0;
}

/* Scale of a weight that sums over `fan_in` products of unit variance. */
static double unit_scale(double fan_in)
{
    return 1.0 / sqrt(fan_in);
}

int attn_operand_draw(const struct attn_case *c, const struct attn_tensor *tensor, int threads,
                      char *why, size_t size)
{
    struct stream stream = {
        .seed = c->seed, .role = tensor->role, .scale = 1, .c = c, .shape = tensor->shape};
    double (*value)(const void *context, uint64_t index) = NULL;
    void (*values)(const void *context, uint64_t first, double *) = normal_values;
    if (attn_operand_count(tensor) == 0 || attn_fill_makes(c, tensor->role))
        return 0;
    if (is_own(&stream)) {
        attn_operand_fill(tensor, threads, own_value, &stream);
        return 0;
    }
    if (ref_operand_of(attn_case_op(c), tensor->role)->flags & REF_ORTHOGONAL)
        return draw_orthogonal(tensor, &stream, threads, why, size);
    if (is_smooth(c, tensor->role))
        return draw_smooth(tensor, &stream, threads, why, size);
    switch (tensor->role) {
    case ATTN_W_Q:
    case ATTN_W_K:
    case ATTN_W_V:
    case ATTN_W_O:
        if (c->weights == ATTN_WEIGHTS_STIEFEL)
            return draw_orthonormal(tensor, &stream, threads, why, size);
        stream.scale = unit_scale((double)tensor->shape[1]);
        break;
    case ATTN_B_Q:
    case ATTN_B_K:
    case ATTN_B_V:
    case ATTN_B_O:
        stream.scale = BIAS_SCALE;
        break;
    case ATTN_SCORE_M:
        stream.scale = unit_scale((double)tensor->shape[1] * (double)tensor->shape[2]);
        break;
    case ATTN_SCORE_WQ:
    case ATTN_SCORE_WK:
        stream.scale = unit_scale((double)tensor->shape[2]);
        break;
    case ATTN_SCORE_WV:
        stream.scale = unit_scale((double)tensor->shape[1]);
        break;
    case ATTN_SCORE_KR:
    case ATTN_SCORE_QR:
    case ATTN_BIAS:
        stream.scale = c->bias_const ? c->bias_value : 1;
        value = c->bias_const ? constant_value : NULL;
        break;
    case ATTN_SINK:
    case ATTN_GATE:
        break;
    case ATTN_REL_POS:
        value = bucket_value;
        break;
    case ATTN_MASK:
        stream.p = c->mask_p;
        values = coin_values;
        break;
    case ATTN_LEN:
        stream.count = c->sk;
        value = len_value;
        break;
    case ATTN_GLOBAL:
        stream.p = c->global_p;
        if (c->global == ATTN_GLOBAL_RAND)
            values = coin_values;
        else
            value = first_value;
        break;
    case ATTN_DILATION:
        value = dilation_value;
        break;
    case ATTN_ALIBI:
        value = alibi_value;
        break;
    case ATTN_HEAD_MASK:
        value = keep_head_value;
        break;
    default:
        draw_activation(c, tensor, &stream, threads);
        return 0;
    }
    if (value)
        attn_operand_fill(tensor, threads, value, &stream);
    else
        attn_operand_fill_runs(tensor, threads, values, &stream);
    return 0;
}
