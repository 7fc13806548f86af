/* SPDX-License-Identifier: Apache-2.0 */
/* test_skips.c - no rule in a list of expected skips has gone stale: each still excuses a refusal
 * of a case of the standard suite. (That each refusal has its rule, the suite itself tests.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pack/make.h"
#include "run/seat.h"
#include "run/suite.h"

static struct attn_paths paths;
static struct attn_session session; /* roster and cases */
static struct attn_seat *seats;     /* of the roster */

static int begin(void **state)
{
    (void)state;
    char why[1024];
    const struct attn_roster_wish backends = {.n_backends = 0};
    const struct attn_suite_wish cases = {.more = "covering"};
    attn_settings_default(&session.settings);
    session.paths = &paths;
    if (attn_paths_find(&paths, why, sizeof why) == 0 &&
        snprintf(paths.worker, sizeof paths.worker, "%s", TEST_WORKER) > 0 &&
        attn_suite_load(&paths, &cases, &session.cases, NULL, why, sizeof why) == 0 &&
        attn_roster_load(&paths, &backends, &session.roster, why, sizeof why) == 0)
        seats = calloc(session.roster.count, sizeof *seats);
    else
        print_error("%s\n", why);
    for (size_t b = 0; seats && b < session.roster.count; b++)
        attn_seat_init(&seats[b], &session, &session.roster.items[b]);
    return seats ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    for (size_t b = 0; b < session.roster.count; b++)
        attn_seat_free(&seats[b]);
    free(seats);
    attn_session_close(&session);
    return 0;
}

/* Is the rule on the list of this backend, too. */
static bool has_rule(const struct attn_contestant *c, const struct attn_skip *rule)
{
    for (size_t s = 0; s < c->n_skips; s++)
        if (strcmp(c->skips[s].glob, rule->glob) == 0 &&
            strcmp(c->skips[s].reason, rule->reason) == 0)
            return true;
    return false;
}

/* Does the backend refuse the case, or another of its plugin, where they share the rule. */
static bool refused(const struct attn_skip *rule, const struct attn_contestant *one,
                    const struct attn_case *c)
{
    char why[512];
    struct attn_instance *instance;
    bool found = false;
    if (attn_instance_create(c, session.settings.host_threads, &instance, why, sizeof why) != 0)
        fail_msg("%s: %s", c->name, why);
    for (size_t b = 0; b < session.roster.count && !found; b++) {
        const struct attn_contestant *other = &session.roster.items[b];
        if (other != one && (strcmp(other->plugin, one->plugin) != 0 || !has_rule(other, rule)))
            continue;
        struct attn_outcome outcome = attn_seat_worker(&seats[b]);
        if (outcome.status == ATTN_PASS)
            outcome = attn_worker_supports(seats[b].worker, instance);
        if (outcome.status != ATTN_PASS && outcome.status != ATTN_SKIP)
            fail_msg("%s on %s: %s", other->info.name, c->name, outcome.reason);
        found = outcome.status == ATTN_SKIP;
    }
    attn_instance_free(instance);
    return found;
}

/* A refusal that depends on the processor may be missing on this one: there the rule need only
 * match a case. Its reason says so (backends/README.md). */
static bool excuses(const struct attn_skip *rule, const struct attn_contestant *one)
{
    const bool here = strstr(rule->reason, "processor") == NULL;
    for (size_t i = 0; i < session.cases.count; i++)
        if (attn_glob(rule->glob, session.cases.items[i].name) &&
            (!here || refused(rule, one, &session.cases.items[i])))
            return true;
    return false;
}

static void no_rule_is_stale(void **state)
{
    (void)state;
    size_t stale = 0;
    for (size_t b = 0; b < session.roster.count; b++) {
        const struct attn_contestant *c = &session.roster.items[b];
        for (size_t s = 0; s < c->n_skips; s++)
            if (!excuses(&c->skips[s], c)) {
                print_error("%s, a list of %s: '%s: %s' excuses no refusal\n", c->plugin,
                            c->info.name, c->skips[s].glob, c->skips[s].reason);
                stale++;
            }
    }
    assert_int_equal(stale, 0);
}

/* The plain baseline refuses nothing, so that any rule on it is stale. */
static void a_stale_rule_is_found(void **state)
{
    (void)state;
    static const struct attn_skip needless = {"smoke_dense", "not implemented"},
                                  nowhere = {"no_such_case", "only on other processors"},
                                  elsewhere = {"smoke_*", "only on other processors"};
    const struct attn_contestant *plain = NULL;
    for (size_t b = 0; b < session.roster.count; b++)
        if (strcmp(session.roster.items[b].info.name, "naive") == 0)
            plain = &session.roster.items[b];
    assert_non_null(plain);
    assert_false(excuses(&needless, plain));
    assert_false(excuses(&nowhere, plain));
    assert_true(excuses(&elsewhere, plain));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_rule_is_stale),
        cmocka_unit_test(a_stale_rule_is_found),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
