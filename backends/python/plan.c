/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - the slots: each calls one function of attnbench_python, which catches what adapters
 * raise and answers with a tuple that begins with a result of the ABI and a sentence. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cuda/gpu.h"
#include "python.h"

int attn_python_judge(PyObject *answer, PyObject **made, char *why, size_t size)
{
    int code = ATTN_FAILED;
    const char *sentence = "attnbench_python gave no answer; the log says why";
    PyObject *third = NULL;
    if (answer && !py.ParseTuple(answer, "is|O", &code, &sentence, &third))
        code = ATTN_FAILED;
    if (code == ATTN_OK && made) {
        py.IncRef(third);
        *made = third;
    } else if (code != ATTN_OK) {
        snprintf(why, size, "%s", sentence);
    }
    if (py.ErrorOccurred())
        py.PrintError(0);
    if (answer)
        py.DecRef(answer);
    return code;
}

/* The text that a function answers with, "" where it fails. */
static void take_text(PyObject *answer, char *text, size_t size)
{
    const char *found = "";
    if (!answer || !py.ParseTuple(answer, "s", &found))
        py.PrintError(0);
    snprintf(text, size, "%s", found);
    if (answer)
        py.DecRef(answer);
}

/* Python, and the device of adapters that want one. */
static int start(const struct attn_adapter *adapter, const struct attn_services *services,
                 PyObject **helper, char *why, size_t size)
{
    const int result = attn_python_start(helper, why, size);
    if (result != ATTN_OK || !adapter->device[0])
        return result;
    if (attn_adapter_on_device(adapter))
        return attn_gpu_open(services, why, size);
    snprintf(why, size, "DEVICE is '%s', and only 'cuda' is known", adapter->device);
    return ATTN_NO_DEVICE;
}

int attn_python_probe(const struct attn_adapter *adapter, const struct attn_services *services,
                      char *why, size_t size)
{
    PyObject *helper;
    const int result = start(adapter, services, &helper, why, size);
    if (result != ATTN_OK)
        return result;
    return attn_python_judge(py.CallMethod(helper, "probe", "s", adapter->path), NULL, why, size);
}

void attn_python_version(const struct attn_adapter *adapter, char *text, size_t size)
{
    PyObject *helper;
    char why[256];
    text[0] = 0;
    if (attn_python_start(&helper, why, sizeof(why)) == ATTN_OK)
        take_text(py.CallMethod(helper, "version", "s", adapter->path), text, size);
    const size_t at = strlen(text);
    if (attn_adapter_on_device(adapter) && at + 2 < size) {
        memcpy(text + at, ", ", sizeof(", "));
        attn_gpu_version(text + at + 2, size - at - 2);
    }
}

static int device_of(const struct attn_adapter *adapter)
{
    return attn_adapter_on_device(adapter) ? attn_gpu_index() : -1;
}

int attn_python_supports(const struct attn_adapter *adapter, const struct attn_problem *problem,
                         const struct attn_services *services, char *why, size_t size)
{
    PyObject *helper;
    if (problem->struct_size < sizeof(*problem)) {
        snprintf(why, size, "the harness is older than this plugin");
        return ATTN_UNSUPPORTED;
    }
    const int result = start(adapter, services, &helper, why, size);
    if (result != ATTN_OK)
        return result;
    return attn_python_judge(py.CallMethod(helper, "supports", "sNN", adapter->path,
                                           attn_python_problem(problem),
                                           attn_python_services(services, device_of(adapter))),
                             NULL, why, size);
}

