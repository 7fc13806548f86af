/* SPDX-License-Identifier: Apache-2.0 */
/* primitives.c - matmul, softmax, matmul, one key/value head at a time.
 *
 * The rows of all heads that share keys are one batch of matrices [N,R,..]: the heads of a group
 * times the queries, or, with a single query (decoding), one matrix whose rows are the heads. Where
 * q is broadcast over heads there is no such layout, and each head goes alone. */
#include <math.h>
#include <stdio.h>

#include "onednn.h"

enum { QUERY, KEY, SCORE, ADD, WEIGHT, VALUE, SUM, PAD, MEMORIES };

/* One primitive and what it is executed with. */
struct step {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[6];
    int n;
};

struct attn_onednn_primitives {
    struct attn_onednn_library library;
    const struct attn_problem *problem;
    const struct attn_onednn_mask *mask;
    int plain;
    int64_t heads;          /* that go together */
    int64_t matrices, rows; /* N and R above */
    dnnl_memory_desc_t desc[MEMORIES];
    dnnl_memory_t memory[MEMORIES];
    struct step score, soften, sum;
    float *scores; /* [heads,Sq,Sk] */
    void *weights; /* the same in the problem's type; the scores themselves for f32 */
    float *sums;   /* [heads,Sq,Dv] */
    void *scratchpad;
};

static dnnl_status_t describe(struct attn_onednn_primitives *s, int id, uint32_t dtype,
                              const int64_t *shape, const int64_t *stride)
{
    dnnl_dims_t dims, strides;
    int64_t dense = 1;
    for (int a = 2; a >= 0; a--) {
        dims[a] = shape[a];
        strides[a] = stride && shape[a] > 1 ? stride[a] : dense;
        dense *= shape[a];
    }
    return dnnl_memory_desc_create_with_strides(&s->desc[id], 3, dims, attn_onednn_type(dtype),
                                                strides);
}

static dnnl_status_t describe_all(struct attn_onednn_primitives *s,
                                  const struct attn_onednn_operands *operands)
{
    const struct attn_problem *p = s->problem;
    const int64_t *q = operands->view[ATTN_Q].stride, *k = operands->view[ATTN_K].stride;
    const int64_t *v = operands->view[ATTN_V].stride;
    int64_t n = s->matrices, r = s->rows, dv = p->dv;
    int by_head = p->sq == 1;
    int64_t mask_n = !by_head && s->mask->h > 1 ? n : 1;
    int64_t mask_r = (by_head ? s->mask->h : s->mask->i) > 1 ? r : 1;
    dnnl_status_t status = describe(s, QUERY, p->dtype, (int64_t[]){n, r, p->dk},
                                    (int64_t[]){q[1], by_head ? q[1] : q[2], q[3]});
    status = status ? status
                    : describe(s, KEY, p->dtype, (int64_t[]){1, p->dk, p->sk},
                               (int64_t[]){k[1], k[3], k[2]});
    status = status ? status
                    : describe(s, VALUE, p->dtype, (int64_t[]){1, p->sk, dv},
                               (int64_t[]){v[1], v[2], v[3]});
    status = status ? status : describe(s, SCORE, ATTN_F32, (int64_t[]){n, r, p->sk}, NULL);
    status = status ? status : describe(s, WEIGHT, p->dtype, (int64_t[]){n, r, p->sk}, NULL);
    status = status ? status : describe(s, SUM, ATTN_F32, (int64_t[]){n, r, dv}, NULL);
    return status ? status : describe(s, ADD, ATTN_F32, (int64_t[]){mask_n, mask_r, p->sk}, NULL);
}

/* Attributes that all primitives share: full precision, and scratch memory that is ours. With
 * `scores`: the scale, and the mask where the library's softmax follows. */
static dnnl_status_t make_attributes(const struct attn_onednn_primitives *s, int scores,
                                     dnnl_primitive_attr_t *attributes)
{
    dnnl_post_ops_t post = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(attributes);
    if (status)
        return status;
    status = dnnl_primitive_attr_set_scratchpad_mode(*attributes, dnnl_scratchpad_mode_user);
    status =
        status ? status : dnnl_primitive_attr_set_fpmath_mode(*attributes, dnnl_fpmath_mode_strict);
    if (status || !scores)
        return status;
    status = dnnl_post_ops_create(&post);
    if (!status)
        status =
            dnnl_post_ops_append_eltwise(post, dnnl_eltwise_linear, (float)s->problem->scale, 0);
    if (!status && s->plain && s->mask->needed)
        status = dnnl_post_ops_append_binary(post, dnnl_binary_add, s->desc[ADD]);
    status = status ? status : dnnl_primitive_attr_set_post_ops(*attributes, post);
    if (post)
        dnnl_post_ops_destroy(post);
    return status;
}

