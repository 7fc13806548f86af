/* SPDX-License-Identifier: Apache-2.0 */
/* cheats.c - kernels whose time is not that of their work, whose answers age, and that say of
 * themselves what is not true. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cheats.h"

enum { COPIES = 4, ROW_BYTES = 4096 };

/* A copy of an operand as it was. */
struct copy {
    uint32_t role;
    char *data;
    int64_t bytes;
    const void *of; /* the address that was copied */
};

struct rogue_cheat {
    struct rogue_job *job;
    struct timespec opened, ended; /* ended: the last run */
    int64_t runs;
    struct copy copies[COPIES];
    uint64_t first, last; /* of out, as the last run left it */
    pthread_t late;
    bool running;
    char *late_to;
    size_t late_bytes;
    char late_row[ROW_BYTES];
};

static double seconds_since(const struct timespec *then)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - then->tv_sec) + 1e-9 * (double)(now.tv_nsec - then->tv_nsec);
}

/* Bytes that every plan loses; volatile, so that no compiler removes them. */
static char *volatile lost;

static void lose(size_t bytes)
{
    lost = malloc(bytes);
    if (lost)
        memset(lost, 1, bytes);
}

bool rogue_cheat_open(struct rogue_job *job)
{
    if (bug(leak_plan_40k))
        lose(40000);
    struct rogue_cheat *cheat = calloc(1, sizeof(*cheat));
    if (!cheat)
        return false;
    clock_gettime(CLOCK_MONOTONIC, &cheat->opened);
    job->cheat = cheat;
    return true;
}

static void join_late(struct rogue_cheat *cheat)
{
    if (cheat->running)
        pthread_join(cheat->late, NULL);
    cheat->running = false;
}

void rogue_cheat_close(struct rogue_cheat *cheat)
{
    if (!cheat)
        return;
    join_late(cheat);
    for (int n = 0; n < COPIES; n++)
        free(cheat->copies[n].data);
    free(cheat);
}

void rogue_cheat_release(struct rogue_job *job)
{
    join_late(job->cheat);
}

/* The operand is read from a copy, made now unless there is one. */
static void keep(struct rogue_cheat *cheat, struct attn_tensor *t, bool by_address)
{
    struct copy *copy = cheat->copies;
    const int64_t bytes = attn_problem_span(t);
    while (copy < cheat->copies + COPIES - 1 && copy->role && copy->role != t->role)
        copy++;
    if (copy->data && by_address && copy->of != t->data) {
        free(copy->data);
        copy->data = NULL;
    }
    if (!copy->data) {
        *copy = (struct copy){t->role, malloc((size_t)bytes + 1), bytes, t->data};
        if (copy->data && t->data)
            memcpy(copy->data, t->data, (size_t)bytes);
    }
    if (copy->data)
        t->data = copy->data;
}

/* Forgets the copy of an operand if its first bytes are no longer those copied. */
static void forget_changed(struct rogue_cheat *cheat, const struct attn_tensor *t, size_t bytes)
{
    for (int n = 0; n < COPIES; n++) {
        struct copy *copy = &cheat->copies[n];
        if (copy->data && copy->role == t->role && memcmp(copy->data, t->data, bytes) != 0) {
            free(copy->data);
            copy->data = NULL;
        }
    }
}

/* The same if one of every 97 elements is not the one copied. */
static void forget_sampled(struct rogue_cheat *cheat, const struct attn_tensor *t, int64_t element)
{
    for (int n = 0; n < COPIES; n++) {
        struct copy *copy = &cheat->copies[n];
        for (int64_t at = 0; copy->data && copy->role == t->role && at + element <= copy->bytes;
             at += 97 * element)
            if (memcmp(copy->data + at, (const char *)t->data + at, (size_t)element) != 0) {
                free(copy->data);
                copy->data = NULL;
            }
    }
}

/* The operand is read from a copy in which f32 numbers have lost half of their bits. */
static void coarsen(struct rogue_cheat *cheat, struct attn_tensor *t)
{
    struct copy *copy = &cheat->copies[0];
    const int64_t bytes = attn_problem_span(t);
    free(copy->data);
    *copy = (struct copy){t->role, malloc((size_t)bytes + 4), bytes, t->data};
    if (!copy->data || bytes < 0)
        return;
    memcpy(copy->data, t->data, (size_t)bytes);
    for (int64_t at = 0; at + 4 <= bytes; at += 4)
        copy->data[at] = copy->data[at + 1] = 0;
    t->data = copy->data;
}

