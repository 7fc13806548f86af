/* SPDX-License-Identifier: Apache-2.0 */
/* product.c - y = x w (+ b) as one matmul primitive. The layout of w is the library's choice:
 * binding brings weights into it, x is read where it lies. */
#include <string.h>

#include "onednn.h"

struct attn_onednn_product {
    struct attn_onednn_library library;
    struct attn_onednn_product_spec spec;
    struct attn_onednn_step step;
    dnnl_memory_desc_t packed; /* layout of w */
};

static dnnl_status_t describe(struct attn_onednn_product *p, dnnl_memory_desc_t *x,
                              dnnl_memory_desc_t *w, dnnl_memory_desc_t *b, dnnl_memory_desc_t *y)
{
    const struct attn_onednn_product_spec *s = &p->spec;
    const dnnl_dims_t dims = {s->inner, s->width};
    dnnl_status_t status = attn_onednn_desc(x, s->in, 2, (int64_t[]){s->rows, s->inner},
                                            (int64_t[]){s->row_stride, s->column_stride});
    if (!status)
        status = dnnl_memory_desc_create_with_tag(w, 2, dims, attn_onednn_type(s->in),
                                                  dnnl_format_tag_any);
    if (!status && s->biased)
        status = attn_onednn_desc(b, ATTN_F32, 2, (int64_t[]){1, s->width}, NULL);
    return status ? status
                  : attn_onednn_desc(y, s->out, 2, (int64_t[]){s->rows, s->width},
                                     (int64_t[]){s->out_stride, 1});
}

static dnnl_status_t make(struct attn_onednn_product *p)
{
    dnnl_memory_desc_t x = NULL, w = NULL, b = NULL, y = NULL;
    dnnl_memory_desc_t *const made[] = {&x, &w, &b, &y};
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t description = NULL;
    struct attn_onednn_library *library = &p->library;
    dnnl_status_t status = describe(p, &x, &w, &b, &y);
    status = status ? status : attn_onednn_attributes(&attributes, 1, NULL);
    if (!status)
        status = dnnl_matmul_primitive_desc_create(&description, library->engine, x, w, b, y,
                                                   attributes);
    if (!status)
        status = dnnl_memory_desc_clone(
            &p->packed, dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 0));
    status = status ? status : attn_onednn_step_make(library, &p->step, description);
    status = status ? status : attn_onednn_step_add(library, &p->step, DNNL_ARG_SRC, x, NULL);
    if (!status)
        status = attn_onednn_step_add(library, &p->step, DNNL_ARG_WEIGHTS, p->packed, NULL);
    status = status ? status : attn_onednn_step_add(library, &p->step, DNNL_ARG_DST, y, NULL);
    if (!status && b)
        status = attn_onednn_step_add(library, &p->step, DNNL_ARG_BIAS, b, NULL);
    if (description)
        dnnl_primitive_desc_destroy(description);
    if (attributes)
        dnnl_primitive_attr_destroy(attributes);
    for (int n = 0; n < 4; n++)
        if (*made[n])
            dnnl_memory_desc_destroy(*made[n]);
    return status;
}

dnnl_status_t attn_onednn_product_create(const struct attn_onednn_library *library,
                                         const struct attn_onednn_product_spec *spec,
                                         struct attn_onednn_product **product)
{
    const struct attn_services *services = library->services;
    struct attn_onednn_product *made = services->alloc(services->context, sizeof(*made), 64);
    if (!made)
        return dnnl_out_of_memory;
    *made = (struct attn_onednn_product){.library = *library, .spec = *spec};
    dnnl_status_t status = make(made);
    if (status)
        attn_onednn_product_destroy(made);
    else
        *product = made;
    return status;
}

