/* SPDX-License-Identifier: Apache-2.0 */
/* generate_mask.c - random masks. */
#include <stdio.h>
#include <string.h>

#include "case/draft.h"

/* Adds one more part to the list. */
#define PART(...) snprintf(parts[count++], ATTN_DRAFT_WORD_MAX, __VA_ARGS__)

/* How far a window reaches to one side. */
static long long reach(struct attn_draft *draft)
{
    const int64_t sk = draft->sizes.sk;
    switch (attn_draw_below(draft->state, 5)) {
    case 0:
        return -1;
    case 1:
        return 0;
    case 2:
        return 1;
    case 3:
        return attn_draft_range(draft, 0, 8);
    default:
        return attn_draft_range(draft, 0, sk < 4 ? 4 : sk);
    }
}

/* Up to b lengths. 0 and all keys occur more often than other lengths. */
static void lengths(struct attn_draft *draft, char *text, size_t size)
{
    const int64_t sk = draft->sizes.sk, count = attn_draft_range(draft, 1, draft->sizes.b);
    size_t used = (size_t)snprintf(text, size, "len:");
    for (int64_t i = 0; i < count; i++) {
        const int64_t candidates[] = {0, sk > 0, sk, attn_draft_range(draft, 0, sk)};
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? "/" : "",
                                 (long long)attn_draft_number(draft, candidates, 4));
    }
}

static void boolean(struct attn_draft *draft, char *text, size_t size)
{
    static const char *const shares[] = {"0", "1", "0.02", "0.5", "0.9"};
    char share[32], axes[8];
    do
        attn_draft_real(draft, 0, 1, share);
    while (strchr(share, '+')); /* 0.00e+00: '+' joins parts */
    if (attn_draft_percent(draft, 50))
        snprintf(share, sizeof share, "%s", attn_draft_name(draft, shares, 5));
    attn_draft_axes(draft, axes);
    snprintf(text, size, "bool:%s%s", share, axes);
}

/* Steps of a window, for up to hq heads. */
static void steps(struct attn_draft *draft, char *text, size_t size)
{
    const int64_t most = draft->sizes.hq < 6 ? draft->sizes.hq : 6;
    const int64_t count = attn_draft_range(draft, 1, most);
    size_t used = strlen(text);
    for (int64_t h = 0; h < count; h++)
        used += (size_t)snprintf(text + used, size - used, "%c%lld", h ? '/' : ':',
                                 (long long)attn_draft_range(draft, 1, h % 2 ? 4 : 40));
}

/* Global tokens, and projections of their own. */
static void global(struct attn_draft *draft, char *text, size_t size)
{
    char share[32];
    if (attn_draft_percent(draft, 50)) {
        snprintf(text, size, "global:%lld",
                 (long long)attn_draft_range(draft, 0, draft->sizes.sk < 5 ? draft->sizes.sk : 5));
    } else {
        do
            attn_draft_real(draft, 0, 0.4, share);
        while (strchr(share, '+'));
        snprintf(text, size, "global:rand:%s", share);
    }
    if (attn_draft_percent(draft, 50))
        attn_draft_word(draft, "global_proj=1");
}

void attn_draft_mask(struct attn_draft *draft)
{
    char parts[8][ATTN_DRAFT_WORD_MAX];
    unsigned count = 0;
    const bool len2d = attn_draft_percent(draft, 12);
    const bool causal = attn_draft_percent(draft, 40);
    const bool br = !len2d && attn_draft_percent(draft, 25);
    if (causal && br && attn_draft_percent(draft, 50)) {
        PART("causal_br");
    } else {
        if (causal)
            PART("causal");
        if (br)
            PART("br");
    }
    if (!br && attn_draft_percent(draft, 20))
        PART("past:%lld", (long long)attn_draft_range(draft, 0, 2 * draft->sizes.sk + 3));
    if (attn_draft_percent(draft, 20)) {
        const long long left = reach(draft);
        PART("window:%lld:%lld", left, reach(draft));
        if (ref_operand_of(draft->op, ATTN_DILATION) && attn_draft_percent(draft, 40))
            steps(draft, parts[count - 1], ATTN_DRAFT_WORD_MAX);
    }
    if (len2d)
        PART("len2d:rand");
    else if (attn_draft_percent(draft, 20))
        PART("len:rand");
    else if (attn_draft_percent(draft, 15))
        lengths(draft, parts[count++], ATTN_DRAFT_WORD_MAX);
    if (attn_draft_percent(draft, 25))
        boolean(draft, parts[count++], ATTN_DRAFT_WORD_MAX);
    if (ref_operand_of(draft->op, ATTN_GLOBAL) && draft->sizes.sq == draft->sizes.sk &&
        attn_draft_percent(draft, 30))
        global(draft, parts[count++], ATTN_DRAFT_WORD_MAX);
    attn_draft_parts(draft, "mask", "dense", parts, count);
}
