/* SPDX-License-Identifier: Apache-2.0 */
/* conclusion.c - counts what the verdicts say of the exit code, and puts it into one line. */
#include "run/conclusion.h"

#include <stdarg.h>
#include <string.h>

#include "results/field.h"

static int status_of(const json_t *record)
{
    return strcmp(attn_field_text(record, "type"), "verify") == 0
               ? attn_status_parse(attn_field_text(record, "status"))
               : -1;
}

static bool is_of(const json_t *record, const struct attn_contestant *c)
{
    return strcmp(attn_field_text(record, "backend"), c->info.name) == 0 &&
           strcmp(attn_field_text(record, "options"), c->options) == 0;
}

/* Adds to a line that is never longer than its room. */
static void add(char *line, size_t size, const char *format, ...)
{
    const size_t used = strlen(line);
    va_list list;
    va_start(list, format);
    vsnprintf(line + used, size - used, format, list);
    va_end(list);
}

static const char *plural(int n, const char *one, const char *more)
{
    return n == 1 ? one : more;
}

/* Has a backend a verdict that is no skip? A pass of one that computes nothing says nothing, so there
 * it takes a timing, or a failure. skips, reason: how many skips, and why the first was. */
static bool is_checked(const struct attn_session *session, const struct attn_contestant *c,
                       int *skips, const char **reason)
{
    size_t i;
    json_t *record;
    *skips = 0;
    *reason = "";
    json_array_foreach(session->records, i, record)
    {
        if (!is_of(record, c))
            continue;
        const int status = status_of(record);
        const bool none = c->info.exactness == ATTN_NONE;
        if (none && strcmp(attn_field_text(record, "type"), "bench") == 0)
            return true;
        if (status >= 0 && status != ATTN_SKIP && !(none && status == ATTN_PASS))
            return true;
        if (status == ATTN_SKIP && (*skips)++ == 0)
            *reason = attn_field_text(record, "reason");
    }
    return false;
}

/* Of a plugin that was named, one backend that was checked is enough. */
static bool has_checked_sibling(const struct attn_session *session, const struct attn_contestant *c)
{
    int skips;
    const char *reason;
    for (size_t b = 0; b < session->roster.count; b++) {
        const struct attn_contestant *other = &session->roster.items[b];
        if (strcmp(other->plugin, c->plugin) == 0 && is_checked(session, other, &skips, &reason))
            return true;
    }
    return false;
}

/* The first backend that was asked for and has no verdict but skips; NULL: there is none. */
static const struct attn_contestant *unchecked(const struct attn_session *session, int *skips,
                                               const char **reason)
{
    for (size_t b = 0; b < session->roster.count; b++) {
        const struct attn_contestant *c = &session->roster.items[b];
        if ((c->asked || c->named) && !is_checked(session, c, skips, reason) &&
            (c->asked || !has_checked_sibling(session, c)))
            return c;
    }
    return NULL;
}

static void say_unchecked(const struct attn_contestant *c, int skips, const char *reason,
                          char *line, size_t size)
{
    add(line, size, "%s was checked on nothing", c->info.name);
    if (skips > 0)
        add(line, size, ": %s (%.300s)",
            skips == 1 ? "its only case was skipped" : "all its cases were skipped", reason);
    add(line, size,
        !c->info.available               ? "; without -b, the backends that can run here take part"
        : c->info.exactness == ATTN_NONE ? "; it computes nothing, so it can be timed, not verified"
        : strstr(reason, "the limit is") ? "; give it a larger --run-limit"
        : strncmp(reason, "budget: ", 8) == 0 ? "; give it more --budget"
                                              : "; name a case that it supports");
}

