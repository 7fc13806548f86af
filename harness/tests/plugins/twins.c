/* SPDX-License-Identifier: Apache-2.0 */
/* twins.c - two backends with options; the second cannot run here. */
#include "base.h"

static int probe(const struct attn_services *services, char *why, size_t size)
{
    (void)services;
    snprintf(why, size, "no such device");
    return ATTN_NO_DEVICE;
}

static void version(char *text, size_t size)
{
    snprintf(text, size, "testlib 1.2");
}

static const struct attn_option_spec options[] = {
    {.key = "isa",
     .type = ATTN_OPTION_CHOICE,
     .choices = "plain|wide",
     .default_value = "plain",
     .help = "instructions to use"},
    {.key = "tile", .type = ATTN_OPTION_INT, .default_value = "64", .help = "keys a tile"},
    {.key = "pack", .type = ATTN_OPTION_BOOL, .default_value = "1", .help = "pack weights"},
};

static const struct attn_backend first = {BASE_BACKEND,       .create = base_create,
                                          .run = base_run,    .version = version,
                                          .options = options, .n_options = 3};
static const struct attn_backend second = {BASE_SLOTS,
                                           .struct_size = sizeof(struct attn_backend),
                                           .name = "other",
                                           .description = "never available",
                                           .exactness = ATTN_NONE,
                                           .probe = probe,
                                           .create = base_create,
                                           .run = base_run};
static const struct attn_backend *const table[] = {&first, &second};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
