/* SPDX-License-Identifier: Apache-2.0 */
/* operand.c - places operands in memory: strides from layout and view, allocation, elements. */
#include "tensor/operand.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "reference/dtype.h"
#include "reference/parallel.h"

/* A cache line. Backends must not rely on this alignment; some views take it away. */
#define ALIGNMENT 64

/* Large operands use pages of this size if the system has them: the first touch of a GiB in small
 * pages costs seconds on a virtual machine. */
#define HUGE_PAGE ((size_t)2 << 20)

/* Elements of padding after a row under view=gaps: odd, so that rows differ in alignment. */
#define GAP 3

/* Elements that one thread fills at a time: about half a millisecond of random numbers. */
#define FILL_GRAIN 16384

static int64_t stored_extent(const struct attn_tensor *tensor, uint32_t axis)
{
    return tensor->stride[axis] == 0 ? 1 : tensor->shape[axis];
}

int64_t attn_operand_count(const struct attn_tensor *tensor)
{
    int64_t count = 1;
    for (uint32_t a = 0; a < tensor->rank; a++)
        count *= tensor->shape[a] == 0 ? 0 : stored_extent(tensor, a);
    return count;
}

size_t attn_tensor_span(const struct attn_tensor *tensor)
{
    int64_t last = 0;
    for (uint32_t a = 0; a < tensor->rank; a++) {
        int64_t part;
        if (tensor->shape[a] == 0)
            return 0;
        if (__builtin_mul_overflow(tensor->shape[a] - 1, tensor->stride[a], &part) ||
            __builtin_add_overflow(last, part, &last))
            return SIZE_MAX;
    }
    size_t bytes;
    if (last == INT64_MAX ||
        __builtin_mul_overflow((size_t)last + 1, attn_dtype_size(tensor->dtype), &bytes))
        return SIZE_MAX;
    return bytes;
}

/* Axes in memory order, outermost first. */
static void memory_order(const struct attn_case *c, const struct attn_schema *schema, uint32_t rank,
                         uint32_t order[ATTN_MAX_RANK])
{
    for (uint32_t a = 0; a < rank; a++)
        order[a] = a;
    if (!(schema->flags & REF_ACTIVATION) || rank < 3)
        return;
    if (c->layout == ATTN_LAYOUT_BSHD && rank == 4) {
        order[1] = 2;
        order[2] = 1;
    } else if (c->layout == ATTN_LAYOUT_BHDS) {
        order[rank - 2] = rank - 1;
        order[rank - 1] = rank - 2;
    }
    if (c->view & ATTN_VIEW_PERMUTED) { /* the axis next to the innermost goes outermost */
        const uint32_t moved = order[rank - 2];
        memmove(order + 1, order, (rank - 2) * sizeof order[0]);
        order[0] = moved;
    }
}

/* Widens the stride of the outermost axis with more than one entry, so that its last index is at
 * element 2^31 or beyond. */