/* Which primitive `step` is: its description, freed here. Raises *scratch to what it needs. */
static dnnl_status_t make_step(struct attn_onednn_primitives *s, struct step *step, size_t *scratch)
{
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t description = NULL;
    dnnl_engine_t engine = s->library.engine;
    dnnl_status_t status = make_attributes(s, step == &s->score, &attributes);
    if (!status && step == &s->score)
        status = dnnl_matmul_primitive_desc_create(&description, engine, s->desc[QUERY],
                                                   s->desc[KEY], NULL, s->desc[SCORE], attributes);
    if (!status && step == &s->soften)
        status = dnnl_softmax_forward_primitive_desc_create(
            &description, engine, dnnl_forward_inference, dnnl_softmax_accurate, s->desc[SCORE],
            s->desc[WEIGHT], 2, attributes);
    if (!status && step == &s->sum)
        status = dnnl_matmul_primitive_desc_create(&description, engine, s->desc[WEIGHT],
                                                   s->desc[VALUE], NULL, s->desc[SUM], attributes);
    if (!status) {
        size_t bytes = dnnl_memory_desc_get_size(
            dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0));
        *scratch = bytes > *scratch ? bytes : *scratch;
        status = dnnl_primitive_create(&step->primitive, description);
    }
    if (description)
        dnnl_primitive_desc_destroy(description);
    if (attributes)
        dnnl_primitive_attr_destroy(attributes);
    return status;
}

static dnnl_status_t make_scratchpad(struct attn_onednn_primitives *s, size_t bytes)
{
    const struct attn_services *services = s->library.services;
    const dnnl_dims_t dims = {(dnnl_dim_t)(bytes ? bytes : 1)}, stride = {1};
    s->scratchpad = services->alloc(services->context, (size_t)dims[0], 64);
    if (!s->scratchpad)
        return dnnl_out_of_memory;
    return dnnl_memory_desc_create_with_strides(&s->desc[PAD], 1, dims, dnnl_u8, stride);
}

/* Memories without operands yet, and the argument lists. */
static dnnl_status_t make_arguments(struct attn_onednn_primitives *s)
{
    void *handles[MEMORIES] = {[SCORE] = s->scores,
                               [WEIGHT] = s->weights,
                               [SUM] = s->sums,
                               [PAD] = s->scratchpad,
                               [ADD] = s->mask->data};
    for (int id = 0; id < MEMORIES; id++) {
        dnnl_status_t status =
            dnnl_memory_create(&s->memory[id], s->desc[id], s->library.engine, handles[id]);
        if (status)
            return status;
    }
    dnnl_exec_arg_t pad = {DNNL_ARG_SCRATCHPAD, s->memory[PAD]};
    s->score.args[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, s->memory[QUERY]};
    s->score.args[1] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, s->memory[KEY]};
    s->score.args[2] = (dnnl_exec_arg_t){DNNL_ARG_DST, s->memory[SCORE]};
    s->score.args[3] = pad;
    s->score.args[4] =
        (dnnl_exec_arg_t){DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1, s->memory[ADD]};
    s->score.n = s->plain && s->mask->needed ? 5 : 4;
    s->soften.args[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, s->memory[SCORE]};
    s->soften.args[1] = (dnnl_exec_arg_t){DNNL_ARG_DST, s->memory[WEIGHT]};
    s->soften.args[2] = pad;
    s->soften.n = 3;
    s->sum.args[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, s->memory[WEIGHT]};
    s->sum.args[1] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, s->memory[VALUE]};
    s->sum.args[2] = (dnnl_exec_arg_t){DNNL_ARG_DST, s->memory[SUM]};
    s->sum.args[3] = pad;
    s->sum.n = 4;
    return dnnl_success;
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
                                  const struct attn_onednn_operands *operands,
                                  const struct attn_onednn_mask *mask, int plain,
                                  struct attn_onednn_primitives **primitives, char *why,
                                  size_t size)
{
    const struct attn_services *services = library->services;
    struct attn_onednn_primitives *s = services->alloc(services->context, sizeof(*s), 64);
    int64_t group = problem->hq / problem->hkv;
    size_t scratch = 0;
    if (!s) {
        snprintf(why, size, "no memory for a plan of %zu bytes", sizeof(*s));
        return ATTN_OUT_OF_MEMORY;
    }
    *s = (struct attn_onednn_primitives){
        .library = *library, .problem = problem, .mask = mask, .plain = plain};
    s->heads = operands->view[ATTN_Q].stride[1] > 0 ? group : 1;
    s->matrices = problem->sq == 1 ? 1 : s->heads;
    s->rows = problem->sq == 1 ? s->heads : problem->sq;
    dnnl_status_t status = reserve(s) ? dnnl_out_of_memory : describe_all(s, operands);
    status = status ? status : make_step(s, &s->score, &scratch);
    status = status || !plain ? status : make_step(s, &s->soften, &scratch);
    status = status ? status : make_step(s, &s->sum, &scratch);
    status = status ? status : make_scratchpad(s, scratch);
    status = status ? status : make_arguments(s);
    if (!status) {
        *primitives = s;
        return ATTN_OK;
    }
    snprintf(why, size, "oneDNN has no primitives for it (status %d)", (int)status);
    attn_onednn_primitives_destroy(s);
    return status == dnnl_out_of_memory ? ATTN_OUT_OF_MEMORY : ATTN_FAILED;
}

