/* SPDX-License-Identifier: Apache-2.0 */
/* account.c - counts the checks of a verdict. */
#include "run/account.h"

#include "run/verify_one.h"

static const char *const reasons[ATTN_WHY_COUNT] = {
    [ATTN_WHY_NONE] = "",
    [ATTN_WHY_FILLS] = ATTN_WHY_TEXT_FILLS,
    [ATTN_WHY_CHECKS] = ATTN_WHY_TEXT_CHECKS,
    [ATTN_WHY_BUDGET] = "budget: the time given is used up",
    [ATTN_WHY_MEMORY] = "not enough memory",
    [ATTN_WHY_SLOW] = "too slow, and no smaller case is fast enough",
    [ATTN_WHY_FAILED] = "an earlier check failed",
    [ATTN_WHY_INTERRUPTED] = "interrupted",
    [ATTN_WHY_WORKER] = "no worker for it",
    [ATTN_WHY_REFUSED_SMALLER] = "the backend refuses the smaller case",
    [ATTN_WHY_REFUSED] = "the backend refuses the changed problem",
};

const char *attn_why_text(enum attn_why why)
{
    return reasons[why];
}

const char *attn_part_name(int part)
{
    return part == ATTN_PART_END     ? "placement_end"
           : part == ATTN_PART_START ? "placement_start"
           : part < ATTN_PART_CHECKS ? attn_fill_name((enum attn_fill)(part - ATTN_PART_FILLS))
                                     : attn_check_name((enum attn_check)(part - ATTN_PART_CHECKS));
}

static bool is_made(const struct attn_entry *entry, int part)
{
    if (part == ATTN_PART_END)
        return entry->end_done;
    if (part == ATTN_PART_START)
        return entry->start_done;
    return part < ATTN_PART_CHECKS ? entry->fills_done >> (part - ATTN_PART_FILLS) & 1
                                   : entry->checks_done >> (part - ATTN_PART_CHECKS) & 1;
}

void attn_account_miss(struct attn_entry *entry, int part, enum attn_why why)
{
    if (entry->missed[part] == ATTN_WHY_NONE)
        entry->missed[part] = (unsigned char)why;
}

/* Is the verdict one on outputs by a backend whose answers are bounded? */
static bool is_judged(const struct attn_entry *entry)
{
    return entry->contestant && entry->contestant->info.exactness == ATTN_EXACT && entry->end_done;
}

/* Gives a part that was not made its reason. What is not asked for has no other. */
static void close_part(struct attn_entry *entry, int part, bool asked, enum attn_why not_asked)
{
    if (!asked)
        entry->missed[part] = (unsigned char)not_asked;
    attn_account_miss(entry, part,
                      !attn_status_holds(entry->verdict.status) ? ATTN_WHY_FAILED
                      : attn_interrupted                        ? ATTN_WHY_INTERRUPTED
                                                                : ATTN_WHY_SLOW);
}

/* A part that is not due was not missed, though there was no time or memory for any. */
static void leave_part(struct attn_entry *entry, int part)
{
    if (entry->missed[part] == ATTN_WHY_BUDGET || entry->missed[part] == ATTN_WHY_MEMORY)
        entry->missed[part] = ATTN_WHY_NONE;
}

/* Is a fill due on a case? Those that judge every row are due where the case was sampled. */
static bool is_due(const struct attn_entry *entry, enum attn_fill fill)
{
    return attn_fill_fits(entry->c, fill, NULL, 0) &&
           attn_fill_is_due(fill, attn_entry_sampled(entry));
}

void attn_account_close(const struct attn_session *session, unsigned fits, struct attn_entry *entry)
{
    const struct attn_settings *s = &session->settings;
    const struct attn_case *c = entry->c;
    if (!is_judged(entry))
        return;
    const bool further = c->fill == ATTN_FILL_NORMAL && !c->data;
    if (!entry->start_done)
        close_part(entry, ATTN_PART_START, true, ATTN_WHY_NONE);
    for (enum attn_fill f = ATTN_FILL_CENSUS; f < ATTN_FILL_COUNT; f++)
        if (further && is_due(entry, f) && !is_made(entry, ATTN_PART_FILLS + (int)f))
            close_part(entry, ATTN_PART_FILLS + (int)f, s->fills >> f & 1, ATTN_WHY_FILLS);
        else
            leave_part(entry, ATTN_PART_FILLS + (int)f);
    for (enum attn_check k = 0; k < ATTN_CHECK_COUNT; k++) {
        const bool choice = k < ATTN_CHECK_CHOICES;
        if ((!choice || (further && fits >> k & 1)) && !is_made(entry, ATTN_PART_CHECKS + (int)k))
            close_part(entry, ATTN_PART_CHECKS + (int)k, !choice || s->checks >> k & 1,
                       ATTN_WHY_CHECKS);
        else
            leave_part(entry, ATTN_PART_CHECKS + (int)k);
    }
}