int attn_python_create(const struct attn_adapter *adapter, const struct attn_problem *problem,
                       const struct attn_services *services, void **plan, char *why, size_t size)
{
    PyObject *helper;
    int result = start(adapter, services, &helper, why, size);
    if (result != ATTN_OK)
        return result;
    struct attn_python_plan *made = calloc(1, sizeof(*made));
    if (!made) {
        snprintf(why, size, "no memory for a plan");
        return ATTN_OUT_OF_MEMORY;
    }
    made->helper = helper;
    made->services = services;
    if (attn_adapter_on_device(adapter))
        result = attn_gpu_queue_default(&made->queue, why, size);
    if (result == ATTN_OK)
        result = attn_python_judge(
            py.CallMethod(helper, "create", "sNN", adapter->path, attn_python_problem(problem),
                          attn_python_services(services, device_of(adapter))),
            &made->object, why, size);
    if (result == ATTN_OK) {
        *plan = made;
    } else {
        attn_gpu_queue_destroy(made->queue);
        free(made);
    }
    return result;
}

void attn_python_numerics(const void *plan, struct attn_numerics *n)
{
    struct attn_python_plan *p = (struct attn_python_plan *)plan;
    const uint32_t struct_size = n->struct_size;
    const char *source = NULL;
    long long key_tile = 0, chain = 0, splits = 0, decay_chunk = 0, grad_chain = 0, query_tile = 0;
    PyObject *answer = py.CallMethod(p->helper, "numerics", "O", p->object);
    if (!answer ||
        !py.ParseTuple(answer, "IIIIIIIIIIIIILLLddddddIIIIIIdddLIIIIIIILLIz", &n->acc_type,
                       &n->score_type, &n->p_type, &n->proj_type, &n->p_normalised, &n->denominator,
                       &n->acc_toward_zero, &n->out_toward_zero, &n->ftz, &n->empty_row,
                       &n->deterministic, &n->gaussian_by_norms, &n->invariant, &key_tile, &chain,
                       &splits, &n->u_in, &n->e_exp, &n->e_arg, &n->e_tanh, &n->e_log, &n->tau,
                       &n->partial_type, &n->partial_terms, &n->score_stores, &n->alibi_by_key,
                       &n->p_stochastic, &n->rescale_on_rise, &n->u_pv, &n->e_f, &n->a_f,
                       &decay_chunk, &n->state_type, &n->bwd_lse, &n->bwd_delta, &n->ds_type,
                       &n->delta_type, &n->grad_partial_type, &n->dq_acc_type, &grad_chain,
                       &query_tile, &n->dkv_acc_type, &source))
        py.PrintError(0);
    n->struct_size = struct_size;
    n->key_tile = key_tile;
    n->chain = chain;
    n->splits = splits;
    n->decay_chunk = decay_chunk;
    n->grad_chain = grad_chain;
    n->query_tile = query_tile;
    if (source)
        snprintf(p->source, sizeof(p->source), "%s", source);
    n->source = source ? p->source : NULL;
    if (answer)
        py.DecRef(answer);
}

/* A binding is the callable that does one run. */
int attn_python_bind(void *plan, const struct attn_tensor *tensors, uint32_t n_tensors,
                     void **binding, char *why, size_t size)
{
    struct attn_python_plan *p = plan;
    PyObject *made;
    const int result = attn_python_judge(
        py.CallMethod(p->helper, "bind", "ON", p->object, attn_python_tensors(tensors, n_tensors)),
        &made, why, size);
    if (result == ATTN_OK)
        *binding = made;
    return result;
}

int attn_python_run(void *binding, char *why, size_t size)
{
    PyObject *answer = py.CallObject(binding, NULL);
    if (answer != py.None)
        return attn_python_judge(answer, NULL, why, size);
    py.DecRef(answer);
    return ATTN_OK;
}

void attn_python_release(void *binding)
{
    py.DecRef(binding);
}

void attn_python_describe(const void *plan, char *text, size_t size)
{
    const struct attn_python_plan *p = plan;
    take_text(py.CallMethod(p->helper, "describe", "O", p->object), text, size);
}

void attn_python_destroy(void *plan)
{
    struct attn_python_plan *p = plan;
    py.DecRef(p->object);
    attn_gpu_queue_destroy(p->queue);
    free(p);
}
