/* SPDX-License-Identifier: Apache-2.0 */
/* step.c - one primitive: descriptors, attributes, scratch memory, arguments, execution. */
#include <stdio.h>

#include "onednn.h"

dnnl_status_t attn_onednn_desc(dnnl_memory_desc_t *desc, uint32_t dtype, int rank,
                               const int64_t *shape, const int64_t *stride)
{
    dnnl_dims_t dims, strides;
    int64_t dense = 1;
    for (int a = rank - 1; a >= 0; a--) {
        dims[a] = shape[a];
        strides[a] = stride && shape[a] > 1 ? stride[a] : dense;
        dense *= shape[a];
    }
    return dnnl_memory_desc_create_with_strides(desc, rank, dims, attn_onednn_type(dtype), strides);
}

static dnnl_status_t set_post_ops(dnnl_primitive_attr_t attributes, float scale,
                                  const_dnnl_memory_desc_t add)
{
    dnnl_post_ops_t post = NULL;
    dnnl_status_t status = dnnl_post_ops_create(&post);
    if (!status)
        status = dnnl_post_ops_append_eltwise(post, dnnl_eltwise_linear, scale, 0);
    if (!status && add)
        status = dnnl_post_ops_append_binary(post, dnnl_binary_add, add);
    status = status ? status : dnnl_primitive_attr_set_post_ops(attributes, post);
    if (post)
        dnnl_post_ops_destroy(post);
    return status;
}

dnnl_status_t attn_onednn_attributes(dnnl_primitive_attr_t *attributes, float scale,
                                     const_dnnl_memory_desc_t add)
{
    dnnl_status_t status = dnnl_primitive_attr_create(attributes);
    if (status)
        return status;
    status = dnnl_primitive_attr_set_scratchpad_mode(*attributes, dnnl_scratchpad_mode_user);
    status =
        status ? status : dnnl_primitive_attr_set_fpmath_mode(*attributes, dnnl_fpmath_mode_strict);
    return status || (scale == 1 && !add) ? status : set_post_ops(*attributes, scale, add);
}

dnnl_status_t attn_onednn_step_add(const struct attn_onednn_library *library,
                                   struct attn_onednn_step *step, int argument,
                                   const_dnnl_memory_desc_t desc, void *data)
{
    dnnl_memory_t memory;
    dnnl_status_t status = dnnl_memory_create(&memory, desc, library->engine, data);
    if (!status)
        step->args[step->n++] = (dnnl_exec_arg_t){argument, memory};
    return status;
}

dnnl_status_t attn_onednn_step_make(const struct attn_onednn_library *library,
                                    struct attn_onednn_step *step,
                                    const_dnnl_primitive_desc_t description)
{
    const struct attn_services *services = library->services;
    const_dnnl_memory_desc_t pad =
        dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
    size_t bytes = dnnl_memory_desc_get_size(pad);
    if (bytes) {
        step->scratch = services->alloc(services->context, bytes, 64);
        if (!step->scratch)
            return dnnl_out_of_memory;
    }
    dnnl_status_t status =
        attn_onednn_step_add(library, step, DNNL_ARG_SCRATCHPAD, pad, step->scratch);
    return status ? status : dnnl_primitive_create(&step->primitive, description);
}

dnnl_status_t attn_onednn_step_point(const struct attn_onednn_step *step, int argument, void *data)
{
    for (int n = 0; n < step->n; n++)
        if (step->args[n].arg == argument)
            return dnnl_memory_set_data_handle(step->args[n].memory, data);
    return dnnl_invalid_arguments;
}

dnnl_status_t attn_onednn_step_run(const struct attn_onednn_library *library,
                                   const struct attn_onednn_step *step)
{
    dnnl_status_t status =
        dnnl_primitive_execute(step->primitive, library->stream, step->n, step->args);
    return status ? status : dnnl_stream_wait(library->stream);
}

void attn_onednn_step_free(const struct attn_onednn_library *library, struct attn_onednn_step *step)
{
    if (step->primitive)
        dnnl_primitive_destroy(step->primitive);
    for (int n = 0; n < step->n; n++)
        dnnl_memory_destroy(step->args[n].memory);
    if (step->scratch)
        library->services->free(library->services->context, step->scratch);
}

int attn_onednn_result(dnnl_status_t status, char *why, size_t size)
{
    if (!status)
        return ATTN_OK;
    snprintf(why, size, "oneDNN could not make or execute a primitive (status %d)", (int)status);
    return status == dnnl_out_of_memory ? ATTN_OUT_OF_MEMORY : ATTN_FAILED;
}
