/* SPDX-License-Identifier: Apache-2.0 */
/* ready.c - see ready.h. */
#include "ready.h"

#include <string.h>

#include "engine.h"
#include "graph.h"

static struct {
    struct attn_cudnn_key key;
    struct attn_cudnn_graph *graph; /* NULL: none, or in use */
} kept;

/* Padding is zero, so that keys can be compared as bytes; a difference there would cost a graph. */
static void write_key(struct attn_cudnn_key *key, const struct attn_problem *problem)
{
    memset(key, 0, sizeof *key);
    memcpy(&key->problem, problem, sizeof *problem);
    key->problem.tensors = NULL;
    for (uint32_t t = 0; t < problem->n_tensors; t++) {
        memcpy(&key->tensors[t], &problem->tensors[t], sizeof *problem->tensors);
        key->tensors[t].data = NULL;
    }
}

int attn_cudnn_ready_take(const struct attn_problem *problem, void *device,
                          struct attn_cudnn_key *key, struct attn_cudnn_graph **graph, char *why,
                          size_t size)
{
    write_key(key, problem);
    if (kept.graph && memcmp(key, &kept.key, sizeof *key) == 0) {
        *graph = kept.graph;
        kept.graph = NULL;
        return ATTN_OK;
    }
    struct attn_cudnn_graph *made = NULL;
    int status = attn_cudnn_graph_create(problem, device, &made, why, size);
    if (status == ATTN_OK)
        status = attn_cudnn_graph_plan(made, why, size);
    if (status == ATTN_OK)
        *graph = made;
    else if (made)
        attn_cudnn_graph_destroy(made);
    return status;
}

void attn_cudnn_ready_give(const struct attn_cudnn_key *key, struct attn_cudnn_graph *graph)
{
    if (kept.graph)
        attn_cudnn_graph_destroy(kept.graph);
    kept.key = *key;
    kept.graph = graph;
}
