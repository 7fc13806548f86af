/* SPDX-License-Identifier: Apache-2.0 */
/* landmarks.c - see landmarks.h */
#include "landmarks.h"

#include <math.h>
#include <string.h>

#include "buffers.h"
#include "projected.h"

/* ---- the plan ---- */

static bool is_wide(const struct attn_landmarks *x)
{
    return x->problem->dtype == ATTN_F32;
}

static void set_buffers(struct attn_landmarks *x, int64_t unit)
{
    const struct attn_problem *p = x->problem;
    const struct {
        uint32_t role;
        int64_t rows, width;
    } shapes[ATTN_MARK_BUFFERS] = {{ATTN_Q, p->sq, p->dk}, {ATTN_K, p->sq, p->dk},
                                   {ATTN_V, p->sq, p->dv}, {ATTN_Q, x->m, p->dk},
                                   {ATTN_K, x->m, p->dk},  {ATTN_OUT, x->m, p->dv},
                                   {ATTN_V, x->m, p->dv},  {ATTN_BIAS, x->m, x->m}};
    for (int n = 0; n < ATTN_MARK_BUFFERS; n++)
        x->buffers[n] =
            attn_buffer(shapes[n].role, p->b, p->hq, shapes[n].rows, shapes[n].width, unit);
    for (uint32_t n = ATTN_MARK_Q; n <= ATTN_MARK_V; n++)
        if (is_wide(x)) {
            x->buffers[n] = *attn_tensor_find(p, ATTN_Q + n);
            x->buffers[n].data = NULL;
        }
}

/* Attention on operands that `tensors` has. */
static void set_problem(const struct attn_landmarks *x, struct attn_problem *to,
                        const struct attn_tensor *tensors)
{
    *to = *x->problem;
    to->op = ATTN_OP_ATTENTION;
    to->dtype = ATTN_F32;
    to->sq = tensors[0].shape[2];
    to->sk = tensors[1].shape[2];
    to->variant = to->landmarks = to->iterations = 0;
    to->tensors = tensors;
    to->n_tensors = 4;
}

/* The operands of the two attentions. Those of the problem itself have no data in a plan. */
static void set_problems(struct attn_landmarks *x)
{
    const struct attn_tensor *b = x->buffers;
    const struct attn_tensor values[] = {b[ATTN_MARK_Q_MEAN], b[ATTN_MARK_K], b[ATTN_MARK_V],
                                         b[ATTN_MARK_GV]};
    const struct attn_tensor rows[] = {b[ATTN_MARK_Q], b[ATTN_MARK_K_MEAN], b[ATTN_MARK_ZGV],
                                       *attn_tensor_find(x->problem, ATTN_OUT)};
    memcpy(x->values_tensors, values, sizeof values);
    memcpy(x->rows_tensors, rows, sizeof rows);
    x->rows_tensors[3].data = NULL;
    set_problem(x, &x->values, x->values_tensors);
    set_problem(x, &x->rows, x->rows_tensors);
}

/* Floats of all memory; sets the pointers with base. -1 on overflow. */
static int64_t lay_out(struct attn_landmarks *x, int threads, float *base)
{
    const struct attn_problem *p = x->problem;
    const int first = is_wide(x) ? ATTN_MARK_Q_MEAN : 0;
    const int64_t row = x->buffers[ATTN_MARK_A].stride[2];
    const int64_t rows = 4 * x->m > p->dk + 1 ? 4 * x->m : p->dk + 1;
    int64_t used;
    if (__builtin_mul_overflow(rows, row, &x->scratch) ||
        __builtin_mul_overflow(x->scratch, (int64_t)threads, &used))
        return -1;
    x->norm = base ? base + used : NULL;
    used += attn_round_up(p->b * p->hq, 16);
    return attn_buffers_place(x->buffers + first, ATTN_MARK_BUFFERS - first, used, base);
}

/* Both plans, with the same number of threads and one pool. */
static int create_plans(const struct attn_flash_isa *isa, struct attn_landmarks *x,
                        struct attn_plan **rows, char *why, size_t size)
{
    int status = attn_plan_create(isa, &x->rows, &x->alike, rows, why, size);
    if (status != ATTN_OK)
        return status;
    x->alike.threads = (uint32_t)(*rows)->threads;
    status = attn_plan_create(isa, &x->values, &x->alike, &x->first, why, size);
    if (status == ATTN_OK && x->first->threads != (*rows)->threads) {
        x->alike.threads = (uint32_t)x->first->threads;
        attn_plan_destroy(*rows);
        *rows = NULL;
        status = attn_plan_create(isa, &x->rows, &x->alike, rows, why, size);
    }
    if (status == ATTN_OK) {
        attn_pool_destroy((*rows)->pool);
        (*rows)->pool = x->first->pool;
    }
    return status;
}

static void free_landmarks(struct attn_landmarks *x)
{
    const struct attn_services *services = x->services;
    if (x->first)
        attn_plan_destroy(x->first);
    if (x->memory)
        services->free(services->context, x->memory);
    services->free(services->context, x);
}

