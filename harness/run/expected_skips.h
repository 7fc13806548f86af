/* SPDX-License-Identifier: Apache-2.0 */
/* expected_skips.h - the lists of skips that are expected of a backend. */
#ifndef ATTN_EXPECTED_SKIPS_H
#define ATTN_EXPECTED_SKIPS_H

#include <stdbool.h>
#include <stddef.h>

#include "run/paths.h"

/* One line "case glob: reason" of PLUGIN.skips, or of PLUGIN/BACKEND.skips. */
struct attn_skip {
    char glob[128];
    char reason[256];
};

/* Reads the lists of a backend: PLUGIN.skips is for all backends of a plugin, PLUGIN/BACKEND.skips
 * for one of several; for an adapter in Python, also BACKEND.skips beside its file in a folder of
 * ATTNBENCH_PYTHON_ADAPTERS. `plugin` is the file, `backend` what it calls the backend. Each list
 * may be missing. A malformed line is an error: a skip that silently does not apply would hide a
 * gap. Adds to the array *skips of *n, which the caller frees in any case. Returns 0, or -1 with
 * the reason.
 */
int attn_expected_skips_load(const char *plugin, const char *backend, struct attn_skip **skips,
                             size_t *n, char *why, size_t size);

/* Are the backends of this plugin adapters in Python? */
bool attn_expected_skips_of_adapter(const char *plugin);

/* The file of such a backend in a folder of ATTNBENCH_PYTHON_ADAPTERS; "": there is none, or it is
 * no adapter. Returns 0, or -1: no memory. */
int attn_adapter_file(const char *plugin, const char *backend, char path[ATTN_PATH_MAX]);

/* The reason, if a refusal of this case is in the list; NULL otherwise. */
const char *attn_expected_skip(const struct attn_skip *skips, size_t n, const char *case_name);

#endif
