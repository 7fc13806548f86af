/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - a pack's inputs as ABI tensors, in the layout and view of the case. */
#include <string.h>

#include "pack/describe.h"
#include "pack/message.h"
#include "pack/pack.h"
#include "reference/dtype.h"
#include "tensor/operand.h"

/* The ABI's type for a tensor of the pack. It never rounds. */
static uint32_t abi_type(const struct attn_schema *schema, const struct attn_st_entry *entry,
                         uint32_t main_type)
{
    switch (schema->type) {
    case REF_TYPE_SIDE:
        return main_type == ATTN_F64 ? ATTN_F64 : entry->dtype;
    case REF_TYPE_WIDE:
        return main_type == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    case REF_TYPE_BOOL:
        return ATTN_BOOL;
    case REF_TYPE_INDEX:
        return ATTN_I32;
    default:
        return main_type;
    }
}

static double entry_value(const void *context, uint64_t index)
{
    const struct attn_st_entry *entry = context;
    return attn_dtype_load(entry->dtype, entry->data, (int64_t)index);
}

static int load_input(const struct attn_pack *pack, const struct attn_schema *schema,
                      const struct attn_st_entry *entry, struct attn_instance *instance, char *why,
                      size_t size)
{
    struct attn_operand_form form = {
        .schema = schema, .rank = entry->rank, .dtype = abi_type(schema, entry, instance->c.dtype)};
    for (uint32_t a = 0; a < entry->rank; a++)
        if (entry->shape[a] != pack->shape.extent[(unsigned char)schema->shape[a]])
            form.broadcast |= 1u << a;
    const struct attn_tensor *tensor = attn_operand_add(instance, &form, &pack->shape, why, size);
    if (tensor == NULL)
        return -1;
    attn_operand_fill(tensor, 1, entry_value, entry);
    return 0;
}

int attn_pack_load(struct attn_instance *instance, char *why, size_t size)
{
    const char *path = instance->c.data;
    struct attn_pack pack;
    int status = -1;
    if (attn_pack_open(path, &pack, why, size) != 0)
        return -1;
    if (strcmp(pack.c.data_hash, instance->c.data_hash) != 0) {
        attn_pack_fail(path, why, size, "has changed since its case was read");
        goto out;
    }
    if (instance->c.view & ATTN_VIEW_BROADCAST && instance->c.b > 1) {
        attn_pack_fail(path, why, size, "view=broadcast would replace its tensors");
        goto out;
    }
    struct attn_schema schema;
    for (size_t n = 0; attn_schema_at(attn_case_op(&pack.c), n, &schema); n++) {
        const struct attn_st_entry *entry = attn_st_find(&pack.file, schema.name);
        if (entry != NULL && !schema.output &&
            load_input(&pack, &schema, entry, instance, why, size) != 0)
            goto out;
    }
    if (attn_operand_add_outputs(instance, &pack.shape, why, size) != 0)
        goto out;
    status = attn_pack_load_answers(path, &pack, instance, why, size);
out:
    attn_pack_close(&pack);
    return status;
}
