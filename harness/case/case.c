/* SPDX-License-Identifier: Apache-2.0 */
/* case.c - what a case owns: copying and freeing. */
#include "case/case.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static void disown(struct attn_case_numbers *list)
{
    if (list && atomic_fetch_sub(&list->owners, 1) == 1)
        free(list);
}

static struct attn_case_numbers *share(struct attn_case_numbers *list)
{
    if (list)
        atomic_fetch_add(&list->owners, 1);
    return list;
}

int attn_case_numbers_set(struct attn_case_numbers **list, const int64_t *numbers, int count)
{
    struct attn_case_numbers *made = NULL;
    if (count > 0) {
        const size_t bytes = (size_t)count * sizeof made->at[0];
        made = malloc(sizeof *made + bytes);
        if (made == NULL)
            return -1;
        atomic_init(&made->owners, 1);
        memcpy(made->at, numbers, bytes);
    }
    disown(*list);
    *list = made;
    return 0;
}

bool attn_case_numbers_equal(const struct attn_case_numbers *a, const struct attn_case_numbers *b,
                             int count)
{
    return a == b || (a && b && memcmp(a->at, b->at, (size_t)count * sizeof a->at[0]) == 0);
}

static void share_list(struct attn_case_numbers **list, int count, struct attn_case_numbers *twin,
                       int twin_count)
{
    if (*list == twin || count != twin_count || !attn_case_numbers_equal(*list, twin, count))
        return;
    disown(*list);
    *list = share(twin);
}

void attn_case_share_lists(struct attn_case *c, const struct attn_case *twin)
{
    share_list(&c->len_list, c->n_len, twin->len_list, twin->n_len);
    share_list(&c->prune, c->n_prune, twin->prune, twin->n_prune);
    share_list(&c->dilation, c->n_dilation, twin->dilation, twin->n_dilation);
    share_list(&c->param, ATTN_CASE_PARAMS, twin->param, ATTN_CASE_PARAMS);
}

void attn_case_free(struct attn_case *c)
{
    disown(c->len_list);
    disown(c->prune);
    disown(c->dilation);
    disown(c->param);
    c->len_list = c->prune = c->dilation = c->param = NULL;
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
    share(to->len_list);
    share(to->prune);
    share(to->dilation);
    share(to->param);
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
