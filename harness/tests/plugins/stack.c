/* SPDX-License-Identifier: Apache-2.0 */
/* stack.c - overflows the stack in run. */
#include "base.h"

/* Never reached: frames hold even numbers only. */
static volatile char bottom = 1;

static int deeper(volatile char *above)
{
    volatile char frame[4096];
    frame[0] = (char)(above[0] + 2);
    return frame[0] == bottom ? 0 : deeper(frame) + frame[0];
}

static int run(void *binding, char *why, size_t size)
{
    volatile char top[1] = {0};
    return deeper(top) ? base_run(binding, why, size) : ATTN_FAILED;
}

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create, .run = run};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
