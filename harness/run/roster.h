/* SPDX-License-Identifier: Apache-2.0 */
/* roster.h - the backends that a command works with: found in plugins, chosen with -b, with the
 * list of skips that are expected of each. */
#ifndef ATTN_ROSTER_H
#define ATTN_ROSTER_H

#include <stdbool.h>
#include <stddef.h>

#include "host/worker.h"
#include "run/expected_skips.h"
#include "run/paths.h"

struct attn_contestant {
    char plugin[ATTN_PATH_MAX];
    char worker[ATTN_PATH_MAX];    /* the program that serves the plugin */
    struct attn_backend_info info; /* info.available false: reason says why */
    char label[32];                /* NAME of --plugin NAME=FILE; "": none */
    char offered[32];              /* what the plugin calls it; info.name is its name here */
    char target[ATTN_PATH_MAX];    /* ATTNBENCH_TARGETS: what a rerun calls it; "": nothing else */
    char source[ATTN_PATH_MAX]; /* the file of a function (ATTNBENCH_SOURCES) or adapter in Python;
                                   "": none */
    char options[512];          /* as given with -b; "": none */
    bool missing;               /* left out of this build; there is no plugin to start */
    enum attn_status lost;      /* crash, timeout or oom as its plugin was loaded; else pass */
    bool named;                 /* with --plugin: a rerun must name it too */
    bool asked;                 /* for with -b */
    struct attn_skip *skips;
    size_t n_skips;
};

/* A backend that would have taken part, but cannot run here. */
struct attn_absent {
    char name[32];
    char reason[256];
    bool missing; /* from this build */
};

struct attn_roster {
    struct attn_contestant *items;
    size_t count;
    struct attn_absent *absent; /* without -b */
    size_t n_absent;
};

/* What the command line asks for: -b NAME[:options] and --plugin [NAME=]FILE, each any number of
 * times. With NAME= the backend of the file is called NAME here, or NAME_BACKEND if the file offers
 * several, so that two builds of one backend can be told apart. */
struct attn_roster_wish {
    const char *const *backends;
    size_t n_backends;
    const char *const *plugins;
    size_t n_plugins;
    double timeout_s;      /* for each plugin to say what it is; 0: 10 s */
    uint64_t memory;       /* that it may have meanwhile; 0: the usual */
    bool keep_unavailable; /* list and doctor want them too */
};

/* Looks into the plugin folder, ATTNBENCH_PLUGIN_PATH and the files of --plugin. A broken plugin in
 * a folder becomes an entry that is not available; if it was lost it takes part nevertheless, so
 * that each case has a record of it. These are errors: a broken plugin named with
 * --plugin, an unknown -b, options that the backend does not accept, and a name that two plugins
 * offer. Backends left out of the build (NAME.missing in the plugin folder) are entries, too.
 * Without -b the roster holds the backends of the plugins named, or all available backends. Returns
 * 0, or with the reason: ATTN_EXIT_INCOMPLETE if a plugin named with --plugin crashed, hung or ran
 * out of memory while it was loaded, ATTN_EXIT_USAGE for any other error. */
enum attn_exit attn_roster_load(const struct attn_paths *paths, const struct attn_roster_wish *wish,
                                struct attn_roster *roster, char *why, size_t size);

/* Says that there is no backend of this name, and which the plugin of this name offers, or which
 * backend has almost this name. */
void attn_roster_unknown(const struct attn_roster *roster, const char *name, char *why,
                         size_t size);
void attn_roster_free(struct attn_roster *roster);

#endif
