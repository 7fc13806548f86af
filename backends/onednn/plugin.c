/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - the onednn backend: options, choice of path, plan, bindings, and the table of slots.
 */
#include <stdio.h>
#include <string.h>

#include "onednn.h"

/* Which way the operator goes. */
enum path {
    PATH_GRAPH,      /* one partition of the Graph API */
    PATH_PRIMITIVES, /* matmul, the library's softmax, matmul */
    PATH_MIXED,      /* matmul, softmax in C, matmul */
    PATH_BACKWARD,   /* gradients as one partition of the Graph API */
    PATH_NO_KEYS     /* nothing to multiply */
};

struct plan {
    const struct attn_problem *problem;
    struct attn_problem inner; /* as attention sees it, within the frame */
    struct attn_onednn_library library;
    struct attn_onednn_frame *frame;
    struct attn_onednn_mask mask;
    enum path path;
    int narrow; /* scores in the type of q */
    struct attn_onednn_graph *graph;
    struct attn_onednn_primitives *primitives;
    struct attn_onednn_backward *backward;
    float *rows;  /* [2,Sk] an addend and scores, then [Dv] sums and [Dh] a hidden layer */
    float *norms; /* of a Gaussian score */
};

struct binding {
    struct plan *plan;
    struct attn_onednn_framed *framed;
    struct attn_operands operands; /* as attention sees them */
    struct attn_onednn_graph_tensors *tensors;
    struct attn_onednn_backward_tensors *backward;
    struct attn_onednn_additive_weights *weights;
};

static const struct attn_option_spec options[] = {
    {.key = "path",
     .type = ATTN_OPTION_CHOICE,
     .choices = "auto|graph|primitives",
     .default_value = "auto",
     .help = "graph: the Graph API, one partition or nothing; primitives: matmul, softmax, matmul; "
             "auto: graph if it can"},
    {.key = "scores",
     .type = ATTN_OPTION_CHOICE,
     .choices = "f32|as_q",
     .default_value = "f32",
     .help = "type of the scores between the operations of the graph; as_q: that of q, faster and "
             "less accurate in bf16 and f16"},
};

static int init(const struct attn_services *services, char *why, size_t size)
{
    (void)services;
    return attn_onednn_prepare(why, size);
}

static int probe(const struct attn_services *services, char *why, size_t size)
{
    struct attn_onednn_library library;
    return attn_onednn_open(&library, services, why, size);
}

/* Nothing but scale and mask between the scores and the softmax, and no second result. */
static int plain(const struct attn_problem *p)
{
    return p->score != ATTN_SCORE_ADDITIVE &&
           !(p->flags & (ATTN_FLAG_SOFTCAP | ATTN_FLAG_DROPOUT)) &&
           !attn_tensor_find(p, ATTN_SINK) && !attn_tensor_find(p, ATTN_LSE) &&
           !attn_tensor_find(p, ATTN_WEIGHTS);
}

/* A bias, slopes and norms do not fit a narrow score's type: only 0 and -infinity do. */
static int can_narrow(const struct attn_problem *p, const struct attn_services *services)
{
    return !strcmp(attn_option_get(services, "scores", "f32"), "as_q") && p->dtype != ATTN_F32 &&
           p->score != ATTN_SCORE_GAUSSIAN && !attn_tensor_find(p, ATTN_BIAS) &&
           !attn_tensor_find(p, ATTN_ALIBI);
}

static int choose(struct plan *plan, const struct attn_operands *operands, char *why, size_t size)
{
    const struct attn_problem *p = &plan->inner;
    const char *wanted = attn_option_get(plan->library.services, "path", "auto");
    int is_plain = plain(p);
    plan->path = p->sk == 0 ? PATH_NO_KEYS : is_plain ? PATH_PRIMITIVES : PATH_MIXED;
    if (plan->path == PATH_NO_KEYS)
        return ATTN_OK;
    if (is_plain && strcmp(wanted, "primitives") != 0) {
        plan->narrow = can_narrow(p, plan->library.services);
        int result = attn_onednn_graph_create(&plan->library, p, operands, &plan->mask,
                                              plan->narrow, &plan->graph, why, size);
        if (result == ATTN_OK)
            plan->path = PATH_GRAPH;
        if (result != ATTN_UNSUPPORTED || !strcmp(wanted, "graph"))
            return result;
        plan->narrow = 0;
    } else if (!strcmp(wanted, "graph")) {
        snprintf(why, size,
                 "path=graph does not support softcap, sink, dropout, lse, weights and additive "
                 "scores");
        return ATTN_UNSUPPORTED;
    }
    return attn_onednn_primitives_create(&plan->library, p, operands, &plan->mask, is_plain,
                                         &plan->primitives, why, size);
}