/* One matrix, dense, into the library's layout. */
static dnnl_status_t reorder(const struct attn_onednn_product *p, void *dense, void *packed)
{
    const struct attn_onednn_library *library = &p->library;
    const struct attn_onednn_product_spec *s = &p->spec;
    dnnl_memory_desc_t from = NULL;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t description = NULL;
    struct attn_onednn_step step = {0};
    dnnl_status_t status = attn_onednn_desc(&from, s->in, 2, (int64_t[]){s->inner, s->width}, NULL);
    status = status ? status : attn_onednn_attributes(&attributes, 1, NULL);
    if (!status)
        status = dnnl_reorder_primitive_desc_create(&description, from, library->engine, p->packed,
                                                    library->engine, attributes);
    status = status ? status : attn_onednn_step_make(library, &step, description);
    status = status ? status : attn_onednn_step_add(library, &step, DNNL_ARG_FROM, from, dense);
    if (!status)
        status = attn_onednn_step_add(library, &step, DNNL_ARG_TO, p->packed, packed);
    status = status ? status : attn_onednn_step_run(library, &step);
    attn_onednn_step_free(library, &step);
    if (description)
        dnnl_primitive_desc_destroy(description);
    if (attributes)
        dnnl_primitive_attr_destroy(attributes);
    if (from)
        dnnl_memory_desc_destroy(from);
    return status;
}

static dnnl_status_t copy_bias(const struct attn_onednn_product *p, const struct attn_tensor *bias,
                               struct attn_onednn_weights *weights)
{
    const struct attn_services *services = p->library.services;
    weights->bias = services->alloc(services->context, (size_t)p->spec.width * sizeof(float), 64);
    if (!weights->bias)
        return dnnl_out_of_memory;
    for (int64_t n = 0; n < p->spec.width; n++)
        weights->bias[n] = attn_onednn_load(bias, n * bias->stride[0]);
    return dnnl_success;
}

dnnl_status_t attn_onednn_product_pack(const struct attn_onednn_product *product,
                                       const struct attn_tensor *w, const int64_t *stride,
                                       int64_t heads, const struct attn_tensor *bias,
                                       struct attn_onednn_weights *weights)
{
    const struct attn_onednn_product_spec *s = &product->spec;
    const struct attn_services *services = product->library.services;
    size_t element = (size_t)attn_element_bytes(s->in), bytes, all, step;
    *weights = (struct attn_onednn_weights){0};
    heads = stride[0] ? heads : 1;
    step = (dnnl_memory_desc_get_size(product->packed) + 63) & ~(size_t)63;
    if (__builtin_mul_overflow((size_t)s->inner, (size_t)s->width * element, &bytes) ||
        __builtin_mul_overflow((size_t)heads, step, &all))
        return dnnl_out_of_memory;
    weights->step = heads > 1 ? step : 0;
    weights->data = services->alloc(services->context, all, 64);
    char *dense = services->alloc(services->context, bytes, 64);
    dnnl_status_t status = weights->data && dense ? dnnl_success : dnnl_out_of_memory;
    for (int64_t h = 0; h < heads && !status; h++) {
        for (int64_t r = 0; r < s->inner; r++)
            for (int64_t c = 0; c < s->width; c++)
                memcpy(dense + (size_t)(r * s->width + c) * element,
                       attn_element_at(w, h * stride[0] + r * stride[1] + c * stride[2]), element);
        status = reorder(product, dense, weights->data + (size_t)h * step);
    }
    if (dense)
        services->free(services->context, dense);
    return status || !s->biased ? status : copy_bias(product, bias, weights);
}

dnnl_status_t attn_onednn_product_run(const struct attn_onednn_product *product,
                                      const struct attn_onednn_weights *weights, int64_t head,
                                      void *x, void *y)
{
    const struct attn_onednn_step *step = &product->step;
    dnnl_status_t status = attn_onednn_step_point(step, DNNL_ARG_SRC, x);
    if (!status)
        status = attn_onednn_step_point(step, DNNL_ARG_WEIGHTS,
                                        weights->data + (size_t)head * weights->step);
    status = status ? status : attn_onednn_step_point(step, DNNL_ARG_DST, y);
    if (!status && product->spec.biased)
        status = attn_onednn_step_point(step, DNNL_ARG_BIAS, weights->bias);
    return status ? status : attn_onednn_step_run(&product->library, step);
}

void attn_onednn_product_destroy(struct attn_onednn_product *product)
{
    const struct attn_services *services = product->library.services;
    attn_onednn_step_free(&product->library, &product->step);
    if (product->packed)
        dnnl_memory_desc_destroy(product->packed);
    services->free(services->context, product);
}

void attn_onednn_weights_free(const struct attn_services *services,
                              struct attn_onednn_weights *weights)
{
    if (weights->data)
        services->free(services->context, weights->data);
    if (weights->bias)
        services->free(services->context, weights->bias);
}
