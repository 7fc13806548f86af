/* SPDX-License-Identifier: Apache-2.0 */
/* anchor.c - finds the anchor's result of a case, and divides by it round by round. */
#include "report/anchor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool attn_anchor_is(const struct attn_view *view, const struct attn_view_row *row, const char *name)
{
    const struct attn_view_backend *backend = &view->backends[row->backend];
    return strcmp(backend->label, name) == 0 || strcmp(backend->name, name) == 0;
}

static bool same_case(const struct attn_view_row *a, const struct attn_view_row *b)
{
    return strcmp(a->id, b->id) == 0 && strcmp(a->cache, b->cache) == 0 &&
           (a->threads == b->threads || (isnan(a->threads) && isnan(b->threads)));
}

size_t attn_anchored_medians(const struct attn_view *view, const struct attn_view_row *row,
                             const char *name, double **medians)
{
    double *own = NULL, *anchor = NULL;
    const size_t n = attn_view_round_medians(row->bench, &own);
    size_t rounds = 0;
    for (size_t r = 0; r < view->n_rows && rounds == 0; r++) {
        const struct attn_view_row *other = &view->rows[r];
        if (other->bench && attn_anchor_is(view, other, name) && same_case(other, row))
            rounds = attn_view_round_medians(other->bench, &anchor);
    }
    const bool paired = n > 0 && rounds == n;
    for (size_t i = 0; paired && i < n; i++)
        own[i] /= anchor[i];
    free(anchor);
    if (!paired) {
        free(own);
        return 0;
    }
    *medians = own;
    return n;
}