/* The mask's data, norms, and the buffers of a row. */
static int reserve(struct plan *plan, size_t mask_bytes, char *why, size_t size)
{
    const struct attn_problem *p = &plan->inner;
    const struct attn_services *s = plan->library.services;
    size_t norms = p->score == ATTN_SCORE_GAUSSIAN ? attn_onednn_norms_bytes(p) : 0, floats, bytes;
    if (mask_bytes == SIZE_MAX || norms == SIZE_MAX ||
        __builtin_mul_overflow((size_t)p->sk, (size_t)2, &floats) ||
        __builtin_add_overflow(floats, (size_t)p->dv, &floats) ||
        __builtin_add_overflow(floats, (size_t)p->dh, &floats) ||
        __builtin_mul_overflow(floats, sizeof(float), &bytes)) {
        snprintf(why, size, "the workspace's size overflows");
        return ATTN_OUT_OF_MEMORY;
    }
    plan->rows = s->alloc(s->context, bytes, 64);
    plan->norms = norms ? s->alloc(s->context, norms, 64) : NULL;
    plan->mask.norms = plan->norms;
    plan->mask.data = mask_bytes ? s->alloc(s->context, mask_bytes, 64) : NULL;
    if (plan->rows && (plan->mask.data || !mask_bytes) && (plan->norms || !norms))
        return ATTN_OK;
    snprintf(why, size, "no memory for a mask of %zu bytes and norms of %zu", mask_bytes, norms);
    return ATTN_OUT_OF_MEMORY;
}

static void destroy(void *plan)
{
    struct plan *p = plan;
    const struct attn_services *s = p->library.services;
    if (p->graph)
        attn_onednn_graph_destroy(p->graph);
    if (p->primitives)
        attn_onednn_primitives_destroy(p->primitives);
    if (p->backward)
        attn_onednn_backward_destroy(p->backward);
    if (p->frame)
        attn_onednn_frame_destroy(p->frame);
    void *const memory[] = {p->mask.data, p->norms, p->rows};
    for (int m = 0; m < 3; m++)
        if (memory[m])
            s->free(s->context, memory[m]);
    s->free(s->context, p);
}

/* Attention within its frame; gradients have none. */
static int create_inner(struct plan *made, struct attn_operands *operands, char *why, size_t size)
{
    const struct attn_problem *p = made->problem;
    const int backward = p->op == ATTN_OP_ATTENTION_BACKWARD;
    int result = ATTN_OK;
    made->inner = *p;
    if (backward)
        attn_onednn_operands_set(operands, p->tensors, p->n_tensors);
    else
        result = attn_onednn_frame_create(&made->library, p, &made->inner, operands, &made->frame,
                                          why, size);
    if (result == ATTN_OK) {
        size_t mask_bytes = attn_onednn_mask_plan(&made->inner, operands, &made->mask);
        result = reserve(made, backward || plain(p) ? mask_bytes : 0, why, size);
    }
    if (result != ATTN_OK || !backward)
        return result == ATTN_OK ? choose(made, operands, why, size) : result;
    made->path = PATH_BACKWARD;
    return attn_onednn_backward_create(&made->library, p, operands, &made->mask, &made->backward,
                                       why, size);
}

static int create(const struct attn_problem *problem, const struct attn_services *services,
                  void **plan, char *why, size_t size)
{
    struct attn_operands operands;
    struct plan *made = services->alloc(services->context, sizeof(*made), 64);
    if (!made) {
        snprintf(why, size, "no memory for a plan of %zu bytes", sizeof(*made));
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct plan){.problem = problem, .library.services = services};
    int result = attn_onednn_open(&made->library, services, why, size);
    if (result == ATTN_OK)
        result = create_inner(made, &operands, why, size);
    if (result != ATTN_OK) {
        destroy(made);
        return result;
    }
    made->mask.dtype = made->narrow ? problem->dtype : ATTN_F32;
    if (made->mask.data && made->mask.constant)
        attn_onednn_mask_fill(&made->inner, &operands, &made->mask, made->rows);
    *plan = made;
    return ATTN_OK;
}

