/* SPDX-License-Identifier: Apache-2.0 */
/* number.h - numbers in the arguments of options. All of the text belongs to the number. */
#ifndef ATTN_CLI_NUMBER_H
#define ATTN_CLI_NUMBER_H

#include <stdbool.h>

/* From `least` to `most`. */
bool attn_integer_parse(const char *text, long long least, long long most, long long *value);

/* Seconds of "10m" "90s" "1h" "250ms" "90". Returns -1 if the text is not a duration. */
double attn_duration_parse(const char *text);

/* Bytes of "512M" "8G" "4096". Returns -1 if the text is not a size. */
double attn_size_parse(const char *text);

/* 5 of "5" "5%". Returns -1 if the text is not a percentage from 0 to below 100. */
double attn_percentage_parse(const char *text);

#endif
