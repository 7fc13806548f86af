/* SPDX-License-Identifier: Apache-2.0 */
/* vary.c - two sets of inputs in one place, and elements that go away and come back. */
#include "worker/vary.h"

#include <sys/mman.h>

#include "host/scramble.h"
#include "host/splitmix.h"

/* [0, 1) */
static double uniform(struct attn_vary *vary)
{
    return 0x1p-53 * (double)(attn_splitmix(&vary->random) >> 11);
}

static bool has_sets(const struct attn_vary *vary)
{
    return vary->request->second[0] > 0;
}

/* Of the timings with a second set, in so many a run is kept that found all inputs exchanged. */
#define FOUND_SHARE 0.4

/* From the values that lie there now, all of them home. */
static void find_flips(struct attn_vary *vary)
{
    for (uint32_t s = 0; s < vary->n_spots; s++) {
        struct attn_vary_spot *spot = &vary->spots[s];
        uint64_t home = 0;
        memcpy(&home, spot->at, spot->size);
        spot->flip = home ^ spot->away;
    }
}

void attn_vary_begin(struct attn_vary *vary, const struct attn_message_request *request,
                     struct attn_owned *owned)
{
    *vary = (struct attn_vary){.request = request,
                               .owned = owned,
                               .n_spots = request->n_spots,
                               .random = request->entropy,
                               .countdown = -1,
                               .signs = attn_signs_of(request)};
    if (request->scrambles) /* signs could be divided out */
        vary->signs.turns = 0;
    vary->keeps_found = has_sets(vary) && uniform(vary) < FOUND_SHARE;
    for (uint32_t s = 0; s < request->n_spots; s++) {
        const struct attn_spot *spot = &request->spots[s];
        vary->spots[s] = (struct attn_vary_spot){
            .at = (unsigned char *)owned->tensors[spot->tensor].data + spot->offset,
            .away = spot->away,
            .size = request->operands[spot->tensor].element};
    }
    find_flips(vary);
}

uint32_t attn_vary_state(const struct attn_vary *vary)
{
    return (vary->away ? ATTN_STATE_AWAY : 0) | (vary->set ? ATTN_STATE_SECOND : 0);
}

void attn_vary_home(struct attn_vary *vary)
{
    /* At most once through the cycle. */
    while (vary->turn != 0 || vary->away)
        attn_vary_step(vary);
}

static void scramble(const struct attn_vary *vary)
{
    for (uint32_t t = 0; t < vary->request->n_tensors; t++)
        if (!vary->request->operands[t].output && !vary->request->operands[t].packed)
            attn_scramble(&vary->owned->tensors[t], t, vary->seed);
}

/* From the host's own values, all of them home. Away is the host's own element, too, with its sign
 * turned. Returns false if the inputs stay. */
static bool make_new(struct attn_vary *vary)
{
    const bool signs = vary->signs.turns != 0;
    if (!signs && !vary->ends && vary->request->scrambles) {
        do
            vary->seed = attn_splitmix(&vary->random);
        while (vary->seed == 0);
        scramble(vary);
    }
    find_flips(vary);
    for (size_t w = 0; signs && w < sizeof(vary->signs.columns) / sizeof(*vary->signs.columns); w++)
        vary->signs.columns[w] = attn_splitmix(&vary->random);
    attn_signs_turn(&vary->signs, vary->request, vary->owned->tensors, false);
    return signs || vary->seed != 0;
}

void attn_vary_renew(struct attn_vary *vary)
{
    attn_vary_home(vary);
    if (!has_sets(vary))
        return;
    attn_owned_load(vary->request, vary->owned, vary->set);
    vary->seed = 0;
    make_new(vary);
}

bool attn_vary_refresh(struct attn_vary *vary)
{
    if (!has_sets(vary))
        return false;
    attn_signs_turn(&vary->signs, vary->request, vary->owned->tensors, false);
    if (vary->seed != 0)
        scramble(vary);
    return make_new(vary);
}

void attn_vary_exchange(struct attn_vary *vary)
{
    vary->set ^= has_sets(vary);
    attn_vary_renew(vary);
}

