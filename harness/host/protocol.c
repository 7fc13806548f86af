/* SPDX-License-Identifier: Apache-2.0 */
/* protocol.c - names that both ends use. */
#include "host/protocol.h"

static const char *const slot_names[ATTN_SLOT_COUNT] = {
    [ATTN_SLOT_NONE] = "the worker itself",
    [ATTN_SLOT_LOAD] = "loading the plugin",
    [ATTN_SLOT_INIT] = "init",
    [ATTN_SLOT_VERSION] = "version",
    [ATTN_SLOT_PROBE] = "probe",
    [ATTN_SLOT_SUPPORTS] = "supports",
    [ATTN_SLOT_CREATE] = "create",
    [ATTN_SLOT_NUMERICS] = "numerics",
    [ATTN_SLOT_DESCRIBE] = "describe",
    [ATTN_SLOT_WORKSPACE] = "workspace_bytes",
    [ATTN_SLOT_BIND] = "bind",
    [ATTN_SLOT_RUN] = "run",
    [ATTN_SLOT_FETCH] = "fetch",
    [ATTN_SLOT_RELEASE] = "release",
    [ATTN_SLOT_DESTROY] = "destroy",
    [ATTN_SLOT_DEVICE] = "device",
};

const char *attn_slot_name(uint32_t slot)
{
    return slot < ATTN_SLOT_COUNT ? slot_names[slot] : "an unknown slot";
}