/* Complete when it returns: the memories' handles change before the next step. */
static dnnl_status_t execute(const struct attn_onednn_primitives *s, const struct step *step)
{
    dnnl_status_t status =
        dnnl_primitive_execute(step->primitive, s->library.stream, step->n, step->args);
    return status ? status : dnnl_stream_wait(s->library.stream);
}

static dnnl_status_t point(dnnl_memory_t memory, const struct attn_onednn_view *view, int64_t b,
                           int64_t h)
{
    int64_t at = b * view->stride[0] + h * view->stride[1];
    return dnnl_memory_set_data_handle(memory,
                                       view->data + at * (int64_t)attn_onednn_size(view->dtype));
}

static dnnl_status_t point_mask(const struct attn_onednn_primitives *s, int64_t b, int64_t h)
{
    const struct attn_onednn_mask *m = s->mask;
    int64_t at = ((m->b > 1 ? b : 0) * m->h + (m->h > 1 ? h : 0)) * m->i * s->problem->sk;
    return dnnl_memory_set_data_handle(s->memory[ADD], (float *)m->data + at);
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
        attn_onednn_soften(row, weights + (size_t)(r * p->sk) * attn_onednn_size(p->dtype));
    }
}

static void store_rows(const struct attn_onednn_primitives *s, const struct attn_onednn_view *out,
                       int64_t b, int64_t h)
{
    const struct attn_problem *p = s->problem;
    const float *sums = s->sums;
    for (int64_t r = 0; r < s->heads * p->sq; r++, sums += p->dv) {
        int64_t at =
            b * out->stride[0] + (h + r / p->sq) * out->stride[1] + r % p->sq * out->stride[2];
        for (int64_t d = 0; d < p->dv; d++)
            attn_onednn_store(out->dtype, out->data, at + d * out->stride[3], sums[d]);
    }
}

static dnnl_status_t attend(struct attn_onednn_primitives *s,
                            const struct attn_onednn_operands *operands,
                            struct attn_onednn_row *row, int64_t h)
{
    int64_t b = row->b, g = h / (s->problem->hq / s->problem->hkv);
    float *scores = row->scores;
    dnnl_status_t status = point(s->memory[QUERY], &operands->view[ATTN_Q], b, h);
    status = status ? status : point(s->memory[KEY], &operands->view[ATTN_K], b, g);
    status = status ? status : point(s->memory[VALUE], &operands->view[ATTN_V], b, g);
    if (!status && s->plain && s->mask->needed)
        status = point_mask(s, b, h);
    status = status ? status : execute(s, &s->score);
    if (!status && s->plain)
        status = execute(s, &s->soften);
    else if (!status)
        soften_rows(s, row, h);
    row->scores = scores;
    status = status ? status : execute(s, &s->sum);
    if (!status)
        store_rows(s, &operands->view[ATTN_OUT], b, h);
    return status;
}

int attn_onednn_primitives_run(struct attn_onednn_primitives *primitives,
                               const struct attn_onednn_operands *operands,
                               struct attn_onednn_row *row, char *why, size_t size)
{
    const struct attn_problem *p = primitives->problem;
    for (row->b = 0; row->b < p->b; row->b++)
        for (int64_t h = 0; h < p->hq; h += primitives->heads) {
            dnnl_status_t status = attend(primitives, operands, row, h);
            if (!status)
                continue;
            snprintf(why, size, "oneDNN could not execute a primitive (status %d)", (int)status);
            return status == dnnl_out_of_memory ? ATTN_OUT_OF_MEMORY : ATTN_FAILED;
        }
    return ATTN_OK;
}

void attn_onednn_primitives_destroy(struct attn_onednn_primitives *primitives)
{
    const struct attn_services *services = primitives->library.services;
    struct step *steps[] = {&primitives->score, &primitives->soften, &primitives->sum};
    void *memory[] = {primitives->scratchpad, primitives->sums, primitives->scores,
                      primitives->weights == primitives->scores ? NULL : primitives->weights};
    for (int n = 0; n < 3; n++)
        if (steps[n]->primitive)
            dnnl_primitive_destroy(steps[n]->primitive);
    for (int id = 0; id < MEMORIES; id++) {
        if (primitives->memory[id])
            dnnl_memory_destroy(primitives->memory[id]);
        if (primitives->desc[id])
            dnnl_memory_desc_destroy(primitives->desc[id]);
    }
    for (int n = 0; n < 4; n++)
        if (memory[n])
            services->free(services->context, memory[n]);
    services->free(services->context, primitives);
}
