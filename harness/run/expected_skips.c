/* SPDX-License-Identifier: Apache-2.0 */
/* expected_skips.c - reads lines "case glob: reason", and finds that of a case. */
#include "run/expected_skips.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "case/case.h"
#include "case/regular.h"
#include "run/paths.h"

/* No file: no skips. */
static int load_skips(const char *path, struct attn_skip **skips, size_t *n, char *why, size_t size)
{
    const char *reason;
    FILE *file = attn_regular_open(path, &reason);
    if (!file && errno == EINVAL)
        snprintf(why, size, "%s: %s", path, reason);
    if (!file)
        return errno == EINVAL ? -1 : 0;
    char line[512];
    int result = 0;
    for (int number = 1; result == 0 && fgets(line, sizeof line, file); number++) {
        line[strcspn(line, "\r\n")] = '\0';
        char *text = line + strspn(line, " \t"), *colon = strchr(text, ':');
        if (*text == '#' || *text == '\0')
            continue;
        if (!colon || colon == text || !colon[1 + strspn(colon + 1, " \t")]) {
            snprintf(why, size, "%s:%d: expected 'case glob: reason'", path, number);
            result = -1;
            break;
        }
        struct attn_skip *grown = realloc(*skips, (*n + 1) * sizeof **skips);
        if (!grown) {
            snprintf(why, size, "no memory for %s", path);
            result = -1;
            break;
        }
        *skips = grown;
        struct attn_skip *skip = &grown[(*n)++];
        snprintf(skip->glob, sizeof skip->glob, "%.*s", (int)(colon - text), text);
        snprintf(skip->reason, sizeof skip->reason, "%s", colon + 1 + strspn(colon + 1, " \t"));
    }
    fclose(file);
    return result;
}

bool attn_expected_skips_of_adapter(const char *plugin)
{
    const char *slash = strrchr(plugin, '/');
    return strcmp(slash ? slash + 1 : plugin, "python.so") == 0;
}

int attn_adapter_file(const char *plugin, const char *backend, char path[ATTN_PATH_MAX])
{
    const char *folders = getenv("ATTNBENCH_PYTHON_ADAPTERS");
    path[0] = '\0';
    if (!folders || !attn_expected_skips_of_adapter(plugin))
        return 0;
    char *list = strdup(folders), *rest = NULL;
    if (!list)
        return -1;
    for (char *folder = strtok_r(list, ":", &rest); folder && !*path;
         folder = strtok_r(NULL, ":", &rest)) /* the first file of a name counts */
        if (snprintf(path, ATTN_PATH_MAX, "%s/%s.py", folder, backend) >= ATTN_PATH_MAX ||
            access(path, F_OK))
            path[0] = '\0';
    free(list);
    return 0;
}

/* That of an adapter of the plugin `python` which lies in a folder of the user's. */
static int load_beside_adapter(const char *plugin, const char *backend, struct attn_skip **skips,
                               size_t *n, char *why, size_t size)
{
    char file[ATTN_PATH_MAX], path[ATTN_PATH_MAX + 8];
    if (attn_adapter_file(plugin, backend, file)) {
        snprintf(why, size, "no memory for the expected skips of %s", backend);
        return -1;
    }
    if (!*file)
        return 0;
    snprintf(path, sizeof path, "%.*s.skips", (int)strlen(file) - 3, file);
    return load_skips(path, skips, n, why, size);
}

int attn_expected_skips_load(const char *plugin, const char *backend, struct attn_skip **skips,
                             size_t *n, char *why, size_t size)
{
    char path[ATTN_PATH_MAX + 64];            /* with the name of a backend */
    const int stem = (int)strlen(plugin) - 3; /* without ".so" */
    if (stem < 0)
        return 0;
    snprintf(path, sizeof path, "%.*s.skips", stem, plugin);
    if (load_skips(path, skips, n, why, size))
        return -1;
    snprintf(path, sizeof path, "%.*s/%s.skips", stem, plugin, backend);
    if (load_skips(path, skips, n, why, size))
        return -1;
    return load_beside_adapter(plugin, backend, skips, n, why, size);
}

const char *attn_expected_skip(const struct attn_skip *skips, size_t n, const char *case_name)
{
    for (size_t i = 0; i < n; i++)
        if (attn_glob(skips[i].glob, case_name))
            return skips[i].reason;
    return NULL;
}
