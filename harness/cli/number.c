/* SPDX-License-Identifier: Apache-2.0 */
/* number.c - numbers with their units. */
#include "cli/number.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool attn_integer_parse(const char *text, long long least, long long most, long long *value)
{
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return *text && !*end && errno == 0 && *value >= least && *value <= most;
}

double attn_duration_parse(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || !(value >= 0) || isinf(value))
        return -1;
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"m", 60}, {"h", 3600}};
    for (size_t u = 0; u < sizeof units / sizeof *units; u++)
        if (!strcmp(end, units[u].unit))
            return value * units[u].seconds;
    return -1;
}

double attn_size_parse(const char *text)
{
    static const char units[] = "KMGT";
    char *end;
    const double number = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (end == text || (*end && !unit) || (unit && end[1]) || !(number >= 0))
        return -1;
    return unit ? ldexp(number, 10 * (int)(unit - units + 1)) : number;
}

double attn_percentage_parse(const char *text)
{
    char *end;
    const double percent = strtod(text, &end);
    const bool whole = end != text && (!*end || !strcmp(end, "%"));
    return whole && percent >= 0 && percent < 100 ? percent : -1;
}
