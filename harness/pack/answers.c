/* SPDX-License-Identifier: Apache-2.0 */
/* answers.c - expected answers, their tolerances, and the tokens that label them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "pack/describe.h"
#include "pack/message.h"
#include "reference/dtype.h"

/* A tolerance as a decimal string: no hexadecimal, no words, no sign. */
static int read_tolerance(const char *path, const struct attn_st_file *file, const char *key,
                          double fallback, double *value, char *why, size_t size)
{
    const char *text = attn_st_metadata(file, key);
    *value = fallback;
    if (text == NULL)
        return 0;
    char *end = NULL;
    const bool plain = text[0] != '\0' && text[strspn(text, "0123456789.eE+-")] == '\0' &&
                       text[0] != '+' && text[0] != '-';
    if (plain)
        *value = strtod(text, &end);
    if (!plain || *end != '\0' || !isfinite(*value))
        return attn_pack_fail(path, why, size, "metadata %s='%.32s' is not a decimal number >= 0",
                              key, text);
    return 0;
}

static int read_stage(const char *path, struct attn_pack *pack, char *why, size_t size)
{
    static const char *const stages[] = {"raw", "softcap", "bias"};
    const char *text = attn_st_metadata(&pack->file, "scores_stage");
    const bool given = attn_st_find(&pack->file, "scores") != NULL;
    if (!given && text == NULL)
        return 0;
    if (!given)
        return attn_pack_fail(path, why, size, "scores_stage is given, but no tensor 'scores'");
    for (int stage = 0; text != NULL && stage < 3; stage++)
        if (strcmp(text, stages[stage]) == 0) {
            pack->scores_stage = stage;
            return 0;
        }
    return attn_pack_fail(path, why, size,
                          "tensor 'scores' needs metadata scores_stage=raw|softcap|bias");
}

/* tokens: for each batch a list of Sk strings. *tokens is NULL when there are none. */
static int parse_tokens(const char *path, const struct attn_pack *pack, json_t **tokens, char *why,
                        size_t size)
{
    const char *text = attn_st_metadata(&pack->file, "tokens");
    *tokens = NULL;
    if (text == NULL)
        return 0;
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    bool fits = json_is_array(root) && json_array_size(root) == (size_t)pack->c.b;
    for (size_t b = 0; fits && b < json_array_size(root); b++) {
        const json_t *list = json_array_get(root, b);
        fits = json_is_array(list) && json_array_size(list) == (size_t)pack->c.sk;
        for (size_t t = 0; fits && t < json_array_size(list); t++)
            fits = json_is_string(json_array_get(list, t));
    }
    if (!fits) {
        json_decref(root);
        return attn_pack_fail(path, why, size,
                              "metadata tokens is not %lld JSON lists of %lld strings",
                              (long long)pack->c.b, (long long)pack->c.sk);
    }
    *tokens = root;
    return 0;
}

int attn_pack_read_notes(const char *path, struct attn_pack *pack, char *why, size_t size)
{
    json_t *tokens;
    if (read_tolerance(path, &pack->file, "rtol", 1e-5, &pack->rtol, why, size) != 0 ||
        read_tolerance(path, &pack->file, "atol", 1e-6, &pack->atol, why, size) != 0 ||
        read_stage(path, pack, why, size) != 0 || parse_tokens(path, pack, &tokens, why, size) != 0)
        return -1;
    json_decref(tokens);
    return 0;
}

/* An expected tensor as doubles; *values stays NULL if the pack has none. */
static int load_answer(const char *path, const struct attn_pack *pack, const char *name,
                       double **values, char *why, size_t size)
{
    const struct attn_st_entry *entry = attn_st_find(&pack->file, name);
    if (entry == NULL)
        return 0;
    const size_t count = entry->bytes / attn_dtype_size(entry->dtype);
    double *wide = count <= SIZE_MAX / sizeof *wide ? malloc(count * sizeof *wide + 1) : NULL;
    if (wide == NULL)
        return attn_pack_fail(path, why, size, "no memory for expected '%s'", name);
    for (size_t at = 0; at < count; at++)
        wide[at] = attn_dtype_load(entry->dtype, entry->data, (int64_t)at);
    *values = wide;
    return 0;
}

static int load_tokens(const char *path, const struct attn_pack *pack,
                       struct attn_instance *instance, char *why, size_t size)
{
    json_t *root;
    if (parse_tokens(path, pack, &root, why, size) != 0)
        return -1;
    if (root == NULL)
        return 0;
    int status = -1;
    const size_t batches = (size_t)pack->c.b, each = (size_t)pack->c.sk;
    instance->tokens = calloc(batches * each + 1, sizeof *instance->tokens);
    if (instance->tokens == NULL) {
        attn_pack_fail(path, why, size, "no memory for its tokens");
        goto out;
    }
    instance->n_tokens = pack->c.sk;
    for (size_t t = 0; t < batches * each; t++) {
        const json_t *list = json_array_get(root, t / each);
        instance->tokens[t] = strdup(json_string_value(json_array_get(list, t % each)));
        if (instance->tokens[t] == NULL) {
            attn_pack_fail(path, why, size, "no memory for its tokens");
            goto out;
        }
    }
    status = 0;
out:
    json_decref(root);
    return status;
}

int attn_pack_load_answers(const char *path, const struct attn_pack *pack,
                           struct attn_instance *instance, char *why, size_t size)
{
    struct attn_expected *expected = &instance->expected;
    expected->rtol = pack->rtol;
    expected->atol = pack->atol;
    expected->scores_stage = pack->scores_stage;
    const struct ref_op *op = attn_case_op(&pack->c);
    for (int o = 0; o < REF_OUTPUTS && op->outputs[o].role; o++)
        if (load_answer(path, pack, op->outputs[o].name, &expected->output[o], why, size) != 0)
            return -1;
    if (load_answer(path, pack, "scores", &expected->scores, why, size) != 0)
        return -1;
    const char *source = attn_st_metadata(&pack->file, "source");
    if (source != NULL && (instance->source = strdup(source)) == NULL)
        return attn_pack_fail(path, why, size, "no memory for its source");
    return load_tokens(path, pack, instance, why, size);
}
