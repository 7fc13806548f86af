/* SPDX-License-Identifier: Apache-2.0 */
/* words.c - words of a case line, the values they stand for, and messages about them. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case/language.h"

enum {
    SHOWN_WORD = 40, /* characters of an offending word in a message */
    SHOWN_FILE = 120 /* characters of a file's name: its end says more than its beginning */
};

int attn_case_error(const struct attn_origin *origin, size_t column, const char *format, ...)
{
    if (origin->size == 0)
        return -1;
    int used;
    if (origin->file == NULL) {
        used = snprintf(origin->why, origin->size, "case, column %zu: ", column);
    } else {
        size_t length = strlen(origin->file);
        size_t skipped = length > SHOWN_FILE ? length - SHOWN_FILE : 0;
        used = snprintf(origin->why, origin->size, "%s%s:%d:%zu: ", skipped ? "..." : "",
                        origin->file + skipped, origin->line, column);
    }
    if (used < 0 || (size_t)used >= origin->size)
        return -1;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(origin->why + used, origin->size - (size_t)used, format, arguments);
    va_end(arguments);
    return -1;
}

int attn_word_shown(struct attn_word word)
{
    return word.length > SHOWN_WORD ? SHOWN_WORD : (int)word.length;
}

/* The candidate that other libraries call by this word; NULL if none of these is. */
static const char *other_name(const char *word, const char *const *candidates, size_t count)
{
    static const char *const names[][2] = {
        {"skv", "sk"},      {"float64", "f64"}, {"fp64", "f64"},      {"double", "f64"},
        {"float32", "f32"}, {"fp32", "f32"},    {"float", "f32"},     {"float16", "f16"},
        {"fp16", "f16"},    {"half", "f16"},    {"bfloat16", "bf16"},
    };
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        for (size_t c = 0; c < count && strcmp(word, names[n][0]) == 0; c++)
            if (strcmp(candidates[c], names[n][1]) == 0)
                return candidates[c];
    return NULL;
}

int attn_word_unknown(const struct attn_origin *origin, struct attn_word word, const char *what,
                      const char *const *candidates, size_t count, const char *values)
{
    char text[SHOWN_WORD + 1];
    snprintf(text, sizeof text, "%.*s", attn_word_shown(word), word.text);
    const char *near = other_name(text, candidates, count);
    if (!near)
        near = attn_nearest(text, candidates, count);
    if (near)
        return attn_case_error(origin, word.column, "unknown %s '%s'; did you mean '%s'?", what,
                               text, near);
    return attn_case_error(origin, word.column, "unknown %s '%s'%s%s", what, text,
                           values ? "; legal: " : "", values ? values : "");
}

bool attn_word_is(struct attn_word word, const char *text)
{
    return strlen(text) == word.length && memcmp(word.text, text, word.length) == 0;
}

bool attn_word_split(struct attn_word *rest, char separator, struct attn_word *part)
{
    if (rest->text == NULL)
        return false;
    *part = *rest;
    const char *end = rest->length ? memchr(rest->text, separator, rest->length) : NULL;
    if (end == NULL) {
        *rest = (struct attn_word){NULL, 0, 0};
        return true;
    }
    part->length = (size_t)(end - rest->text);
    rest->text = end + 1;
    rest->length -= part->length + 1;
    rest->column += part->length + 1;
    return true;
}

/* Digits without a leading zero, so that one number has one spelling. */
static bool plain_digits(const char *text, size_t length)
{
    if (length == 0 || (length > 1 && text[0] == '0'))
        return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    return true;
}

/* The value of digits; false when it is above `max`. */
static bool digits_value(const char *text, size_t length, uint64_t max, uint64_t *value)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < length; i++) {
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (sum > (max - digit) / 10)
            return false;
        sum = 10 * sum + digit;
    }
    *value = sum;
    return sum <= max;
}

int attn_word_integer(struct attn_word word, int64_t min, int64_t max, int64_t *value,
                      const struct attn_origin *origin)
{
    bool negative = word.length > 0 && word.text[0] == '-';
    size_t sign = negative ? 1 : 0;
    if (!plain_digits(word.text + sign, word.length - sign) || (negative && word.text[1] == '0'))
        return attn_case_error(origin, word.column, "'%.*s' is not a whole number",
                               attn_word_shown(word), word.text);
    uint64_t digits = 0;
    bool fits = digits_value(word.text + sign, word.length - sign, INT64_MAX, &digits);
    int64_t number = negative ? -(int64_t)digits : (int64_t)digits;
    if (!fits || number < min || number > max)
        return attn_case_error(origin, word.column, "'%.*s' is outside %lld..%lld",
                               attn_word_shown(word), word.text, (long long)min, (long long)max);
    *value = number;
    return 0;
}

int attn_word_unsigned(struct attn_word word, uint64_t *value, const struct attn_origin *origin)
{
    if (!plain_digits(word.text, word.length))
        return attn_case_error(origin, word.column, "'%.*s' is not a whole number",
                               attn_word_shown(word), word.text);
    if (!digits_value(word.text, word.length, UINT64_MAX, value))
        return attn_case_error(origin, word.column, "'%.*s' is outside 0..%llu",
                               attn_word_shown(word), word.text, (unsigned long long)UINT64_MAX);
    return 0;
}

static size_t skip_digits(const char *text, size_t at)
{
    while (text[at] >= '0' && text[at] <= '9')
        at++;
    return at;
}

/* [-]digits[.digits][e[+-]digits]: strtod also reads hexadecimal, "inf" and "nan". */
static bool plain_real(const char *text)
{
    size_t at = text[0] == '-' ? 1 : 0;
    size_t end = skip_digits(text, at);
    if (end == at)
        return false;
    if (text[end] == '.') {
        at = end + 1;
        end = skip_digits(text, at);
        if (end == at)
            return false;
    }
    if (text[end] == 'e') {
        at = end + (text[end + 1] == '-' || text[end + 1] == '+' ? 2 : 1);
        end = skip_digits(text, at);
        if (end == at)
            return false;
    }
    return text[end] == '\0';
}

int attn_word_real(struct attn_word word, double *value, const struct attn_origin *origin)
{
    char text[64] = "";
    if (word.length < sizeof text)
        memcpy(text, word.text, word.length);
    if (!plain_real(text))
        return attn_case_error(origin, word.column, "'%.*s' is not a number", attn_word_shown(word),
                               word.text);
    double number = strtod(text, NULL);
    if (!isfinite(number))
        return attn_case_error(origin, word.column, "'%.*s' is too large", attn_word_shown(word),
                               word.text);
    *value = number + 0.0; /* -0 and 0 are one value, with one spelling */
    return 0;
}
