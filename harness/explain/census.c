/* SPDX-License-Identifier: Apache-2.0 */
/* census.c - finds out which keys a row has read.
 *
 * With k = 0 all n allowed keys weigh 1/n, and v of key j is a pattern of signs s_j over the
 * columns. So out * n is, column by column, a whole number S = sum of s_j, whatever the rounding of
 * a correct kernel; one key more or less changes every column. All rows are counted at any length:
 * S is made of differences of prefix sums over the keys, or, where a boolean mask picks keys, a
 * count of bits. What was read is decoded by trying hypotheses on the whole row: with d columns a
 * wrong one agrees by chance once in 2^d. */
#include "explain/census.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference/clones.h"
#include "reference/dtype.h"
#include "reference/operands.h"
#include "tensor/inner.h"

/* With fewer columns a decoded key is only a guess. With fewer keys two guesses agree: none of one
 * key, and a pair that cancels. */
enum { LEAST_COLUMNS = 8, LEAST_KEYS = 4 };
/* Lost tiles are looked for with 2, 4, ... keys, at their multiples, up to this size. */
enum { LARGEST_TILE = 512 };

struct row_count {
    const struct attn_probe *probe;
    struct attn_probe_row at;
    const double *got;           /* [Dv] */
    double *sum;                 /* [Dv] of the allowed keys */
    double *trial;               /* [Dv] */
    const struct attn_tensor *v; /* the row's own: v or v_global */
};

static void add_key(const struct row_count *row, double *sum, int64_t b, int64_t g, int64_t j,
                    double times)
{
    for (int64_t c = 0; c < row->probe->instance->problem.dv; c++)
        sum[c] += times * attn_probe_element(row->v, b, g, j, c);
}

static bool allowed(const struct row_count *row, int64_t j)
{
    return ref_allowed(&row->probe->instance->problem, row->at.b, row->at.h, row->at.i, j);
}

/* Does out match `count` keys with this sum? */
static bool agrees(const struct row_count *row, const double *sum, int64_t count)
{
    const struct attn_problem *p = &row->probe->instance->problem;
    for (int64_t c = 0; c < p->dv; c++) {
        const double want = count ? sum[c] / (double)count : 0;
        const double room =
            0.02 / (double)(count + 1) + attn_dtype_ulp(p->dtype, fabs(want) + row->probe->beside);
        if (!(fabs(row->got[c] - want) <= room))
            return false;
    }
    return true;
}

/* One key more or less. */
static bool one_key(const struct row_count *row, int64_t j)
{
    const int64_t dv = row->probe->instance->problem.dv;
    const double times = allowed(row, j) ? -1 : 1;
    for (int64_t c = 0; c < dv; c++)
        row->trial[c] = row->sum[c];
    add_key(row, row->trial, row->at.b, row->at.g, j, times);
    return agrees(row, row->trial, row->at.n + (int64_t)times);
}

/* The key from which on, or up to which, all keys are missing; -1: there is none. */
static int64_t lost_end(const struct row_count *row, bool tail)
{
    const struct attn_problem *p = &row->probe->instance->problem;
    int64_t count = row->at.n;
    for (int64_t c = 0; c < p->dv; c++)
        row->trial[c] = row->sum[c];
    for (int64_t n = 0; n < p->sk && count > 1; n++) {
        const int64_t j = tail ? p->sk - 1 - n : n;
        if (!allowed(row, j))
            continue;
        add_key(row, row->trial, row->at.b, row->at.g, j, -1);
        if (agrees(row, row->trial, --count))
            return j;
    }
    return -1;
}

/* The head whose same keys were read instead: its number over batches and heads, or -1. */
static int64_t other_head(const struct row_count *row)
{
    const struct attn_problem *p = &row->probe->instance->problem;
    for (int64_t head = 0; head < p->b * p->hkv; head++) {
        const int64_t b = head / p->hkv, g = head % p->hkv;
        if (b == row->at.b && g == row->at.g)
            continue;
        for (int64_t c = 0; c < p->dv; c++)
            row->trial[c] = 0;
        for (int64_t j = 0; j < p->sk; j++)
            if (allowed(row, j))
                add_key(row, row->trial, b, g, j, 1);
        if (agrees(row, row->trial, row->at.n))
            return head;
    }
    return -1;
}

