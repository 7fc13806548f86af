/* SPDX-License-Identifier: Apache-2.0 */
/* choose.c - a ratio of few rounds has a wide interval, so some cases have enough of them, and the
 * others none. A family without any would say nothing of who is fastest. */
#include "bench/choose.h"

#include <string.h>

#include "case/operator.h"

/* As the report has families: what stands before '/', else before the first '_'. */
static size_t family_length(const char *name)
{
    const size_t length = strcspn(name, "/");
    return name[length] ? length : strcspn(name, "_");
}

static bool are_kin(const struct attn_case *a, const struct attn_case *b)
{
    const size_t length = family_length(a->name);
    return length == family_length(b->name) && strncmp(a->name, b->name, length) == 0;
}

/* How many cases of its family have been chosen. */
static size_t chosen_kin(const struct attn_choice *choices, size_t n, size_t at)
{
    size_t kin = 0;
    for (size_t i = 0; i < n; i++)
        kin += choices[i].chosen && are_kin(choices[i].c, choices[at].c);
    return kin;
}

/* Is a the better choice? */
static bool comes_before(const struct attn_choice *a, size_t kin_a, const struct attn_choice *b,
                         size_t kin_b)
{
    if (a->made != b->made)
        return a->made > b->made;
    if (a->made == 0 && kin_a != kin_b)
        return kin_a < kin_b;
    if (a->made == 0 && a->work != b->work)
        return a->work > b->work;
    return a->cost < b->cost;
}

double attn_family_work(const struct attn_case_list *cases, const struct attn_case *c)
{
    double sum = 0;
    for (size_t i = 0; i < cases->count; i++)
        if (are_kin(&cases->items[i], c))
            sum += attn_case_flops(&cases->items[i], attn_case_cells(&cases->items[i]));
    return sum;
}

void attn_choose(struct attn_choice *choices, size_t n, double left)
{
    for (size_t i = 0; i < n; i++)
        choices[i].chosen = false;
    for (;;) {
        size_t next = n, least = 0;
        for (size_t i = 0; i < n; i++) {
            const size_t kin = chosen_kin(choices, n, i);
            if (choices[i].chosen || choices[i].cost > left ||
                (next < n && !comes_before(&choices[i], kin, &choices[next], least)))
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
