/* SPDX-License-Identifier: Apache-2.0 */
/* dlpack.c - operands as DLPack capsules, and arrays that an adapter returned copied into them.
 *
 * Layouts and names: dlpack.h 1.0 (https://dmlc.github.io/dlpack/latest/c_api.html) and its Python
 * specification: capsules "dltensor" and "dltensor_versioned", renamed by who takes them over. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../cuda/transfer.h"
#include "attnbench/problem.h"
#include "python.h"

enum { DEVICE_CPU = 1, DEVICE_CUDA = 2, READ_ONLY = 1 };

struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; /* strides in elements; NULL: dense */
    uint64_t byte_offset;
};

struct dl_managed {
    struct dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *);
};

struct dl_managed_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dl_managed_versioned *);
    uint64_t flags;
    struct dl_tensor tensor;
};

/* What a capsule points to; the extents lie behind the structure in the same block. The memory of
 * the elements is the harness's and outlives every binding. */
union exported {
    struct dl_managed plain;
    struct dl_managed_versioned versioned;
};

struct export_block {
    union exported managed;
    int64_t extents[2 * ATTN_MAX_RANK];
};

static void delete_plain(struct dl_managed *managed)
{
    free(managed);
}

static void delete_versioned(struct dl_managed_versioned *managed)
{
    free(managed);
}

/* Of a capsule that nobody has taken over. */
static void drop_capsule(PyObject *capsule)
{
    static const char *const names[] = {"dltensor", "dltensor_versioned"};
    for (int n = 0; n < 2; n++)
        if (py.CapsuleIs(capsule, names[n]))
            free(py.CapsulePointer(capsule, names[n]));
}

/* Reads a tuple of integers; returns its length, or -1. */
static int read_extents(PyObject *tuple, int64_t values[ATTN_MAX_RANK])
{
    const intptr_t n = py.TupleSize(tuple);
    if (n < 0 || n > ATTN_MAX_RANK)
        return -1;
    for (intptr_t i = 0; i < n; i++)
        values[i] = py.LongAs(py.TupleItem(tuple, i));
    return (int)n;
}

/* (pointer, code, bits, shape, strides) of a Tensor. Returns 0, or -1 with a Python error set. */
static int read_tensor(unsigned long long pointer, unsigned code, unsigned bits, PyObject *shape,
                       PyObject *strides, struct dl_tensor *tensor)
{
    const int rank = read_extents(shape, tensor->shape);
    if (rank < 0 || read_extents(strides, tensor->strides) != rank) {
        if (!py.ErrorOccurred())
            py.SetError(*py.BufferError, "shape and strides must have the same rank, at most 6");
        return -1;
    }
    tensor->data = (void *)(uintptr_t)pointer;
    tensor->ndim = rank;
    tensor->code = (uint8_t)code;
    tensor->bits = (uint8_t)bits;
    tensor->lanes = 1;
    tensor->byte_offset = 0;
    return py.ErrorOccurred() ? -1 : 0;
}

/* export_tensor(pointer, code, bits, shape, strides, device_type, device_id, readonly, versioned)
 * -> capsule */
static PyObject *export_tensor(PyObject *self, PyObject *args)
{
    unsigned long long pointer;
    unsigned code, bits;
    PyObject *shape, *strides;
    int type, index, readonly, versioned;
    (void)self;
    if (!py.ParseTuple(args, "KIIOOiiii", &pointer, &code, &bits, &shape, &strides, &type, &index,
                       &readonly, &versioned))
        return NULL;
    struct export_block *block = calloc(1, sizeof(*block));
    if (!block)
        return py.NoMemory();
    struct dl_tensor *tensor =
        versioned ? &block->managed.versioned.tensor : &block->managed.plain.tensor;
    tensor->shape = block->extents;
    tensor->strides = block->extents + ATTN_MAX_RANK;
    if (read_tensor(pointer, code, bits, shape, strides, tensor) != 0) {
        free(block);
        return NULL;
    }
    tensor->device_type = type;
    tensor->device_id = index;
    if (versioned) {
        block->managed.versioned.major = 1;
        block->managed.versioned.flags = readonly ? READ_ONLY : 0;
        block->managed.versioned.deleter = delete_versioned;
    } else {
        block->managed.plain.deleter = delete_plain;
    }
    PyObject *capsule =
        py.NewCapsule(block, versioned ? "dltensor_versioned" : "dltensor", drop_capsule);
    if (!capsule)
        free(block);
    return capsule;
}

/* The tensor in a capsule of either kind, or NULL. */
static const struct dl_tensor *tensor_of(PyObject *capsule)
{
    if (py.CapsuleIs(capsule, "dltensor"))
        return &((struct dl_managed *)py.CapsulePointer(capsule, "dltensor"))->tensor;
    if (!py.CapsuleIs(capsule, "dltensor_versioned"))
        return NULL;
    struct dl_managed_versioned *managed = py.CapsulePointer(capsule, "dltensor_versioned");
    return managed->major == 1 ? &managed->tensor : NULL;
}

