/* SPDX-License-Identifier: Apache-2.0 */
/* duplicate.c - two backends with the same name. */
#include "base.h"

static const struct attn_backend first = {BASE_BACKEND, .create = base_create, .run = base_run};
static const struct attn_backend second = {BASE_BACKEND, .create = base_create, .run = base_run};
static const struct attn_backend *const table[] = {&first, &second};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