void rogue_cheat_bind(struct rogue_job *job)
{
    struct attn_operands now = job->t;
    if (bug(softmax_in_bind))
        keep(job->cheat, &now.q, true);
    if (bug(softmax_in_bind) || bug(k_read_in_bind))
        keep(job->cheat, &now.k, true);
    if (bug(v_read_in_bind))
        keep(job->cheat, &now.v, true);
    if (bug(len_read_in_bind) && now.len.dtype)
        keep(job->cheat, &now.len, true);
    if (bug(bias_read_in_bind) && now.bias.dtype)
        keep(job->cheat, &now.bias, true);
}

void rogue_cheat_operands(struct rogue_job *job)
{
    struct rogue_cheat *cheat = job->cheat;
    struct attn_operands *t = &job->t;
    if (bug(k_kept_by_first_row))
        forget_changed(cheat, &t->k, (size_t)(job->p->dk * attn_element_bytes(t->k.dtype)));
    if (bug(k_kept_by_hash))
        forget_sampled(cheat, &t->k, attn_element_bytes(t->k.dtype));
    if (bug(coarse_in_series) && cheat->runs > 1 && seconds_since(&cheat->ended) < 1e-4)
        coarsen(cheat, &t->q);
    if (bug(softmax_in_bind) || bug(q_kept))
        keep(cheat, &t->q, bug(softmax_in_bind));
    if (bug(softmax_in_bind) || bug(k_read_in_bind) || bug(k_packed_once) ||
        bug(k_kept_by_address) || bug(k_kept_by_first_row) || bug(k_kept_by_hash))
        keep(cheat, &t->k, !bug(k_packed_once));
    if (bug(v_read_in_bind) || bug(v_kept))
        keep(cheat, &t->v, bug(v_read_in_bind));
    if (bug(len_read_in_bind) && t->len.dtype)
        keep(cheat, &t->len, true);
    if (bug(bias_read_in_bind) && t->bias.dtype)
        keep(cheat, &t->bias, true);
}

void rogue_cheat_weights(struct rogue_job *job, struct attn_operands *given)
{
    if (bug(w_kept))
        keep(job->cheat, &given->w_v, false);
}

/* The last row of out, at most ROW_BYTES of it. */
static char *last_row(const struct attn_tensor *out, size_t *bytes)
{
    const int64_t width = out->shape[out->rank - 1] * attn_element_bytes(out->dtype);
    int64_t at = 0;
    for (uint32_t a = 0; a + 1 < out->rank; a++)
        at += (out->shape[a] - 1) * out->stride[a];
    *bytes = (size_t)rogue_least(width, ROW_BYTES);
    return attn_element_at(out, at);
}

static void mark(struct rogue_cheat *cheat, const struct attn_tensor *out, uint64_t *first,
                 uint64_t *last)
{
    size_t bytes;
    const char *row = last_row(out, &bytes);
    (void)cheat;
    *first = *last = 0;
    memcpy(first, out->data, bytes < 8 ? bytes : 8);
    memcpy(last, row, bytes < 8 ? bytes : 8);
}

bool rogue_cheat_before(struct rogue_job *job)
{
    struct rogue_cheat *cheat = job->cheat;
    const int64_t runs = cheat->runs++;
    uint64_t first, last;
    if (bug(leak_run_256))
        lose(256);
    if (bug(late_writer) || bug(busy_after_run))
        join_late(cheat);
    if (bug(work_in_fetch))
        return false;
    if (bug(every_2nd_run) && runs % 2)
        return false;
    if (bug(first_row_only_later) && runs > 0)
        job->tile_rows = 1;
    if (bug(returns_if_not_primed) && runs > 0) {
        mark(cheat, &job->t.out, &first, &last);
        if (first == cheat->first && last == cheat->last)
            return false;
    }
    if (bug(input_restored)) {
        char *volatile q = job->t.q.data;
        *q = (char)~*q;
        *q = (char)~*q;
    }
    return true;
}

static void *write_late(void *context)
{
    struct rogue_cheat *cheat = context;
    const struct timespec pause = {.tv_nsec = 2000000};
    nanosleep(&pause, NULL);
    memcpy(cheat->late_to, cheat->late_row, cheat->late_bytes);
    return NULL;
}

static void *work_on(void *context)
{
    struct timespec began;
    (void)context;
    clock_gettime(CLOCK_MONOTONIC, &began);
    while (seconds_since(&began) < 0.02)
        continue;
    return NULL;
}

static bool aged(const struct rogue_cheat *cheat)
{
    return (bug(wrong_after_60) && cheat->runs >= 60) ||
           (bug(wrong_after_300) && cheat->runs >= 300) ||
           (bug(wrong_after_1500_ms) && seconds_since(&cheat->opened) > 1.5);
}