void attn_vary_end(struct attn_vary *vary)
{
    attn_signs_turn(&vary->signs, vary->request, vary->owned->tensors, false);
    attn_signs_turn(&vary->signs, vary->request, vary->owned->tensors, true);
    vary->signs.turns = 0;
    vary->ends = true;
    vary->scrambled = vary->seed != 0;
    if (vary->scrambled)
        attn_vary_renew(vary);
}

/* An input that the worker may touch as a whole. */
static bool is_whole_input(const struct attn_vary *vary, uint32_t t)
{
    return !vary->request->operands[t].output && !vary->request->operands[t].sparse;
}

void attn_vary_warm(const struct attn_vary *vary)
{
    enum { LINE = 64 };
    for (uint32_t t = 0; t < vary->owned->n; t++) {
        const volatile unsigned char *bytes = vary->owned->mapped[t];
        for (size_t at = 0; is_whole_input(vary, t) && at < vary->owned->bytes[t]; at += LINE)
            (void)bytes[at];
    }
}

void attn_vary_protect(const struct attn_vary *vary, bool protect)
{
    for (uint32_t t = 0; t < vary->owned->n; t++)
        if (is_whole_input(vary, t))
            mprotect(vary->owned->mapped[t], vary->owned->bytes[t],
                     protect ? PROT_READ : PROT_READ | PROT_WRITE);
}

/* Of the runs drawn from the first set, so many are from the mixed state. */
#define MIXED_SHARE 0.4

/* The last run up to `run` whose inputs are in the mixed state, or the first of all. */
static int64_t mixed_run(const struct attn_vary *vary, int64_t run)
{
    const int64_t cycle = 2 * (int64_t)vary->n_spots;
    const int64_t at = vary->away * vary->n_spots + vary->turn, mixed = vary->request->mixed;
    const int64_t first = (mixed + cycle - at) % cycle;
    return first > 0 && run >= first ? run - (run - first) % cycle : first > 0 ? first : cycle;
}

void attn_vary_found(struct attn_vary *vary)
{
    vary->mixed = false;
    if (vary->request->second[1] == 0)
        return;
    if (vary->keeps_found && uniform(vary) * ++vary->found < 1)
        attn_vary_keep(vary);
    else /* or its page faults would tell; the outputs of the last run take this place */
        attn_owned_return(vary->request, vary->owned, 0);
}

void attn_vary_draw(struct attn_vary *vary, int64_t n)
{
    const int64_t cycle = vary->n_spots > 0 ? vary->n_spots : 1;
    vary->countdown = -1;
    if (vary->request->second[1] == 0 || n < 1)
        return;
    /* A sample of fewer runs than there are spots ends with all of them away or home. */
    const int64_t skipped = n < cycle ? cycle - n + (uniform(vary) < 0.5 ? cycle : 0) : 0;
    for (int64_t r = 0; r < skipped; r++)
        attn_vary_step(vary);
    vary->runs += (double)n;
    if (vary->found > 0 || uniform(vary) * vary->runs >= (double)n)
        return;
    int64_t run = 1 + (int64_t)(uniform(vary) * (double)n);
    run = run > n ? n : run;
    vary->mixed =
        vary->request->mixed > 0 && vary->set == 0 && n >= 2 * cycle && uniform(vary) < MIXED_SHARE;
    if (vary->mixed) {
        vary->countdown = mixed_run(vary, run);
        return;
    }
    /* The nearest run before it, or the first of all, after which the spots agree. */
    const int64_t steps = n < cycle ? n : run - run % cycle;
    vary->countdown = steps > 0 ? steps : cycle;
}

void attn_vary_keep(struct attn_vary *vary)
{
    const struct attn_tensor *tensors = vary->owned->tensors;
    attn_signs_turn(&vary->signs, vary->request, tensors, true);
    attn_owned_return(vary->request, vary->owned, 1);
    attn_signs_turn(&vary->signs, vary->request, tensors, true);
    vary->drawn = 1 + (vary->mixed ? ATTN_STATE_MIXED : attn_vary_state(vary));
    vary->drawn_seed = vary->seed;
}
