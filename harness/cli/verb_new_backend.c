/* SPDX-License-Identifier: Apache-2.0 */
/* verb_new_backend.c - attnbench new-backend: copies a small working backend under a new name. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"

enum {
    FILE_MAX = 1 << 16,
    NAME_MAX_LENGTH = 31,
    LONGEST_BELOW = 2 * NAME_MAX_LENGTH + 16 /* "/NAME/NAME.skips", "/NAME/CMakeLists.txt" */
};

/* The name of the skeleton's own backend. It is replaced as a whole word or as a part between
 * underscores. */
static const char old_name[] = "skeleton";

static bool name_is_good(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > NAME_MAX_LENGTH || !islower((unsigned char)name[0]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!islower((unsigned char)name[i]) && !isdigit((unsigned char)name[i]) && name[i] != '_')
            return false;
    return true;
}

/* Writes text, and replaces every old_name that no letter or digit touches. */
static int write_renamed(FILE *to, const char *text, const char *name)
{
    size_t n = strlen(old_name);
    for (const char *at = text; *at;) {
        bool word = !strncmp(at, old_name, n) && !isalnum((unsigned char)at[n]) &&
                    (at == text || !isalnum((unsigned char)at[-1]));
        if (word ? fputs(name, to) == EOF : fputc(*at, to) == EOF)
            return -1;
        at += word ? n : 1;
    }
    return 0;
}

static int copy_renamed(const char *from, const char *to, const char *name, char *why, size_t size)
{
    char *text = malloc(FILE_MAX);
    FILE *in = fopen(from, "r"), *out = NULL;
    int result = -1;
    if (!text || !in) {
        snprintf(why, size, "%s cannot be read: %s", from, strerror(errno));
        goto out;
    }
    size_t n = fread(text, 1, FILE_MAX - 1, in);
    text[n] = '\0';
    out = fopen(to, "wx");
    if (!out || write_renamed(out, text, name)) {
        snprintf(why, size, "%s cannot be written: %s", to, strerror(errno));
        goto out;
    }
    result = 0;
out:
    if (out && fclose(out) && result == 0) {
        snprintf(why, size, "%s cannot be written: %s", to, strerror(errno));
        result = -1;
    }
    if (in)
        fclose(in);
    free(text);
    return result;
}

/* Copies every file of the skeleton in this language. */
static int copy_all(const struct attn_paths *paths, const char *language, const char *folder,
                    const char *name, char *why, size_t size)
{
    char from[ATTN_PATH_MAX], to[ATTN_PATH_MAX], skeleton[ATTN_PATH_MAX], file[64], **names;
    size_t n;
    if (attn_path_join(skeleton, paths->skeleton, strcmp(language, "c++") ? language : "cxx") ||
        attn_names_in(skeleton, "", &names, &n)) {
        snprintf(why, size, "%s cannot be read: %s", paths->skeleton, strerror(errno));
        return -1;
    }
    int result = 0;
    for (size_t f = 0; f < n && result == 0; f++) {
        if (names[f][0] == '.' || names[f][0] == '_') /* the folder itself, what Python leaves */
            continue;
        const bool own = !strncmp(names[f], old_name, strlen(old_name));
        snprintf(file, sizeof file, "%s%s", own ? name : names[f],
                 own ? names[f] + strlen(old_name) : "");
        result = attn_path_join(from, skeleton, names[f]) || attn_path_join(to, folder, file)
                     ? -1
                     : copy_renamed(from, to, name, why, size);
    }
    attn_names_free(names, n);
    return result;
}

/* Is the current folder the root of a source tree? Only there a build finds backends/NAME. */
static bool in_source_tree(void)
{
    return access("backends", F_OK) == 0 && access("harness/include/attnbench", F_OK) == 0;
}

/* Does a plugin that is found without --plugin offer the name? -b would find two. */
static bool is_taken(const struct attn_paths *paths, const char *name)
{
    const struct attn_roster_wish wish = {.keep_unavailable = true};
    struct attn_roster roster;
    char why[512];
    bool taken = false;
    if (attn_roster_load(paths, &wish, &roster, why, sizeof why) != ATTN_EXIT_OK)
        return false;
    for (size_t b = 0; b < roster.count; b++)
        taken |= strcmp(roster.items[b].info.name, name) == 0;
    attn_roster_free(&roster);
    return taken;
}

