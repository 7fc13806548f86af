/* SPDX-License-Identifier: Apache-2.0 */
/* weights.c - packs of kept weights, checked before they are used. */
#include "report/weights.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pack/safetensors.h"
#include "reference/dtype.h"

/* Four times what the harness keeps of a case, with its tokens: the reader takes files whole. */
#define FILE_MAX (16 << 20)

static int refuse(const char *name, const char *what, char *why, size_t size)
{
    snprintf(why, size, "%s: %s", name, what);
    return -1;
}

/* NULL where there are none; false where they do not fit the weights. */
static bool read_tokens(const char *text, const int64_t shape[4], json_t **tokens)
{
    *tokens = NULL;
    if (!text)
        return true;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    bool fits = json_array_size(root) == (size_t)shape[0];
    for (size_t b = 0; fits && b < json_array_size(root); b++) {
        const json_t *list = json_array_get(root, b);
        fits = json_array_size(list) == (size_t)shape[3];
        for (size_t t = 0; fits && t < json_array_size(list); t++)
            fits = json_is_string(json_array_get(list, t));
    }
    if (fits)
        *tokens = root;
    else
        json_decref(root);
    return fits;
}

static int take(const struct attn_st_file *file, const char *name, struct attn_weights *weights,
                char *why, size_t size)
{
    const struct attn_st_entry *entry = attn_st_find(file, "weights");
    if (!entry || entry->rank != 4 || entry->bytes == 0 || !attn_dtype_is_float(entry->dtype))
        return refuse(name, "has no weights with four axes", why, size);
    memcpy(weights->shape, entry->shape, sizeof weights->shape);
    const char *source = attn_st_metadata(file, "source");
    snprintf(weights->source, sizeof weights->source, "%s", source ? source : "");
    const size_t count = entry->bytes / attn_dtype_size(entry->dtype);
    weights->values = calloc(count, sizeof *weights->values);
    if (!weights->values)
        return refuse(name, "no memory for its weights", why, size);
    for (size_t at = 0; at < count; at++)
        weights->values[at] = attn_dtype_load(entry->dtype, entry->data, (int64_t)at);
    if (read_tokens(attn_st_metadata(file, "tokens"), weights->shape, &weights->tokens))
        return 0;
    free(weights->values);
    return refuse(name, "its tokens do not fit its weights", why, size);
}

int attn_weights_read(const char *run, const char *name, struct attn_weights *weights, char *why,
                      size_t size)
{
    char path[4352], reason[512];
    struct attn_st_file file;
    struct stat info;
    int n = snprintf(path, sizeof path, "%s/%s", run, name);
    if (n < 0 || (size_t)n >= sizeof path)
        return refuse(name, "its path is too long", why, size);
    if (stat(path, &info) == 0 && info.st_size > FILE_MAX)
        return refuse(name, "is larger than any file that the harness keeps", why, size);
    if (attn_st_open(path, &file, reason, sizeof reason) != 0) {
        /* Where the run lies says nothing to whoever reads its report. */
        const size_t folder = strlen(run) + 1;
        snprintf(why, size, "%s", strncmp(reason, path, folder) ? reason : reason + folder);
        return -1;
    }
    struct attn_weights read = {.values = NULL};
    int status = take(&file, name, &read, why, size);
    attn_st_close(&file);
    if (status == 0)
        *weights = read;
    return status;
}

void attn_weights_free(struct attn_weights *weights)
{
    free(weights->values);
    json_decref(weights->tokens);
    memset(weights, 0, sizeof *weights);
}

double attn_weights_at(const struct attn_weights *w, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return w->values[((b * w->shape[1] + h) * w->shape[2] + i) * w->shape[3] + j];
}
