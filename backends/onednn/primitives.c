/* SPDX-License-Identifier: Apache-2.0 */
/* primitives.c - matmul, softmax, matmul, one key/value head at a time.
 *
 * The rows of all heads that share keys are one batch of matrices [N,R,..]: the heads of a group
 * times the queries, or, with a single query (decoding), one matrix whose rows are the heads. Where
 * q is broadcast over heads there is no such layout, and each head goes alone. */
#include <math.h>
#include <stdio.h>

#include "onednn.h"

enum { QUERY, KEY, SCORE, ADD, WEIGHT, VALUE, SUM, DESCRIPTIONS };

struct attn_onednn_primitives {
    struct attn_onednn_library library;
    const struct attn_problem *problem;
    const struct attn_onednn_mask *mask;
    int plain;
    int64_t heads;          /* that go together */
    int64_t matrices, rows; /* N and R above */
    dnnl_memory_desc_t desc[DESCRIPTIONS];
    struct attn_onednn_step score, soften, sum;
    struct attn_onednn_additive *additive; /* in place of `score`, or NULL */
    float *scores;                         /* [heads,Sq,Sk] */
    void *weights; /* the same in the problem's type; the scores themselves for f32 */
    float *sums;   /* [heads,Sq,Dv] */
};

static dnnl_status_t describe_all(struct attn_onednn_primitives *s,
                                  const struct attn_operands *operands)
{
    const struct attn_problem *p = s->problem;
    const int64_t *q = operands->q.stride, *k = operands->k.stride;
    const int64_t *v = operands->v.stride;
    int64_t n = s->matrices, r = s->rows;
    int by_head = p->sq == 1;
    int64_t mask_n = !by_head && s->mask->h > 1 ? n : 1;
    int64_t mask_r = (by_head ? s->mask->h : s->mask->i) > 1 ? r : 1;
    const struct {
        int id;
        uint32_t dtype;
        int64_t shape[3], stride[3];
        int dense;
    } all[] = {
        {QUERY, p->dtype, {n, r, p->dq}, {q[1], by_head ? q[1] : q[2], q[3]}, 0},
        {KEY, p->dtype, {1, p->dk, p->sk}, {k[1], k[3], k[2]}, 0},
        {VALUE, p->dtype, {1, p->sk, p->dv}, {v[1], v[2], v[3]}, 0},
        {SCORE, ATTN_F32, {n, r, p->sk}, {0}, 1},
        {WEIGHT, p->dtype, {n, r, p->sk}, {0}, 1},
        {SUM, ATTN_F32, {n, r, p->dv}, {0}, 1},
        {ADD, ATTN_F32, {mask_n, mask_r, p->sk}, {0}, 1},
    };
    dnnl_status_t status = dnnl_success;
    for (int n_made = 0; n_made < DESCRIPTIONS && !status; n_made++)
        status = attn_onednn_desc(&s->desc[all[n_made].id], all[n_made].dtype, 3, all[n_made].shape,
                                  all[n_made].dense ? NULL : all[n_made].stride);
    return status;
}

/* `step` from its description, freed here. */
static dnnl_status_t make_step(struct attn_onednn_primitives *s, struct attn_onednn_step *step)
{
    int masked = s->plain && s->mask->needed, scores = step == &s->score;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t description = NULL;
    dnnl_engine_t engine = s->library.engine;
    dnnl_status_t status = attn_onednn_attributes(
        &attributes, scores ? (float)s->problem->scale : 1, scores && masked ? s->desc[ADD] : NULL);
    if (!status && scores)
        status = dnnl_matmul_primitive_desc_create(&description, engine, s->desc[QUERY],
                                                   s->desc[KEY], NULL, s->desc[SCORE], attributes);
    if (!status && step == &s->soften)
        status = dnnl_softmax_forward_primitive_desc_create(
            &description, engine, dnnl_forward_inference, dnnl_softmax_accurate, s->desc[SCORE],
            s->desc[WEIGHT], 2, attributes);
    if (!status && step == &s->sum)
        status = dnnl_matmul_primitive_desc_create(&description, engine, s->desc[WEIGHT],
                                                   s->desc[VALUE], NULL, s->desc[SUM], attributes);
    status = status ? status : attn_onednn_step_make(&s->library, step, description);
    if (description)
        dnnl_primitive_desc_destroy(description);
    if (attributes)
        dnnl_primitive_attr_destroy(attributes);
    return status;
}

static dnnl_status_t add(struct attn_onednn_primitives *s, struct attn_onednn_step *step,
                         int argument, int id, void *data)
{
    return attn_onednn_step_add(&s->library, step, argument, s->desc[id], data);
}

#define MASK_ARGUMENT (DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1)

