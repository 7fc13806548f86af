/* SPDX-License-Identifier: Apache-2.0 */
/* calibrate.c - comparisons with known answers, in turn, until the time is used up. */
#include "live/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results/rates.h"

const char *const attn_calibration_cases[ATTN_CALIBRATION_PARTS] = {
    [ATTN_CALIBRATION_COMPUTE] = "h=20 s=128 d=64",
    [ATTN_CALIBRATION_DECODE] = "h=20 sq=1 sk=2048 d=64",
};

/* Keeps how far the pairs of a series are from their mean. One of n values pulls the mean along:
 * the factor makes up for it. */
static int keep_deviations(struct attn_calibration_part *part, const double *ratios, size_t n)
{
    if (n < ATTN_PAIRS_LEAST)
        return 0;
    double *grown = realloc(part->off, (part->n_off + n) * sizeof *grown), mean = 0;
    if (!grown)
        return -1;
    part->off = grown;
    for (size_t i = 0; i < n; i++)
        mean += ratios[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        part->off[part->n_off++] = (ratios[i] - mean) * sqrt((double)n / (double)(n - 1));
    return 0;
}

int attn_calibration_enter(struct attn_calibration *calibration, size_t part,
                           enum attn_calibration_kind kind, const struct attn_paired *paired,
                           double seconds)
{
    struct attn_calibration_tally *tally = &calibration->parts[part].kinds[kind];
    tally->done++;
    tally->of[paired->verdict]++;
    tally->seconds += seconds;
    tally->logs += attn_paired_result(paired).estimate;
    for (int s = 0; s < 2; s++)
        if (keep_deviations(&calibration->parts[part], paired->ratios[s], paired->n[s]))
            return -1;
    return 0;
}

/* Compares once. *refused: the case cannot be compared. */
static int compare_once(struct attn_session *session, const struct attn_live_options *options,
                        size_t part, enum attn_calibration_kind kind,
                        struct attn_live_result *result, struct attn_calibration *calibration,
                        char *why, size_t size)
{
    struct attn_calibration_tally *tally = &calibration->parts[part].kinds[kind];
    const double began = attn_now();
    if (attn_live_compare(session, &session->cases.items[part], options, result, why, size))
        return -1;
    tally->longest = fmax(tally->longest, attn_now() - began);
    if (attn_interrupted)
        return 0;
    if (result->out_of_time || (!result->compared && attn_session_over(session))) {
        tally->cut++;
    } else if (!result->compared) {
        memcpy(calibration->refused, result->reason, sizeof calibration->refused);
    } else if (attn_calibration_enter(calibration, part, kind, &result->paired, result->seconds)) {
        snprintf(why, size, "no memory for the pairs of a calibration");
        return -1;
    }
    return 0;
}

/* Is there time for one more? The first of each kind is always begun. */
static bool fits(const struct attn_calibration_tally *tally, double left)
{
    return left > 0 && tally->cut == 0 && tally->longest <= left;
}

int attn_calibrate(struct attn_session sessions[ATTN_CALIBRATE_KINDS],
                   const struct attn_live_options *options, double seconds,
                   struct attn_calibration *calibration, char *why, size_t size)
{
    enum { KINDS = ATTN_CALIBRATE_KINDS, ALL = ATTN_CALIBRATION_PARTS * KINDS };
    struct attn_live_result *result = malloc(sizeof *result);
    const double began = attn_now();
    int status = result ? 0 : -1;
    *calibration = (struct attn_calibration){
        .margin = options->margin, .parts = {{.what = "compute-bound"}, {.what = "decode"}}};
    if (status)
        snprintf(why, size, "no memory for a comparison");
    for (int k = 0; k < KINDS; k++) {
        sessions[k].began = began;
        sessions[k].settings.budget_s = seconds;
    }
    int without = 0; /* how many in a row there was no time for */
    for (size_t turn = 0; status == 0 && without < ALL; turn = (turn + 1) % ALL) {
        const size_t part = turn / KINDS;
        const enum attn_calibration_kind kind = turn % KINDS;
        const double left = seconds - (attn_now() - began);
        if (attn_interrupted || *calibration->refused)
            break;
        without++;
        if (!fits(&calibration->parts[part].kinds[kind], left))
            continue;
        without = 0;
        status = compare_once(&sessions[kind], options, part, kind, result, calibration, why, size);
    }
    calibration->seconds = attn_now() - began;
    free(result);
    return status;
}

void attn_calibration_free(struct attn_calibration *calibration)
{
    for (size_t p = 0; p < ATTN_CALIBRATION_PARTS; p++) {
        free(calibration->parts[p].off);
        calibration->parts[p].off = NULL;
    }
}

size_t attn_calibration_wrong(const struct attn_calibration_tally *tally,
                              enum attn_calibration_kind kind)
{
    return tally->of[ATTN_PAIRED_FASTER] +
           tally->of[kind == ATTN_CALIBRATE_AA ? ATTN_PAIRED_SLOWER : ATTN_PAIRED_SAME];
}

double attn_calibration_resolves(const struct attn_calibration *calibration, size_t part)
{
    const struct attn_calibration_part *p = &calibration->parts[part];
    return exp(attn_paired_resolves(p->off, p->n_off, log1p(calibration->margin)));
}

struct attn_finding attn_calibration_judge(const struct attn_calibration *calibration)
{
    struct attn_finding finding = {.level = ATTN_LEVEL_FAIL, .what = "calibration"};
    const struct attn_calibration_tally *compute =
        calibration->parts[ATTN_CALIBRATION_COMPUTE].kinds;
    const struct attn_calibration_tally *planted = &compute[ATTN_CALIBRATE_PLANTED];
    size_t done = 0, wrong = 0;
    for (size_t p = 0; p < ATTN_CALIBRATION_PARTS; p++)
        for (int k = 0; k < ATTN_CALIBRATE_KINDS; k++) {
            done += calibration->parts[p].kinds[k].done;
            wrong += attn_calibration_wrong(&calibration->parts[p].kinds[k],
                                            (enum attn_calibration_kind)k);
        }
    const size_t found = planted->of[ATTN_PAIRED_SLOWER];
    if (compute[ATTN_CALIBRATE_AA].done == 0 || planted->done == 0) {
        snprintf(finding.text, sizeof finding.text, "too few comparisons in %.0f s",
                 calibration->seconds);
        snprintf(finding.hint, sizeof finding.hint, "give --time more, or end other programs");
    } else if (attn_binomial_at_least(wrong, done, ATTN_CALIBRATION_WRONG) <
               ATTN_CALIBRATION_DOUBT) {
        snprintf(finding.text, sizeof finding.text,
                 "%zu of %zu verdicts are wrong, promised is %.0f %%", wrong, done,
                 100 * ATTN_CALIBRATION_WRONG);
        snprintf(finding.hint, sizeof finding.hint,
                 "do not trust compare --live here now: end other programs, mend what the lines "
                 "above warn of, and calibrate again");
    } else if (attn_binomial_at_most(found, planted->done, ATTN_CALIBRATION_FOUND) <
               ATTN_CALIBRATION_DOUBT) {
        snprintf(finding.text, sizeof finding.text,
                 "%zu of %zu planted slowdowns were found when compute-bound, promised is %.0f %%",
                 found, planted->done, 100 * ATTN_CALIBRATION_FOUND);
        snprintf(finding.hint, sizeof finding.hint,
                 "end other programs or give compare --live a longer --pair-time; until then it "
                 "ends in 'unclear' below the size that each case resolves");
    } else {
        finding.level = ATTN_LEVEL_OK;
        snprintf(finding.text, sizeof finding.text, "verdicts of compare --live are as promised");
    }
    return finding;
}
