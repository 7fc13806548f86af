/* SPDX-License-Identifier: Apache-2.0 */
/* answered.c - instances with an answer in them. */
#include "answered.h"
#include "pack/make.h"

struct attn_instance *instance_of(const char *line)
{
    struct attn_case_list list = {0};
    struct attn_instance *instance = NULL;
    char why[512] = "";
    if (attn_case_parse_line(line, strlen(line), NULL, 0, &list, why, sizeof why) ||
        attn_instance_create(&list.items[0], 2, &instance, why, sizeof why))
        fail_msg("%s: %s", line, why);
    attn_case_list_free(&list);
    return instance;
}

struct attn_tensor *tensor(struct attn_instance *in, uint32_t role)
{
    return (struct attn_tensor *)(uintptr_t)attn_tensor_find(&in->problem, role);
}

void answer(struct attn_instance *in, const struct attn_problem *as,
            void (*store)(uint32_t, void *, int64_t, double))
{
    const int64_t rows = ref_output_units(as, 0), width = ref_output_width(as, 0);
    const struct ref_units all = {.count = rows};
    const struct attn_tensor *out = tensor(in, ATTN_OUT), *lse = tensor(in, ATTN_LSE);
    struct ref_result result = {.output[0].value =
                                    test_calloc((size_t)(rows * width), sizeof(double)),
                                .output[1].value = test_calloc((size_t)rows, sizeof(double))};
    if (as->op == ATTN_OP_MHA || ref_output_of(ref_op_find(as->op), ATTN_LSE) != 1) {
        test_free(result.output[1].value);
        result.output[1].value = NULL;
    }
    char why[256];
    if (ref_compute(as,
                    &(struct ref_request){.units = {all}, .fill = REF_FILL_GENERIC, .threads = 2},
                    &result, why, sizeof why) != ATTN_OK)
        fail_msg("%s", why);
    for (int64_t n = 0; n < rows * width; n++) {
        int64_t index = 0, rest = n;
        for (uint32_t a = out->rank; a-- > 0; rest /= out->shape[a])
            index += rest % out->shape[a] * out->stride[a];
        store(out->dtype, out->data, index, result.output[0].value[n]);
    }
    for (int64_t i = 0; lse && result.output[1].value && i < rows; i++)
        store(lse->dtype, lse->data, i, result.output[1].value[i]);
    test_free(result.output[0].value);
    if (result.output[1].value)
        test_free(result.output[1].value);
}