/* Were all keys read, whatever the mask says? */
static bool every_key(const struct row_count *row)
{
    const struct attn_problem *p = &row->probe->instance->problem;
    for (int64_t c = 0; c < p->dv; c++)
        row->trial[c] = 0;
    for (int64_t j = 0; j < p->sk; j++)
        add_key(row, row->trial, row->at.b, row->at.g, j, 1);
    return agrees(row, row->trial, p->sk);
}

/* The first key from `from` on that may be too many or too few, or -1. */
static int64_t odd_key(const struct row_count *row, int64_t from)
{
    for (int64_t j = from; j < row->probe->instance->problem.sk; j++)
        if (one_key(row, j))
            return j;
    return -1;
}

/* The keys of a row in [begin, end), taken off the sum of the row; returns how many there are. */
static int64_t take_off(const struct row_count *row, int64_t begin, int64_t end)
{
    int64_t taken = 0;
    for (int64_t j = begin; j < end; j++)
        if (allowed(row, j)) {
            add_key(row, row->trial, row->at.b, row->at.g, j, -1);
            taken++;
        }
    return taken;
}

/* A tile is missing: its first key, and its size in *tile; -1: none that fits, or several. Tiles of
 * which one half has no keys are left out: a smaller tile is the same. */
static int64_t lost_tile(const struct row_count *row, int64_t *tile)
{
    const struct attn_problem *p = &row->probe->instance->problem;
    int64_t found = -1;
    for (int64_t size = 2; size <= LARGEST_TILE && size < p->sk; size *= 2)
        for (int64_t j = 0; j < p->sk; j += size) {
            const int64_t middle = j + size / 2, end = j + size < p->sk ? j + size : p->sk;
            for (int64_t c = 0; c < p->dv; c++)
                row->trial[c] = row->sum[c];
            const int64_t first = take_off(row, j, middle), second = take_off(row, middle, end);
            if (first == 0 || second == 0 || first + second == row->at.n ||
                !agrees(row, row->trial, row->at.n - first - second))
                continue;
            if (found >= 0)
                return -1;
            found = j;
            *tile = size;
        }
    return found;
}

/* Tries the most likely first, because several may fit. */
static void decode(const struct row_count *row, char *text, size_t size)
{
    const struct attn_problem *p = &row->probe->instance->problem;
    const long long own = (long long)row->at.n;
    int64_t found, tile = 0;
    if (own < p->sk && every_key(row))
        snprintf(text, size, "reads all %lld keys instead of its %lld", (long long)p->sk, own);
    else if ((found = odd_key(row, 0)) >= 0)
        snprintf(text, size, "%s key %lld%s%s", allowed(row, found) ? "misses" : "reads",
                 (long long)found, allowed(row, found) ? "" : ", which it must not see",
                 odd_key(row, found + 1) >= 0 ? " (or another with the same v)" : "");
    else if ((found = lost_end(row, true)) >= 0)
        snprintf(text, size, "misses its keys from %lld on", (long long)found);
    else if ((found = lost_end(row, false)) >= 0)
        snprintf(text, size, "misses its keys up to %lld", (long long)found);
    else if ((found = lost_tile(row, &tile)) >= 0)
        snprintf(text, size, "misses its keys from %lld to %lld", (long long)found,
                 (long long)(found + tile < p->sk ? found + tile : p->sk) - 1);
    else if ((found = other_head(row)) >= 0)
        snprintf(text, size, "reads batch %lld, head %lld of v instead of batch %lld, head %lld",
                 (long long)(found / p->hkv), (long long)(found % p->hkv), (long long)row->at.b,
                 (long long)row->at.g);
    else
        snprintf(text, size, "does not give each of its %lld keys the same weight", own);
}

bool attn_census_counts(uint32_t dtype, double got, double sum, int64_t n, double beside)
{
    if (n == 0)
        return true; /* by the rule that the plan declares, which the bound has judged */
    const double rounding = attn_dtype_ulp(dtype, fabs(sum) / (double)n + beside) * (double)n;
    return rounding > 0.5 || fabs(got * (double)n - sum) < 0.5;
}

/* The rows counted so far, and the sentence about the wrong row with the clearest evidence. */
struct tally {
    const struct attn_probe *probe;
    double *sum, *trial; /* [Dv] */
    int64_t wrong;
    int told; /* how clear the evidence of the row in the sentence is */
    char *text;
    size_t size;
};