enum attn_why attn_account_why(const struct attn_entry *entry, int part)
{
    return is_made(entry, part) ? ATTN_WHY_NONE : (enum attn_why)entry->missed[part];
}

void attn_account_count(const struct attn_entry *entry, int *made, int *apply)
{
    *made = *apply = 0;
    if (!is_judged(entry))
        return;
    for (int part = 0; part < ATTN_PART_COUNT; part++) {
        const enum attn_why why = attn_account_why(entry, part);
        *made += is_made(entry, part);
        *apply += is_made(entry, part) || (why != ATTN_WHY_NONE && why != ATTN_WHY_REFUSED);
    }
}

bool attn_account_enough(const struct attn_entry *entry, char *why, size_t size)
{
    int made, apply, left_out = 0, missed[ATTN_WHY_COUNT] = {0};
    enum attn_why most = ATTN_WHY_SLOW;
    attn_account_count(entry, &made, &apply);
    for (int part = 0; part < ATTN_PART_COUNT; part++)
        missed[attn_account_why(entry, part)]++;
    left_out = missed[ATTN_WHY_FILLS] + missed[ATTN_WHY_CHECKS];
    if (2 * made >= apply - left_out)
        return true;
    missed[ATTN_WHY_NONE] = missed[ATTN_WHY_FILLS] = missed[ATTN_WHY_CHECKS] = 0;
    missed[ATTN_WHY_REFUSED] = 0;
    for (int w = 0; w < ATTN_WHY_COUNT; w++)
        most = missed[w] > missed[most] ? (enum attn_why)w : most;
    snprintf(why, size, "only %d of the %d checks that apply were made; %d were not because: %s",
             made, apply - left_out, missed[most], attn_why_text(most));
    return false;
}

/* How many checks were made, on which smaller case, and which were not. */
static void put_checks(json_t *r, const struct attn_entry *entry)
{
    char line[ATTN_CASE_LINE_MAX];
    int made, apply;
    attn_account_count(entry, &made, &apply);
    if (apply == 0)
        return;
    json_object_set_new(r, "checks_made", json_integer(made));
    json_object_set_new(r, "checks_apply", json_integer(apply));
    json_t *missed = json_object(), *refused = json_array();
    for (int part = 0; part < ATTN_PART_COUNT; part++) {
        const enum attn_why why = attn_account_why(entry, part);
        if (why == ATTN_WHY_REFUSED)
            json_array_append_new(refused, json_string(attn_part_name(part)));
        else if (why != ATTN_WHY_NONE)
            json_object_set_new(missed, attn_part_name(part), json_string(attn_why_text(why)));
    }
    json_object_set_new(r, "checks_missed", missed);
    json_object_set_new(r, "checks_refused", refused);
    if (!entry->smaller)
        return;
    attn_case_canonical(entry->smaller, line, sizeof line);
    json_object_set_new(r, "checks_case", json_string(line));
}

/* The mistakes that the verdict would have refused, of those that apply. */
static json_t *power_json(const struct attn_power *power)
{
    json_t *missed = json_array();
    if (!power->measured) {
        json_decref(missed);
        return json_null();
    }
    for (int m = 0; attn_power_name(m); m++)
        if ((power->applies & ~power->refused) >> m & 1)
            json_array_append_new(missed, json_string(attn_power_name(m)));
    return json_pack("{s:i, s:i, s:o}", "refused", attn_power_refused(power), "of",
                     attn_power_of(power), "missed", missed);
}

void attn_account_put(json_t *record, const struct attn_entry *entry)
{
    put_checks(record, entry);
    json_object_set_new(record, "power", power_json(&entry->power));
}
