/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.c - reads the format. Nothing in the file is used before it is checked. */
#include "pack/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "pack/message.h"
#include "reference/dtype.h"

/* The largest header. The format's own writers stop at 100 MB; our packs have some dozens of
 * tensors. */
#define HEADER_MAX (16u << 20)

/* Characters of a word from the file that a message shows. */
#define SHOWN 64

struct reader {
    const char *path;
    struct attn_st_file *file;
    const unsigned char *data; /* after the header */
    size_t bytes;
    char *why;
    size_t size;
};

#define FAIL(reader, ...) attn_pack_fail((reader)->path, (reader)->why, (reader)->size, __VA_ARGS__)

/* Copies the whole file. A file that shrinks under a mapping would cause a fault, not an error. */
static int read_whole(struct reader *r)
{
    const int fd = open(r->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return FAIL(r, "cannot be opened: %s", strerror(errno));
    int status = -1;
    struct stat info;
    size_t done = 0;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        FAIL(r, "is not a regular file");
        goto out;
    }
    if (info.st_size < 8) {
        FAIL(r, "is too short for a safetensors file (%lld bytes)", (long long)info.st_size);
        goto out;
    }
    const size_t length = (size_t)info.st_size;
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        FAIL(r, "no memory for its %zu bytes", length);
        goto out;
    }
    r->file->mapping = memory;
    r->file->mapped = length;
    while (done < length) {
        const ssize_t got = read(fd, (char *)memory + done, length - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            FAIL(r, "cannot be read: %s", got < 0 ? strerror(errno) : "it became shorter");
            goto out;
        }
        done += (size_t)got;
    }
    status = 0;
out:
    close(fd);
    return status;
}

static const struct {
    const char *name;
    uint32_t dtype;
} type_names[] = {{"F64", ATTN_F64},   {"F32", ATTN_F32}, {"F16", ATTN_F16}, {"BF16", ATTN_BF16},
                  {"BOOL", ATTN_BOOL}, {"I32", ATTN_I32}, {"I64", ATTN_I64}};

const char *attn_st_type_name(uint32_t dtype)
{
    for (size_t t = 0; t < sizeof type_names / sizeof type_names[0]; t++)
        if (type_names[t].dtype == dtype)
            return type_names[t].name;
    return NULL;
}

static int read_dtype(struct reader *r, const char *name, const json_t *value, uint32_t *dtype)
{
    const char *text = json_string_value(value);
    if (text == NULL)
        return FAIL(r, "tensor '%.*s' has no dtype", SHOWN, name);
    for (size_t t = 0; t < sizeof type_names / sizeof type_names[0]; t++)
        if (strcmp(text, type_names[t].name) == 0) {
            *dtype = type_names[t].dtype;
            return 0;
        }
    return FAIL(r, "tensor '%.*s' has dtype '%.*s'; known are F64, F32, F16, BF16, BOOL, I32, I64",
                SHOWN, name, SHOWN, text);
}

static int read_shape(struct reader *r, const json_t *value, struct attn_st_entry *entry)
{
    if (!json_is_array(value))
        return FAIL(r, "tensor '%.*s' has no shape", SHOWN, entry->name);
    if (json_array_size(value) > ATTN_MAX_RANK)
        return FAIL(r, "tensor '%.*s' has rank %zu, over %d", SHOWN, entry->name,
                    json_array_size(value), ATTN_MAX_RANK);
    entry->rank = (uint32_t)json_array_size(value);
    entry->bytes = attn_dtype_size(entry->dtype);
    bool empty = false;
    for (uint32_t a = 0; a < entry->rank; a++) {
        const json_t *extent = json_array_get(value, a);
        if (!json_is_integer(extent) || json_integer_value(extent) < 0)
            return FAIL(r, "tensor '%.*s' has an extent that is not a count", SHOWN, entry->name);
        entry->shape[a] = json_integer_value(extent);
        empty = empty || entry->shape[a] == 0;
        /* the product of extents must fit even if a tensor is empty, so that no later code checks
         */
        const size_t factor = entry->shape[a] == 0 ? 1 : (size_t)entry->shape[a];
        if (__builtin_mul_overflow(entry->bytes, factor, &entry->bytes) || entry->bytes > INT64_MAX)
            return FAIL(r, "tensor '%.*s' has a shape whose size overflows", SHOWN, entry->name);
    }
    if (empty)
        entry->bytes = 0;
    return 0;
}

static int read_entry(struct reader *r, const char *name, const json_t *value)
{
    struct attn_st_entry *entry = &r->file->entries[r->file->count];
    if (!json_is_object(value))
        return FAIL(r, "tensor '%.*s' is not described by an object", SHOWN, name);
    entry->name = strdup(name);
    if (entry->name == NULL)
        return FAIL(r, "no memory");
    r->file->count++;
    if (read_dtype(r, name, json_object_get(value, "dtype"), &entry->dtype) != 0 ||
        read_shape(r, json_object_get(value, "shape"), entry) != 0)
        return -1;
    const json_t *offsets = json_object_get(value, "data_offsets");
    if (json_array_size(offsets) != 2 || !json_is_integer(json_array_get(offsets, 0)) ||
        !json_is_integer(json_array_get(offsets, 1)))
        return FAIL(r, "tensor '%.*s' has no data_offsets of two integers", SHOWN, name);
    if (json_object_size(value) != 3)
        return FAIL(r, "tensor '%.*s' has a key beyond dtype, shape, data_offsets", SHOWN, name);
    const long long begin = json_integer_value(json_array_get(offsets, 0));
    const long long end = json_integer_value(json_array_get(offsets, 1));
    if (begin < 0 || end < begin || (unsigned long long)end > r->bytes)
        return FAIL(r, "tensor '%.*s' lies at [%lld, %lld), outside the file's %zu bytes of data",
                    SHOWN, name, begin, end, r->bytes);
    if ((size_t)(end - begin) != entry->bytes)
        return FAIL(r, "tensor '%.*s' takes %lld bytes, but its shape and dtype say %zu", SHOWN,
                    name, end - begin, entry->bytes);
    entry->data = r->data + begin;
    return 0;
}