/* "139 refusals are not listed in mine.skips; ..." */
static void say_refusals(const struct attn_session *session, char *line, size_t size)
{
    const json_t *first = NULL;
    const struct attn_contestant *of = NULL;
    int n = 0;
    size_t i;
    json_t *record;
    json_array_foreach(session->records, i, record)
    {
        if (status_of(record) != ATTN_SKIP || json_is_true(json_object_get(record, "expected")))
            continue;
        n++;
        first = first ? first : record;
    }
    for (size_t b = 0; b < session->roster.count && first; b++)
        if (is_of(first, &session->roster.items[b]))
            of = &session->roster.items[b];
    if (!first)
        return;
    const bool adapter = of && attn_expected_skips_of_adapter(of->plugin);
    const char *file = adapter ? of->offered : of ? of->plugin : "";
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    const char *dot = strrchr(name, '.');
    add(line, size,
        "%s%d %s not listed in %.*s.skips, beside the %s; allow %s with a line such as "
        "'*: %.200s'",
        *line ? "; " : "", n, plural(n, "refusal is", "refusals are"),
        dot ? (int)(dot - name) : (int)strlen(name), name, adapter ? "adapter" : "plugin",
        plural(n, "it", "them"), attn_field_text(first, "reason"));
}

/* Counts of the statuses that lead to one code: "2 crash, 1 timeout". */
static void say_counts(const struct attn_session *session, unsigned statuses, char *line,
                       size_t size)
{
    const char *between = "";
    for (int s = 0; s < ATTN_STATUS_COUNT; s++)
        if (statuses >> s & 1 && session->counts[s] > 0) {
            add(line, size, "%s%d %s", between, session->counts[s],
                attn_status_name((enum attn_status)s));
            between = ", ";
        }
}

static void say_numerics(const struct attn_session *session, char *line, size_t size)
{
    const int wrong = session->counts[ATTN_FAIL] + session->counts[ATTN_SUSPECT];
    const int weak = session->settings.strict ? session->counts[ATTN_MISTRUSTED] : 0;
    if (wrong > 0) {
        say_counts(session, 1u << ATTN_FAIL | 1u << ATTN_SUSPECT, line, size);
        add(line, size, "; 'rerun' above repeats %s", plural(wrong, "it", "each"));
    }
    if (weak > 0)
        add(line, size, "%s%d mistrusted, which --strict does not accept", *line ? "; " : "", weak);
    say_refusals(session, line, size);
    if (!*line)
        add(line, size,
            "a pass lacks checks, which --strict does not accept; 'checks_missed' of its record "
            "says why");
}

/* Why a session ends in a code, but for ATTN_EXIT_NOTHING. */
static void say_code(const struct attn_session *session, enum attn_exit code, char *text,
                     size_t size)
{
    if (code == ATTN_EXIT_NUMERICS) {
        say_numerics(session, text, size);
    } else if (code == ATTN_EXIT_INCOMPLETE) {
        say_counts(session,
                   1u << ATTN_CRASH | 1u << ATTN_TIMEOUT | 1u << ATTN_OOM | 1u << ATTN_ERROR, text,
                   size);
        add(text, size, "; 'rerun' above repeats what went wrong%s%s",
            *session->log ? ", and what was printed meanwhile is in " : "", session->log);
    } else if (code == ATTN_EXIT_INCONCLUSIVE) {
        say_counts(session, 1u << ATTN_APPROX, text, size);
        add(text, size,
            ": measured, not judged, which --strict accepts only from verify --baseline");
    }
}

enum attn_exit attn_conclude(const struct attn_session *session, char *line, size_t size)
{
    int skips;
    const char *reason;
    /* Of a shard, `merge` says what was checked on nothing. */
    const bool part = session->shard.count > 1;
    const struct attn_contestant *c = part ? NULL : unchecked(session, &skips, &reason);
    enum attn_exit code = session->code;
    char text[1024] = "", beside[sizeof text] = "";
    line[0] = '\0';
    if (c && !attn_interrupted)
        code = attn_exit_stronger(code, ATTN_EXIT_NOTHING);
    if (code == ATTN_EXIT_NOTHING && c) {
        say_unchecked(c, skips, reason, text, sizeof text);
        /* Refusals alone are what has just been said. */
        if (session->code != ATTN_EXIT_NUMERICS ||
            session->counts[ATTN_FAIL] + session->counts[ATTN_SUSPECT] > 0)
            say_code(session, session->code, beside, sizeof beside);
        if (*beside)
            add(text, sizeof text, ". Without it exit %d: %s", session->code, beside);
    } else {
        say_code(session, code, text, sizeof text);
    }
    if (code)
        snprintf(line, size, "exit %d: %s", code, text);
    return code;
}