/* Copies axis by axis; the last axes, where both sides are dense, in one piece. */
static void copy_axis(char *to, const int64_t *to_strides, const char *from,
                      const int64_t *from_strides, const int64_t *shape, int rank, size_t element)
{
    int64_t dense = 1;
    int axis = rank;
    while (axis > 0 && to_strides[axis - 1] == dense && from_strides[axis - 1] == dense)
        dense *= shape[--axis];
    if (axis == 0) {
        memcpy(to, from, (size_t)dense * element);
        return;
    }
    for (int64_t i = 0; i < shape[0]; i++)
        if (rank == 1)
            memcpy(to + i * to_strides[0] * (int64_t)element,
                   from + i * from_strides[0] * (int64_t)element, element);
        else
            copy_axis(to + i * to_strides[0] * (int64_t)element, to_strides + 1,
                      from + i * from_strides[0] * (int64_t)element, from_strides + 1, shape + 1,
                      rank - 1, element);
}

static bool same_shape(const struct dl_tensor *a, const struct dl_tensor *b)
{
    return a->ndim == b->ndim &&
           (a->ndim == 0 || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(*a->shape)) == 0);
}

/* What lies on the device, with strides of its own: a copy on the host first. Returns 0, or -1 with
 * a Python error set. */
static int copy_of_device(const struct dl_tensor *to, const struct dl_tensor *from,
                          const int64_t *strides, uint32_t dtype)
{
    char why[256] = "strides on the device must not be negative";
    struct attn_tensor host = {.dtype = dtype, .rank = (uint32_t)from->ndim};
    for (int axis = 0; axis < from->ndim; axis++) {
        host.shape[axis] = from->shape[axis];
        host.stride[axis] = strides[axis];
    }
    const int64_t span = attn_problem_span(&host);
    void *staging = span > 0 ? malloc(attn_transfer_staging(&host)) : NULL;
    host.data = span > 0 ? malloc((size_t)span) : NULL;
    int result = span > 0 ? ATTN_OUT_OF_MEMORY : ATTN_FAILED;
    if (staging && host.data)
        result = attn_transfer_out(&host, (const char *)from->data + from->byte_offset, staging,
                                   why, sizeof(why));
    if (result == ATTN_OK)
        copy_axis(to->data, to->strides, host.data, strides, to->shape, to->ndim, to->bits / 8);
    else if (result == ATTN_OUT_OF_MEMORY)
        py.NoMemory();
    else
        py.SetError(*py.BufferError, why);
    free(staging);
    free(host.data);
    return result == ATTN_OK ? 0 : -1;
}

/* copy_from(capsule, pointer, code, bits, shape, strides, device_type, dtype) -> None: the array of
 * a capsule, which stays its owner's, into an operand of the same shape and type on the host. */
static PyObject *copy_from(PyObject *self, PyObject *args)
{
    int64_t extents[3 * ATTN_MAX_RANK];
    struct dl_tensor to = {.shape = extents, .strides = extents + ATTN_MAX_RANK};
    unsigned long long pointer;
    unsigned code, bits, dtype;
    int type;
    PyObject *capsule, *shape, *strides;
    (void)self;
    if (!py.ParseTuple(args, "OKIIOOiI", &capsule, &pointer, &code, &bits, &shape, &strides, &type,
                       &dtype) ||
        read_tensor(pointer, code, bits, shape, strides, &to) != 0)
        return NULL;
    const struct dl_tensor *from = tensor_of(capsule);
    const char *wrong = NULL;
    if (!from || from->device_type != type)
        wrong = type == DEVICE_CPU ? "is not an array in host memory" : "is not on the device";
    else if (!same_shape(from, &to))
        wrong = "has another shape";
    else if (from->code != to.code || from->bits != to.bits || from->lanes != 1)
        wrong = "has another type";
    if (wrong) {
        py.SetError(*py.BufferError, wrong);
        return NULL;
    }
    int64_t *dense = extents + (ptrdiff_t)2 * ATTN_MAX_RANK, step = 1, count = 1;
    for (int axis = to.ndim - 1; axis >= 0; axis--) {
        dense[axis] = step;
        step *= to.shape[axis] > 0 ? to.shape[axis] : 1;
        count *= to.shape[axis];
    }
    const int64_t *from_strides = from->strides ? from->strides : dense;
    if (count > 0 && type != DEVICE_CPU) {
        if (copy_of_device(&to, from, from_strides, dtype) != 0)
            return NULL;
    } else if (count > 0) {
        copy_axis(to.data, to.strides, (const char *)from->data + from->byte_offset, from_strides,
                  to.shape, to.ndim, bits / 8);
    }
    py.IncRef(py.None);
    return py.None;
}

/* PyMethodDef of the stable ABI; METH_VARARGS is 1. */
struct definition {
    const char *name;
    PyObject *(*function)(PyObject *self, PyObject *args);
    int flags;
    const char *doc;
};

int attn_python_offer(PyObject *helper)
{
    static struct definition definitions[] = {
        {"export_tensor", export_tensor, 1, NULL},
        {"copy_from", copy_from, 1, NULL},
    };
    for (size_t d = 0; d < sizeof(definitions) / sizeof(definitions[0]); d++) {
        PyObject *function = py.NewFunction(&definitions[d], NULL, NULL);
        PyObject *done =
            function ? py.CallMethod(helper, "accept", "sN", definitions[d].name, function) : NULL;
        if (!done)
            return -1;
        py.DecRef(done);
    }
    return 0;
}