/* What is said of the library is attributed. Sums in f32: its documentation of the accumulation
 * mode, `strict` by default; a softmax's weights are in the type of its result. Its exp: measured
 * by this backend's test. Instructions for bf16 products flush subnormals. In C: glibc 2.36's
 * manual, "Known Maximum Errors in Math Functions", x86_64: expf, logf 1 ulp, tanhf 2 ulp, of which
 * at least twice is declared. */
static void numerics(const void *plan, struct attn_numerics *numerics)
{
    const struct plan *p = plan;
    const double u = 0x1p-24;
    numerics->acc_type = ATTN_F32;
    numerics->score_type = p->narrow ? p->problem->dtype : ATTN_F32;
    numerics->p_type = p->problem->dtype;
    numerics->p_normalised = 1;
    numerics->ftz = p->problem->dtype == ATTN_BF16;
    numerics->empty_row = ATTN_EMPTY_ZERO;
    numerics->gaussian_by_norms = 1;
    if (p->problem->score == ATTN_SCORE_BILINEAR && p->problem->dtype == ATTN_BF16)
        numerics->u_in = 0x1p-8; /* q M is stored like q before it meets k */
    numerics->deterministic = p->library.services->threads == 1;
    numerics->e_exp = ATTN_ONEDNN_E_EXP;
    numerics->e_arg = ATTN_ONEDNN_E_ARG;
    numerics->e_tanh = ATTN_ONEDNN_E_TANH;
    numerics->e_log = 4 * u;
    numerics->ds_type = numerics->p_type;
    numerics->grad_partial_type = numerics->p_type;
    numerics->source = "oneDNN 3.x: accumulation mode strict (developer guide, \"Accumulation "
                       "mode\"), fpmath mode strict; exp and tanh measured by test_onednn";
}

static void release(void *binding)
{
    struct binding *b = binding;
    const struct attn_services *s = b->plan->library.services;
    if (b->tensors)
        attn_onednn_graph_release(b->plan->graph, b->tensors);
    if (b->backward)
        attn_onednn_backward_release(b->plan->backward, b->backward);
    if (b->weights)
        attn_onednn_primitives_release(b->plan->primitives, b->weights);
    if (b->framed)
        attn_onednn_frame_release(b->framed);
    s->free(s->context, b);
}

static int bind(void *plan, const struct attn_tensor *tensors, uint32_t n_tensors, void **binding,
                char *why, size_t size)
{
    struct plan *p = plan;
    const struct attn_services *s = p->library.services;
    struct binding *made = s->alloc(s->context, sizeof(*made), 64);
    if (!made) {
        snprintf(why, size, "no memory for a binding of %zu bytes", sizeof(*made));
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct binding){.plan = p};
    int result = ATTN_OK;
    if (p->frame)
        result =
            attn_onednn_frame_bind(p->frame, tensors, &made->operands, &made->framed, why, size);
    else
        attn_onednn_operands_set(&made->operands, tensors, n_tensors);
    if (result == ATTN_OK && p->backward)
        result =
            attn_onednn_backward_bind(p->backward, &made->operands, &made->backward, why, size);
    if (result == ATTN_OK && p->graph)
        result = attn_onednn_graph_bind(p->graph, &made->operands, &made->tensors, why, size);
    if (result == ATTN_OK && p->primitives)
        result =
            attn_onednn_primitives_bind(p->primitives, &made->operands, &made->weights, why, size);
    if (result != ATTN_OK) {
        release(made);
        return result;
    }
    *binding = made;
    return ATTN_OK;
}

/* Calls `visit` for every row, on which row->b, h and i are set. */
static void each_row(struct attn_onednn_row *row,
                     void (*visit)(struct attn_onednn_row *row, float *sums), float *sums)
{
    const struct attn_problem *p = row->problem;
    for (row->b = 0; row->b < p->b; row->b++)
        for (row->h = 0; row->h < p->hq; row->h++)
            for (row->i = 0; row->i < p->sq; row->i++)
                visit(row, sums);
}

/* A row that is not finite is computed again: perhaps it is truly so, perhaps what a key holds that
 * takes no part has come through (0 * NaN is NaN), perhaps it is empty. */
