/* SPDX-License-Identifier: Apache-2.0 */
/* missing_slot.c - its backend has no run. */
#include "base.h"

static const struct attn_backend backend = {BASE_BACKEND, .create = base_create};
static const struct attn_backend *const table[] = {&backend};
const struct attn_plugin attn_plugin = {BASE_PLUGIN(table)};
