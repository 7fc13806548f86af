/* SPDX-License-Identifier: Apache-2.0 */
/* fresh.c - one more run, with other values in the same place. */
#include "worker/fresh.h"

#include <stdlib.h>
#include <string.h>

#include "host/walk.h"
#include "reference/dtype.h"

uint32_t attn_fresh_input(const struct attn_message_request *request)
{
    const uint32_t t = request->linear - 1; /* 0 - 1: none */
    return request->linear && attn_dtype_is_float(request->tensors[t].dtype) &&
                   !request->operands[t].output
               ? t
               : UINT32_MAX;
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
    case 1:
        return *from;
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

/* Room for the elements of all outputs, in the order of the request; their number, or -1: no
 * memory. Those that have room are to be freed in any case. */
static int results_open(const struct attn_message_request *request,
                        const struct attn_tensor *tensors, struct result results[ATTN_MAX_TENSORS])
{
    int n = 0;
    for (uint32_t t = 0; t < request->n_tensors; t++) {
        size_t bytes = request->operands[t].element;
        if (!request->operands[t].output)
            continue;
        for (uint32_t a = 0; a < request->tensors[t].rank; a++)
            bytes *= (size_t)request->tensors[t].shape[a];
        results[n] = (struct result){&tensors[t], request->operands[t].element,
                                     malloc(bytes > 0 ? bytes : 1)};
        if (!results[n++].kept)
            return -1;
    }
    return n;
}

int attn_fresh_run(struct attn_plan *plan, const struct attn_message_request *request,
                   const struct attn_tensor *tensors, struct attn_message_reply *reply)
{
    /* Other outputs than the first may change as well; all of them are put back. */
    struct result results[ATTN_MAX_TENSORS] = {{0}};
    const int n = results_open(request, tensors, results);
    int status = 0;
    if (n < 1) /* no memory: the verdict does without */
        goto out;
    if (!attn_dtype_is_float(results[0].tensor->dtype))
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
                       request->linear_word);
        status = -1;
    }
    for (int r = 0; r < n; r++)
        walk_result(&results[r], PUT_BACK);
    reply->fresh = status == 0;
out:
    for (int r = 0; r < ATTN_MAX_TENSORS; r++)
        free(results[r].kept);
    return status;
}
