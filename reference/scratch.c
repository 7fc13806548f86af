/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.c - working memory, allocated once before threads start. */
#include <stdlib.h>
#include <string.h>

#include "reference/job.h"

/* Bytes of a cache line: no vector lies across two, unless a row is no multiple of one. */
#define LINE 64

double *ref_alloc_doubles(int64_t rows, int64_t width)
{
    size_t count, bytes;
    double *array;

    if (rows < 0 || width < 0 || __builtin_mul_overflow((size_t)rows, (size_t)width, &count) ||
        __builtin_mul_overflow(count, sizeof(double), &bytes) || bytes > SIZE_MAX - 2 * LINE)
        return NULL;
    bytes = (bytes / LINE + 1) * LINE;
    array = aligned_alloc(LINE, bytes);
    if (array)
        memset(array, 0, bytes);
    return array;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Cuts the arrays of a scratch out of one allocation. */
static bool scratch_init(struct ref_scratch *s, const struct attn_problem *problem)
{
    int64_t keys = (problem->sk + 8) / 8 * 8, query = larger(problem->dq, problem->dk);
    int64_t hidden = problem->dh, columns = problem->dv;
    double **per_key[] = {&s->score[0],  &s->score[1], &s->score[2], &s->bias,  &s->ds,
                          &s->magnitude, &s->spread,   &s->flush,    &s->logit, &s->wrong,
                          &s->p,         &s->keep,     &s->weight,   &s->same,  &s->growth,
                          &s->upper,     &s->store,    &s->noise,    &s->rest,  &s->random};
    double **per_column[] = {&s->out,       &s->column[0], &s->column[1], &s->column[2],
                             &s->column[3], &s->column[4], &s->column[5], &s->column[6]};
    double *next = ref_alloc_doubles(keys * 20 + query * 3 + hidden * 3 + columns * 8, 1);

    s->memory = next;
    s->key = calloc((size_t)keys, sizeof(*s->key));
    s->order = calloc((size_t)keys, sizeof(*s->order));
    s->start = calloc(REF_BINS + 1, sizeof(*s->start));
    if (!next || !s->key || !s->order || !s->start)
        return false;
    for (size_t a = 0; a < sizeof(per_key) / sizeof(*per_key); a++, next += keys)
        *per_key[a] = next;
    for (size_t a = 0; a < 3; a++, next += query)
        s->query[a] = next;
    for (size_t a = 0; a < 3; a++, next += hidden)
        s->hidden[a] = next;
    for (size_t a = 0; a < sizeof(per_column) / sizeof(*per_column); a++, next += columns)
        *per_column[a] = next;
    atomic_flag_clear(&s->busy);
    return true;
}

struct ref_scratch *ref_scratch_create(const struct attn_problem *problem, int count)
{
    struct ref_scratch *scratch = calloc((size_t)count, sizeof(*scratch));

    if (!scratch)
        return NULL;
    for (int t = 0; t < count; t++)
        if (!scratch_init(&scratch[t], problem)) {
            ref_scratch_free(scratch, count);
            return NULL;
        }
    return scratch;
}

void ref_scratch_free(struct ref_scratch *scratch, int count)
{
    if (!scratch)
        return;
    for (int t = 0; t < count; t++) {
        free(scratch[t].memory);
        free(scratch[t].key);
        free(scratch[t].order);
        free(scratch[t].start);
    }
    free(scratch);
}
