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

enum attn_exit attn_verb_new_backend(struct attn_command *c, const struct attn_paths *paths)
{
    static const char *const files[] = {"skeleton.c", "CMakeLists.txt", "skeleton.skips"};
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
    const char *parent = c->out ? c->out : "backends";
    if (strlen(parent) + LONGEST_BELOW >= sizeof folder || attn_path_join(folder, parent, name)) {
        snprintf(why, sizeof why, "the path '%.64s...' is too long", parent);
        return attn_complain(ATTN_EXIT_USAGE, why);
    }
    if (access(folder, F_OK) == 0) {
        snprintf(why, sizeof why, "'%s' already exists", folder);
        return attn_complain(ATTN_EXIT_USAGE, why);
    }
    if (attn_make_folder(folder)) {
        snprintf(why, sizeof why, "folder '%s' cannot be made: %s", folder, strerror(errno));
        return attn_complain(ATTN_EXIT_USAGE, why);
    }
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        char from[ATTN_PATH_MAX], to[ATTN_PATH_MAX], file[64];
        const char *rest =
            strncmp(files[f], old_name, strlen(old_name)) ? NULL : files[f] + strlen(old_name);
        snprintf(file, sizeof file, "%s%s", rest ? name : files[f], rest ? rest : "");
        if (attn_path_join(from, paths->skeleton, files[f]) || access(from, R_OK))
            continue; /* the skeleton may lack some of them */
        if (attn_path_join(to, folder, file) || copy_renamed(from, to, name, why, sizeof why))
            return attn_complain(ATTN_EXIT_INTERNAL, why);
    }
    if (c->json)
        attn_print_json(json_pack("{s:s}", "folder", folder));
    else
        printf("%s\n", folder);
    fprintf(stderr,
            "now: build again, and attnbench verify -b %s; then put your kernel into `run` of\n"
            "     %s/%s.c, and declare its limits and numerics there\n",
            name, folder, name);
    return ATTN_EXIT_OK;
}
