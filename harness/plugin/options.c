/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - "key=value,..." against a backend's table of options. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/loader.h"

static const struct attn_option_spec *find_spec(const struct attn_backend *backend, const char *key)
{
    for (uint32_t o = 0; o < backend->n_options; o++)
        if (strcmp(backend->options[o].key, key) == 0)
            return &backend->options[o];
    return NULL;
}

static bool is_int64(const char *text)
{
    char *end;
    errno = 0;
    (void)strtoll(text, &end, 10);
    return end != text && *end == 0 && errno == 0 && strspn(text, "+-0123456789") == strlen(text);
}

/* Is `value` one of "a|b|c". */
static bool is_choice(const char *choices, const char *value)
{
    const size_t length = strlen(value);
    for (const char *at = choices;; at++) {
        const size_t n = strcspn(at, "|");
        if (n == length && strncmp(at, value, n) == 0)
            return true;
        at += n;
        if (*at == 0)
            return false;
    }
}

static int check_value(const struct attn_option_spec *spec, const char *value, char *why,
                       size_t size)
{
    switch (spec->type) {
    case ATTN_OPTION_INT:
        if (is_int64(value))
            return 0;
        snprintf(why, size, "option %s needs a decimal number, not '%s'", spec->key, value);
        return -1;
    case ATTN_OPTION_BOOL:
        if (strcmp(value, "0") == 0 || strcmp(value, "1") == 0)
            return 0;
        snprintf(why, size, "option %s needs 0 or 1, not '%s'", spec->key, value);
        return -1;
    default:
        if (is_choice(spec->choices, value))
            return 0;
        snprintf(why, size, "option %s needs one of %s, not '%s'", spec->key, spec->choices, value);
        return -1;
    }
}

/* "a, b, c" of all keys, for the message about an unknown one. */
static const char *all_keys(const struct attn_backend *backend, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (uint32_t o = 0; o < backend->n_options && used < size; o++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", o ? ", " : "",
                                 backend->options[o].key);
    return backend->n_options ? text : "none";
}

int attn_options_parse(const struct attn_backend *backend, const char *text,
                       const struct attn_options_room *room, char *why, size_t size)
{
    struct attn_option *options = room->options;
    char keys[256], *rest;
    int n = 0;

    if (strlen(text) >= room->size) {
        snprintf(why, size, "the list of options is longer than %zu characters", room->size - 1);
        return -1;
    }
    memcpy(room->text, text, strlen(text) + 1);
    for (char *word = strtok_r(room->text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        char *value = strchr(word, '=');
        if (!value || value == word) {
            snprintf(why, size, "option '%s' is not of the form key=value", word);
            return -1;
        }
        *value++ = 0;
        const struct attn_option_spec *spec = find_spec(backend, word);
        if (!spec) {
            snprintf(why, size, "backend %s has no option '%s' (it has: %s)", backend->name, word,
                     all_keys(backend, keys, sizeof(keys)));
            return -1;
        }
        if (check_value(spec, value, why, size) != 0)
            return -1;
        for (int o = 0; o < n; o++) {
            if (strcmp(options[o].key, word) == 0) {
                snprintf(why, size, "option %s is given twice", word);
                return -1;
            }
        }
        if (n == room->most) {
            snprintf(why, size, "more than %d options", room->most);
            return -1;
        }
        options[n++] = (struct attn_option){.key = word, .value = value};
    }
    return n;
}