static void repair(struct attn_onednn_row *row, float *sums)
{
    if (attn_onednn_row_broken(row))
        attn_onednn_attend_row(row, sums);
}

static void fill_empty(struct attn_onednn_row *row, float *sums)
{
    attn_onednn_attend_row(row, sums);
    attn_onednn_soften(row, NULL);
}

/* Attention within its frame. */
static int attend(struct binding *b, struct attn_onednn_row *row, float *sums, char *why,
                  size_t size)
{
    struct plan *p = b->plan;
    int result = ATTN_OK;
    if (p->norms)
        attn_onednn_norms_fill(&p->inner, &b->operands, p->norms);
    if (p->mask.data && !p->mask.constant)
        attn_onednn_mask_fill(&p->inner, &b->operands, &p->mask, p->rows);
    if (p->path == PATH_BACKWARD)
        return attn_onednn_backward_run(p->backward, &b->operands, b->backward, why, size);
    if (p->path == PATH_GRAPH)
        result = attn_onednn_graph_run(p->graph, b->tensors, why, size);
    else
        result =
            attn_onednn_primitives_run(p->primitives, &b->operands, b->weights, row, why, size);
    if (result == ATTN_OK)
        each_row(row, repair, sums);
    return result;
}

static int run(void *binding, char *why, size_t size)
{
    struct binding *b = binding;
    struct plan *p = b->plan;
    int64_t sk = p->inner.sk;
    float *sums = p->rows + 2 * sk;
    struct attn_onednn_row row = {.problem = &p->inner,
                                  .operands = &b->operands,
                                  .add = p->rows,
                                  .scores = p->rows + sk,
                                  .hidden = sums + p->inner.dv,
                                  .norms = p->norms};
    int result = ATTN_OK;
    if (p->path == PATH_BACKWARD)
        return attend(b, &row, sums, why, size);
    if (p->path == PATH_NO_KEYS) {
        each_row(&row, fill_empty, sums);
    } else {
        result = attn_onednn_frame_before(b->framed, why, size);
        if (result == ATTN_OK)
            result = attend(b, &row, sums, why, size);
    }
    return result == ATTN_OK ? attn_onednn_frame_after(b->framed, why, size) : result;
}

static void describe(const void *plan, char *text, size_t size)
{
    static const char *const names[] = {
        [PATH_GRAPH] = "graph_sdpa_fused",
        [PATH_PRIMITIVES] = "primitives: matmul, softmax, matmul",
        [PATH_MIXED] = "primitives: matmul, softmax in C, matmul",
        [PATH_BACKWARD] = "graph_sdpa_backward",
        [PATH_NO_KEYS] = "no keys",
    };
    const struct plan *p = plan;
    int additive = p->inner.score == ATTN_SCORE_ADDITIVE && p->path == PATH_MIXED;
    char copies[64];
    copies[0] = '\0';
    if (p->frame)
        attn_onednn_frame_copies(p->frame, copies, sizeof(copies));
    snprintf(text, size, "%s%s%s%s%s",
             additive ? "primitives: matmul, tanh, matmul, softmax in C, matmul" : names[p->path],
             p->problem->op == ATTN_OP_MHA ? ", projected by matmul" : "",
             !p->mask.data      ? ""
             : p->mask.constant ? ", mask made once"
                                : ", mask made in each run",
             p->narrow ? ", scores in the type of q" : "", copies);
}

static const struct attn_backend backend = {
    .struct_size = sizeof(struct attn_backend),
    .exactness = ATTN_EXACT,
    .name = "onednn",
    .description =
        "oneDNN: attention, or its gradients, as a partition of its Graph API; else matmul "
        "and softmax",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .version = attn_onednn_version,
    .probe = probe,
    .supports = attn_onednn_supports,
    .create = create,
    .numerics = numerics,
    .bind = bind,
    .run = run,
    .release = release,
    .describe = describe,
    .destroy = destroy,
};

static const struct attn_backend *const backends[] = {&backend};

const struct attn_plugin attn_plugin = {
    .abi_version = ATTN_ABI_VERSION,
    .struct_size = sizeof(struct attn_plugin),
    .init = init,
    .n_backends = sizeof(backends) / sizeof(backends[0]),
    .backends = backends,
};