static void spread(struct attn_tensor *tensor, const uint32_t order[ATTN_MAX_RANK])
{
    for (uint32_t o = 0; o < tensor->rank; o++) {
        const uint32_t axis = order[o];
        const int64_t steps = stored_extent(tensor, axis) - 1;
        if (steps < 1)
            continue;
        const int64_t wide = ((1ll << 31) / steps + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
        if (tensor->stride[axis] < wide)
            tensor->stride[axis] = wide;
        return;
    }
}

static int set_strides(const struct attn_case *c, const struct attn_schema *schema,
                       unsigned broadcast, struct attn_tensor *tensor)
{
    uint32_t order[ATTN_MAX_RANK];
    memory_order(c, schema, tensor->rank, order);
    const bool active = schema->flags & REF_ACTIVATION;
    const bool padded = c->view & ATTN_VIEW_GAPS && tensor->rank > 1 && (!schema->output || active);
    int64_t run = 1;
    for (uint32_t o = tensor->rank; o-- > 0;) {
        const uint32_t axis = order[o];
        if (broadcast >> axis & 1) {
            tensor->stride[axis] = 0;
        } else {
            tensor->stride[axis] = run;
            const int64_t extent = tensor->shape[axis] > 0 ? tensor->shape[axis] : 1;
            if (__builtin_mul_overflow(run, extent, &run))
                return -1;
        }
        if (padded && o == tensor->rank - 1 && __builtin_add_overflow(run, GAP, &run))
            return -1;
    }
    if (c->view & ATTN_VIEW_HUGE && active)
        spread(tensor, order);
    return 0;
}

/* Memory for the span, with one element before it under view=offset1. */
static int allocate(const struct attn_case *c, bool sparse, struct attn_tensor *tensor,
                    struct attn_operand *operand)
{
    const size_t shift = c->view & ATTN_VIEW_OFFSET1 ? attn_dtype_size(tensor->dtype) : 0;
    const size_t span = attn_tensor_span(tensor);
    const size_t alignment = span < 16 * HUGE_PAGE || sparse ? ALIGNMENT : HUGE_PAGE;
    size_t bytes;
    if (span == SIZE_MAX || __builtin_add_overflow(span, shift + alignment, &bytes))
        return -1;
    bytes = bytes / alignment * alignment;
    if (sparse) {
        operand->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (operand->base == MAP_FAILED) {
            operand->base = NULL;
            return -1;
        }
        operand->mapped = bytes;
    } else {
        operand->base = aligned_alloc(alignment, bytes);
        if (operand->base == NULL)
            return -1;
        if (alignment == HUGE_PAGE)
            (void)madvise(operand->base, bytes, MADV_HUGEPAGE); /* if refused, pages stay small */
        if (operand->output || c->view & ATTN_VIEW_GAPS)
            memset(operand->base, 0xff, bytes);
    }
    operand->span = span;
    tensor->data = (char *)operand->base + shift;
    return 0;
}

void attn_operand_free(struct attn_operand *operand)
{
    if (operand->mapped > 0)
        munmap(operand->base, operand->mapped);
    else
        free(operand->base);
    *operand = (struct attn_operand){0};
}

struct attn_tensor *attn_operand_add(struct attn_instance *instance,
                                     const struct attn_operand_form *form,
                                     const struct ref_shape *shape, char *why, size_t size)
{
    const struct attn_schema *schema = form->schema;
    const uint32_t at = instance->problem.n_tensors, full = (uint32_t)strlen(schema->shape);
    assert(at < ATTN_MAX_TENSORS && form->rank <= full);
    struct attn_tensor tensor = {.role = schema->role,
                                 .dtype = form->dtype,
                                 .space = ATTN_HOST,
                                 .rank = form->rank ? form->rank : full};
    struct attn_operand operand = {.output = schema->output};
    for (uint32_t a = 0; a < tensor.rank; a++)
        tensor.shape[a] = shape->extent[(unsigned char)schema->shape[a]];
    const bool sparse = instance->c.view & ATTN_VIEW_HUGE && (schema->flags & REF_ACTIVATION) != 0;
    if (set_strides(&instance->c, schema, form->broadcast, &tensor) != 0 ||
        allocate(&instance->c, sparse, &tensor, &operand) != 0) {
        snprintf(why, size, "no memory for %s", schema->name);
        return NULL;
    }
    instance->tensors[at] = tensor;
    instance->operands[at] = operand;
    instance->problem.n_tensors = at + 1;
    return &instance->tensors[at];
}

int attn_operand_add_outputs(struct attn_instance *instance, const struct ref_shape *shape,
                             char *why, size_t size)
{
    const struct attn_case *c = &instance->c;
    const struct ref_op *op = attn_case_op(c);
    struct attn_schema schema;
    for (size_t n = 0; attn_schema_at(op, n, &schema); n++) {
        const int output = schema.output ? ref_output_of(op, schema.role) : -1;
        if (output < 0 || !attn_case_gives(c, &op->outputs[output]))
            continue;
        const struct attn_operand_form form = {.schema = &schema,
                                               .dtype = attn_type_drawn(c, schema.type)};
        if (attn_operand_add(instance, &form, shape, why, size) == NULL)
            return -1;
    }
    return 0;
}

struct filling {
    const struct attn_tensor *tensor;
    double (*value)(const void *context, uint64_t index); /* NULL: values */
    void (*values)(const void *context, uint64_t first, double values[ATTN_RANDOM_RUN]);
    const void *context;
};

static void make_values(const struct filling *filling, int64_t first, int64_t count,
                        double values[ATTN_RANDOM_RUN])
{
    if (filling->values)
        filling->values(filling->context, (uint64_t)first, values);
    for (int64_t i = 0; !filling->values && i < count; i++)
        values[i] = filling->value(filling->context, (uint64_t)(first + i));
}

/* Stores values `step` elements apart. True is any byte except 0, so all such bytes occur. */
static void place(const struct attn_tensor *tensor, int64_t offset, int64_t step,
                  const double *values, int64_t count, int64_t index)
{
    if (tensor->dtype == ATTN_BOOL) {
        uint8_t *bytes = (uint8_t *)tensor->data + offset;
        const unsigned first = (unsigned)(index % 255);
        for (int64_t i = 0; i < count; i++) { /* without a branch: vectors of bytes */
            const unsigned at = first + (unsigned)i;
            bytes[i * step] = (uint8_t)((at < 255 ? at + 1 : at - 254) * (values[i] != 0));
        }
        return;
    }
    for (int64_t i = 0; i < count; i++)
        attn_dtype_store(tensor->dtype, tensor->data, offset + i * step, values[i]);
}

static void fill_part(void *context, int64_t begin, int64_t end)
{
    const struct filling *filling = context;
    const struct attn_tensor *tensor = filling->tensor;
    const uint32_t last = tensor->rank - 1;
    int64_t at[ATTN_MAX_RANK], offset = 0, rest = begin;
    for (uint32_t a = tensor->rank; a-- > 0;) {
        at[a] = rest % stored_extent(tensor, a);
        rest /= stored_extent(tensor, a);
        offset += at[a] * tensor->stride[a];
    }
    for (int64_t index = begin, count; index < end; index += count) {
        double values[ATTN_RANDOM_RUN];
        count = end - index < ATTN_RANDOM_RUN ? end - index : ATTN_RANDOM_RUN;
        make_values(filling, index, count, values);
        for (int64_t done = 0, run; done < count; done += run) {
            /* up to the end of the innermost row, then on to the next */
            run = stored_extent(tensor, last) - at[last];
            run = run < count - done ? run : count - done;
            place(tensor, offset, tensor->stride[last], values + done, run, index + done);
            offset += run * tensor->stride[last];
            at[last] += run;
            for (uint32_t a = last; at[a] == stored_extent(tensor, a); a--) {
                offset -= at[a] * tensor->stride[a];
                at[a] = 0;
                if (a == 0)
                    break;
                offset += tensor->stride[a - 1];
                at[a - 1]++;
            }
        }
    }
}

void attn_operand_fill(const struct attn_tensor *tensor, int threads,
                       double (*value)(const void *context, uint64_t index), const void *context)
{
    struct filling filling = {.tensor = tensor, .value = value, .context = context};
    attn_parallel_for(threads, attn_operand_count(tensor), FILL_GRAIN, fill_part, &filling);
}

void attn_operand_fill_runs(const struct attn_tensor *tensor, int threads,
                            void (*values)(const void *context, uint64_t first,
                                           double values[ATTN_RANDOM_RUN]),
                            const void *context)
{
    struct filling filling = {.tensor = tensor, .values = values, .context = context};
    attn_parallel_for(threads, attn_operand_count(tensor), FILL_GRAIN, fill_part, &filling);
}
