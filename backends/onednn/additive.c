/* SPDX-License-Identifier: Apache-2.0 */
/* additive.c - the score w_v^T tanh(W_q q + W_k k) by primitives: two products for the hidden
 * layers of a head, then, tile by tile of queries and keys, their sums, tanh, and a product with
 * w_v. The hidden layer of all cells at once, [Sq,Sk,Dh], is never made. */
#include <stdio.h>

#include "onednn.h"

/* Elements of a tile: 512 KiB, which stays in the second-level cache. */
enum { TILE = 1 << 17 };

struct attn_onednn_additive {
    struct attn_onednn_library library;
    const struct attn_problem *problem;
    struct attn_onednn_product *query, *key;
    int64_t queries, keys; /* of a tile */
    struct attn_onednn_step tanh, sum;
    float *hidden_q; /* [Sq,Dh] */
    float *hidden_k; /* [Sk,Dh] */
    float *tile;     /* [queries,keys,Dh] */
};

struct attn_onednn_additive_weights {
    struct attn_onednn_weights q, k;
    float *v; /* [Hq,Dh], or [1,Dh] where all heads share it */
    int64_t v_step;
};

static dnnl_status_t make_products(struct attn_onednn_additive *a,
                                   const struct attn_operands *operands)
{
    const struct attn_problem *p = a->problem;
    const int64_t *q = operands->q.stride, *k = operands->k.stride;
    struct attn_onednn_product_spec spec = {.rows = p->sq,
                                            .inner = p->dq,
                                            .width = p->dh,
                                            .row_stride = q[2],
                                            .column_stride = q[3],
                                            .out_stride = p->dh,
                                            .in = p->dtype,
                                            .out = ATTN_F32};
    dnnl_status_t status = attn_onednn_product_create(&a->library, &spec, &a->query);
    spec.rows = p->sk;
    spec.inner = p->dk;
    spec.row_stride = k[2];
    spec.column_stride = k[3];
    return status ? status : attn_onednn_product_create(&a->library, &spec, &a->key);
}

static dnnl_status_t make_tanh(struct attn_onednn_additive *a, const_dnnl_memory_desc_t tile)
{
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t description = NULL;
    dnnl_status_t status = attn_onednn_attributes(&attributes, 1, NULL);
    if (!status)
        status = dnnl_eltwise_forward_primitive_desc_create(
            &description, a->library.engine, dnnl_forward_inference, dnnl_eltwise_tanh, tile, tile,
            0, 0, attributes);
    status = status ? status : attn_onednn_step_make(&a->library, &a->tanh, description);
    if (!status)
        status = attn_onednn_step_add(&a->library, &a->tanh, DNNL_ARG_SRC, tile, a->tile);
    if (!status)
        status = attn_onednn_step_add(&a->library, &a->tanh, DNNL_ARG_DST, tile, a->tile);
    if (description)
        dnnl_primitive_desc_destroy(description);
    if (attributes)
        dnnl_primitive_attr_destroy(attributes);
    return status;
}

/* Scaled scores of a tile, written where they belong in [Sq,Sk]. */
static dnnl_status_t make_sum(struct attn_onednn_additive *a, const_dnnl_memory_desc_t tile)
{
    const struct attn_problem *p = a->problem;
    dnnl_memory_desc_t w = NULL, scores = NULL;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t description = NULL;
    dnnl_status_t status = attn_onednn_desc(&w, ATTN_F32, 3, (int64_t[]){1, p->dh, 1}, NULL);
    if (!status)
        status = attn_onednn_desc(&scores, ATTN_F32, 3, (int64_t[]){a->queries, a->keys, 1},
                                  (int64_t[]){p->sk, 1, 1});
    status = status ? status : attn_onednn_attributes(&attributes, (float)p->scale, NULL);
    if (!status)
        status = dnnl_matmul_primitive_desc_create(&description, a->library.engine, tile, w, NULL,
                                                   scores, attributes);
    status = status ? status : attn_onednn_step_make(&a->library, &a->sum, description);
    if (!status)
        status = attn_onednn_step_add(&a->library, &a->sum, DNNL_ARG_SRC, tile, a->tile);
    status =
        status ? status : attn_onednn_step_add(&a->library, &a->sum, DNNL_ARG_WEIGHTS, w, NULL);
    status =
        status ? status : attn_onednn_step_add(&a->library, &a->sum, DNNL_ARG_DST, scores, NULL);
    if (description)
        dnnl_primitive_desc_destroy(description);
    if (attributes)
        dnnl_primitive_attr_destroy(attributes);
    if (scores)
        dnnl_memory_desc_destroy(scores);
    if (w)
        dnnl_memory_desc_destroy(w);
    return status;
}

