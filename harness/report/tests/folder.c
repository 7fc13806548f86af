/* SPDX-License-Identifier: Apache-2.0 */
/* folder.c - a folder of a test's own. */
#include "folder.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "report/text.h"

char folder[64];

static void remove_all(const char *path)
{
    DIR *list = opendir(path);
    struct dirent *entry;
    while (list && (entry = readdir(list))) {
        char inner[512];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (unlink(inner) != 0)
            remove_all(inner);
    }
    if (list)
        closedir(list);
    rmdir(path);
}

int folder_setup(void **state)
{
    (void)state;
    /* A made-up run is synced record by record; in memory that costs nothing. */
    strcpy(folder, "/dev/shm/attn_report_XXXXXX");
    if (mkdtemp(folder))
        return 0;
    strcpy(folder, "/tmp/attn_report_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

int folder_teardown(void **state)
{
    (void)state;
    remove_all(folder);
    return 0;
}

char *folder_text(const char *file)
{
    char path[256], why[256];
    size_t length;
    snprintf(path, sizeof path, "%s/report/%s", folder, file);
    char *text = attn_file_read(path, &length, why, sizeof why);
    if (!text)
        fail_msg("%s", why);
    return text;
}

size_t folder_count(const char *text, const char *word)
{
    size_t n = 0;
    while ((text = strstr(text, word))) {
        n++;
        text += strlen(word);
    }
    return n;
}
