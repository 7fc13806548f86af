/* SPDX-License-Identifier: Apache-2.0 */
/* choose.c - a ratio of few rounds has a wide interval, so some cases have enough of them, and the
 * others none. A family without any would say nothing of who is fastest. */
#include "bench/choose.h"

#include <stdint.h>
#include <string.h>

static bool are_kin(const struct attn_case *a, const struct attn_case *b)
{
    const size_t length = strcspn(a->name, "/");
    return length == strcspn(b->name, "/") && strncmp(a->name, b->name, length) == 0;
}

/* How many cases of its family have been chosen. */
static size_t chosen_kin(const struct attn_choice *choices, size_t n, size_t at)
{
    size_t kin = 0;
    for (size_t i = 0; i < n; i++)
        kin += choices[i].chosen && are_kin(choices[i].c, choices[at].c);
    return kin;
}

void attn_choose(struct attn_choice *choices, size_t n, double left)
{
    for (;;) {
        size_t next = n, least = SIZE_MAX;
        for (size_t i = 0; i < n; i++) {
            const size_t kin = chosen_kin(choices, n, i);
            if (choices[i].chosen || choices[i].cost > left || kin > least ||
                (kin == least && choices[i].cost >= choices[next].cost))
                continue;
            next = i;
            least = kin;
        }
        if (next == n)
            return;
        left -= choices[next].cost;
        choices[next].chosen = true;
    }
}
