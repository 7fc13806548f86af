/* SPDX-License-Identifier: Apache-2.0 */
/* operands.c - problems, tensors and services as tuples, which attnbench_python makes objects of.
 */
#include "python.h"

static PyObject *extents(const int64_t *values, uint32_t n)
{
    PyObject *tuple = py.NewTuple((intptr_t)n);
    for (uint32_t i = 0; tuple && i < n; i++)
        py.SetTupleItem(tuple, (intptr_t)i, py.LongFrom(values[i]));
    return tuple;
}

PyObject *attn_python_tensors(const struct attn_tensor *tensors, uint32_t n)
{
    PyObject *list = py.NewTuple((intptr_t)n);
    for (uint32_t t = 0; list && t < n; t++) {
        const struct attn_tensor *a = &tensors[t];
        PyObject *item = py.BuildValue("(IIIINNK)", a->role, a->dtype, a->space, a->device,
                                       extents(a->shape, a->rank), extents(a->stride, a->rank),
                                       (unsigned long long)(uintptr_t)a->data);
        if (!item) {
            py.DecRef(list);
            return NULL;
        }
        py.SetTupleItem(list, (intptr_t)t, item);
    }
    return list;
}

PyObject *attn_python_problem(const struct attn_problem *p)
{
    return py.BuildValue(
        "(IIIKLLLLLLLLddLLLdKLLdLLdLLLLN)", p->op, p->score, p->dtype, (unsigned long long)p->flags,
        (long long)p->b, (long long)p->hq, (long long)p->hkv, (long long)p->sq, (long long)p->sk,
        (long long)p->dq, (long long)p->dk, (long long)p->dv, p->scale, p->softcap,
        (long long)p->off, (long long)p->window_left, (long long)p->window_right, p->dropout_p,
        (unsigned long long)p->dropout_seed, (long long)p->variant, (long long)p->parts, p->eps,
        (long long)p->weight_fn, (long long)p->chunk, p->lin_scale, (long long)p->landmarks,
        (long long)p->iterations, (long long)p->rounds, (long long)p->buckets,
        attn_python_tensors(p->tensors, p->n_tensors));
}

PyObject *attn_python_services(const struct attn_services *services, int device)
{
    PyObject *options = py.NewTuple((intptr_t)services->n_options);
    for (uint32_t o = 0; options && o < services->n_options; o++)
        py.SetTupleItem(
            options, (intptr_t)o,
            py.BuildValue("(ss)", services->options[o].key, services->options[o].value));
    return py.BuildValue("(IiN)", services->threads, device, options);
}