static dnnl_status_t make(struct attn_onednn_additive *a, const struct attn_operands *operands)
{
    const struct attn_problem *p = a->problem;
    const struct attn_services *services = a->library.services;
    size_t q_bytes, k_bytes, row = (size_t)p->dh * sizeof(float);
    dnnl_memory_desc_t tile = NULL;
    a->keys = TILE / p->dh < 1 ? 1 : TILE / p->dh < p->sk ? TILE / p->dh : p->sk;
    a->queries = TILE / p->dh / a->keys < 1 ? 1 : TILE / p->dh / a->keys;
    a->queries = a->queries < p->sq ? a->queries : p->sq;
    if (__builtin_mul_overflow((size_t)p->sq, row, &q_bytes) ||
        __builtin_mul_overflow((size_t)p->sk, row, &k_bytes))
        return dnnl_out_of_memory;
    a->hidden_q = services->alloc(services->context, q_bytes, 64);
    a->hidden_k = services->alloc(services->context, k_bytes, 64);
    a->tile = services->alloc(services->context, (size_t)(a->queries * a->keys) * row, 64);
    if (!a->hidden_q || !a->hidden_k || !a->tile)
        return dnnl_out_of_memory;
    dnnl_status_t status = make_products(a, operands);
    if (!status)
        status =
            attn_onednn_desc(&tile, ATTN_F32, 3, (int64_t[]){a->queries, a->keys, p->dh}, NULL);
    status = status ? status : make_tanh(a, tile);
    status = status ? status : make_sum(a, tile);
    if (tile)
        dnnl_memory_desc_destroy(tile);
    return status;
}

dnnl_status_t attn_onednn_additive_create(const struct attn_onednn_library *library,
                                          const struct attn_problem *problem,
                                          const struct attn_operands *operands,
                                          struct attn_onednn_additive **additive)
{
    const struct attn_services *services = library->services;
    struct attn_onednn_additive *made = services->alloc(services->context, sizeof(*made), 64);
    if (!made)
        return dnnl_out_of_memory;
    *made = (struct attn_onednn_additive){.library = *library, .problem = problem};
    dnnl_status_t status = make(made, operands);
    if (status)
        attn_onednn_additive_destroy(made);
    else
        *additive = made;
    return status;
}

void attn_onednn_additive_destroy(struct attn_onednn_additive *additive)
{
    const struct attn_services *services = additive->library.services;
    void *const memory[] = {additive->hidden_q, additive->hidden_k, additive->tile};
    if (additive->query)
        attn_onednn_product_destroy(additive->query);
    if (additive->key)
        attn_onednn_product_destroy(additive->key);
    attn_onednn_step_free(&additive->library, &additive->tanh);
    attn_onednn_step_free(&additive->library, &additive->sum);
    for (int n = 0; n < 3; n++)
        if (memory[n])
            services->free(services->context, memory[n]);
    services->free(services->context, additive);
}

static dnnl_status_t pack_v(const struct attn_onednn_additive *a, const struct attn_tensor *w,
                            struct attn_onednn_additive_weights *made)
{
    const struct attn_problem *p = a->problem;
    const struct attn_services *services = a->library.services;
    int64_t heads = w->stride[0] ? p->hq : 1;
    size_t bytes;
    if (__builtin_mul_overflow((size_t)heads, (size_t)p->dh * sizeof(float), &bytes))
        return dnnl_out_of_memory;
    made->v = services->alloc(services->context, bytes, 64);
    made->v_step = heads > 1 ? p->dh : 0;
    for (int64_t h = 0; h < heads && made->v; h++)
        for (int64_t x = 0; x < p->dh; x++)
            made->v[h * p->dh + x] = attn_onednn_load(w, h * w->stride[0] + x * w->stride[1]);
    return made->v ? dnnl_success : dnnl_out_of_memory;
}

