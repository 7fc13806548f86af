/* SPDX-License-Identifier: Apache-2.0 */
/* canonical.c - the one spelling of a case, and the identity made from it. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case/language.h"

static void append(struct attn_sink *sink, const char *text, size_t length)
{
    if (sink->hash)
        SHA256Update(sink->hash, (const uint8_t *)text, length);
    if (sink->length + 1 < sink->size) {
        size_t room = sink->size - sink->length - 1, taken = length < room ? length : room;
        memcpy(sink->text + sink->length, text, taken);
        sink->text[sink->length + taken] = '\0';
    }
    sink->length += length;
}

void attn_sink_text(struct attn_sink *sink, const char *text)
{
    append(sink, text, strlen(text));
}

void attn_sink_format(struct attn_sink *sink, const char *format, ...)
{
    char text[64];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    assert(length >= 0 && (size_t)length < sizeof text);
    append(sink, text, (size_t)length);
}

/* The fewest digits that read back as the same double; 17 always do. Without an exponent if that is
 * shorter (100, not 1e+02). */
void attn_sink_real(struct attn_sink *sink, double value)
{
    char text[40], full[40];
    int digits = 1;
    do
        snprintf(text, sizeof text, "%.*g", digits, value);
    while (strtod(text, NULL) != value && digits++ < 17);
    snprintf(full, sizeof full, "%.17g", value);
    attn_sink_text(sink, strlen(full) < strlen(text) ? full : text);
}

void attn_sink_key(struct attn_sink *sink, const struct attn_case_key *key)
{
    if (sink->length > 0)
        attn_sink_text(sink, " ");
    attn_sink_text(sink, key->name);
    attn_sink_text(sink, "=");
}

static void write_case(const struct attn_case *c, struct attn_sink *sink)
{
    for (const struct attn_case_key *key = attn_case_keys(); key->name; key++)
        if (key->rule->write)
            key->rule->write(key, c, sink);
}

size_t attn_case_canonical(const struct attn_case *c, char *text, size_t size)
{
    static const char cut[] = "...";
    struct attn_sink sink = {.text = text, .size = size, .path = true};
    if (size > 0)
        text[0] = '\0';
    write_case(c, &sink);
    if (sink.length >= size && size > sizeof cut)
        memcpy(text + size - sizeof cut, cut, sizeof cut);
    return sink.length;
}

void attn_case_id(const struct attn_case *c, char id[ATTN_CASE_ID_LEN + 1])
{
    SHA2_CTX hash;
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA256Init(&hash);
    struct attn_sink sink = {.hash = &hash};
    write_case(c, &sink);
    SHA256Final(digest, &hash);
    for (size_t i = 0; i < ATTN_CASE_ID_LEN / 2; i++)
        snprintf(id + 2 * i, 3, "%02x", digest[i]);
}

const char *attn_case_label(const struct attn_case *c, char *text, size_t size)
{
    if (c->name[0])
        snprintf(text, size, "%s", c->name);
    else
        attn_case_canonical(c, text, size);
    return text;
}
