/* SPDX-License-Identifier: Apache-2.0 */
/* kept.c - names of kept weights. */
#include "results/kept.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

/* Ids have 16 characters, backends at most 31: four times that is room enough. */
#define WORD_MAX 64

static bool is_word(const char *text)
{
    size_t length = strlen(text);
    return length > 0 && length <= WORD_MAX &&
           strspn(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-") ==
               length;
}

int attn_kept_name(const char *id, const char *backend, const char *options,
                   char name[ATTN_KEPT_NAME_MAX])
{
    char suffix[16] = "";
    if (!is_word(id) || !is_word(backend))
        return -1;
    if (*options)
        snprintf(suffix, sizeof suffix, "-%08lx",
                 (unsigned long)crc32_z(0, (const unsigned char *)options, strlen(options)));
    snprintf(name, ATTN_KEPT_NAME_MAX, ATTN_KEPT_FOLDER "/%s-%s%s.safetensors", id, backend,
             suffix);
    return 0;
}