/* Compares a row of out with the sum of its keys of `v` in t->sum. */
static void count_row(struct tally *t, struct attn_probe_row at, const struct attn_tensor *v)
{
    const struct attn_problem *p = &t->probe->instance->problem;
    const struct row_count row = {.probe = t->probe,
                                  .at = at,
                                  .got = t->probe->row,
                                  .sum = t->sum,
                                  .trial = t->trial,
                                  .v = v};
    bool right = true, nothing = true;
    for (int64_t c = 0; c < p->dv; c++) {
        t->probe->row[c] = attn_probe_element(t->probe->out, at.b, at.h, at.i, c);
        right = right &&
                attn_census_counts(p->dtype, t->probe->row[c], t->sum[c], at.n, t->probe->beside);
        nothing = nothing && t->probe->row[c] == 0;
    }
    /* A sum of 0 does not tell how many keys were read. */
    const int clear = 2 * !nothing + (at.n >= LEAST_KEYS);
    t->wrong += !right;
    if (right || clear <= t->told)
        return;
    t->told = clear;
    char what[160] = "does not read the right keys";
    if (p->dv >= LEAST_COLUMNS)
        decode(&row, what, sizeof what);
    snprintf(t->text, t->size, "census: b%lld h%lld query %lld %s", (long long)at.b,
             (long long)at.h, (long long)at.i, what);
}

/* Words that hold one bit per key. */
static int64_t words_of(const struct attn_problem *p)
{
    return (p->sk + 63) / 64;
}

/* One of v and v_global, and what helps to add up its signs for one head: without a boolean mask
 * `before`, else `plus`. */
struct values {
    const struct attn_tensor *v; /* NULL: it is not there */
    int32_t *before;             /* [Sk+1, Dv] sum over the keys before j */
    uint64_t *plus;              /* [Dv, words] one bit per key, set if the sign is + */
};

/* The signs are whole numbers. */
static void sum_before(const struct attn_probe *probe, const struct values *x, int64_t b, int64_t g)
{
    const struct attn_problem *p = &probe->instance->problem;
    for (int64_t j = 0; j < p->sk; j++)
        for (int64_t c = 0; c < p->dv; c++)
            x->before[(j + 1) * p->dv + c] =
                x->before[j * p->dv + c] + (int32_t)attn_probe_element(x->v, b, g, j, c);
}

/* Adds the keys of a run to t->sum. */
static void sum_run(const struct tally *t, const struct values *x, const struct ref_run *run)
{
    const int64_t dv = t->probe->instance->problem.dv;
    if (run->step == 1) {
        for (int64_t c = 0; c < dv; c++)
            t->sum[c] += x->before[run->end * dv + c] - x->before[run->begin * dv + c];
        return;
    }
    for (int64_t j = run->begin; j < run->end; j += run->step)
        for (int64_t c = 0; c < dv; c++)
            t->sum[c] += x->before[(j + 1) * dv + c] - x->before[j * dv + c];
}

static void mark_plus(const struct attn_probe *probe, const struct values *x, int64_t b, int64_t g)
{
    const struct attn_problem *p = &probe->instance->problem;
    const int64_t words = words_of(p);
    memset(x->plus, 0, (size_t)(p->dv * words) * sizeof *x->plus);
    for (int64_t j = 0; j < p->sk; j++)
        for (int64_t c = 0; c < p->dv; c++)
            if (attn_probe_element(x->v, b, g, j, c) > 0)
                x->plus[c * words + j / 64] |= 1ull << j % 64;
}

/* With a mask: a run's keys as bits. Returns how many there are. */
static int64_t mark_keys(const struct attn_tensor *mask, struct attn_probe_row at,
                         const struct ref_run *run, uint64_t *keys)
{
    const uint8_t *row = (const uint8_t *)mask->data + at.b * mask->stride[0] +
                         at.h * mask->stride[1] + at.i * mask->stride[2];
    int64_t count = 0;
    for (int64_t j = run->begin; j < run->end; j += run->step) {
        const uint64_t seen = row[j * mask->stride[3]] != 0;
        keys[j / 64] |= seen << j % 64;
        count += (int64_t)seen;
    }
    return count;
}

