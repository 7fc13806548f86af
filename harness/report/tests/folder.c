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

int folder_report(const struct attn_run_data *run, const char *script_dir, char *note,
                  size_t note_size)
{
    char out[128], why[512] = "";
    snprintf(out, sizeof out, "%s/report", folder);
    const struct attn_report_options options = {.script_dir = script_dir, .out_dir = out};
    int status = attn_report_write(run, &options, note, note_size, why, sizeof why);
    assert_true((status == 0 || status == 2) == (why[0] == '\0'));
    return status;
}

/* Fields of the first CSV record, quotes understood; moves *at past it. */
static int csv_fields(const char **at)
{
    int fields = 1, quoted = 0;
    for (; **at && (quoted || **at != '\n'); (*at)++) {
        quoted ^= **at == '"';
        fields += !quoted && **at == ',';
    }
    *at += **at == '\n';
    assert_false(quoted);
    return fields;
}

void folder_check_csv(const struct attn_run_data *run)
{
    char *text = folder_text("results.csv");
    const char *at = text;
    int columns = csv_fields(&at);
    size_t lines = 0, benches = 0, i;
    for (; *at; lines++)
        assert_int_equal(csv_fields(&at), columns);
    json_t *record;
    json_array_foreach(run->records, i, record)
    {
        benches += strcmp(attn_field_text(record, "type"), "bench") == 0;
    }
    assert_int_equal(lines, benches);
    free(text);
}

void folder_check_xml(const char *text)
{
    char stack[8][32];
    int depth = 0;
    for (const char *at = strstr(text, "?>") + 2; *at; at++) {
        if (*at == '&') {
            size_t name = strspn(at + 1, "abcdefghijklmnopqrstuvwxyz#0123456789");
            assert_true(at[name + 1] == ';');
        }
        assert_true(*at != '>');
        if (*at != '<')
            continue;
        char name[32];
        int closing = at[1] == '/';
        size_t length = strcspn(at + 1 + closing, " >");
        assert_true(length > 0 && length < sizeof name);
        memcpy(name, at + 1 + closing, length);
        name[length] = '\0';
        const char *end = strchr(at, '>');
        assert_non_null(end);
        for (const char *c = at + 1; c < end; c++)
            assert_true(*c != '<');
        if (closing)
            assert_string_equal(stack[--depth], name);
        else
            strcpy(stack[depth++], name);
        assert_in_range(depth, 0, 7);
        at = end;
    }
    assert_int_equal(depth, 0);
}
