/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_write.c - writes the format: first a temporary file next to the target, then renamed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "pack/message.h"
#include "pack/safetensors.h"
#include "reference/dtype.h"

/* Does the entry's length fit its shape and type? */
static int well_formed(const struct attn_st_entry *entry)
{
    size_t bytes = attn_dtype_size(entry->dtype);
    if (attn_st_type_name(entry->dtype) == NULL || entry->rank > ATTN_MAX_RANK)
        return 0;
    for (uint32_t a = 0; a < entry->rank; a++)
        if (entry->shape[a] < 0 || __builtin_mul_overflow(bytes, (size_t)entry->shape[a], &bytes))
            return 0;
    return bytes == entry->bytes && (bytes == 0 || entry->data != NULL);
}

static json_t *describe_entry(const struct attn_st_entry *entry, size_t begin)
{
    json_t *shape = json_array();
    for (uint32_t a = 0; shape != NULL && a < entry->rank; a++)
        if (json_array_append_new(shape, json_integer(entry->shape[a])) != 0) {
            json_decref(shape);
            shape = NULL;
        }
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", attn_st_type_name(entry->dtype), "shape",
                     shape, "data_offsets", (json_int_t)begin,
                     (json_int_t)begin + (json_int_t)entry->bytes);
}

/* The header's text, padded with spaces so that the data starts at a multiple of 8; NULL: `problem`
 * says why. The caller frees it. */
static char *make_header(const struct attn_st_entry *entries, size_t count,
                         const struct attn_st_meta *meta, size_t n_meta, const char **problem)
{
    char *text = NULL;
    size_t begin = 0;
    json_t *strings = NULL, *root = json_object();
    *problem = "no memory";
    for (size_t m = 0; m < n_meta; m++) {
        if (strings == NULL)
            strings = json_object();
        if (json_object_set_new(strings, meta[m].key, json_string(meta[m].value)) != 0) {
            *problem = "a metadata string is not UTF-8";
            goto out;
        }
    }
    if (strings != NULL && json_object_set(root, "__metadata__", strings) != 0)
        goto out;
    for (size_t e = 0; e < count; e++) {
        if (!well_formed(&entries[e])) {
            *problem = "a tensor's length does not fit its shape and type";
            goto out;
        }
        if (json_object_get(root, entries[e].name) != NULL) {
            *problem = "two tensors have the same name";
            goto out;
        }
        if (json_object_set_new(root, entries[e].name, describe_entry(&entries[e], begin)) != 0)
            goto out;
        if (__builtin_add_overflow(begin, entries[e].bytes, &begin)) {
            *problem = "the tensors' sizes overflow";
            goto out;
        }
    }
    char *compact = json_dumps(root, JSON_COMPACT);
    if (compact != NULL) {
        const size_t length = strlen(compact), padded = (length + 7) / 8 * 8;
        text = realloc(compact, padded + 1);
        if (text == NULL) {
            free(compact);
            goto out;
        }
        memset(text + length, ' ', padded - length);
        text[padded] = '\0';
    }
out:
    json_decref(strings);
    json_decref(root);
    return text;
}

static int write_all(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        const ssize_t put = write(fd, at, bytes);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -1;
        at += put;
        bytes -= (size_t)put;
    }
    return 0;
}

static int write_file(int fd, const char *header, const struct attn_st_entry *entries, size_t count)
{
    const uint64_t length = strlen(header);
    unsigned char prefix[8];
    for (int byte = 0; byte < 8; byte++)
        prefix[byte] = (unsigned char)(length >> (8 * byte));
    if (write_all(fd, prefix, sizeof prefix) != 0 || write_all(fd, header, length) != 0)
        return -1;
    for (size_t e = 0; e < count; e++)
        if (write_all(fd, entries[e].data, entries[e].bytes) != 0)
            return -1;
    return fsync(fd);
}

int attn_st_write(const char *path, const struct attn_st_entry *entries, size_t count,
                  const struct attn_st_meta *meta, size_t n_meta, char *why, size_t size)
{
    const char *problem;
    char *beside = NULL;
    int fd = -1, status = -1;
    char *header = make_header(entries, count, meta, n_meta, &problem);
    if (header == NULL)
        return attn_pack_fail(path, why, size, "cannot be written: %s", problem);
    if (asprintf(&beside, "%s.%ld.tmp", path, (long)getpid()) < 0) {
        beside = NULL;
        attn_pack_fail(path, why, size, "no memory");
        goto out;
    }
    fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0 || write_file(fd, header, entries, count) != 0 || rename(beside, path) != 0) {
        attn_pack_fail(path, why, size, "cannot be written: %s", strerror(errno));
        if (fd >= 0)
            unlink(beside);
        goto out;
    }
    status = 0;
out:
    if (fd >= 0)
        close(fd);
    free(beside);
    free(header);
    return status;
}
