/* SPDX-License-Identifier: Apache-2.0 */
/* device.c - adapters on a device: `bind` copies operands to it, the adapter launches on them, and
 * `fetch` copies results back. The device, its clock and its copies are those of ../cuda.
 *
 * Events are recorded on the legacy default stream, where libraries launch if nobody says
 * otherwise. Work on a stream apart from it is waited for, but no event sees it. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../cuda/operands.h"
#include "python.h"

struct binding {
    struct attn_python_plan *plan;
    PyObject *object; /* what one run is; its results, if they are arrays of its own */
    struct attn_cuda_operands operands;
};

void attn_python_device_release(void *binding)
{
    struct binding *self = binding;
    if (self->object)
        py.DecRef(self->object); /* its views first */
    attn_cuda_operands_release(&self->operands);
    free(self);
}

/* The tensors on the device as Python's, beside those of the host. */
static int make_object(struct binding *self, char *why, size_t size)
{
    struct attn_cuda_operands *o = &self->operands;
    for (uint32_t t = 0; t < o->count; t++) {
        o->device[t].space = ATTN_CUDA;
        o->device[t].device = (uint32_t)attn_gpu_index();
    }
    return attn_python_judge(py.CallMethod(self->plan->helper, "bind_device", "ONN",
                                           self->plan->object,
                                           attn_python_tensors(o->device, o->count),
                                           attn_python_tensors(o->host, o->count)),
                             &self->object, why, size);
}

int attn_python_device_bind(void *plan, const struct attn_tensor *tensors, uint32_t n_tensors,
                            void **binding, char *why, size_t size)
{
    struct attn_python_plan *on = plan;
    struct binding *made = calloc(1, sizeof(*made));
    if (!made) {
        snprintf(why, size, "no memory for a binding");
        return ATTN_OUT_OF_MEMORY;
    }
    made->plan = on;
    made->operands.services = on->services;
    int result = attn_gpu_enter(why, size);
    if (result == ATTN_OK)
        result = attn_cuda_operands_bring(&made->operands, tensors, n_tensors, why, size);
    if (result == ATTN_OK)
        result = make_object(made, why, size);
    if (result == ATTN_OK)
        *binding = made;
    else
        attn_python_device_release(made);
    return result;
}

int attn_python_device_enqueue(void *binding, char *why, size_t size)
{
    const struct binding *self = binding;
    int result = attn_gpu_mark(self->plan->queue, 0, why, size);
    self->plan->runs++;
    if (result == ATTN_OK)
        result = attn_python_run(self->object, why, size);
    return result == ATTN_OK ? attn_gpu_mark(self->plan->queue, 1, why, size) : result;
}

/* What the host waits for after the last event, in ns, is work if it is this long, and longer than
 * all that the events saw, so many times in a row: a busy machine holds up the host once. */
#define UNSEEN_NS    2e5
#define UNSEEN_TIMES 3

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

/* Waits for what other streams still do. */
static int settle(struct attn_python_plan *plan, uint32_t runs, char *why, size_t size)
{
    double seen = 0;
    const double start = now_ns();
    int result = attn_gpu_settle(why, size);
    const double more = now_ns() - start;
    if (result == ATTN_OK)
        result = attn_gpu_elapsed(plan->queue, &seen, why, size);
    if (result != ATTN_OK)
        return result;
    plan->unseen = more > UNSEEN_NS && more > seen * runs ? plan->unseen + 1 : 0;
    if (plan->unseen < UNSEEN_TIMES)
        return ATTN_OK;
    snprintf(why, size,
             "%.3g ms of work come after the last event: it is on a stream that the default stream "
             "does not wait for; launch on the default stream, or have a clock",
             1e-6 * more);
    return ATTN_FAILED;
}

int attn_python_device_wait(void *binding, char *why, size_t size)
{
    const struct binding *self = binding;
    struct attn_python_plan *plan = self->plan;
    PyObject *timed = NULL;
    int result = attn_gpu_enter(why, size);
    if (result == ATTN_OK)
        result = attn_python_judge(py.CallMethod(plan->helper, "stop", "O", plan->object), &timed,
                                   why, size);
    if (result != ATTN_OK)
        return result;
    const long long own_clock = py.LongAs(timed), runs = plan->runs;
    py.DecRef(timed);
    plan->runs = 0;
    result = attn_gpu_wait(plan->queue, why, size);
    if (result != ATTN_OK)
        return result;
    return own_clock || runs == 0 ? attn_gpu_settle(why, size)
                                  : settle(plan, (uint32_t)runs, why, size);
}

int attn_python_device_run(void *binding, char *why, size_t size)
{
    const int result = attn_python_device_enqueue(binding, why, size);
    return result == ATTN_OK ? attn_python_device_wait(binding, why, size) : result;
}

/* By the adapter's clock if it has one. */
int attn_python_device_time(void *binding, double *ns, char *why, size_t size)
{
    const struct binding *self = binding;
    PyObject *given = NULL;
    double own = 0;
    int result = attn_gpu_elapsed(self->plan->queue, &own, why, size);
    if (result == ATTN_OK)
        result = attn_python_judge(
            py.CallMethod(self->plan->helper, "elapsed", "Od", self->plan->object, own), &given,
            why, size);
    if (result != ATTN_OK)
        return result;
    *ns = py.FloatAs(given);
    py.DecRef(given);
    return ATTN_OK;
}

int attn_python_device_fetch(void *binding, char *why, size_t size)
{
    const struct binding *self = binding;
    int result = attn_gpu_enter(why, size);
    if (result == ATTN_OK)
        result = attn_cuda_operands_fetch(&self->operands, why, size);
    if (result != ATTN_OK)
        return result;
    return attn_python_judge(py.CallMethod(self->plan->helper, "fetch", "O", self->object), NULL,
                             why, size);
}

/* What a library has allocated counts, too; where it does not say, nothing is known. */
void attn_python_device_ask(struct attn_device *device)
{
    PyObject *helper, *answer = NULL;
    char why[256];
    unsigned long long held = 0;
    int known = 0;
    if (attn_python_start(&helper, why, sizeof(why)) != ATTN_OK ||
        attn_gpu_enter(why, sizeof(why)) != ATTN_OK)
        return;
    attn_gpu_device(device);
    answer = py.CallMethod(helper, "allocated", NULL);
    if (!answer || !py.ParseTuple(answer, "iK", &known, &held))
        py.PrintError(0);
    device->allocated_bytes = known ? device->allocated_bytes + held : 0;
    if (answer)
        py.DecRef(answer);
}
