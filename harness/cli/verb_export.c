/* SPDX-License-Identifier: Apache-2.0 */
/* verb_export.c - attnbench export and import: runs in the formats of other tools. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "report/export.h"
#include "report/text.h"
#include "run/session.h"

/* The whole document is made before any of it is printed. */
static enum attn_exit print_export(const struct attn_run_data *run, const char *format, char *why,
                                   size_t size)
{
    char *text = NULL;
    size_t length = 0;
    bool nothing = false;
    int status = -1;
    FILE *out = attn_text_open(&text, &length);
    if (out)
        status = attn_export_put(out, run, format, &nothing, why, size);
    if (!out || (fclose(out) != 0 && status == 0)) {
        snprintf(why, size, "no memory for the export");
        status = -1;
    }
    if (status == 0)
        fwrite(text, 1, length, stdout);
    free(text);
    return status == 0   ? ATTN_EXIT_OK
           : nothing     ? ATTN_EXIT_NOTHING
           : status == 1 ? ATTN_EXIT_USAGE
                         : ATTN_EXIT_INTERNAL;
}

enum attn_exit attn_verb_export(struct attn_command *c, const struct attn_paths *paths)
{
    struct attn_run_data run;
    char why[1024];
    (void)paths;
    if (c->n_arguments != 1 || !c->format)
        return attn_complain(ATTN_EXIT_USAGE,
                             "export needs one run folder and --format " ATTN_EXPORT_FORMATS);
    enum attn_exit code = attn_command_read(c, c->arguments[0], &run);
    if (code)
        return code;
    code = print_export(&run, c->format, why, sizeof why);
    attn_run_release(&run);
    return code ? attn_complain(code, why) : code;
}

/* Writes the run folder. Takes the machine. */
static enum attn_exit write_run(const char *folder, json_t *records, json_t *machine, char *why,
                                size_t size)
{
    struct attn_session session = {.journal = {.fd = -1}, .records = json_array()};
    enum attn_exit code = ATTN_EXIT_USAGE;
    size_t i;
    json_t *record, *run = json_pack("{s:s,s:O}", "verb", "import", "machine", machine);
    if (attn_session_create(&session, folder, run, "name another folder", why, size)) {
        json_decref(machine);
        goto out;
    }
    code = ATTN_EXIT_INTERNAL;
    if (attn_session_write(&session, machine, "machine.json", JSON_INDENT(2), why, size))
        goto out;
    json_array_foreach(records, i, record)
    {
        if (attn_session_record(&session, json_incref(record))) {
            snprintf(why, size, "a record cannot be written into '%s': %m", folder);
            goto out;
        }
    }
    if (attn_session_end(&session, why, size) == 0)
        code = ATTN_EXIT_OK;
out:
    attn_session_close(&session);
    return code;
}

enum attn_exit attn_verb_import(struct attn_command *c, const struct attn_paths *paths)
{
    char why[1024], line[1024 + ATTN_PATH_MAX];
    json_t *records, *machine;
    size_t length;
    (void)paths;
    if (c->n_arguments != 1 || !c->out)
        return attn_complain(ATTN_EXIT_USAGE,
                             "import needs one FILE and -o RUN, the folder for the results");
    char *text = attn_file_read(c->arguments[0], &length, why, sizeof why);
    if (!text)
        return attn_complain(ATTN_EXIT_USAGE, why);
    const int status =
        attn_import_parse(text, length, c->name, &records, &machine, why, sizeof why);
    free(text);
    if (status != 0) {
        snprintf(line, sizeof line, "%s: %s", c->arguments[0], why);
        return attn_complain(ATTN_EXIT_USAGE, line);
    }
    const size_t n = json_array_size(records);
    const enum attn_exit code = write_run(c->out, records, machine, why, sizeof why);
    json_decref(records);
    if (code)
        return attn_complain(code, why);
    if (c->json)
        attn_print_json(json_pack("{s:s,s:I}", "run", c->out, "results", (json_int_t)n));
    else
        fprintf(stderr, "%zu result%s: %s\n", n, n == 1 ? "" : "s", c->out);
    return ATTN_EXIT_OK;
}
