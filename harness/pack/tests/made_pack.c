/* SPDX-License-Identifier: Apache-2.0 */
/* made_pack.c - small packs for tests. */
#include "made_pack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "reference/dtype.h"

char made_path[64];
static char source_key[] = "source", source_text[] = "a test";
static char folder[] = "/tmp/attn_pack_XXXXXX";

const struct made_tensor made_attention[] = {{"q", ATTN_F32, "2,2,3,5"},
                                             {"k", ATTN_F32, "2,1,4,5"},
                                             {"v", ATTN_F32, "2,1,4,6"},
                                             {NULL, 0, NULL}};

const struct made_tensor made_mha[] = {{"x_q", ATTN_F32, "2,3,7"}, {"x_k", ATTN_F32, "2,4,8"},
                                       {"x_v", ATTN_F32, "2,4,9"}, {"w_q", ATTN_F32, "10,7"},
                                       {"w_k", ATTN_F32, "10,8"},  {"w_v", ATTN_F32, "12,9"},
                                       {"w_o", ATTN_F32, "10,12"}, {NULL, 0, NULL}};

int made_begin(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(made_path, sizeof made_path, "%s/made.safetensors", folder);
    return 0;
}

int made_end(void **state)
{
    (void)state;
    unlink(made_path);
    return rmdir(folder);
}

static void fill_entry(const struct made_tensor *tensor, struct attn_st_entry *entry)
{
    *entry =
        (struct attn_st_entry){.name = (char *)(uintptr_t)tensor->name, .dtype = tensor->dtype};
    int64_t count = 1;
    for (const char *at = tensor->shape; *at != '\0'; at += *at == ',') {
        char *end;
        entry->shape[entry->rank] = strtoll(at, &end, 10);
        count *= entry->shape[entry->rank++];
        at = end;
    }
    const size_t size = attn_dtype_size(tensor->dtype);
    entry->bytes = (size_t)count * size;
    void *data = malloc(entry->bytes + 1);
    assert_non_null(data);
    for (int64_t i = 0; i < count; i++) {
        double value = 0.25 * (double)(i % 7);
        if (tensor->dtype == ATTN_BOOL)
            value = 1;
        else if (tensor->dtype == ATTN_I32 || tensor->dtype == ATTN_I64)
            value = (double)(i % 2);
        attn_dtype_store(tensor->dtype, data, i, value);
    }
    entry->data = data;
}

static const struct made_tensor *find(const struct made_tensor *tensors, const char *name)
{
    for (; tensors != NULL && tensors->name != NULL; tensors++)
        if (strcmp(tensors->name, name) == 0)
            return tensors;
    return NULL;
}

void made_write(const struct made_tensor *base, const struct made_tensor *changes,
                const char *const *metadata)
{
    struct attn_st_entry entries[40];
    struct attn_st_meta meta[8];
    size_t count = 0, n_meta = 0;
    for (const struct made_tensor *t = base; t->name != NULL; t++)
        if (find(changes, t->name) == NULL)
            fill_entry(t, &entries[count++]);
    for (const struct made_tensor *t = changes; t != NULL && t->name != NULL; t++)
        if (t->dtype != 0)
            fill_entry(t, &entries[count++]);
    bool sourced = false;
    for (; metadata[0] != NULL; metadata += 2) {
        sourced = sourced || strcmp(metadata[0], "source") == 0;
        if (metadata[1] != NULL)
            meta[n_meta++] = (struct attn_st_meta){(char *)(uintptr_t)metadata[0],
                                                   (char *)(uintptr_t)metadata[1]};
    }
    if (!sourced)
        meta[n_meta++] = (struct attn_st_meta){source_key, source_text};
    char why[512];
    const int status = attn_st_write(made_path, entries, count, meta, n_meta, why, sizeof why);
    for (size_t e = 0; e < count; e++)
        free((void *)(uintptr_t)entries[e].data);
    if (status != 0)
        fail_msg("%s", why);
}