int attn_landmarks_create(const struct attn_flash_isa *isa, const struct attn_problem *problem,
                          const struct attn_services *services, struct attn_plan **plan, char *why,
                          size_t size)
{
    struct attn_plan *made = NULL;
    struct attn_landmarks *x = attn_take_memory(services, sizeof *x, "the plan", why, size);
    if (!x)
        return ATTN_OUT_OF_MEMORY;
    *x = (struct attn_landmarks){.services = services, .alike = *services, .problem = problem};
    x->m = problem->landmarks < problem->sq ? problem->landmarks : problem->sq;
    set_buffers(x, isa->nr);
    set_problems(x);
    int status = create_plans(isa, x, &made, why, size);
    if (status != ATTN_OK) {
        if (made)
            attn_plan_destroy(made);
        free_landmarks(x);
        return status;
    }
    made->landmarks = x;
    x->memory = attn_take_floats(services, lay_out(x, made->threads, NULL),
                                 "landmarks and their matrices", why, size);
    if (!x->memory) {
        attn_landmarks_destroy(made);
        return ATTN_OUT_OF_MEMORY;
    }
    lay_out(x, made->threads, x->memory);
    *plan = made;
    return ATTN_OK;
}

void attn_landmarks_destroy(struct attn_plan *plan)
{
    struct attn_landmarks *x = plan->landmarks;
    plan->pool = NULL; /* the other plan's */
    attn_plan_destroy(plan);
    free_landmarks(x);
}

/* ---- a run ---- */

struct errand {
    const struct attn_plan *plan;
    const struct attn_tensor *q, *k, *v; /* as given */
    struct attn_tensor wide[3];          /* the same in f32 */
    float most;                          /* of all heads, for ATTN_NYSTROM_BATCH; else 0 */
};

/* Heads [begin, end) of a thread. */
static void share_of(const struct attn_plan *plan, int thread, int64_t *begin, int64_t *end)
{
    const int64_t heads = plan->landmarks->problem->b * plan->landmarks->problem->hq;
    *begin = heads * thread / plan->threads;
    *end = heads * (thread + 1) / plan->threads;
}

/* A head of them, with the thread's scratch. */
static struct attn_landmark_part part_of(const struct errand *e, int thread, int64_t head)
{
    const struct attn_landmarks *x = e->plan->landmarks;
    return (struct attn_landmark_part){.landmarks = x,
                                       .q = &e->wide[0],
                                       .k = &e->wide[1],
                                       .b = head / x->problem->hq,
                                       .h = head % x->problem->hq,
                                       .scratch = x->memory + thread * x->scratch};
}

/* Operands in f32, means, A and its norm. */
static void begin_heads(void *context, int thread)
{
    const struct errand *e = context;
    const struct attn_landmarks *x = e->plan->landmarks;
    const struct attn_tensor *const given[] = {e->q, e->k, e->v};
    int64_t head, end;
    for (share_of(e->plan, thread, &head, &end); head < end; head++) {
        const struct attn_landmark_part part = part_of(e, thread, head);
        for (int n = 0; !is_wide(x) && n < 3; n++)
            e->plan->isa->run_project(&(struct attn_project_part){.from = given[n],
                                                                  .to = &e->wide[n],
                                                                  .b = part.b,
                                                                  .h = part.h,
                                                                  .rows = x->problem->sq});
        x->norm[head] = e->plan->isa->weigh_landmarks(&part);
    }
}

/* Z and Z G V. */
static void finish_heads(void *context, int thread)
{
    const struct errand *e = context;
    int64_t head, end;
    for (share_of(e->plan, thread, &head, &end); head < end; head++) {
        const struct attn_landmark_part part = part_of(e, thread, head);
        const float norm = e->most > 0 || isnan(e->most) ? e->most : e->plan->landmarks->norm[head];
        e->plan->isa->invert_landmarks(&part, norm);
    }
}

static float largest(const struct attn_landmarks *x)
{
    float most = 0;
    for (int64_t n = 0; n < x->problem->b * x->problem->hq; n++)
        most = x->norm[n] > most || isnan(x->norm[n]) ? x->norm[n] : most;
    return most;
}

void attn_landmarks_run(struct attn_plan *plan, const struct attn_operands *given)
{
    const struct attn_landmarks *x = plan->landmarks;
    const struct attn_tensor *buffers = x->buffers;
    struct errand e = {.plan = plan, .q = &given->q, .k = &given->k, .v = &given->v};
    struct attn_flash values = x->first->job, rows = plan->job;
    e.wide[0] = is_wide(x) ? given->q : buffers[ATTN_MARK_Q];
    e.wide[1] = is_wide(x) ? given->k : buffers[ATTN_MARK_K];
    e.wide[2] = is_wide(x) ? given->v : buffers[ATTN_MARK_V];
    values.operands.q = buffers[ATTN_MARK_Q_MEAN];
    values.operands.k = e.wide[1];
    values.operands.v = e.wide[2];
    values.operands.out = buffers[ATTN_MARK_GV];
    rows.operands.q = e.wide[0];
    rows.operands.k = buffers[ATTN_MARK_K_MEAN];
    rows.operands.v = buffers[ATTN_MARK_ZGV];
    rows.operands.out = given->out;
    attn_pool_run(plan->pool, begin_heads, &e);
    attn_plan_run(x->first, &values);
    e.most = x->problem->variant == ATTN_NYSTROM_BATCH ? largest(x) : 0;
    attn_pool_run(plan->pool, finish_heads, &e);
    attn_plan_run(plan, &rows);
}
