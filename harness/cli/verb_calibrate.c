/* SPDX-License-Identifier: Apache-2.0 */
/* verb_calibrate.c - attnbench doctor --calibrate. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "live/calibrate.h"

/* What the plugin planted/slowed.c reads, and what it offers. */
#define PLANTED_OF "ATTNBENCH_SLOWED"
#define SAME       "slowed"
#define MORE       "slowed:permille=50"
_Static_assert(ATTN_PLANTED_PERMILLE == 50, "MORE plants another share");

/* A session of A, and of A with or without work on top. Only the folder of the planted plugin is
 * looked into. */
static enum attn_exit begin(const struct attn_command *c, const struct attn_paths *planted,
                            const char *other, struct attn_session *session)
{
    struct attn_command command = {.settings = c->settings,
                                   .n_arguments = ATTN_CALIBRATION_PARTS,
                                   .backends = {SAME, other},
                                   .n_backends = 2};
    for (size_t i = 0; i < ATTN_CALIBRATION_PARTS; i++)
        command.arguments[i] = attn_calibration_cases[i];
    return attn_session_begin(&command, planted, session);
}

/* Calibrates with one backend. calibration->refused: it cannot do the cases. */
static enum attn_exit calibrate_with(const struct attn_command *c, const struct attn_paths *paths,
                                     const struct attn_contestant *backend,
                                     struct attn_calibration *calibration, char *why, size_t size)
{
    const struct attn_live_options options = {.margin = c->compare.margin, .pair_s = c->pair_s};
    struct attn_session sessions[ATTN_CALIBRATE_KINDS] = {0};
    struct attn_paths planted = *paths;
    char file[ATTN_PATH_MAX], inner[ATTN_PATH_MAX + sizeof backend->offered + 1];
    *calibration = (struct attn_calibration){0};
    if (!realpath(backend->plugin, file) ||
        attn_path_join(planted.plugins, paths->plugins, "planted")) {
        snprintf(why, size, "%.400s: its path cannot be followed: %m", backend->plugin);
        return ATTN_EXIT_INTERNAL;
    }
    snprintf(inner, sizeof inner, "%s:%s", file, backend->offered);
    if (setenv(PLANTED_OF, inner, 1)) {
        snprintf(why, size, "no memory for the environment");
        return ATTN_EXIT_INTERNAL;
    }
    enum attn_exit code = begin(c, &planted, SAME, &sessions[ATTN_CALIBRATE_AA]);
    if (!code)
        code = begin(c, &planted, MORE, &sessions[ATTN_CALIBRATE_PLANTED]);
    if (code)
        snprintf(why, size, "the plugin that plants a slowdown cannot be used");
    else if (attn_calibrate(sessions, &options, c->calibrate_s, calibration, why, size))
        code = ATTN_EXIT_INTERNAL;
    for (int k = 0; k < ATTN_CALIBRATE_KINDS; k++)
        attn_session_close(&sessions[k]);
    return code;
}

/* Why a backend is not calibrated with; NULL: it may be. */
static const char *not_with(const struct attn_contestant *b)
{
    return b->missing                        ? "it was left out of this build"
           : !b->info.available              ? b->info.reason
           : b->info.device                  ? "it runs on a device"
           : b->info.exactness != ATTN_EXACT ? "it computes no exact attention"
                                             : NULL;
}

/* Finds the backend: the one asked for, or the first that can do the cases. */
static enum attn_exit calibrate(const struct attn_command *c, const struct attn_paths *paths,
                                const struct attn_roster *roster, const char **name,
                                struct attn_calibration *calibration, char *why, size_t size)
{
    const char *const wanted = c->n_backends ? c->backends[0] : NULL;
    if (wanted)
        attn_roster_unknown(roster, wanted, why, size);
    else
        snprintf(why, size, "no backend can do the cases of a calibration");
    for (size_t b = 0; b < roster->count; b++) {
        const struct attn_contestant *backend = &roster->items[b];
        const char *reason = not_with(backend);
        if (wanted && strcmp(backend->info.name, wanted) != 0)
            continue;
        if (!reason) {
            *name = backend->info.name;
            const enum attn_exit code = calibrate_with(c, paths, backend, calibration, why, size);
            if (code || !*calibration->refused)
                return code;
            reason = calibration->refused;
        }
        if (wanted)
            snprintf(why, size, "%s: %.700s", wanted, reason);
        attn_calibration_free(calibration);
    }
    return wanted ? ATTN_EXIT_USAGE : ATTN_EXIT_NOTHING;
}

enum attn_exit attn_doctor_calibrate(const struct attn_command *c, const struct attn_paths *paths,
                                     const struct attn_roster *roster, json_t **result)
{
    struct attn_calibration calibration = {0};
    const char *name = "";
    char why[1024];
    fprintf(stderr, "calibrating for about %.0f s\n", c->calibrate_s);
    enum attn_exit code = calibrate(c, paths, roster, &name, &calibration, why, sizeof why);
    if (code) {
        attn_calibration_free(&calibration);
        return attn_complain(code, why);
    }
    const struct attn_finding finding = attn_calibration_judge(&calibration);
    if (c->json) {
        *result = attn_calibration_json(&calibration);
        json_object_set_new(*result, "backend", json_string(name));
    } else {
        printf("\ncompare --live with %s, now, for %.0f s\n", name, calibration.seconds);
        attn_calibration_print(&calibration, stdout);
        printf("%-8s %-15s %s\n", attn_level_name(finding.level), finding.what, finding.text);
        if (*finding.hint)
            printf("%-24s %s\n", "", finding.hint);
    }
    attn_calibration_free(&calibration);
    return finding.level == ATTN_LEVEL_OK ? ATTN_EXIT_OK : ATTN_EXIT_INCONCLUSIVE;
}
