/* SPDX-License-Identifier: Apache-2.0 */
/* answered.c - instances with an answer in them. */
#include "answered.h"

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
    const int64_t rows = ref_row_count(as), width = ref_row_width(as);
    const struct ref_rows all = {.count = rows};
    const struct attn_tensor *out = tensor(in, ATTN_OUT), *lse = tensor(in, ATTN_LSE);
    struct ref_result result = {.out = test_calloc((size_t)(rows * width), sizeof(double)),
                                .lse = test_calloc((size_t)rows, sizeof(double))};
    if (as->op == ATTN_OP_MHA) {
        test_free(result.lse);
        result.lse = NULL;
    }
    char why[256];
    if (ref_compute(as, &all, NULL, REF_FILL_GENERIC, 2, &result, why, sizeof why) != ATTN_OK)
        fail_msg("%s", why);
    for (int64_t n = 0; n < rows * width; n++) {
        int64_t index = 0, rest = n;
        for (uint32_t a = out->rank; a-- > 0; rest /= out->shape[a])
            index += rest % out->shape[a] * out->stride[a];
        store(out->dtype, out->data, index, result.out[n]);
    }
    for (int64_t i = 0; lse && result.lse && i < rows; i++)
        store(lse->dtype, lse->data, i, result.lse[i]);
    test_free(result.out);
    if (result.lse)
        test_free(result.lse);
}