static dnnl_status_t make_score(struct attn_onednn_primitives *s,
                                const struct attn_operands *operands)
{
    if (s->problem->score == ATTN_SCORE_ADDITIVE)
        return attn_onednn_additive_create(&s->library, s->problem, operands, &s->additive);
    dnnl_status_t status = make_step(s, &s->score);
    status = status ? status : add(s, &s->score, DNNL_ARG_SRC, QUERY, NULL);
    status = status ? status : add(s, &s->score, DNNL_ARG_WEIGHTS, KEY, NULL);
    status = status ? status : add(s, &s->score, DNNL_ARG_DST, SCORE, s->scores);
    if (!status && s->plain && s->mask->needed)
        status = add(s, &s->score, MASK_ARGUMENT, ADD, NULL);
    return status;
}

static dnnl_status_t make_rest(struct attn_onednn_primitives *s)
{
    dnnl_status_t status = dnnl_success;
    if (s->plain) {
        status = make_step(s, &s->soften);
        status = status ? status : add(s, &s->soften, DNNL_ARG_SRC, SCORE, s->scores);
        status = status ? status : add(s, &s->soften, DNNL_ARG_DST, WEIGHT, s->weights);
    }
    status = status ? status : make_step(s, &s->sum);
    status = status ? status : add(s, &s->sum, DNNL_ARG_SRC, WEIGHT, s->weights);
    status = status ? status : add(s, &s->sum, DNNL_ARG_WEIGHTS, VALUE, NULL);
    return status ? status : add(s, &s->sum, DNNL_ARG_DST, SUM, s->sums);
}

/* Scores, weights and sums of the heads that go together. */
static int reserve(struct attn_onednn_primitives *s)
{
    const struct attn_problem *p = s->problem;
    const struct attn_services *services = s->library.services;
    size_t rows = 0, scores, sums;
    if (__builtin_mul_overflow((size_t)s->heads, (size_t)p->sq, &rows) ||
        __builtin_mul_overflow(rows, (size_t)p->sk * sizeof(float), &scores) ||
        __builtin_mul_overflow(rows, (size_t)p->dv * sizeof(float), &sums))
        return -1;
    s->scores = services->alloc(services->context, scores, 64);
    s->sums = services->alloc(services->context, sums, 64);
    s->weights =
        p->dtype == ATTN_F32 ? s->scores : services->alloc(services->context, scores / 2, 64);
    return s->scores && s->sums && s->weights ? 0 : -1;
}

int attn_onednn_primitives_create(const struct attn_onednn_library *library,
                                  const struct attn_problem *problem,
                                  const struct attn_operands *operands,
                                  const struct attn_onednn_mask *mask, int plain,
                                  struct attn_onednn_primitives **primitives, char *why,
                                  size_t size)
{
    const struct attn_services *services = library->services;
    struct attn_onednn_primitives *s = services->alloc(services->context, sizeof(*s), 64);
    int64_t group = problem->hq / problem->hkv;
    if (!s) {
        snprintf(why, size, "no memory for a plan of %zu bytes", sizeof(*s));
        return ATTN_OUT_OF_MEMORY;
    }
    *s = (struct attn_onednn_primitives){
        .library = *library, .problem = problem, .mask = mask, .plain = plain};
    int together = operands->q.stride[1] > 0 && problem->score != ATTN_SCORE_ADDITIVE;
    s->heads = together ? group : 1;
    s->matrices = problem->sq == 1 ? 1 : s->heads;
    s->rows = problem->sq == 1 ? s->heads : problem->sq;
    dnnl_status_t status = reserve(s) ? dnnl_out_of_memory : describe_all(s, operands);
    status = status ? status : make_score(s, operands);
    status = status ? status : make_rest(s);
    if (status)
        attn_onednn_primitives_destroy(s);
    else
        *primitives = s;
    return attn_onednn_result(status, why, size);
}

static dnnl_status_t point(const struct attn_onednn_step *step, int argument,
                           const struct attn_tensor *view, int64_t b, int64_t h)
{
    return attn_onednn_step_point(step, argument,
                                  attn_element_at(view, attn_row_start(view, b, h, 0)));
}

static dnnl_status_t point_mask(const struct attn_onednn_primitives *s, int64_t b, int64_t h)
{
    const struct attn_onednn_mask *m = s->mask;
    int64_t at = ((m->b > 1 ? b : 0) * m->h + (m->h > 1 ? h : 0)) * m->i * s->problem->sk;
    return attn_onednn_step_point(&s->score, MASK_ARGUMENT, (float *)m->data + at);
}