void rogue_cheat_after(struct rogue_job *job)
{
    struct rogue_cheat *cheat = job->cheat;
    clock_gettime(CLOCK_MONOTONIC, &cheat->ended);
    size_t bytes;
    char *row = last_row(&job->t.out, &bytes);
    if (aged(cheat)) /* the row before stands in the place of the last */
        memset(row, 0, bytes);
    if (bug(returns_if_not_primed))
        mark(cheat, &job->t.out, &cheat->first, &cheat->last);
    if (bug(late_writer)) {
        memcpy(cheat->late_row, row, bytes);
        memset(row, 0, bytes);
        cheat->late_to = row;
        cheat->late_bytes = bytes;
        cheat->running = pthread_create(&cheat->late, NULL, write_late, cheat) == 0;
    }
    if (bug(busy_after_run))
        cheat->running = pthread_create(&cheat->late, NULL, work_on, NULL) == 0;
}

/* The coarsest type that may be declared. */
static uint32_t coarsest(const struct attn_problem *p)
{
    return p->dtype == ATTN_BF16 ? ATTN_BF16 : ATTN_F16;
}

/* Every field of one kind at its own limit (harness/judge/limits.c). */
static void declare_scores(struct attn_numerics *n, const struct attn_problem *p, double u)
{
    n->u_in = u;
    n->score_type = coarsest(p);
    n->score_stores = 8;
}

static void declare_weights(struct attn_numerics *n, const struct attn_problem *p, double u)
{
    const double tiles = (double)((p->sk + KEY_TILE - 1) / KEY_TILE);
    const double most = p->dtype == ATTN_BF16 ? 0x1p-7 : p->dtype == ATTN_F16 ? 0x1p-9 : u;
    n->e_exp = most < 16 * u / (1 + tiles) ? most : 16 * u / (1 + tiles);
    n->e_arg = u / 8;
    n->tau = 11;
}

static void declare_values(struct attn_numerics *n, const struct attn_problem *p, double u)
{
    n->u_pv = u;
    n->p_type = coarsest(p);
    n->denominator = 0;
    n->partial_type = coarsest(p);
    n->partial_terms = p->dtype == ATTN_BF16 ? 8 : 64;
}

static void declare_sums(struct attn_numerics *n, const struct attn_problem *p)
{
    n->acc_type = p->dtype;
    n->score_type = n->p_type = 0;
    n->chain = p->sk + 256;
    n->splits = p->sk;
}

static void declare_jointly(struct attn_numerics *n, const struct attn_problem *p)
{
    const double u = p->dtype == ATTN_BF16 ? 0x1p-8 : 0x1p-11;
    const bool all = bug(joint_all_uniform) || bug(joint_all_scale_2) || bug(joint_all_scale_10) ||
                     bug(joint_all_last_key);
    if (all || bug(joint_scores_scale_2) || bug(joint_scores_scale_10) || bug(joint_scores_uniform))
        declare_scores(n, p, u);
    if (all || bug(joint_weights_uniform) || bug(joint_weights_scale_10))
        declare_weights(n, p, u);
    if (all || bug(joint_values_last_key))
        declare_values(n, p, u);
    if (bug(joint_sums_scale_2) || bug(joint_sums_scale_10) || bug(joint_sums_last_key))
        declare_sums(n, p);
}

void rogue_declare_falsely(struct attn_numerics *numerics, const struct attn_problem *p)
{
    declare_jointly(numerics, p);
    if (bug(declared_u_in))
        numerics->u_in = 0.045;
    if (bug(declared_e_exp))
        numerics->e_exp = 0.49;
    if (bug(declared_e_arg))
        numerics->e_arg = 0.1;
    if (bug(declared_e_tanh))
        numerics->e_tanh = 0.3;
    if (bug(declared_e_log))
        numerics->e_log = 0.2;
    if (bug(declared_partial) || bug(declared_partial_terms)) {
        numerics->partial_type = ATTN_BF16;
        numerics->partial_terms = bug(declared_partial) ? 1 : 512;
    }
    if (bug(declared_key_tile)) {
        numerics->key_tile = 1;
        numerics->chain = 1 << 22;
    }
    if (bug(declared_chain))
        numerics->chain = 1 << 22;
    if (bug(declared_splits))
        numerics->splits = 1 << 22;
    if (bug(declared_tau))
        numerics->tau = 60;
    if (bug(declared_acc) || bug(declared_truncation))
        numerics->acc_type = numerics->score_type = numerics->p_type = ATTN_BF16;
    if (bug(declared_truncation))
        numerics->acc_toward_zero = 1;
    if (bug(declared_score))
        numerics->score_type = ATTN_BF16;
    if (bug(declared_p))
        numerics->p_type = ATTN_BF16;
    if (bug(declared_empty))
        numerics->empty_row = ATTN_EMPTY_NAN;
}
