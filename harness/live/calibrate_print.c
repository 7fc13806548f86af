/* SPDX-License-Identifier: Apache-2.0 */
/* calibrate_print.c - a calibration as lines, and as JSON. */
#include <math.h>

#include "live/calibrate.h"
#include "results/rates.h"
#include "results/record.h"

static double mean_of(double sum, const struct attn_calibration_tally *tally)
{
    return tally->done > 0 ? sum / (double)tally->done : NAN;
}

/* Standard deviation of the pairs. */
static double spread_of(const struct attn_calibration_part *part)
{
    double squares = 0;
    for (size_t i = 0; i < part->n_off; i++)
        squares += part->off[i] * part->off[i];
    return part->n_off > 0 ? sqrt(squares / (double)part->n_off) : NAN;
}

/* ---- lines ---- */

/* What both kinds say at the end: verdicts that are no answer, and the cost. */
static void print_rest(const struct attn_calibration_tally *tally, FILE *out)
{
    if (tally->of[ATTN_PAIRED_UNCLEAR] > 0)
        fprintf(out, ", %zu unclear", tally->of[ATTN_PAIRED_UNCLEAR]);
    if (tally->done > 0)
        fprintf(out, "; %.1f s each", mean_of(tally->seconds, tally));
    if (tally->cut > 0)
        fprintf(out, "; %zu more cut off", tally->cut);
    fprintf(out, "\n");
}

static void print_aa(const struct attn_calibration_tally *tally, FILE *out)
{
    const size_t wrong = attn_calibration_wrong(tally, ATTN_CALIBRATE_AA);
    fprintf(out, "    A/A          %zu of %zu false", wrong, tally->done);
    if (tally->done > 0)
        fprintf(out, " (at most %.0f %% with 95 %% confidence)",
                100 * attn_rate_most(wrong, tally->done));
    print_rest(tally, out);
}

static void print_planted(const struct attn_calibration_tally *tally, FILE *out)
{
    const size_t found = tally->of[ATTN_PAIRED_SLOWER];
    const size_t wrong = attn_calibration_wrong(tally, ATTN_CALIBRATE_PLANTED);
    fprintf(out, "    %.0f %% planted  %zu of %zu found", 100 * ATTN_PLANTED_SHARE, found,
            tally->done);
    if (tally->done > 0)
        fprintf(out, " (at least %.0f %% with 95 %% confidence), measured as %.1f %%",
                100 * attn_rate_least(found, tally->done),
                100 * expm1(mean_of(tally->logs, tally)));
    if (wrong > 0)
        fprintf(out, ", %zu false", wrong);
    print_rest(tally, out);
}

void attn_calibration_print(const struct attn_calibration *calibration, FILE *out)
{
    for (size_t p = 0; p < ATTN_CALIBRATION_PARTS; p++) {
        const struct attn_calibration_part *part = &calibration->parts[p];
        const double resolves = attn_calibration_resolves(calibration, p);
        fprintf(out, "%s: %s\n", part->what, attn_calibration_cases[p]);
        print_aa(&part->kinds[ATTN_CALIBRATE_AA], out);
        print_planted(&part->kinds[ATTN_CALIBRATE_PLANTED], out);
        if (isfinite(resolves))
            fprintf(out,
                    "    resolves     slowdowns from %.1f %% on, at a margin of %g %%: pairs "
                    "spread by %.2f %%\n",
                    100 * (resolves - 1), 100 * calibration->margin, 100 * spread_of(part));
    }
}

/* ---- JSON ---- */

static json_t *tally_json(const struct attn_calibration_tally *tally,
                          enum attn_calibration_kind kind)
{
    json_t *counts = json_object();
    for (int v = ATTN_PAIRED_SAME; v <= ATTN_PAIRED_UNCLEAR; v++)
        json_object_set_new(counts, attn_paired_name((enum attn_paired_verdict)v),
                            json_integer((json_int_t)tally->of[v]));
    const size_t wrong = attn_calibration_wrong(tally, kind);
    return json_pack("{s:I, s:I, s:o, s:I, s:f, s:f, s:o, s:o}", "comparisons",
                     (json_int_t)tally->done, "cut", (json_int_t)tally->cut, "counts", counts,
                     "wrong", (json_int_t)wrong, "wrong_most", attn_rate_most(wrong, tally->done),
                     "found_least", attn_rate_least(tally->of[ATTN_PAIRED_SLOWER], tally->done),
                     "ratio", attn_json_number(exp(mean_of(tally->logs, tally))), "seconds",
                     attn_json_number(mean_of(tally->seconds, tally)));
}

json_t *attn_calibration_json(const struct attn_calibration *calibration)
{
    const struct attn_finding finding = attn_calibration_judge(calibration);
    json_t *parts = json_array();
    for (size_t p = 0; p < ATTN_CALIBRATION_PARTS; p++) {
        const struct attn_calibration_part *part = &calibration->parts[p];
        json_array_append_new(
            parts,
            json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:I}", "what", part->what, "case",
                      attn_calibration_cases[p], "aa",
                      tally_json(&part->kinds[ATTN_CALIBRATE_AA], ATTN_CALIBRATE_AA), "planted",
                      tally_json(&part->kinds[ATTN_CALIBRATE_PLANTED], ATTN_CALIBRATE_PLANTED),
                      "resolves", attn_json_number(attn_calibration_resolves(calibration, p)),
                      "spread", attn_json_number(spread_of(part)), "pairs",
                      (json_int_t)part->n_off));
    }
    return json_pack("{s:f, s:f, s:f, s:o, s:s, s:s, s:s}", "margin", calibration->margin,
                     "planted", ATTN_PLANTED_SHARE, "seconds", calibration->seconds, "cases", parts,
                     "level", attn_level_name(finding.level), "text", finding.text, "hint",
                     finding.hint);
}