/* The softmax of rows.c: the library's has no softcap, sink, dropout or lse. */
static void soften_rows(const struct attn_onednn_primitives *s, struct attn_onednn_row *row,
                        int64_t h)
{
    const struct attn_problem *p = s->problem;
    char *weights = s->weights;
    for (int64_t r = 0; r < s->heads * p->sq; r++) {
        row->h = h + r / p->sq;
        row->i = r % p->sq;
        row->scores = s->scores + r * p->sk;
        attn_onednn_addend(p, row->operands, row->b, row->h, row->i, row->add);
        if (p->score == ATTN_SCORE_GAUSSIAN)
            attn_onednn_add_norms(row);
        attn_onednn_soften(row,
                           weights + (size_t)(r * p->sk) * (size_t)attn_element_bytes(p->dtype));
    }
}

static void store_rows(const struct attn_onednn_primitives *s, const struct attn_tensor *out,
                       int64_t b, int64_t h)
{
    const struct attn_problem *p = s->problem;
    const float *sums = s->sums;
    for (int64_t r = 0; r < s->heads * p->sq; r++, sums += p->dv) {
        int64_t at =
            b * out->stride[0] + (h + r / p->sq) * out->stride[1] + r % p->sq * out->stride[2];
        for (int64_t d = 0; d < p->dv; d++)
            attn_element_write(out->dtype, out->data, at + d * out->stride[3], sums[d]);
    }
}

/* Scaled scores of the heads from h on, masked where the library's softmax follows. */
static dnnl_status_t score(const struct attn_onednn_primitives *s,
                           const struct attn_operands *operands,
                           const struct attn_onednn_additive_weights *weights, int64_t b, int64_t h)
{
    int64_t g = h / (s->problem->hq / s->problem->hkv);
    if (s->additive)
        return attn_onednn_additive_run(s->additive, weights, operands, b, h, s->scores);
    dnnl_status_t status = point(&s->score, DNNL_ARG_SRC, &operands->q, b, h);
    status = status ? status : point(&s->score, DNNL_ARG_WEIGHTS, &operands->k, b, g);
    if (!status && s->plain && s->mask->needed)
        status = point_mask(s, b, h);
    return status ? status : attn_onednn_step_run(&s->library, &s->score);
}

static dnnl_status_t attend(struct attn_onednn_primitives *s, const struct attn_operands *operands,
                            const struct attn_onednn_additive_weights *weights,
                            struct attn_onednn_row *row, int64_t h)
{
    int64_t b = row->b, g = h / (s->problem->hq / s->problem->hkv);
    float *scores = row->scores;
    dnnl_status_t status = score(s, operands, weights, b, h);
    if (!status && s->plain)
        status = attn_onednn_step_run(&s->library, &s->soften);
    else if (!status)
        soften_rows(s, row, h);
    row->scores = scores;
    status = status ? status : point(&s->sum, DNNL_ARG_WEIGHTS, &operands->v, b, g);
    status = status ? status : attn_onednn_step_run(&s->library, &s->sum);
    if (!status)
        store_rows(s, &operands->out, b, h);
    return status;
}

int attn_onednn_primitives_bind(const struct attn_onednn_primitives *primitives,
                                const struct attn_operands *operands,
                                struct attn_onednn_additive_weights **weights, char *why,
                                size_t size)
{
    if (!primitives->additive)
        return ATTN_OK;
    return attn_onednn_result(attn_onednn_additive_bind(primitives->additive, operands, weights),
                              why, size);
}

int attn_onednn_primitives_run(struct attn_onednn_primitives *primitives,
                               const struct attn_operands *operands,
                               const struct attn_onednn_additive_weights *weights,
                               struct attn_onednn_row *row, char *why, size_t size)
{
    const struct attn_problem *p = primitives->problem;
    dnnl_status_t status = dnnl_success;
    for (row->b = 0; row->b < p->b; row->b++)
        for (int64_t h = 0; h < p->hq && !status; h += primitives->heads)
            status = attend(primitives, operands, weights, row, h);
    return attn_onednn_result(status, why, size);
}

void attn_onednn_primitives_release(const struct attn_onednn_primitives *primitives,
                                    struct attn_onednn_additive_weights *weights)
{
    attn_onednn_additive_release(primitives->additive, weights);
}

void attn_onednn_primitives_destroy(struct attn_onednn_primitives *primitives)
{
    const struct attn_services *services = primitives->library.services;
    struct attn_onednn_step *steps[] = {&primitives->score, &primitives->soften, &primitives->sum};
    void *memory[] = {primitives->sums, primitives->scores,
                      primitives->weights == primitives->scores ? NULL : primitives->weights};
    if (primitives->additive)
        attn_onednn_additive_destroy(primitives->additive);
    for (int n = 0; n < 3; n++)
        attn_onednn_step_free(&primitives->library, steps[n]);
    for (int id = 0; id < DESCRIPTIONS; id++)
        if (primitives->desc[id])
            dnnl_memory_desc_destroy(primitives->desc[id]);
    for (int n = 0; n < 3; n++)
        if (memory[n])
            services->free(services->context, memory[n]);
    services->free(services->context, primitives);
}