/* How the backend is built and verified. */
static void print_commands(const struct attn_command *c, const struct attn_paths *paths,
                           const char *folder, const char *name)
{
    const bool python = !strcmp(c->language, "python"), cxx = !strcmp(c->language, "c++");
    const char *suffix = python ? "py" : cxx ? "cc" : "c";
    const bool chosen = getenv("ATTNBENCH_PYTHON_BACKENDS") != NULL;
    char verify[2 * ATTN_PATH_MAX + 64];
    if (python)
        /* Where the environment says which adapters count, the new one is not among them. */
        snprintf(verify, sizeof verify, "%s%s%sATTNBENCH_PYTHON_ADAPTERS=%s attnbench verify -b %s",
                 chosen ? "ATTNBENCH_PYTHON_BACKENDS=" : "", chosen ? name : "", chosen ? " " : "",
                 folder, name);
    else if (!c->out)
        snprintf(verify, sizeof verify, "attnbench verify -b %s", name);
    else
        snprintf(verify, sizeof verify, "attnbench verify --plugin %s/%s.so", folder, name);
    fprintf(stderr, "now: ");
    if (!python && !c->out)
        fprintf(stderr, "build again\n     ");
    else if (!python)
        fprintf(stderr, "%s -O3 -march=native -shared -fPIC -I %s %s/%s.%s -o %s/%s.so -lm\n     ",
                cxx ? "c++ -std=c++20" : "cc", paths->include, folder, name, suffix, folder, name);
    fprintf(stderr,
            "%s 'dk=64 sq=128'\n     %s\nThe first checks one case, the second the suite, which "
            "takes minutes.\n",
            verify, verify);
    fprintf(stderr,
            "Then put your kernel into `run` of %s/%s.%s, and declare its limits and numerics "
            "there\n",
            folder, name, suffix);
}

enum attn_exit attn_verb_new_backend(struct attn_command *c, const struct attn_paths *paths)
{
    char why[ATTN_PATH_MAX + 256], folder[ATTN_PATH_MAX];
    if (c->n_arguments != 1)
        return attn_complain(ATTN_EXIT_USAGE, "new-backend needs one name");
    const char *name = c->arguments[0];
    if (!name_is_good(name)) {
        snprintf(why, sizeof why,
                 "'%s' is not a backend name: [a-z][a-z0-9_]*, at most %d characters", name,
                 NAME_MAX_LENGTH);
        return attn_complain(ATTN_EXIT_USAGE, why);
    }
    if (!c->out && !in_source_tree())
        return attn_complain(ATTN_EXIT_USAGE,
                             "here is not the root of attnbench's source tree, where builds look "
                             "for backends; 'new-backend NAME -o DIR' makes one anywhere else");
    const char *parent = c->out ? c->out : "backends";
    if (strlen(parent) + LONGEST_BELOW >= sizeof folder || attn_path_join(folder, parent, name)) {
        snprintf(why, sizeof why, "the path '%.64s...' is too long", parent);
        return attn_complain(ATTN_EXIT_USAGE, why);
    }
    if (access(folder, F_OK) == 0) {
        snprintf(why, sizeof why, "'%s' already exists", folder);
        return attn_complain(ATTN_EXIT_USAGE, why);
    }
    if (is_taken(paths, name)) {
        snprintf(why, sizeof why, "there is a backend '%s' already ('attnbench list' names all)",
                 name);
        return attn_complain(ATTN_EXIT_USAGE, why);
    }
    if (attn_make_folder(folder)) {
        snprintf(why, sizeof why, "folder '%s' cannot be made: %s", folder, strerror(errno));
        return attn_complain(ATTN_EXIT_USAGE, why);
    }
    if (copy_all(paths, c->language, folder, name, why, sizeof why))
        return attn_complain(ATTN_EXIT_INTERNAL, why);
    if (c->json)
        attn_print_json(json_pack("{s:s}", "folder", folder));
    else
        printf("%s\n", folder);
    print_commands(c, paths, folder, name);
    return ATTN_EXIT_OK;
}
