/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_files.c - one line or one value of a file of the kernel. */
#include "run/kernel_files.h"

#include <stdio.h>
#include <string.h>

#include "run/paths.h"

static FILE *open_below(const char *root, const char *path)
{
    char full[ATTN_PATH_MAX];
    const int n = snprintf(full, sizeof full, "%s%s", root, path);
    return n > 0 && (size_t)n < sizeof full ? fopen(full, "r") : NULL;
}

void attn_file_line(const char *root, const char *path, char *text, size_t size)
{
    text[0] = '\0';
    FILE *file = open_below(root, path);
    if (!file)
        return;
    if (!fgets(text, (int)size, file))
        text[0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    fclose(file);
}

void attn_file_value(const char *root, const char *path, const char *key, char *text, size_t size)
{
    text[0] = '\0';
    FILE *file = open_below(root, path);
    if (!file)
        return;
    char line[8192];
    const size_t n = strlen(key);
    while (fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        /* "model" is not the key of "model name" */
        if (strncmp(line, key, n) != 0 || !colon ||
            strspn(line + n, " \t") != (size_t)(colon - line) - n)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(text, size, "%.*s", (int)strcspn(colon, "\n"), colon);
        break;
    }
    fclose(file);
}
