/* SPDX-License-Identifier: Apache-2.0 */
/* pack.c - a pack's case, alone or merged with a case line that names the pack. */
#include "pack/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sha2.h>

#include "pack/describe.h"
#include "pack/message.h"

static void hash_bytes(const struct attn_st_file *file, char hex[65])
{
    SHA2_CTX context;
    SHA256Init(&context);
    SHA256Update(&context, file->mapping, file->mapped);
    SHA256End(&context, hex);
}

int attn_pack_open(const char *path, struct attn_pack *pack, char *why, size_t size)
{
    struct attn_pack opened = {0};
    if (attn_st_open(path, &opened.file, why, size) != 0)
        return -1;
    const char *line = attn_st_metadata(&opened.file, "case");
    const char *source = attn_st_metadata(&opened.file, "source");
    if (line == NULL || source == NULL || *source == '\0') {
        attn_pack_fail(path, why, size, "has no `%s` in its metadata", line ? "source" : "case");
        goto fail;
    }
    if (attn_case_parse_pack_line(line, path, &opened.c, why, size) != 0)
        goto fail;
    if (attn_pack_describe(path, &opened, why, size) != 0 ||
        attn_pack_read_notes(path, &opened, why, size) != 0) {
        attn_case_free(&opened.c);
        goto fail;
    }
    hash_bytes(&opened.file, opened.c.data_hash);
    *pack = opened;
    return 0;

fail:
    attn_st_close(&opened.file);
    return -1;
}

void attn_pack_close(struct attn_pack *pack)
{
    attn_case_free(&pack->c);
    attn_st_close(&pack->file);
}

/* The file's name without folder and ending. */
static void set_name(const char *path, struct attn_case *c)
{
    static const char ending[] = ".safetensors";
    const char *slash = strrchr(path, '/');
    const char *stem = slash != NULL ? slash + 1 : path;
    size_t length = strlen(stem);
    if (length > sizeof ending - 1 && strcmp(stem + length - (sizeof ending - 1), ending) == 0)
        length -= sizeof ending - 1;
    if (length >= sizeof c->name)
        length = sizeof c->name - 1;
    memcpy(c->name, stem, length);
    c->name[length] = '\0';
}

int attn_pack_case(const char *path, struct attn_case *out, char *why, size_t size)
{
    struct attn_pack pack;
    if (attn_pack_open(path, &pack, why, size) != 0)
        return -1;
    attn_st_close(&pack.file);
    pack.c.data = strdup(path);
    if (pack.c.data == NULL) {
        attn_case_free(&pack.c);
        return attn_pack_fail(path, why, size, "no memory");
    }
    if (pack.c.name[0] == '\0')
        set_name(path, &pack.c);
    *out = pack.c;
    return 0;
}

/* The keys of the pack that a line with data= may repeat, but not change. */
#define FIELD(key, member)                                                                         \
    {                                                                                              \
        key, offsetof(struct attn_case, member), sizeof(((struct attn_case *)0)->member)           \
    }
static const struct {
    const char *key;
    size_t offset, bytes;
} pack_says[] = {
    FIELD("op", op),
    FIELD("score", score),
    FIELD("dtype", dtype),
    FIELD("b", b),
    FIELD("hq", hq),
    FIELD("hkv", hkv),
    FIELD("sq", sq),
    FIELD("sk", sk),
    FIELD("dq", dq),
    FIELD("dk", dk),
    FIELD("dv", dv),
    FIELD("dh", dh),
    FIELD("e", e),
    FIELD("softcap", softcap),
    FIELD("mask", causal),
    FIELD("mask", window),
    FIELD("mask", off_br),
    FIELD("mask", off),
    FIELD("mask", window_left),
    FIELD("mask", window_right),
    FIELD("mask", len),
    FIELD("mask", n_len),
    FIELD("mask", mask_bool),
    FIELD("mask", pack_mask),
    FIELD("mask", global),
    FIELD("mask", pack_dilation),
    FIELD("global_proj", global_proj),
    FIELD("bias", bias_normal),
    FIELD("bias", bias_const),
    FIELD("bias", alibi),
    FIELD("bias", pack_bias),
    FIELD("bias", pack_alibi),
    FIELD("sink", sink),
    FIELD("sink", pack_sink),
    FIELD("dropout", dropout),
    FIELD("dropout", dropout_p),
    FIELD("kv", cross),
    FIELD("params", params_head),
    FIELD("proj_bias", proj_bias),
    FIELD("prune", n_prune),
    FIELD("seed", seed),
    FIELD("fill", fill),
    FIELD("weights", weights),
    FIELD("residual", residual),
    FIELD("wo", wo),
};

/* The first key that `line` gives and `pack` contradicts, or NULL. `blank` is a line that gives
 * nothing. */
static const char *contradiction(const struct attn_case *line, const struct attn_case *pack,
                                 const struct attn_case *blank)
{
    for (size_t f = 0; f < sizeof pack_says / sizeof pack_says[0]; f++) {
        const char *said = (const char *)line + pack_says[f].offset;
        const char *held = (const char *)pack + pack_says[f].offset;
        const char *unsaid = (const char *)blank + pack_says[f].offset;
        if (memcmp(said, unsaid, pack_says[f].bytes) != 0 &&
            memcmp(said, held, pack_says[f].bytes) != 0)
            return pack_says[f].key;
    }
    if (line->n_prune > 0 && /* the numbers of heads are equal, see the loop above */
        !attn_case_numbers_equal(line->prune, pack->prune, line->n_prune))
        return "prune";
    if (line->scale_given && !(line->scale == pack->scale))
        return "scale";
    for (const struct ref_param *p = attn_case_op(pack)->params; p && p->key; p++)
        if (attn_case_has_param(line, p) && attn_case_param(line, p) != attn_case_param(pack, p))
            return p->key;
    return NULL;
}

/* Takes layout, view, outputs, name and place from the line. */
static void overlay(const struct attn_case *line, struct attn_case *pack)
{
    if (line->name[0] != '\0')
        memcpy(pack->name, line->name, sizeof pack->name);
    if (line->layout != ATTN_LAYOUT_BHSD)
        pack->layout = line->layout;
    pack->view |= line->view;
    for (size_t n = 0; n < sizeof pack->out / sizeof pack->out[0]; n++)
        pack->out[n] |= line->out[n];
    free(pack->file);
    pack->file = line->file;
    pack->line = line->line;
}

int attn_pack_resolve(struct attn_case *c, char *why, size_t size)
{
    if (c->data == NULL || (c->b > 0 && c->data_hash[0] != '\0'))
        return 0;
    struct attn_case blank, pack;
    if (attn_case_parse_pack_line("", NULL, &blank, why, size) != 0)
        return -1;
    if (attn_pack_case(c->data, &pack, why, size) != 0) {
        attn_case_free(&blank);
        return -1;
    }
    const char *key = contradiction(c, &pack, &blank);
    attn_case_free(&blank);
    if (key == NULL && c->data_hash[0] != '\0' && strcmp(c->data_hash, pack.data_hash) != 0)
        key = "sha256";
    if (key != NULL) {
        attn_pack_fail(c->data, why, size, "the line's %s= contradicts the pack", key);
        attn_case_free(&pack);
        return -1;
    }
    overlay(c, &pack);
    c->file = NULL; /* the merged case owns it now */
    attn_case_free(c);
    *c = pack;
    return 0;
}
