/* SPDX-License-Identifier: Apache-2.0 */
/* verb_merge.c - attnbench merge. */
#include <stdio.h>

#include "cli/command.h"
#include "merge/merge.h"

static void print_merged(const struct attn_command *c, const struct attn_merged *m)
{
    if (c->json) {
        attn_print_json(json_pack(
            "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s}", "run", c->out, "runs",
            (json_int_t)m->runs, "cases", (json_int_t)m->cases, "records", (json_int_t)m->records,
            "repeated", (json_int_t)m->repeated, "superseded", (json_int_t)m->superseded, "missing",
            (json_int_t)m->missing, "shards", m->shards, "unchecked", m->unchecked));
        return;
    }
    printf("%s: %zu run%s, %zu case%s, %zu record%s", c->out, m->runs, m->runs == 1 ? "" : "s",
           m->cases, m->cases == 1 ? "" : "s", m->records, m->records == 1 ? "" : "s");
    if (m->repeated)
        printf(", %zu that more than one run has", m->repeated);
    if (m->superseded)
        printf(", without %zu that were measured again", m->superseded);
    printf("\n");
}

enum attn_exit attn_verb_merge(struct attn_command *c, const struct attn_paths *paths)
{
    (void)paths;
    struct attn_merged merged;
    char why[1024];
    if (!c->out || c->n_arguments == 0)
        return attn_complain(ATTN_EXIT_USAGE, "merge needs -o OUT, and the RUNs to merge");
    enum attn_exit code =
        attn_merge(c->arguments, c->n_arguments, c->out, &merged, why, sizeof why);
    if (code)
        return attn_complain(code, why);
    print_merged(c, &merged);
    if (merged.missing) {
        snprintf(why, sizeof why, "exit %d: the run is not whole: %s", ATTN_EXIT_INCOMPLETE,
                 merged.shards);
        code = attn_complain(ATTN_EXIT_INCOMPLETE, why);
    } else if (*merged.unchecked) {
        snprintf(why, sizeof why, "exit %d: %s was checked on nothing, in no shard",
                 ATTN_EXIT_NOTHING, merged.unchecked);
        code = attn_complain(ATTN_EXIT_NOTHING, why);
    }
    return code;
}
