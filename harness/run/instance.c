/* SPDX-License-Identifier: Apache-2.0 */
/* instance.c - operands of a case, if there is time and memory for them. */
#include "run/instance.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "host/memory.h"
#include "pack/make.h"

/* A case is in memory at most three times: in the host, in the shared mapping, in the worker. */
static uint64_t memory_needed(const struct attn_case *c)
{
    uint64_t bytes = attn_case_bytes(c);
    return bytes > UINT64_MAX / 3 ? UINT64_MAX : 3 * bytes;
}

void attn_judgement_set(struct attn_judgement *v, enum attn_status status, const char *reason)
{
    memset(v, 0, sizeof *v);
    v->status = status;
    snprintf(v->reason, sizeof v->reason, "%s", reason);
}

/* Is there time and memory for the case? If not, sets the verdict. The first case of a command is
 * not left out for lack of time: a small budget on a busy machine says something, too. */
static bool has_room(const struct attn_session *session, const struct attn_case *c,
                     struct attn_judgement *verdict)
{
    char why[512];
    if (attn_session_over(session) && json_array_size(session->records) > 0) {
        snprintf(why, sizeof why, ATTN_NO_TIME_LEFT " (%g s)", session->settings.budget_s);
        attn_judgement_set(verdict, ATTN_SKIP, why);
        return false;
    }
    uint64_t needed = memory_needed(c);
    uint64_t have = session->settings.memory ? session->settings.memory : attn_memory_available();
    if (needed > have) {
        double needs_gib = ldexp((double)needed, -30), has_gib = ldexp((double)have, -30);
        snprintf(why, sizeof why, "needs %.*f GiB, have %.*f", needs_gib < 10 ? 2 : 0, needs_gib,
                 has_gib < 10 ? 2 : 0, has_gib);
        attn_judgement_set(verdict, ATTN_SKIP, why);
        return false;
    }
    return true;
}

struct attn_instance *attn_instance_for(const struct attn_session *session,
                                        const struct attn_case *c, const struct attn_instance *like,
                                        struct attn_judgement *verdict)
{
    char why[512] = ATTN_NO_OPERANDS;
    const size_t used = strlen(why);
    struct attn_instance *instance;
    struct attn_case seeded = *c; /* nothing in the copy is owned */
    if (!has_room(session, c, verdict))
        return NULL;
    seeded.sample_seed = session->settings.sample_seed;
    if (attn_instance_create_like(&seeded, like, session->settings.host_threads, &instance,
                                  why + used, sizeof why - used) != 0) {
        attn_judgement_set(verdict, ATTN_ERROR, why);
        return NULL;
    }
    if (!attn_instance_is_ambiguous(instance, why, sizeof why))
        return instance;
    attn_judgement_set(verdict, ATTN_SKIP, why);
    attn_instance_free(instance);
    return NULL;
}

struct attn_instance *attn_instance_blank(const struct attn_session *session,
                                          const struct attn_case *c)
{
    char why[512];
    struct attn_judgement none;
    struct attn_instance *instance;
    return has_room(session, c, &none) &&
                   attn_instance_create_blank(c, &instance, why, sizeof why) == 0
               ? instance
               : NULL;
}
