/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - the slots: each calls one function of attnbench_python, which catches what adapters
 * raise and answers with a tuple that begins with a result of the ABI and a sentence. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "python.h"

struct plan {
    PyObject *helper; /* borrowed: it lives as long as the process */
    PyObject *object;
    char source[256]; /* of numerics, for as long as the plan */
};

/* Reads an answer (code, sentence, ...). If the code is ATTN_OK, *made becomes a new reference to
 * its third element. Drops the answer. */
static int judge(PyObject *answer, PyObject **made, char *why, size_t size)
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

int attn_python_probe(const struct attn_adapter *adapter, char *why, size_t size)
{
    PyObject *helper;
    const int result = attn_python_start(&helper, why, size);
    if (result != ATTN_OK)
        return result;
    return judge(py.CallMethod(helper, "probe", "s", adapter->path), NULL, why, size);
}

void attn_python_version(const struct attn_adapter *adapter, char *text, size_t size)
{
    PyObject *helper;
    char why[256];
    text[0] = 0;
    if (attn_python_start(&helper, why, sizeof(why)) == ATTN_OK)
        take_text(py.CallMethod(helper, "version", "s", adapter->path), text, size);
}

int attn_python_supports(const struct attn_adapter *adapter, const struct attn_problem *problem,
                         const struct attn_services *services, char *why, size_t size)
{
    PyObject *helper;
    if (problem->struct_size < sizeof(*problem)) {
        snprintf(why, size, "the harness is older than this plugin");
        return ATTN_UNSUPPORTED;
    }
    const int result = attn_python_start(&helper, why, size);
    if (result != ATTN_OK)
        return result;
    return judge(py.CallMethod(helper, "supports", "sNI", adapter->path,
                               attn_python_problem(problem), services->threads),
                 NULL, why, size);
}

int attn_python_create(const struct attn_adapter *adapter, const struct attn_problem *problem,
                       const struct attn_services *services, void **plan, char *why, size_t size)
{
    PyObject *helper;
    int result = attn_python_start(&helper, why, size);
    if (result != ATTN_OK)
        return result;
    struct plan *made = calloc(1, sizeof(*made));
    if (!made) {
        snprintf(why, size, "no memory for a plan");
        return ATTN_OUT_OF_MEMORY;
    }
    made->helper = helper;
    result = judge(py.CallMethod(helper, "create", "sNI", adapter->path,
                                 attn_python_problem(problem), services->threads),
                   &made->object, why, size);
    if (result == ATTN_OK)
        *plan = made;
    else
        free(made);
    return result;
}

void attn_python_numerics(const void *plan, struct attn_numerics *n)
{
    struct plan *p = (struct plan *)plan;
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
    struct plan *p = plan;
    PyObject *made;
    const int result = judge(
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
        return judge(answer, NULL, why, size);
    py.DecRef(answer);
    return ATTN_OK;
}

void attn_python_release(void *binding)
{
    py.DecRef(binding);
}

void attn_python_describe(const void *plan, char *text, size_t size)
{
    const struct plan *p = plan;
    take_text(py.CallMethod(p->helper, "describe", "O", p->object), text, size);
}

void attn_python_destroy(void *plan)
{
    struct plan *p = plan;
    py.DecRef(p->object);
    free(p);
}
