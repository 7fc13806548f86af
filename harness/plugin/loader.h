/* SPDX-License-Identifier: Apache-2.0 */
/* loader.h - opens a plugin and checks it. Only the worker uses it. */
#ifndef ATTN_LOADER_H
#define ATTN_LOADER_H

#include <stddef.h>

#include "attnbench/backend.h"

struct attn_loaded {
    void *handle;
    const struct attn_plugin *plugin;
};

/* Checks in order: file, open (RTLD_NOW | RTLD_LOCAL), symbol, version, size, backends and their
 * required slots, names. Each refusal is one sentence in (why, size). Returns 0 or -1. */
int attn_plugin_load(const char *path, struct attn_loaded *loaded, char *why, size_t size);
void attn_plugin_unload(struct attn_loaded *loaded);

/* The backend of that name, or NULL. */
const struct attn_backend *attn_plugin_backend(const struct attn_loaded *loaded, const char *name);

/* Room for options: they point into `text`, a copy that is cut up. */
struct attn_options_room {
    char *text;
    size_t size; /* of text */
    struct attn_option *options;
    int most;
};

/* Checks "key=value,..." against a backend's table, and fills `room`. Returns the number of
 * options, or -1 with the reason. */
int attn_options_parse(const struct attn_backend *backend, const char *text,
                       const struct attn_options_room *room, char *why, size_t size);

#endif