static int read_meta(struct reader *r, const json_t *object)
{
    if (!json_is_object(object))
        return FAIL(r, "__metadata__ is not an object");
    r->file->meta = calloc(json_object_size(object) + 1, sizeof *r->file->meta);
    if (r->file->meta == NULL)
        return FAIL(r, "no memory");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        struct attn_st_meta *meta = &r->file->meta[r->file->n_meta];
        if (!json_is_string(value))
            return FAIL(r, "metadata '%.*s' is not a string", SHOWN, key);
        r->file->n_meta++;
        meta->key = strdup(key);
        meta->value = strdup(json_string_value(value));
        if (meta->key == NULL || meta->value == NULL)
            return FAIL(r, "no memory");
    }
    return 0;
}

static int by_place(const void *left, const void *right)
{
    const struct attn_st_entry *a = left, *b = right;
    const char *p = a->data, *q = b->data;
    if (p != q)
        return p < q ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

/* Every byte of the data belongs to exactly one tensor. */
static int check_tiling(struct reader *r)
{
    struct attn_st_file *file = r->file;
    if (file->count > 0)
        qsort(file->entries, file->count, sizeof *file->entries, by_place);
    size_t covered = 0;
    for (size_t e = 0; e < file->count; e++) {
        const size_t begin = (size_t)((const unsigned char *)file->entries[e].data - r->data);
        if (begin != covered)
            return FAIL(r, "tensor '%.*s' %s", SHOWN, file->entries[e].name,
                        begin < covered ? "overlaps another" : "leaves a gap before it");
        covered += file->entries[e].bytes;
    }
    if (covered != r->bytes)
        return FAIL(r, "%zu bytes after the last tensor belong to no tensor", r->bytes - covered);
    return 0;
}

static int read_header(struct reader *r)
{
    const unsigned char *bytes = r->file->mapping;
    uint64_t length = 0;
    for (int byte = 7; byte >= 0; byte--)
        length = length << 8 | bytes[byte];
    if (length > HEADER_MAX)
        return FAIL(r, "says that its header has %llu bytes, over the limit of %u",
                    (unsigned long long)length, HEADER_MAX);
    if (length > r->file->mapped - 8)
        return FAIL(r, "is truncated: its header has %llu bytes, the file only %zu",
                    (unsigned long long)length, r->file->mapped);
    if (length == 0 || bytes[8] != '{')
        return FAIL(r, "is not a safetensors file: its header does not start with '{'");
    r->data = bytes + 8 + length;
    r->bytes = r->file->mapped - 8 - (size_t)length;

    json_error_t error;
    json_t *root =
        json_loadb((const char *)bytes + 8, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        return FAIL(r, "has a header that is not JSON: %s", error.text);
    int status = -1;
    r->file->entries = calloc(json_object_size(root) + 1, sizeof *r->file->entries);
    if (r->file->entries == NULL) {
        FAIL(r, "no memory");
        goto out;
    }
    const char *name;
    json_t *value;
    json_object_foreach(root, name, value)
    {
        if ((strcmp(name, "__metadata__") == 0 ? read_meta(r, value)
                                               : read_entry(r, name, value)) != 0)
            goto out;
    }
    status = check_tiling(r);
out:
    json_decref(root);
    return status;
}

int attn_st_open(const char *path, struct attn_st_file *file, char *why, size_t size)
{
    struct attn_st_file opened = {0};
    struct reader reader = {.path = path, .file = &opened, .why = why, .size = size};
    if (read_whole(&reader) != 0 || read_header(&reader) != 0) {
        attn_st_close(&opened);
        return -1;
    }
    *file = opened;
    return 0;
}

void attn_st_close(struct attn_st_file *file)
{
    for (size_t e = 0; e < file->count; e++)
        free(file->entries[e].name);
    for (size_t m = 0; m < file->n_meta; m++) {
        free(file->meta[m].key);
        free(file->meta[m].value);
    }
    free(file->entries);
    free(file->meta);
    if (file->mapping != NULL)
        munmap(file->mapping, file->mapped);
    *file = (struct attn_st_file){0};
}

const struct attn_st_entry *attn_st_find(const struct attn_st_file *file, const char *name)
{
    for (size_t e = 0; e < file->count; e++)
        if (strcmp(file->entries[e].name, name) == 0)
            return &file->entries[e];
    return NULL;
}

const char *attn_st_metadata(const struct attn_st_file *file, const char *key)
{
    for (size_t m = 0; m < file->n_meta; m++)
        if (strcmp(file->meta[m].key, key) == 0)
            return file->meta[m].value;
    return NULL;
}
