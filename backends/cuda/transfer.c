/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.c - see transfer.h. A tensor is cut into runs: as many of its innermost axes as lie
 * close together. A dense tensor is one run; where an axis strides over gigabytes, they stay
 * untouched. */
#include <string.h>

#include "transfer.h"

#include "attnbench/problem.h"

/* Gaps of a run may be this many times its elements: a copy has a latency worth some megabytes. */
#define SPARSEST 4

struct runs {
    int inner, rank;                                      /* axes of a run come first */
    int64_t extent[ATTN_MAX_RANK], stride[ATTN_MAX_RANK]; /* in bytes; ascending */
    int64_t element, span;                                /* bytes of an element, of a run */
};

/* Axes that move, by ascending stride; the first `inner` of them make a run. */
static struct runs cut(const struct attn_tensor *tensor)
{
    struct runs r = {.element = attn_element_bytes(tensor->dtype)};
    for (uint32_t a = 0; a < tensor->rank; a++) {
        if (tensor->shape[a] == 1 || tensor->stride[a] == 0)
            continue;
        int at = r.rank++;
        for (; at > 0 && r.stride[at - 1] > tensor->stride[a] * r.element; at--) {
            r.stride[at] = r.stride[at - 1];
            r.extent[at] = r.extent[at - 1];
        }
        r.stride[at] = tensor->stride[a] * r.element;
        r.extent[at] = tensor->shape[a];
    }
    r.span = r.element;
    while (r.inner < r.rank && r.stride[r.inner] <= SPARSEST * r.span) {
        r.span += (r.extent[r.inner] - 1) * r.stride[r.inner];
        r.inner++;
    }
    return r;
}

/* The next index of axes first .. end-1, and the offset it stands for; 0 after the last. */
static int advance(const struct runs *r, int first, int end, int64_t *index, int64_t *offset)
{
    for (int a = first; a < end; a++) {
        *offset += r->stride[a];
        if (++index[a] < r->extent[a])
            return 1;
        *offset -= r->extent[a] * r->stride[a];
        index[a] = 0;
    }
    return 0;
}

int attn_transfer_in(void *device, const struct attn_tensor *tensor, char *why, size_t size)
{
    const struct runs r = cut(tensor);
    int64_t index[ATTN_MAX_RANK] = {0}, offset = 0;
    int status = ATTN_OK;
    if (attn_problem_span(tensor) == 0)
        return ATTN_OK;
    do {
        status = attn_gpu_copy_in((char *)device + offset, (const char *)tensor->data + offset,
                                  (size_t)r.span, why, size);
    } while (status == ATTN_OK && advance(&r, r.inner, r.rank, index, &offset));
    return status;
}

size_t attn_transfer_staging(const struct attn_tensor *tensor)
{
    return (size_t)cut(tensor).span;
}

int attn_transfer_out(const struct attn_tensor *tensor, const void *device, void *staging,
                      char *why, size_t size)
{
    const struct runs r = cut(tensor);
    int64_t outer[ATTN_MAX_RANK] = {0}, offset = 0;
    if (attn_problem_span(tensor) == 0)
        return ATTN_OK;
    do {
        int64_t inner[ATTN_MAX_RANK] = {0}, within = 0;
        int status =
            attn_gpu_copy_out(staging, (const char *)device + offset, (size_t)r.span, why, size);
        if (status != ATTN_OK)
            return status;
        do {
            memcpy((char *)tensor->data + offset + within, (const char *)staging + within,
                   (size_t)r.element);
        } while (advance(&r, 0, r.inner, inner, &within));
    } while (advance(&r, r.inner, r.rank, outer, &offset));
    return ATTN_OK;
}
