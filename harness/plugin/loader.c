/* SPDX-License-Identifier: Apache-2.0 */
/* loader.c - opens a plugin; says in one sentence why one is refused. */
#include "plugin/loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NAME_MAX_LENGTH 31

static int refuse(char *why, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int refuse(char *why, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, size, format, args);
    va_end(args);
    return -1;
}

/* dlopen alone would search the library path for a bare name, and says little of what is wrong. */
static int check_file(const char *path, char *why, size_t size)
{
    struct stat info;
    char magic[4] = "";
    if (stat(path, &info) != 0)
        return refuse(why, size, "no plugin at %s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return refuse(why, size, "%s is no regular file", path);
    FILE *file = fopen(path, "re");
    if (!file)
        return refuse(why, size, "cannot read %s: %s", path, strerror(errno));
    const size_t n = fread(magic, 1, sizeof(magic), file);
    fclose(file);
    if (n < sizeof(magic) || memcmp(magic, "\177ELF", sizeof(magic)) != 0)
        return refuse(why, size, "%s is no shared object (not an ELF file)", path);
    return 0;
}

static bool name_is_good(const char *name)
{
    if (!name || !(name[0] >= 'a' && name[0] <= 'z'))
        return false;
    const size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return name[length] == 0 && length <= NAME_MAX_LENGTH;
}

/* The first slot that a backend must have and has not, or NULL. */
static const char *missing_slot(const struct attn_backend *b)
{
    const struct {
        const char *name;
        bool there;
    } slots[] = {
        {"supports", b->supports != NULL},
        {"create", b->create != NULL},
        {"bind", b->bind != NULL},
        {"run", b->run != NULL},
        {"release", b->release != NULL},
        {"destroy", b->destroy != NULL},
        {"numerics", b->numerics != NULL || b->exactness == ATTN_NONE},
    };
    for (size_t s = 0; s < sizeof(slots) / sizeof(slots[0]); s++)
        if (!slots[s].there)
            return slots[s].name;
    return NULL;
}

static int check_option_table(const struct attn_backend *b, char *why, size_t size)
{
    if (b->n_options > 0 && !b->options)
        return refuse(why, size, "backend %s counts %u options but has no table of them", b->name,
                      b->n_options);
    for (uint32_t o = 0; o < b->n_options; o++) {
        const struct attn_option_spec *spec = &b->options[o];
        const bool typed = spec->type >= ATTN_OPTION_INT && spec->type <= ATTN_OPTION_CHOICE;
        if (!spec->key || !spec->default_value || !spec->help || !typed ||
            (spec->type == ATTN_OPTION_CHOICE && !spec->choices))
            return refuse(why, size, "option %u of backend %s lacks a key, type, default or help",
                          o, b->name);
    }
    return 0;
}

static int check_backend(const struct attn_plugin *plugin, uint32_t i, char *why, size_t size)
{
    const struct attn_backend *b = plugin->backends[i];
    if (!b)
        return refuse(why, size, "backend %u of the plugin is NULL", i);
    if (b->struct_size < offsetof(struct attn_backend, device)) /* what version 1 began with */
        return refuse(why, size, "backend %u is a structure of %u bytes, not the %zu of this ABI",
                      i, b->struct_size, sizeof(struct attn_backend));
    if (!name_is_good(b->name))
        return refuse(why, size,
                      "backend %u has a bad name: [a-z][a-z0-9_]*, at most %d characters", i,
                      NAME_MAX_LENGTH);
    if (b->exactness > ATTN_NONE)
        return refuse(why, size, "backend %s has the unknown exactness %u", b->name, b->exactness);
    const char *slot = missing_slot(b);
    if (slot)
        return refuse(why, size, "backend %s lacks the required slot %s", b->name, slot);
    const int device_slots = (b->enqueue != NULL) + (b->wait != NULL) + (b->time_device != NULL);
    if (device_slots != 0 && device_slots != 3)
        return refuse(why, size, "backend %s has some of enqueue, wait and time_device but not all",
                      b->name);
    for (uint32_t other = 0; other < i; other++)
        if (strcmp(plugin->backends[other]->name, b->name) == 0)
            return refuse(why, size, "two backends of the plugin are named %s", b->name);
    return check_option_table(b, why, size);
}

static int check_plugin(const struct attn_plugin *plugin, char *why, size_t size)
{
    if (plugin->abi_version != ATTN_ABI_VERSION)
        return refuse(why, size, "the plugin is of ABI version %u, the harness of version %u",
                      plugin->abi_version, ATTN_ABI_VERSION);
    if (plugin->struct_size < sizeof(struct attn_plugin))
        return refuse(why, size, "the plugin's structure has %u bytes, not the %zu of this ABI",
                      plugin->struct_size, sizeof(struct attn_plugin));
    if (plugin->n_backends == 0 || !plugin->backends)
        return refuse(why, size, "the plugin offers no backend");
    for (uint32_t i = 0; i < plugin->n_backends; i++)
        if (check_backend(plugin, i, why, size) != 0)
            return -1;
    return 0;
}

int attn_plugin_load(const char *path, struct attn_loaded *loaded, char *why, size_t size)
{
    if (check_file(path, why, size) != 0)
        return -1;
    char absolute[PATH_MAX];
    if (!realpath(path, absolute))
        return refuse(why, size, "no plugin at %s: %s", path, strerror(errno));
    void *handle = dlopen(absolute, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return refuse(why, size, "cannot open the plugin: %s", dlerror());
    const struct attn_plugin *plugin = dlsym(handle, ATTN_PLUGIN_SYMBOL);
    int result = plugin ? check_plugin(plugin, why, size)
                        : refuse(why, size, "%s exports no symbol %s", path, ATTN_PLUGIN_SYMBOL);
    if (result != 0) {
        dlclose(handle);
        return -1;
    }
    *loaded = (struct attn_loaded){.handle = handle, .plugin = plugin};
    return 0;
}

void attn_plugin_unload(struct attn_loaded *loaded)
{
    if (loaded->handle)
        dlclose(loaded->handle);
    *loaded = (struct attn_loaded){.handle = NULL};
}

const struct attn_backend *attn_plugin_backend(const struct attn_loaded *loaded, const char *name)
{
    for (uint32_t i = 0; i < loaded->plugin->n_backends; i++)
        if (strcmp(loaded->plugin->backends[i]->name, name) == 0)
            return loaded->plugin->backends[i];
    return NULL;
}
