/* SPDX-License-Identifier: Apache-2.0 */
/* make.c - makes an instance from a case, step by step. */
#include "pack/make.h"

#include "pack/pack.h"

int attn_instance_create(const struct attn_case *c, int threads, struct attn_instance **out,
                         char *why, size_t size)
{
    return attn_instance_create_like(c, NULL, threads, out, why, size);
}

int attn_instance_create_like(const struct attn_case *c, const struct attn_instance *like,
                              int threads, struct attn_instance **out, char *why, size_t size)
{
    struct attn_instance *instance = NULL;
    if (attn_instance_begin(c, &instance, why, size) != 0)
        return -1;
    const bool is_pack = instance->c.data != NULL;
    if (is_pack && attn_pack_resolve(&instance->c, why, size) != 0)
        goto fail;
    attn_instance_set_problem(instance);
    if ((is_pack ? attn_pack_load(instance, why, size)
                 : attn_instance_draw(instance, like, threads, why, size)) != 0)
        goto fail;
    attn_instance_count(instance);
    *out = instance;
    return 0;

fail:
    attn_instance_free(instance);
    return -1;
}

int attn_instance_create_blank(const struct attn_case *c, struct attn_instance **out, char *why,
                               size_t size)
{
    if (attn_instance_begin(c, out, why, size) != 0)
        return -1;
    attn_instance_set_problem(*out);
    if (attn_instance_lay_out(*out, why, size) == 0)
        return 0;
    attn_instance_free(*out);
    *out = NULL;
    return -1;
}
