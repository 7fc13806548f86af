/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - a table of texts with a hash table of their numbers. */
#include "merge/names.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 256 };

static uint64_t hash_of(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 32;
}

/* The slot of the text, or the free one where it belongs. */
static uint32_t *slot_of(const struct attn_merge_names *names, const char *text)
{
    uint32_t at = (uint32_t)hash_of(text) & (names->n_slots - 1);
    while (names->slots[at] &&
           strcmp(attn_merge_names_text(names, names->slots[at] - 1), text) != 0)
        at = (at + 1) & (names->n_slots - 1);
    return &names->slots[at];
}

/* Makes room for one more name, and keeps half of the slots free. */
static int grow(struct attn_merge_names *names)
{
    if (names->n_slots / 2 > names->count)
        return 0;
    struct attn_merge_names larger = *names;
    larger.n_slots = names->n_slots ? 2 * names->n_slots : FIRST_SLOTS;
    larger.slots = larger.n_slots ? calloc(larger.n_slots, sizeof *larger.slots) : NULL;
    larger.at =
        larger.slots ? reallocarray(names->at, larger.n_slots / 2, sizeof *larger.at) : NULL;
    if (!larger.at) {
        free(larger.slots);
        return -1;
    }
    for (uint32_t i = 0; i < names->count; i++)
        *slot_of(&larger, attn_merge_names_text(names, i)) = i + 1;
    free(names->slots);
    *names = larger;
    return 0;
}

int attn_merge_names_add(struct attn_merge_names *names, const char *text, uint32_t *number)
{
    const size_t length = strlen(text) + 1;
    if (grow(names))
        return -1;
    uint32_t *slot = slot_of(names, text);
    if (*slot) {
        *number = *slot - 1;
        return 0;
    }
    if (names->room - names->used < length) {
        const size_t room = 2 * names->room + length + 4096;
        char *moved = realloc(names->text, room);
        if (!moved)
            return -1;
        names->text = moved;
        names->room = room;
    }
    memcpy(names->text + names->used, text, length);
    names->at[names->count] = names->used;
    names->used += length;
    *number = names->count++;
    *slot = names->count;
    return 0;
}

const char *attn_merge_names_text(const struct attn_merge_names *names, uint32_t number)
{
    return names->text + names->at[number];
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

int attn_merge_names_compare(const char *a, const char *b)
{
    const char *x = a, *y = b;
    while (*x && *y) {
        if (is_digit(*x) && is_digit(*y)) {
            x += strspn(x, "0");
            y += strspn(y, "0");
            const size_t n = strspn(x, "0123456789"), m = strspn(y, "0123456789");
            const int order = n != m ? (n > m) - (n < m) : strncmp(x, y, n);
            if (order)
                return order;
            x += n;
            y += m;
        } else if (*x != *y) {
            break;
        } else {
            x++;
            y++;
        }
    }
    if (*x != *y)
        return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
    return strcmp(a, b); /* "s=08" and "s=8" */
}

static int by_rank(const void *a, const void *b, void *names)
{
    return attn_merge_names_compare(attn_merge_names_text(names, *(const uint32_t *)a),
                                    attn_merge_names_text(names, *(const uint32_t *)b));
}

uint32_t *attn_merge_names_ranks(const struct attn_merge_names *names)
{
    uint32_t *order = calloc((size_t)names->count + 1, sizeof *order);
    uint32_t *ranks = calloc((size_t)names->count + 1, sizeof *ranks);
    for (uint32_t i = 0; order && i < names->count; i++)
        order[i] = i;
    if (order && ranks) {
        qsort_r(order, names->count, sizeof *order, by_rank, (void *)(uintptr_t)names);
        for (uint32_t i = 0; i < names->count; i++)
            ranks[order[i]] = i;
    } else {
        free(ranks);
        ranks = NULL;
    }
    free(order);
    return ranks;
}

void attn_merge_names_free(struct attn_merge_names *names)
{
    free(names->text);
    free(names->at);
    free(names->slots);
    *names = (struct attn_merge_names){0};
}
