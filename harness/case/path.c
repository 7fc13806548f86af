/* SPDX-License-Identifier: Apache-2.0 */
/* path.c - data= and sha256=: the path of a pack, and the hash of its bytes. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "case/language.h"

/* In a case line a path escapes as %XX what the line cannot hold: blanks, commas, '#', '%', and
 * bytes that are not printable ASCII. */
static const char plain[] = "._-/+=:@~()[]{}!$&";

static int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return -1;
}

/* Decodes `word` to `to`, which has room for it; false on a bad escape. */
static bool decode(struct attn_word word, char *to)
{
    for (size_t i = 0; i < word.length; i++) {
        int byte = (unsigned char)word.text[i];
        if (byte == '%') {
            int high = i + 2 < word.length ? hex_value(word.text[i + 1]) : -1;
            int low = i + 2 < word.length ? hex_value(word.text[i + 2]) : -1;
            byte = high < 0 || low < 0 ? 0 : 16 * high + low;
            i += 2;
        }
        if (byte == 0)
            return false;
        *to++ = (char)byte;
    }
    *to = '\0';
    return true;
}

int attn_parse_data(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                    const struct attn_origin *origin)
{
    (void)key;
    const char *slash = origin->file && word.text[0] != '/' ? strrchr(origin->file, '/') : NULL;
    size_t folder = slash ? (size_t)(slash - origin->file) + 1 : 0;
    char *path = malloc(folder + word.length + 1);
    if (path == NULL)
        return attn_case_error(origin, word.column, "no memory");
    memcpy(path, origin->file ? origin->file : "", folder);
    if (!decode(word, path + folder)) {
        free(path);
        return attn_case_error(origin, word.column, "bad escape in '%.*s': %%XX, upper-case hex",
                               attn_word_shown(word), word.text);
    }
    free(c->data);
    c->data = path;
    return 0;
}

int attn_parse_sha256(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                      const struct attn_origin *origin)
{
    (void)key;
    bool legal = word.length == sizeof c->data_hash - 1;
    for (size_t i = 0; legal && i < word.length; i++)
        legal =
            isdigit((unsigned char)word.text[i]) || (word.text[i] >= 'a' && word.text[i] <= 'f');
    if (!legal)
        return attn_case_error(origin, word.column, "'%.*s' is not 64 lower-case hex digits",
                               attn_word_shown(word), word.text);
    memcpy(c->data_hash, word.text, word.length);
    c->data_hash[word.length] = '\0';
    return 0;
}

void attn_write_data(const struct attn_case_key *key, const struct attn_case *c,
                     struct attn_sink *sink)
{
    if (c->data == NULL || (!sink->path && c->data_hash[0]))
        return;
    attn_sink_key(sink, key);
    for (const char *at = c->data; *at; at++) {
        unsigned char byte = (unsigned char)*at;
        bool direct = byte < 0x80 && (isalnum(byte) || strchr(plain, byte));
        attn_sink_format(sink, direct ? "%c" : "%%%02X", byte);
    }
}

void attn_write_sha256(const struct attn_case_key *key, const struct attn_case *c,
                       struct attn_sink *sink)
{
    if (c->data_hash[0] == '\0')
        return;
    attn_sink_key(sink, key);
    attn_sink_text(sink, c->data_hash);
}