dnnl_status_t attn_onednn_additive_bind(const struct attn_onednn_additive *additive,
                                        const struct attn_operands *operands,
                                        struct attn_onednn_additive_weights **weights)
{
    const struct attn_services *services = additive->library.services;
    const struct attn_tensor *q = &operands->score_w_q;
    const struct attn_tensor *k = &operands->score_w_k;
    int64_t heads = additive->problem->hq;
    struct attn_onednn_additive_weights *made =
        services->alloc(services->context, sizeof(*made), 64);
    if (!made)
        return dnnl_out_of_memory;
    *made = (struct attn_onednn_additive_weights){0};
    /* [Hq,Dh,D]: the width of the product comes before what it sums over */
    dnnl_status_t status = attn_onednn_product_pack(
        additive->query, q, (int64_t[]){q->stride[0], q->stride[2], q->stride[1]}, heads, NULL,
        &made->q);
    if (!status)
        status = attn_onednn_product_pack(additive->key, k,
                                          (int64_t[]){k->stride[0], k->stride[2], k->stride[1]},
                                          heads, NULL, &made->k);
    status = status ? status : pack_v(additive, &operands->score_w_v, made);
    if (status)
        attn_onednn_additive_release(additive, made);
    else
        *weights = made;
    return status;
}

void attn_onednn_additive_release(const struct attn_onednn_additive *additive,
                                  struct attn_onednn_additive_weights *weights)
{
    const struct attn_services *services = additive->library.services;
    attn_onednn_weights_free(services, &weights->q);
    attn_onednn_weights_free(services, &weights->k);
    if (weights->v)
        services->free(services->context, weights->v);
    services->free(services->context, weights);
}

/* Hidden layers of the tile that begins at query i and key j. */
static void fill_tile(const struct attn_onednn_additive *a, int64_t i, int64_t j)
{
    int64_t dh = a->problem->dh;
    float *restrict to = a->tile;
    for (int64_t r = 0; r < a->queries; r++) {
        const float *restrict q = a->hidden_q + (i + r) * dh;
        const float *restrict k = a->hidden_k + j * dh;
        for (int64_t c = 0; c < a->keys; c++, k += dh, to += dh)
            for (int64_t x = 0; x < dh; x++)
                to[x] = q[x] + k[x];
    }
}

static dnnl_status_t hide(const struct attn_onednn_product *product,
                          const struct attn_onednn_weights *weights, const struct attn_tensor *view,
                          int64_t b, int64_t head, int64_t h, float *hidden)
{
    return attn_onednn_product_run(product, weights, h,
                                   attn_element_at(view, attn_row_start(view, b, head, 0)), hidden);
}

dnnl_status_t attn_onednn_additive_run(const struct attn_onednn_additive *additive,
                                       const struct attn_onednn_additive_weights *weights,
                                       const struct attn_operands *operands, int64_t b, int64_t h,
                                       float *scores)
{
    const struct attn_onednn_additive *a = additive;
    const struct attn_problem *p = a->problem;
    dnnl_status_t status = hide(a->query, &weights->q, &operands->q, b, h, h, a->hidden_q);
    if (!status)
        status = hide(a->key, &weights->k, &operands->k, b, h / (p->hq / p->hkv), h, a->hidden_k);
    if (!status)
        status =
            attn_onednn_step_point(&a->sum, DNNL_ARG_WEIGHTS, weights->v + h * weights->v_step);
    /* the last tile of either direction ends where the matrix does, and does some cells twice */
    for (int64_t row = 0; row < p->sq && !status; row += a->queries)
        for (int64_t column = 0; column < p->sk && !status; column += a->keys) {
            int64_t i = row + a->queries <= p->sq ? row : p->sq - a->queries;
            int64_t j = column + a->keys <= p->sk ? column : p->sk - a->keys;
            fill_tile(a, i, j);
            status = attn_onednn_step_run(&a->library, &a->tanh);
            if (!status)
                status = attn_onednn_step_point(&a->sum, DNNL_ARG_DST, scores + i * p->sk + j);
            status = status ? status : attn_onednn_step_run(&a->library, &a->sum);
        }
    return status;
}