ATTN_CLONES("popcnt")
static void sum_marked(double *sum, const uint64_t *plus, const uint64_t *keys, int64_t columns,
                       int64_t words, int64_t count)
{
    for (int64_t c = 0; c < columns; c++) {
        int64_t with_plus = 0;
        for (int64_t w = 0; w < words; w++)
            with_plus += __builtin_popcountll(plus[c * words + w] & keys[w]);
        sum[c] = (double)(2 * with_plus - count);
    }
}

/* The sum of the keys of a row, in t->sum. Returns how many there are. `keys`: room for a row. */
static int64_t sum_row(const struct tally *t, const struct values *x,
                       const struct ref_operands *operands, struct attn_probe_row at,
                       uint64_t *keys)
{
    const struct attn_problem *p = operands->problem;
    const struct attn_tensor *mask = operands->by_role[ATTN_MASK];
    struct ref_sight sight;
    struct ref_run run;
    int64_t count = 0;
    ref_sight_of(operands, at.b, at.h, at.i, &sight);
    for (int64_t c = 0; c < p->dv; c++)
        t->sum[c] = 0;
    if (mask)
        memset(keys, 0, (size_t)words_of(p) * sizeof *keys);
    for (int64_t from = 0; ref_sight_next(&sight, from, &run); from = run.end)
        if (mask) {
            count += mark_keys(mask, at, &run, keys);
        } else {
            count += ref_run_count(&run);
            sum_run(t, x, &run);
        }
    if (mask)
        sum_marked(t->sum, x->plus, keys, p->dv, words_of(p), count);
    return count;
}

/* Counts every row. values[1]: those of global rows, if they have their own. */
static void count_all(struct tally *t, const struct values values[2], uint64_t *keys)
{
    const struct attn_problem *p = &t->probe->instance->problem;
    struct ref_operands operands;
    ref_operands_init(&operands, p);
    for (int64_t head = 0; head < p->b * p->hq; head++) {
        struct attn_probe_row at = {.b = head / p->hq, .h = head % p->hq};
        at.g = at.h / (p->hq / p->hkv);
        for (int n = 0; n < 2 && at.h % (p->hq / p->hkv) == 0; n++) {
            if (values[n].v && values[n].plus)
                mark_plus(t->probe, &values[n], at.b, at.g);
            else if (values[n].v)
                sum_before(t->probe, &values[n], at.b, at.g);
        }
        if (attn_inner_pruned(p, at.h))
            continue;
        for (at.i = 0; at.i < p->sq; at.i++) {
            const bool own = values[1].v && ref_is_global(&operands, at.b, at.i);
            at.n = sum_row(t, &values[own], &operands, at, keys);
            count_row(t, at, values[own].v);
        }
    }
}

/* Memory for one of v and v_global. */
static bool make_values(const struct attn_problem *p, const struct attn_tensor *v, struct values *x)
{
    const size_t dv = (size_t)p->dv;
    *x = (struct values){.v = v};
    if (v && attn_tensor_find(p, ATTN_MASK))
        x->plus = calloc(dv, (size_t)words_of(p) * sizeof *x->plus);
    else if (v)
        x->before = calloc((size_t)p->sk + 1, dv * sizeof *x->before);
    return !v || x->plus || x->before;
}

bool attn_census_check(const struct attn_probe *probe, int64_t *counted, char *text, size_t size)
{
    const struct attn_problem *p = &probe->instance->problem;
    const size_t dv = (size_t)p->dv;
    double *sums = calloc(dv, 2 * sizeof *sums);
    uint64_t *keys = calloc((size_t)words_of(p) + 1, sizeof *keys);
    struct values values[2];
    const bool made = make_values(p, probe->v, &values[0]);
    const bool made_global = make_values(p, attn_tensor_find(p, ATTN_V_GLOBAL), &values[1]);
    struct tally t = {
        .probe = probe, .sum = sums, .trial = sums + p->dv, .told = -1, .text = text, .size = size};
    if (sums && keys && made && made_global) {
        count_all(&t, values, keys);
        *counted = ref_output_units(p, 0);
    } else {
        snprintf(text, size, "census: no memory to count");
        t.wrong = 1;
    }
    free(sums);
    free(keys);
    for (int n = 0; n < 2; n++) {
        free(values[n].before);
        free(values[n].plus);
    }
    if (t.wrong > 1) {
        const size_t used = strlen(text);
        snprintf(text + used, size - used, " (and %lld more rows)", (long long)(t.wrong - 1));
    }
    return t.wrong == 0;
}
