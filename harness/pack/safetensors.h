/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.h - reader and writer of the safetensors format, strict and bounded.
 *
 * Format: u64 little-endian header length, JSON header {name: {dtype, shape, data_offsets}} with an
 * optional __metadata__ of strings, then the data. A file is hostile until checked: the header is
 * at most 16 MiB, offsets must tile the data without gap or overlap, shape times type must equal
 * the length, names are unique. */
#ifndef ATTN_SAFETENSORS_H
#define ATTN_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"

struct attn_st_entry {
    char *name;
    uint32_t dtype; /* enum attn_dtype */
    uint32_t rank;
    int64_t shape[ATTN_MAX_RANK];
    const void *data; /* within the mapping; not necessarily aligned */
    size_t bytes;
};

struct attn_st_meta {
    char *key, *value;
};

struct attn_st_file {
    void *mapping;
    size_t mapped;
    struct attn_st_entry *entries;
    size_t count;
    struct attn_st_meta *meta;
    size_t n_meta;
};

/* The format's name of a type of enum attn_dtype; NULL: it has none. */
const char *attn_st_type_name(uint32_t dtype);

/* Returns 0, or -1 with one sentence that names the file and what is wrong with it. */
int attn_st_open(const char *path, struct attn_st_file *file, char *why, size_t size);
void attn_st_close(struct attn_st_file *file);
const struct attn_st_entry *attn_st_find(const struct attn_st_file *file, const char *name);
const char *attn_st_metadata(const struct attn_st_file *file, const char *key); /* or NULL */

/* Writes entries (dense, row-major data) and metadata; replaces the file in one step. */
int attn_st_write(const char *path, const struct attn_st_entry *entries, size_t count,
                  const struct attn_st_meta *meta, size_t n_meta, char *why, size_t size);

#endif
