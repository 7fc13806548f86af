/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - figures and escaping. */
#include "report/text.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "case/regular.h"
#include "results/replace.h"

const char *attn_figure(double value, char text[ATTN_FIGURE_MAX])
{
    double size = fabs(value);
    if (!isfinite(value))
        snprintf(text, ATTN_FIGURE_MAX, ATTN_DASH);
    else if (size != 0 && (size < 1e-3 || size >= 1e6))
        snprintf(text, ATTN_FIGURE_MAX, "%.2e", value);
    else
        /* Bounds lie where rounding reaches the next digit: 99.96 is 100, not 100.0. */
        snprintf(text, ATTN_FIGURE_MAX, "%.*f",
                 size >= 99.95 || size == 0 ? 0
                 : size >= 9.995            ? 1
                 : size >= 0.9995           ? 2
                                            : 3,
                 value);
    return text;
}

/* Value in the largest unit that keeps it at 1 or above. */
static const char *in_units(double value, double step, const char *const *units, size_t count,
                            char text[ATTN_FIGURE_MAX])
{
    char figure[ATTN_FIGURE_MAX];
    size_t unit = 0;
    if (!isfinite(value))
        return attn_figure(value, text);
    /* 999.5 prints as 1000: step up where rounding to three digits does. */
    for (; unit + 1 < count && value >= step * 0.9995; unit++)
        value /= step;
    snprintf(text, ATTN_FIGURE_MAX, "%s %s", attn_figure(value, figure), units[unit]);
    return text;
}

const char *attn_figure_time(double ns, char text[ATTN_FIGURE_MAX])
{
    static const char *const units[] = {"ns", "\xc2\xb5s", "ms", "s"};
    return in_units(ns, 1000, units, 4, text);
}

const char *attn_figure_bytes(double bytes, char text[ATTN_FIGURE_MAX])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    return in_units(bytes, 1024, units, 5, text);
}

void attn_put_html(FILE *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        /* U+FFFE and U+FFFF, ef bf be and ef bf bf, are no characters in XML 1.0. */
        bool no_character = c == 0xef && (unsigned char)text[1] == 0xbf &&
                            ((unsigned char)text[2] == 0xbe || (unsigned char)text[2] == 0xbf);
        if (no_character)
            text += 2;
        else if (c == '&')
            fputs("&amp;", out);
        else if (c == '<')
            fputs("&lt;", out);
        else if (c == '>')
            fputs("&gt;", out);
        else if (c == '"')
            fputs("&quot;", out);
        else if (c == '\'')
            fputs("&#39;", out);
        else if (c >= 0x20 || c == '\t' || c == '\n' || c == '\r')
            fputc(c, out);
    }
}

void attn_put_markdown(FILE *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '<')
            fputs("&lt;", out);
        else if (c == '&')
            fputs("&amp;", out);
        else if (c < 0x20)
            fputc(' ', out);
        else {
            if (strchr("\\`*_[]|>#~!", c))
                fputc('\\', out);
            fputc(c, out);
        }
    }
}

void attn_put_csv(FILE *out, const char *text)
{
    const bool formula = *text && strchr("=+-@\t\r", *text); /* to a spreadsheet */
    if (!formula && !strpbrk(text, ",\"\r\n")) {
        fputs(text, out);
        return;
    }
    fputs(formula ? "\"'" : "\"", out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

/* Single quotes: gnuplot then expands neither escapes nor backquotes. A quote within becomes the
 * typographic one: gnuplot 5.4 takes a doubled quote at the beginning for an empty string. Control
 * characters would end the line. */
void attn_put_gnuplot(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; *text; text++) {
        if (*text == '\'')
            fputs("\xe2\x80\x99", out);
        else
            fputc((unsigned char)*text < 0x20 ? ' ' : *text, out);
    }
    fputc('\'', out);
}

void attn_put_wrapped(FILE *out, const char *text, int from, int columns)
{
    int at = from;
    while (*text) {
        const int length = (int)strcspn(text, " \n");
        if (at > from && at + 1 + length > columns) {
            fprintf(out, "\n%*s", from, "");
            at = from;
        } else if (at > from) {
            fputc(' ', out);
            at++;
        }
        fprintf(out, "%.*s", length, text);
        at += length;
        text += length + (text[length] != 0);
    }
    fputc('\n', out);
}

int attn_file_write(const char *path, const char *text, size_t length, char *why, size_t size)
{
    if (attn_replace(path, text, length) == 0)
        return 0;
    snprintf(why, size, "%s: %s", path, strerror(errno));
    return -1;
}

char *attn_file_read(const char *path, size_t *length, char *why, size_t size)
{
    const char *reason;
    char *text = attn_regular_read(path, SIZE_MAX, length, &reason);
    if (!text)
        snprintf(why, size, "%s: %s", path, reason);
    return text;
}
