/* SPDX-License-Identifier: Apache-2.0 */
/* case.c - what a case owns: copying and freeing. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "case/operator.h"

static_assert(ATTN_CASE_ROLES == REF_ROLES, "out= may ask for every role of a table");

void attn_case_free(struct attn_case *c)
{
    free(c->data);
    free(c->file);
    c->data = c->file = NULL;
}

void attn_case_list_free(struct attn_case_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        attn_case_free(&list->items[i]);
    free(list->items);
    *list = (struct attn_case_list){0};
}

int attn_case_copy(struct attn_case *to, const struct attn_case *from)
{
    char *data = from->data ? strdup(from->data) : NULL;
    char *file = from->file ? strdup(from->file) : NULL;
    if ((from->data && data == NULL) || (from->file && file == NULL)) {
        free(data);
        free(file);
        return -1;
    }
    *to = *from;
    to->data = data;
    to->file = file;
    return 0;
}

bool attn_case_asks(const struct attn_case *c, uint32_t role)
{
    return role < ATTN_CASE_ROLES && (c->out[role / 64] >> role % 64 & 1);
}

void attn_case_ask(struct attn_case *c, uint32_t role)
{
    assert(role < ATTN_CASE_ROLES);
    c->out[role / 64] |= UINT64_C(1) << role % 64;
}
