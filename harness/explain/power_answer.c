/* SPDX-License-Identifier: Apache-2.0 */
/* power_answer.c - the answer of a unit by a kernel with one mistake, from scores and values. */
#include <math.h>
#include <string.h>

#include "explain/mistakes.h"
#include "explain/power_trials.h"
#include "reference/philox.h"

/* Rows whose queries are this far apart are in other tiles. */
enum { TILE = 64 };

/* ---- which keys ---- */

/* The keys of a line, and where a boolean mask and a window with global tokens or steps pick among
 * them. */
struct sight {
    int64_t begin, end;
    const uint8_t *mask; /* NULL: every key between them */
    int64_t step;
    bool turned;
    bool sparse; /* the window is that of near_*, and a key may be seen as a global one */
    int64_t near_begin, near_end, near_of, near_step; /* keys near_of + n near_step within it */
    bool all;                                         /* the query is global */
    const uint8_t *global;                            /* NULL: no token is */
    int64_t global_step, global_by, tokens;
};

static int64_t clamp(int64_t value, int64_t most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

static int64_t valid_keys(const struct attn_power_trials *t, int64_t b, int64_t i,
                          const struct attn_wrong *wrong)
{
    const struct attn_tensor *len = t->operands.by_role[ATTN_LEN];
    if (!len || wrong->no_len)
        return t->problem->sk;
    return clamp((int64_t)ref_load(len, (const int64_t[]){b, i}) + wrong->len_by, t->problem->sk);
}

static int64_t offset_of(const struct attn_power_trials *t, int64_t b,
                         const struct attn_wrong *wrong)
{
    const struct attn_problem *p = t->problem;
    const bool br = p->flags & ATTN_FLAG_OFF_BR;
    if (br != wrong->other_side)
        return valid_keys(t, b, 0, wrong) - p->sq;
    return br ? 0 : p->off;
}

/* A window with global tokens or in steps; `sight` is without it. */
static void look_sparsely(const struct attn_power_trials *t, const struct attn_power_line *line,
                          const struct attn_wrong *wrong, struct sight *sight)
{
    const struct attn_problem *p = t->problem;
    const struct attn_tensor *global = t->operands.by_role[ATTN_GLOBAL];
    const struct attn_tensor *dilation = t->operands.by_role[ATTN_DILATION];
    const bool stepped = dilation && !wrong->no_dilation;
    const int64_t step = stepped ? (int64_t)ref_load(dilation, &line->h) : 1;
    const int64_t of = line->i + offset_of(t, line->b, wrong);
    sight->sparse = global || dilation;
    sight->near_of = of;
    sight->near_step = step;
    sight->near_end = p->sk;
    if (p->window_left >= 0)
        sight->near_begin = of - (p->window_left + wrong->left_by) * step;
    if (p->window_right >= 0)
        sight->near_end = of + (p->window_right + wrong->right_by) * step + 1;
    sight->all = !wrong->no_global_rows && ref_is_global(&t->operands, line->b, line->i);
    if (!global || wrong->no_global_keys)
        return;
    sight->global = (const uint8_t *)global->data + line->b * global->stride[0];
    sight->global_step = global->stride[1];
    sight->global_by = wrong->global_by;
    sight->tokens = p->sk;
}

static struct sight look(const struct attn_power_trials *t, const struct attn_power_line *line,
                         const struct attn_wrong *wrong)
{
    const struct attn_problem *p = t->problem;
    const struct attn_tensor *mask = t->operands.by_role[ATTN_MASK];
    const int64_t diagonal = line->i + offset_of(t, line->b, wrong);
    struct sight sight = {.end = valid_keys(t, line->b, line->i, wrong)};
    if (p->flags & ATTN_FLAG_CAUSAL && !wrong->no_causal)
        sight.end = clamp(diagonal + wrong->causal_by + 1, sight.end);
    const bool windowed = p->flags & ATTN_FLAG_WINDOW && !wrong->no_window;
    if (windowed && (t->operands.by_role[ATTN_GLOBAL] || t->operands.by_role[ATTN_DILATION])) {
        look_sparsely(t, line, wrong, &sight);
    } else if (windowed) {
        if (p->window_left >= 0)
            sight.begin = clamp(diagonal - p->window_left - wrong->left_by, p->sk);
        if (p->window_right >= 0)
            sight.end = clamp(diagonal + p->window_right + wrong->right_by + 1, sight.end);
    }
    if (mask && !wrong->no_mask)
        sight.mask = ref_mask_row(mask, line->b, line->h, line->i, &sight.step);
    sight.turned = wrong->mask_turned;
    return sight;
}

static bool is_near(const struct sight *s, int64_t j)
{
    return j >= s->near_begin && j < s->near_end && (s->near_of - j) % s->near_step == 0;
}

static bool is_global_key(const struct sight *s, int64_t j)
{
    return s->global && s->global[(j + s->global_by) % s->tokens * s->global_step];
}

/* A key of the window that is global, seen by a query that is not. */
static bool is_both(const struct sight *s, int64_t j)
{
    return s->sparse && !s->all && is_near(s, j) && is_global_key(s, j);
}

static bool sees(const struct sight *sight, int64_t j)
{
    if (sight->sparse && !sight->all && !is_near(sight, j) && !is_global_key(sight, j))
        return false;
    return !sight->mask || (sight->mask[j * sight->step] != 0) != sight->turned;
}

/* ---- scores ---- */

static double capped(const struct attn_problem *p, double score, int cap)
{
    const double c = p->softcap;
    if (!(p->flags & ATTN_FLAG_SOFTCAP) || cap == ATTN_CAP_NONE)
        return score;
    if (cap == ATTN_CAP_FIRST)
        return p->scale * c * tanh(score / p->scale / c);
    return c * tanh(score / c);
}

/* The score of a key, built anew from the stage where the mistake is made. */
static double rebuilt(const struct attn_power_trials *t, const struct attn_power_line *line,
                      const struct attn_wrong *wrong, int64_t j)
{
    const struct attn_problem *p = t->problem;
    const struct attn_tensor *bias = t->operands.by_role[ATTN_BIAS];
    const struct attn_tensor *alibi = t->operands.by_role[ATTN_ALIBI];
    const bool early = wrong->scale_less != 0 || wrong->cap != ATTN_CAP_RIGHT;
    double s = early ? capped(p, line->score[0][j] * (1 - wrong->scale_less), wrong->cap)
                     : line->score[1][j];
    if (bias && wrong->bias_less != 1) {
        const int64_t h = (line->h + wrong->bias_head) % p->hq;
        s += (1 - wrong->bias_less) * ref_load(bias, (const int64_t[]){line->b, h, line->i, j});
    }
    if (alibi && wrong->alibi_less != 1) {
        const double distance = (double)(line->i + ref_offset(&t->operands, line->b) - j);
        s -= (1 - wrong->alibi_less) * ref_load(alibi, &line->h) * fabs(distance);
    }
    return s;
}

static bool is_rebuilt(const struct attn_wrong *w)
{
    return w->scale_less != 0 || w->cap != ATTN_CAP_RIGHT || w->bias_less != 0 ||
           w->alibi_less != 0 || w->bias_head != 0;
}

/* ---- the softmax ---- */

static double kept(const struct attn_power_trials *t, const struct attn_power_line *line, int64_t j,
                   int keep)
{
    const struct attn_problem *p = t->problem;
    const struct attn_tensor *given = t->operands.by_role[ATTN_KEEP];
    if (!(p->flags & ATTN_FLAG_DROPOUT))
        return 1;
    const double factor = keep == ATTN_KEEP_UNSCALED ? 1 : 1 / (1 - p->dropout_p);
    const int64_t at = keep == ATTN_KEEP_NEXT ? (j + 1) % p->sk : j;
    const uint64_t index = (uint64_t)(((line->b * p->hq + line->h) * p->sq + line->i) * p->sk + at);
    if (keep == ATTN_KEEP_ALL)
        return factor;
    const bool is_kept =
        given ? ref_load(given, (const int64_t[]){line->b, line->h, line->i, at}) != 0.0
              : attn_dropout_keep(p->dropout_seed, index, p->dropout_p);
    return is_kept ? factor : 0;
}

static double sink_of(const struct attn_power_trials *t, int64_t h, const struct attn_wrong *wrong)
{
    const struct attn_tensor *sink = t->operands.by_role[ATTN_SINK];
    return sink && wrong->sink_less != 1 ? ref_load(sink, &h) + log(1 - wrong->sink_less)
                                         : -INFINITY;
}

/* Takes one key out of a line. Not of a short line, where losing one cannot be missed. */
static int64_t drop_key(const struct attn_power_trials *t, int64_t n, int drop)
{
    const int64_t gone = drop == ATTN_DROP_FIRST ? 0 : drop == ATTN_DROP_MIDDLE ? n / 2 : n - 1;
    memmove(t->key + gone, t->key + gone + 1, (size_t)(n - 1 - gone) * sizeof *t->key);
    memmove(t->weight + gone, t->weight + gone + 1, (size_t)(n - 1 - gone) * sizeof *t->weight);
    return n - 1;
}

/* Collects keys and scores of a line in t->key and t->weight. Returns their number. */
static int64_t collect(const struct attn_power_trials *t, const struct attn_power_line *line,
                       const double *other, const struct attn_wrong *wrong)
{
    const struct sight sight = look(t, line, wrong);
    const double *scores = other ? other : line->score[2];
    const bool built = !other && is_rebuilt(wrong);
    int64_t n = 0;
    for (int64_t j = sight.begin; j < sight.end; j++) {
        if (!sees(&sight, j))
            continue;
        double s = built ? rebuilt(t, line, wrong, j) : scores[j];
        if (wrong->global_twice && is_both(&sight, j))
            s += attn_ln2;
        t->key[n] = j;
        t->weight[n] = wrong->uniform && s != -INFINITY ? 0 : s;
        n += s != -INFINITY;
    }
    return n;
}

/* Scores become weights. Returns the lse. */
static double normalise(double *weight, int64_t n, double sink)
{
    double most = sink, sum = 0;
    for (int64_t k = 0; k < n; k++)
        most = weight[k] > most ? weight[k] : most;
    for (int64_t k = 0; k < n; k++) {
        weight[k] = exp(weight[k] - most);
        sum += weight[k];
    }
    if (sink != -INFINITY)
        sum += exp(sink - most);
    for (int64_t k = 0; k < n; k++)
        weight[k] /= sum;
    return most + log(sum);
}

/* One line: its part of out in head [value columns], and its lse. */
static bool answer_line(struct attn_power_trials *t, const struct attn_power_line *line,
                        const struct attn_wrong *wrong, double *head, double *lse)
{
    const struct attn_problem *p = t->problem;
    const struct attn_tensor *b_v = t->operands.by_role[ATTN_B_V];
    int64_t g = line->h / (p->hq / p->hkv);
    const double *other =
        wrong->scores != ATTN_SCORES_RIGHT ? attn_power_other(t, line, wrong->scores, &g) : NULL;
    const double *values = attn_power_values(t, line->b, g, line->i);
    if (!values || (wrong->scores != ATTN_SCORES_RIGHT && !other))
        return false;
    memset(head, 0, (size_t)t->n_value_columns * sizeof *head);
    int64_t n = collect(t, line, other, wrong);
    if (!t->usable) /* the right answers come first */
        t->most_keys = n > t->most_keys ? n : t->most_keys;
    if (wrong->drop != ATTN_DROP_NONE && 2 * n > t->most_keys)
        n = drop_key(t, n, wrong->drop);
    const double sink = sink_of(t, line->h, wrong);
    *lse = -INFINITY;
    if (n == 0 && sink == -INFINITY)
        return true;
    *lse = normalise(t->weight, n, sink);
    double sum = 0;
    for (int64_t k = 0; k < n; k++) {
        const double w = t->weight[k] * kept(t, line, t->key[k], wrong->keep);
        const double *v = values + (t->key[k] + wrong->value_by) % p->sk * t->n_value_columns;
        if (w == 0)
            continue;
        sum += w;
        for (int64_t c = 0; c < t->n_value_columns; c++)
            head[c] += w * v[c];
    }
    for (int64_t c = 0; c < t->n_value_columns && b_v && wrong->b_v_more != 0; c++)
        head[c] += wrong->b_v_more * sum * ref_load(b_v, (const int64_t[]){g * p->dv + c});
    return true;
}

/* ---- units ---- */

static const struct attn_power_line *find_line(const struct attn_power_trials *t, int64_t b,
                                               int64_t h, int64_t i)
{
    for (int64_t n = 0; n < t->n_lines; n++)
        if (t->lines[n].b == b && t->lines[n].h == h && t->lines[n].i == i)
            return &t->lines[n];
    return NULL;
}

/* The line whose answer is found in the place of `line`. NULL: it is not among the lines. */
static const struct attn_power_line *source_of(const struct attn_power_trials *t,
                                               const struct attn_power_line *line, int of)
{
    const int64_t heads = t->problem->hq;
    switch (of) {
    case ATTN_OF_HEADS_REVERSED:
        return find_line(t, line->b, heads - 1 - line->h, line->i);
    case ATTN_OF_HEAD_NEIGHBOUR:
        return find_line(t, line->b, (line->h ^ 1) < heads ? line->h ^ 1 : line->h, line->i);
    case ATTN_OF_NEXT_ROW:
        return find_line(t, line->b, line->h, line->i + 1);
    case ATTN_OF_OTHER_TILE:
        return find_line(t, line->b, line->h, line->i ^ TILE);
    default:
        return line;
    }
}

/* The heads of a unit side by side, without the pruned ones. */
static void concatenate(const struct attn_power_trials *t, const struct attn_power_line *line,
                        const struct attn_wrong *wrong, double *all)
{
    const struct attn_problem *p = t->problem;
    const struct attn_tensor *head_mask = t->operands.by_role[ATTN_HEAD_MASK];
    const int64_t width = p->hq * p->dv;
    for (int64_t h = 0; head_mask && !wrong->head_pruned_counts && h < p->hq; h++)
        if (ref_load(head_mask, &h) == 0.0)
            memset(all + h * p->dv, 0, (size_t)p->dv * sizeof *all);
    if (wrong->concat_by_one) {
        const double first = all[0];
        memmove(all, all + 1, (size_t)(width - 1) * sizeof *all);
        all[width - 1] = first;
    }
    for (int64_t c = 0; wrong->residual_first && c < width; c++)
        all[c] += ref_load(t->operands.by_role[ATTN_X_Q], (const int64_t[]){line->b, line->i, c});
}

/* W_o, its bias and the residual. */
static double projected(const struct attn_power_trials *t, const struct attn_power_line *line,
                        const struct attn_wrong *wrong, const double *all, int64_t n)
{
    const struct attn_tensor *w_o = t->operands.by_role[ATTN_W_O];
    const struct attn_tensor *b_o = t->operands.by_role[ATTN_B_O];
    const int64_t width = t->problem->hq * t->problem->dv, c = t->column[n];
    double out = w_o ? 0 : all[c];
    for (int64_t j = 0; w_o && j < width; j++)
        out += all[j] * (wrong->w_o_transposed ? ref_load(w_o, (const int64_t[]){j, c})
                                               : t->w_o[n * width + j]);
    if (w_o && b_o)
        out += (1 + wrong->b_o_more) * ref_load(b_o, &c);
    if (t->problem->flags & ATTN_FLAG_RESIDUAL && !wrong->residual_first)
        out += (1 + wrong->residual_more) *
               ref_load(t->operands.by_role[ATTN_X_Q], (const int64_t[]){line->b, line->i, c});
    return out;
}

bool attn_power_answer(struct attn_power_trials *t, const struct attn_power_unit *unit,
                       const struct attn_wrong *wrong, double *out, double *lse)
{
    const struct attn_power_line *lines = t->lines + unit->line;
    for (int64_t n = 0; n < t->lines_of_unit; n++) {
        const struct attn_power_line *source = source_of(t, &lines[n], wrong->of);
        if (!source || !answer_line(t, source, wrong, t->head + n * t->n_value_columns, &lse[n]))
            return false;
        lse[n] *= 1 - wrong->lse_less;
    }
    if (t->projected)
        concatenate(t, lines, wrong, t->head);
    for (int64_t c = 0; c < t->n_columns; c++)
        out[c] = (1 - wrong->out_less) *
                 (t->projected ? projected(t, lines, wrong, t->head, c) : t->head[c]);
    return true;
}
