/* SPDX-License-Identifier: Apache-2.0 */
/* verb_history.c - attnbench history. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "history/history.h"

static enum attn_exit show(const struct attn_command *c, char *why, size_t size)
{
    const struct attn_history_wish wish = {.word = c->n_arguments ? c->arguments[0] : NULL,
                                           .backends = c->backends,
                                           .n_backends = c->n_backends,
                                           .anchor = c->compare.anchor,
                                           .hot = c->settings.hot,
                                           .cold = c->settings.cold,
                                           .margin = c->compare.margin,
                                           .json = c->json};
    return attn_history_show(c->index, &wish, stdout, why, size);
}

/* Options of the tables are for CASE alone. */
static bool has_wishes(const struct attn_command *c)
{
    return c->n_backends || c->compare.anchor || c->compare.margin_given || !c->settings.hot ||
           !c->settings.cold || c->json;
}

enum attn_exit attn_verb_history(struct attn_command *c, const struct attn_paths *paths)
{
    char why[2 * ATTN_PATH_MAX] = "";
    enum attn_exit code;
    (void)paths;
    const char *first = c->n_arguments ? c->arguments[0] : "";
    const bool add = strcmp(first, "add") == 0, rebuild = strcmp(first, "rebuild") == 0;
    if ((add || rebuild) && c->n_arguments < 2)
        return attn_complain(ATTN_EXIT_USAGE, add ? "history add needs run folders"
                                                  : "history rebuild needs folders with runs");
    if ((add || rebuild) && has_wishes(c))
        return attn_complain(ATTN_EXIT_USAGE,
                             "history add and history rebuild take no option but --index");
    if (!add && !rebuild && c->n_arguments > 1)
        return attn_complain(ATTN_EXIT_USAGE, "history needs one CASE; quote a case line");
    if (add)
        code = attn_history_add(c->index, c->arguments + 1, c->n_arguments - 1, stderr, why,
                                sizeof why);
    else if (rebuild)
        code = attn_history_rebuild(c->index, c->arguments + 1, c->n_arguments - 1, stderr, why,
                                    sizeof why);
    else
        code = show(c, why, sizeof why);
    if (code)
        return attn_complain(code, why);
    if (add)
        printf("%zu run%s added to '%s'\n", c->n_arguments - 1, c->n_arguments == 2 ? "" : "s",
               c->index);
    return ATTN_EXIT_OK;
}
