/* SPDX-License-Identifier: Apache-2.0 */
/* fresh.c - one more run, with other values in the same place. */
#include "worker/fresh.h"

#include <stdlib.h>
#include <string.h>

#include "host/walk.h"

static uint32_t find(const struct attn_message_request *request, uint32_t role)
{
    for (uint32_t t = 0; t < request->n_tensors; t++)
        if (request->tensors[t].role == role)
            return t;
    return UINT32_MAX;
}

uint32_t attn_fresh_input(const struct attn_message_request *request)
{
    static const uint32_t sources[] = {ATTN_X_V, ATTN_X_K, ATTN_X_Q};
    if (request->problem.op == ATTN_OP_ATTENTION)
        return find(request, ATTN_V);
    /* A bias of v or of the output, or x added to it, may be all that there is: x may be zero,
     * every head pruned, every key forbidden. */
    if (request->problem.op != ATTN_OP_MHA || find(request, ATTN_B_V) != UINT32_MAX ||
        find(request, ATTN_B_O) != UINT32_MAX || request->problem.flags & ATTN_FLAG_RESIDUAL)
        return UINT32_MAX;
    for (size_t s = 0; s < sizeof(sources) / sizeof(sources[0]); s++) {
        const uint32_t t = find(request, sources[s]);
        if (t != UINT32_MAX)
            return t;
    }
    return UINT32_MAX;
}

void attn_fresh_turn(const struct attn_tensor *tensor, uint32_t element)
{
    const uint32_t sign = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? element - 1 : 0;
    struct attn_walk walk;
    size_t offset;
    attn_walk_begin(&walk, tensor, element);
    while (attn_walk_next(&walk, &offset)) {
        unsigned char *run = (unsigned char *)tensor->data + offset;
        for (size_t at = sign; at < walk.run; at += element)
            run[at] ^= 0x80;
    }
}

/* The bits of an element. */
static uint64_t load(const unsigned char *from, uint32_t element)
{
    uint16_t half;
    uint32_t single;
    uint64_t twice;
    switch (element) {
    case sizeof(half):
        memcpy(&half, from, sizeof(half));
        return half;
    case sizeof(single):
        memcpy(&single, from, sizeof(single));
        return single;
    default:
        memcpy(&twice, from, sizeof(twice));
        return twice;
    }
}

/* Must an element with these bits change: it is finite and not zero. */
static int must_change(uint64_t bits, uint32_t dtype)
{
    const uint64_t exponent = dtype == ATTN_F64   ? UINT64_C(0x7FF0000000000000)
                              : dtype == ATTN_F32 ? 0x7F800000
                              : dtype == ATTN_F16 ? 0x7C00
                                                  : 0x7F80;
    const uint64_t mantissa = (exponent & (0 - exponent)) - 1, magnitude = exponent | mantissa;
    return (bits & exponent) != exponent && (bits & magnitude) != 0;
}

struct result {
    const struct attn_tensor *tensor;
    uint32_t element;
    unsigned char *kept; /* its elements, in the order of a walk */
};

enum task { KEEP, PUT_BACK, COMPARE };

/* Goes through the elements. COMPARE: is there none that must change, or one that has. */
static int walk_result(const struct result *result, enum task task)
{
    const uint64_t primed = UINT64_MAX >> (64 - 8 * result->element);
    unsigned char *kept = result->kept;
    int stuck = 0;
    struct attn_walk walk;
    size_t offset;
    attn_walk_begin(&walk, result->tensor, result->element);
    for (; attn_walk_next(&walk, &offset); kept += walk.run) {
        unsigned char *run = (unsigned char *)result->tensor->data + offset;
        if (task == PUT_BACK) {
            memcpy(run, kept, walk.run);
            continue;
        }
        if (task == KEEP) {
            memcpy(kept, run, walk.run);
            memset(run, 0xFF, walk.run);
            continue;
        }
        for (size_t at = 0; at < walk.run; at += result->element) {
            const uint64_t was = load(kept + at, result->element);
            const uint64_t is = load(run + at, result->element);
            if (!must_change(was, result->tensor->dtype))
                continue;
            if (is != was && is != primed)
                return 1;
            stuck = 1;
        }
    }
    return !stuck;
}

/* Room for the elements of one output; 0 where there is none such, or no memory. */
static int result_open(const struct attn_message_request *request,
                       const struct attn_tensor *tensors, uint32_t role, struct result *result)
{
    const uint32_t t = find(request, role);
    if (t == UINT32_MAX)
        return 0;
    size_t bytes = request->operands[t].element;
    for (uint32_t a = 0; a < request->tensors[t].rank; a++)
        bytes *= (size_t)request->tensors[t].shape[a];
    *result =
        (struct result){&tensors[t], request->operands[t].element, malloc(bytes > 0 ? bytes : 1)};
    return result->kept != NULL;
}

int attn_fresh_run(struct attn_plan *plan, const struct attn_message_request *request,
                   const struct attn_tensor *tensors, struct attn_message_reply *reply)
{
    /* In mha the turned x makes other scores as well, so that all outputs are put back. */
    static const uint32_t roles[] = {ATTN_OUT, ATTN_LSE, ATTN_WEIGHTS};
    struct result results[3];
    int n = 0, status = 0;
    for (size_t r = 0; r < sizeof(roles) / sizeof(roles[0]); r++)
        if (result_open(request, tensors, roles[r], &results[n]))
            n++;
        else if (find(request, roles[r]) != UINT32_MAX)
            goto out; /* no memory: the verdict does without */
    if (n == 0 || results[0].tensor->role != ATTN_OUT)
        goto out;

    for (int r = 0; r < n; r++)
        walk_result(&results[r], KEEP);
    status = plan->backend->fetch ? attn_plan_rebind(plan, tensors, reply) : 0;
    if (status == 0)
        status = attn_plan_run(plan, NULL, reply);
    if (status == 0)
        status = attn_plan_fetch(plan, reply);
    if (status == 0 && !walk_result(&results[0], COMPARE)) {
        attn_reply_set(reply, ATTN_FAIL,
                       "gives an earlier result: out did not change when the signs of %s were "
                       "turned between two runs",
                       request->problem.op == ATTN_OP_MHA ? "x" : "v");
        status = -1;
    }
    for (int r = 0; r < n; r++)
        walk_result(&results[r], PUT_BACK);
    reply->fresh = status == 0;
out:
    for (int r = 0; r < n; r++)
        free(results[r].kept);
    return status;
}
