/* SPDX-License-Identifier: Apache-2.0 */
/* keep.c - weights as packs in the run folder. */
#include "run/keep.h"

#include <stdlib.h>
#include <string.h>

#include "pack/safetensors.h"
#include "reference/dtype.h"
#include "results/kept.h"
#include "tensor/units.h"

/* Whose weights a pack holds. */
struct owner {
    const char *id, *backend, *options;
};

/* Dense [B,Hq,Sq,Sk], which every kept tensor is: of any operator that gives weights. */
struct cells {
    int64_t shape[4];
    size_t count;
};

/* Does this case give weights to keep, and are they small enough? */
static bool is_kept(const struct attn_session *session, const struct attn_instance *instance,
                    struct cells *cells)
{
    const struct attn_problem *p = &instance->problem;
    const struct attn_tensor *weights = attn_tensor_find(p, ATTN_WEIGHTS);
    if (!*session->folder || !weights)
        return false;
    const struct ref_op *op = ref_op_find(p->op);
    const int leader = op->outputs[ref_output_of(op, ATTN_WEIGHTS)].leader;
    cells->count = 1;
    for (int a = 0; a < 4; a++) {
        cells->shape[a] = weights->shape[a];
        if (__builtin_mul_overflow(cells->count, (size_t)weights->shape[a], &cells->count))
            return false;
    }
    return cells->count > 0 && cells->count <= ATTN_KEEP_CELLS &&
           (double)ref_output_units(p, leader) * ref_output_cost(p, leader) <= ATTN_JUDGE_BUDGET;
}

/* The labels as packs spell them, a JSON list for each batch; NULL: no memory. */
static char *tokens_text(const struct attn_instance *instance)
{
    json_t *batches = json_array();
    for (int64_t b = 0; batches && b < instance->c.b; b++) {
        json_t *list = json_array();
        for (int64_t t = 0; t < instance->n_tokens; t++)
            json_array_append_new(list, json_string(instance->tokens[b * instance->n_tokens + t]));
        json_array_append_new(batches, list);
    }
    char *text = batches ? json_dumps(batches, JSON_COMPACT) : NULL;
    json_decref(batches);
    return text;
}

static int write_pack(const struct attn_session *session, const struct attn_instance *instance,
                      struct owner owner, const struct attn_st_entry *weights, char *why,
                      size_t size)
{
    char name[ATTN_KEPT_NAME_MAX], path[ATTN_PATH_MAX], line[ATTN_CASE_LINE_MAX], threads[16];
    if (attn_path_join(path, session->folder, ATTN_KEPT_FOLDER) || attn_make_folder(path) ||
        attn_kept_name(owner.id, owner.backend, owner.options, name) ||
        attn_path_join(path, session->folder, name)) {
        snprintf(why, size, "weights cannot be kept in '%s'", session->folder);
        return -1;
    }
    attn_case_canonical(&instance->c, line, sizeof line);
    snprintf(threads, sizeof threads, "%d", session->settings.threads);
    char *tokens = instance->tokens ? tokens_text(instance) : NULL;
    if (instance->tokens && !tokens) {
        snprintf(why, size, "no memory for the tokens of '%s'", path);
        return -1;
    }
    char drawn[] = "drawn by the case line", key_case[] = "case", key_source[] = "source",
         key_backend[] = "backend", key_options[] = "options", key_threads[] = "threads",
         key_tokens[] = "tokens";
    struct attn_st_meta meta[] = {
        {key_case, line},
        {key_source, instance->source ? instance->source : drawn},
        {key_backend, (char *)(uintptr_t)owner.backend},
        {key_options, (char *)(uintptr_t)owner.options},
        {key_threads, threads},
        {key_tokens, tokens},
    };
    int status = attn_st_write(path, weights, 1, meta, tokens ? 6 : 5, why, size);
    free(tokens);
    return status;
}

static struct attn_st_entry dense(const struct cells *cells, uint32_t dtype, char *name,
                                  const void *data)
{
    struct attn_st_entry entry = {.name = name,
                                  .dtype = dtype,
                                  .rank = 4,
                                  .data = data,
                                  .bytes = cells->count * attn_dtype_size(dtype)};
    memcpy(entry.shape, cells->shape, sizeof cells->shape);
    return entry;
}

int attn_keep_reference(const struct attn_session *session, const struct attn_instance *instance,
                        char *why, size_t size)
{
    const struct attn_problem *p = &instance->problem;
    struct cells cells;
    char id[ATTN_CASE_ID_LEN + 1], name[] = "weights";
    if (!is_kept(session, instance, &cells))
        return 0;
    int status = -1;
    const int output = ref_output_of(ref_op_find(p->op), ATTN_WEIGHTS);
    struct ref_request request = {.fill = instance->kind,
                                  .threads = session->settings.host_threads,
                                  .given = instance->given};
    double *computed = calloc(cells.count, sizeof *computed);
    double *ordered = calloc(cells.count, sizeof *ordered);
    struct ref_result result = {0};
    result.output[output].value = computed;
    struct attn_units units;
    if (!computed || !ordered) {
        snprintf(why, size, "no memory for the reference's weights");
        goto out;
    }
    ref_request_all(p, &request);
    if (ref_compute(p, &request, &result, why, size) != ATTN_OK)
        goto out;
    attn_units_of(p, output, &units);
    attn_units_in_order(&units, computed, ordered);
    const struct attn_st_entry weights = dense(&cells, ATTN_F64, name, ordered);
    attn_case_id(&instance->c, id);
    status = write_pack(session, instance, (struct owner){id, ATTN_KEPT_REFERENCE, ""}, &weights,
                        why, size);
out:
    free(computed);
    free(ordered);
    return status;
}

int attn_keep_weights(const struct attn_session *session, const struct attn_instance *instance,
                      struct attn_entry *entry, char *why, size_t size)
{
    struct cells cells;
    char name[] = "weights";
    const int output = ref_output_of(ref_op_find(instance->problem.op), ATTN_WEIGHTS);
    if (output < 0 || !(entry->verdict.has >> output & 1) || !is_kept(session, instance, &cells))
        return 0;
    const struct attn_tensor *tensor = attn_tensor_find(&instance->problem, ATTN_WEIGHTS);
    void *data = malloc(cells.count * attn_dtype_size(tensor->dtype));
    if (!data) {
        snprintf(why, size, "no memory to keep the weights of %s", entry->contestant->info.name);
        return -1;
    }
    int64_t at[4] = {0};
    for (size_t cell = 0; cell < cells.count; cell++) {
        size_t rest = cell;
        int64_t place = 0;
        for (int a = 3; a >= 0; a--) {
            at[a] = (int64_t)(rest % (size_t)cells.shape[a]);
            rest /= (size_t)cells.shape[a];
            place += at[a] * tensor->stride[a];
        }
        attn_dtype_store(tensor->dtype, data, (int64_t)cell,
                         attn_dtype_load(tensor->dtype, tensor->data, place));
    }
    const struct attn_st_entry weights = dense(&cells, tensor->dtype, name, data);
    const struct owner owner = {entry->id, entry->contestant->info.name,
                                entry->contestant->options};
    int status = write_pack(session, instance, owner, &weights, why, size);
    entry->kept = status == 0;
    free(data);
    return status;
}
