/* SPDX-License-Identifier: Apache-2.0 */
/* predict.c - from runs of the same kind, or from a run of a smaller case. */
#include "run/predict.h"

#include <math.h>

#include "case/operator.h"
#include "run/instance.h"
#include "run/smaller.h"

/* Cases smaller than this say nothing about a backend's rate: its time is that of a call. */
static const double rate_flops = 1e7;
/* A case of which nothing is known is run if it is smaller: a slow backend does 1e8 a second. */
static const double blind_flops = 1e8;
/* Runs of this share of the limit tell the rate of longer ones. A smaller case should take as long,
 * at the best rate known. */
static const double telling_share = 0.05;
/* A run that takes so many limits says that no larger case of its kind ends within one. */
static const double beyond = 2;
/* Beside its peers a backend is hopeless that takes so many times as long as the fastest, unless it
 * takes no longer than this. */
static const double hopeless = 8, hopeless_s = 0.02;
/* So many runs tell that: one may have been held up by something else. */
enum { HOPELESS_RUNS = 2 };
/* The rate of a plain loop, to choose a smaller case where nothing is known. */
static const double plain_rate = 1e9;

static struct attn_seat_kind kind_of(const struct attn_instance *instance)
{
    const struct attn_case *c = &instance->c;
    return attn_seat_kind_of(&instance->problem, c->dtype, instance->flops,
                             attn_case_flops(c, attn_case_cells(c)), instance->bytes);
}

void attn_predict_saw(struct attn_seat *seat, const struct attn_instance *instance, double seconds)
{
    const struct attn_seat_kind kind = kind_of(instance);
    if (seconds > 0 && instance->flops >= rate_flops)
        attn_seat_saw_run(seat, &kind, instance->flops, seconds);
}

/* FLOP/s of a smaller case of about so many FLOPs; 0: there is none, or it cannot be run. The first
 * of its two runs may hold a library's own compilation. */
static double rate_of_smaller(struct attn_seat *seat, const struct attn_instance *instance,
                              double flops)
{
    struct attn_case c;
    struct attn_judgement none;
    struct attn_plan_info plan;
    double seconds = 0, rate = 0;
    if (attn_smaller_case(&instance->c, flops / instance->flops, INFINITY, INFINITY, &c))
        return 0;
    struct attn_instance *smaller = attn_instance_for(seat->session, &c, NULL, &none);
    struct attn_outcome outcome = attn_seat_worker(seat);
    if (smaller && outcome.status == ATTN_PASS) {
        outcome = attn_worker_verify(seat->worker, smaller, ATTN_PLACE_END, 2, &plan, &seconds);
        attn_seat_after(seat, &outcome);
        if (outcome.status == ATTN_PASS && seconds > 0)
            rate = smaller->flops / seconds;
    }
    attn_instance_free(smaller);
    attn_case_free(&c);
    return rate;
}

/* What a run of so many FLOPs takes at least, which are no fewer than those of the longest run. The
 * rate of a form that makes S x S numbers, and needs few of them, falls with the length: its time
 * goes on to grow by the power of the FLOPs by which it has grown. */
static double grown(const struct attn_seat_rate *known, double flops)
{
    if (!known->kind.sparse || known->before_s <= 0)
        return known->seconds;
    const double power =
        log(known->seconds / known->before_s) / log(known->longest / known->before_flops);
    return known->seconds * pow(flops / known->longest, fmin(power, 2));
}

/* The rate by which a run of this case is predicted; 0: it is not. `hard`: the limit holds for the
 * longest run, not for the best rate alone. */
static double rate_for(struct attn_seat *seat, const struct attn_instance *instance, double limit,
                       bool hard)
{
    const double telling = telling_share * limit;
    const struct attn_seat_kind kind = kind_of(instance);
    const struct attn_seat_rate *known = attn_seat_rate(seat, &kind);
    if (!hard && known && known->runs < HOPELESS_RUNS)
        return 0;
    if (hard && known && instance->flops >= known->longest) {
        const double seconds = grown(known, instance->flops);
        if (seconds > beyond * limit)
            return instance->flops / seconds;
    }
    if (known ? instance->flops / known->flops <= limit : instance->flops <= blind_flops)
        return 0;
    if (known && known->seconds >= telling)
        return known->flops;
    const double flops = telling * (known ? known->flops : plain_rate);
    const double rate = rate_of_smaller(seat, instance, fmax(flops, rate_flops));
    if (rate > 0)
        attn_seat_saw_run(seat, &kind, rate * telling, telling);
    known = attn_seat_rate(seat, &kind);
    return known ? known->flops : 0;
}

/* What the fastest peer whose numbers are right is expected to take; INFINITY: nothing is known of
 * any. */
static double fastest(const struct attn_seat *seat, const struct attn_instance *instance)
{
    const struct attn_seat_kind kind = kind_of(instance);
    double least = INFINITY;
    for (size_t p = 0; p < seat->n_peers; p++) {
        const struct attn_seat *peer = &seat->peers[p];
        const bool counts = peer->contestant->info.exactness == ATTN_EXACT && !peer->was_wrong;
        const struct attn_seat_rate *rate = counts ? attn_seat_rate(peer, &kind) : NULL;
        if (!rate)
            continue;
        /* What it took here is known better than what its best rate would make of it. */
        const bool here = rate->longest <= instance->flops && rate->longest >= instance->flops;
        least = fmin(least, here ? rate->seconds : instance->flops / rate->flops);
    }
    return least;
}

bool attn_predict_refuses(struct attn_seat *seat, const struct attn_instance *instance,
                          struct attn_judgement *verdict)
{
    const double given = seat->session->settings.run_limit_s;
    const double asked = given > 0 ? given : INFINITY;
    const double limit = fmin(asked, fmax(hopeless * fastest(seat, instance), hopeless_s));
    if (!isfinite(limit) || seat->contestant->info.exactness == ATTN_NONE)
        return false;
    const double rate = rate_for(seat, instance, limit, limit >= asked);
    if (rate <= 0 || instance->flops / rate <= limit)
        return false;
    char why[128];
    if (limit < asked)
        snprintf(why, sizeof why,
                 "budget: a run is predicted to take %.2g s, over %g times what the fastest takes",
                 instance->flops / rate, hopeless);
    else
        snprintf(why, sizeof why, "budget: a run is predicted to take %.2g s, the limit is %.2g s",
                 instance->flops / rate, limit);
    attn_judgement_set(verdict, ATTN_SKIP, why);
    return true;
}
