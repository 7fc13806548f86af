/* SPDX-License-Identifier: Apache-2.0 */
/* test_pack - what a pack means, and every reason for which a pack is refused. */
#include "pack/pack.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "damage.h"
#include "made_pack.h"
#include "pack/make.h"
#include "reference/dtype.h"

#define CHANGES(...) ((const struct made_tensor[]){__VA_ARGS__, {NULL, 0, NULL}})
#define META(...)    ((const char *const[]){__VA_ARGS__, NULL})

static void accept(const struct made_tensor *base, const struct made_tensor *changes,
                   const char *const *metadata, struct attn_case *c)
{
    char why[512] = "";
    made_write(base, changes, metadata);
    if (attn_pack_case(made_path, c, why, sizeof why) != 0)
        fail_msg("refused: %s", why);
}

static void refuse(const struct made_tensor *base, const struct made_tensor *changes,
                   const char *const *metadata, const char *words)
{
    struct attn_case c;
    char why[512] = "";
    made_write(base, changes, metadata);
    if (attn_pack_case(made_path, &c, why, sizeof why) == 0)
        fail_msg("accepted, without '%s'", words);
    if (strstr(why, words) == NULL || strncmp(why, made_path, strlen(made_path)) != 0)
        fail_msg("'%s' does not say '%s'", why, words);
}

static struct attn_instance *instantiate(const struct attn_case *c)
{
    char why[512] = "";
    struct attn_instance *instance = NULL;
    if (attn_instance_create(c, 1, &instance, why, sizeof why) != 0)
        fail_msg("%s", why);
    if (ref_check_problem(&instance->problem, why, sizeof why) != ATTN_OK)
        fail_msg("%s", why);
    return instance;
}

static void sizes_of_attention(void **state)
{
    (void)state;
    struct attn_case c;
    accept(made_attention, NULL, META("case", "mask=causal"), &c);
    const int64_t sizes[] = {c.b, c.hq, c.hkv, c.sq, c.sk, c.dq, c.dk, c.dv, c.dh, c.e};
    const int64_t expected[] = {2, 2, 1, 3, 4, 5, 5, 6, 0, 0};
    assert_memory_equal(sizes, expected, sizeof sizes);
    assert_string_equal(c.name, "made");
    assert_string_equal(c.data, made_path);
    assert_int_equal(strlen(c.data_hash), 64);
    assert_int_equal(c.dtype, ATTN_F32);
    assert_true(c.scale == 1 / sqrt(5.0) && c.causal && !c.cross && c.len == ATTN_LEN_NONE);
    struct attn_instance *in = instantiate(&c);
    assert_int_equal(in->kind, REF_FILL_STRUCTURED);
    const struct attn_tensor *k = attn_tensor_find(&in->problem, ATTN_K);
    for (int i = 0; i < 40; i++)
        assert_true(((const float *)k->data)[i] == 0.25f * (float)(i % 7));
    assert_null(in->expected.output[0]);
    assert_true(in->expected.rtol == 1e-5 && in->expected.atol == 1e-6);
    attn_instance_free(in);
    attn_case_free(&c);
}

static void sizes_of_mha(void **state)
{
    (void)state;
    struct attn_case c;
    accept(made_mha, CHANGES({"head_mask", ATTN_BOOL, "2"}, {"b_k", ATTN_F32, "10"}),
           META("case", "op=mha hq=2 out=lse"), &c);
    const int64_t sizes[] = {c.b, c.hq, c.hkv, c.sq, c.sk, c.dq, c.dk, c.dv, c.dh, c.e};
    const int64_t expected[] = {2, 2, 2, 3, 4, 5, 5, 6, 0, 7};
    assert_memory_equal(sizes, expected, sizeof sizes);
    assert_true(c.cross && c.proj_bias && c.wo && c.n_prune == 0);
    struct attn_instance *in = instantiate(&c);
    assert_int_equal(attn_tensor_find(&in->problem, ATTN_OUT)->shape[2], 10);
    assert_int_equal(in->nnz, 2 * 2 * 3 * 4);
    /* projections: 3*7*10 + 4*8*10 + 4*9*12 + 3*12*10 multiply-adds in each of two batches */
    assert_true(in->flops == 2.0 * (5 + 6) * 48 + 2.0 * 2 * (210 + 320 + 432 + 360));
    attn_instance_free(in);
    attn_case_free(&c);
    /* x_v is x_k, which is x_q; grouped heads; no output projection */
    accept(made_mha,
           CHANGES({"x_k", 0, ""}, {"x_v", 0, ""}, {"w_k", ATTN_F32, "5,7"},
                   {"w_v", ATTN_F32, "6,7"}, {"w_o", 0, ""}),
           META("case", "op=mha hq=2 hkv=1 wo=0"), &c);
    assert_int_equal(c.sk, 3);
    assert_false(c.cross);
    in = instantiate(&c);
    assert_int_equal(attn_tensor_find(&in->problem, ATTN_OUT)->shape[2], 12);
    attn_instance_free(in);
    attn_case_free(&c);
}

/* A width that a parameter stands for comes from the tensors. */
static void sizes_of_chunked(void **state)
{
    (void)state;
    static const struct made_tensor base[] = {
        {"q", ATTN_F32, "1,2,5,4"},     {"k", ATTN_F32, "1,2,5,4"}, {"lin_q", ATTN_F32, "1,2,5,3"},
        {"lin_k", ATTN_F32, "1,2,5,3"}, {"v", ATTN_F32, "1,2,5,6"}, {NULL, 0, NULL}};
    struct attn_case c;
    accept(base, CHANGES({"bias", ATTN_F32, "1,1,2,2"}),
           META("case", "op=chunked chunk=2 mask=causal"), &c);
    assert_true(c.scale == 0.5);
    struct attn_instance *in = instantiate(&c);
    assert_int_equal(in->problem.chunk, 2);
    assert_int_equal(in->nnz, 2 * (1 + 2 + 1 + 2 + 1));
    assert_true(in->flops == 2.0 * (4 + 6) * 14 + 4.0 * 2 * 5 * 3 * 6);
    attn_instance_free(in);
    char text[256];
    attn_case_canonical(&c, text, sizeof text);
    assert_non_null(strstr(text, " dl=3 "));
    attn_case_free(&c);
    refuse(base, NULL, META("case", "op=chunked chunk=2 dl=4"), "Dl is 4");
    refuse(base, CHANGES({"bias", ATTN_F32, "1,2,3,3"}), META("case", "op=chunked chunk=2"),
           "chunk is 2");
    refuse(base, CHANGES({"len", ATTN_I32, "1,5"}), META("case", "op=chunked"), "rank 2");
}

/* Without an output projection the heads are added to x_q: both widths come from the tensors. */
static void residual_without_projection(void **state)
{
    (void)state;
    const char *const *line = META("case", "op=mha hq=2 wo=0 residual=1");
    struct attn_case c;
    accept(made_mha,
           CHANGES({"x_q", ATTN_F32, "2,3,12"}, {"w_q", ATTN_F32, "10,12"}, {"w_o", 0, ""}), line,
           &c);
    assert_true(c.residual && !c.wo && c.e == 12 && c.hq * c.dv == 12);
    struct attn_instance *in = instantiate(&c);
    assert_int_equal(attn_tensor_find(&in->problem, ATTN_OUT)->shape[2], 12);
    attn_instance_free(in);
    attn_case_free(&c);
    refuse(made_mha, CHANGES({"w_o", 0, ""}), line,
           "residual=1 needs an output as wide as x_q: 7, not 12");
}

/* Everything that joins q, k and v, in the types that are legal beside f16. */
static void every_extra(void **state)
{
    (void)state;
    struct attn_case c;
    accept(made_attention,
           CHANGES({"q", ATTN_F16, "2,2,3,5"}, {"k", ATTN_F16, "2,1,4,5"},
                   {"v", ATTN_F16, "2,1,4,6"}, {"m", ATTN_F32, "1,5,5"},
                   {"mask", ATTN_BOOL, "1,2,1,4"}, {"bias", ATTN_F32, "2,1,3,1"},
                   {"len", ATTN_I64, "2,3"}, {"alibi", ATTN_F16, "2"}, {"sink", ATTN_F32, "2"},
                   {"keep", ATTN_BOOL, "2,2,3,4"}, {"out", ATTN_F32, "2,2,3,6"},
                   {"lse", ATTN_F64, "2,2,3"}, {"weights", ATTN_F64, "2,2,3,4"},
                   {"scores", ATTN_F64, "2,2,3,4"}),
           META("case", "score=bilinear mask=bool+len2d bias=tensor+alibi sink=tensor dropout=0.5",
                "rtol", "1e-3", "atol", "0", "scores_stage", "softcap", "tokens",
                "[[\"a\",\"b\",\"c\",\"d\"],[\"e\",\"f\",\"g\",\"\"]]", "source", "here"),
           &c);
    assert_true(c.pack_mask && c.pack_bias && c.pack_alibi && c.pack_sink && !c.params_head);
    assert_true(c.len == ATTN_LEN_PACK && c.n_len == 2 && c.scale == 1);
    struct attn_instance *in = instantiate(&c);
    const struct attn_problem *p = &in->problem;
    assert_int_equal(attn_tensor_find(p, ATTN_LEN)->dtype, ATTN_I32);
    assert_int_equal(((const int32_t *)attn_tensor_find(p, ATTN_LEN)->data)[3], 1);
    assert_int_equal(attn_tensor_find(p, ATTN_MASK)->stride[0], 0);
    assert_int_equal(attn_tensor_find(p, ATTN_MASK)->stride[1], 4);
    assert_int_equal(attn_tensor_find(p, ATTN_MASK)->shape[2], 3);
    assert_int_equal(attn_tensor_find(p, ATTN_BIAS)->dtype, ATTN_F32);
    assert_int_equal(attn_tensor_find(p, ATTN_ALIBI)->dtype, ATTN_F32);
    assert_int_equal(attn_tensor_find(p, ATTN_SCORE_M)->stride[0], 0);
    assert_int_equal(attn_tensor_find(p, ATTN_SCORE_M)->shape[0], 2);
    assert_true(in->expected.rtol == 1e-3 && in->expected.atol == 0);
    assert_int_equal(in->expected.scores_stage, 1);
    assert_true(in->expected.output[0][8] == 0.25 && in->expected.output[1][11] == 1.0);
    assert_true(in->expected.output[2][6] == 1.5 && in->expected.scores[47] == 1.25);
    assert_int_equal(in->n_tokens, 4);
    assert_string_equal(in->tokens[6], "g");
    attn_instance_free(in);
    attn_case_free(&c);
}

static void parts_take_effect_unnamed(void **state)
{
    (void)state;
    struct attn_case c;
    accept(made_attention, CHANGES({"len", ATTN_I32, "2"}, {"sink", ATTN_F32, "2"}),
           META("case", ""), &c);
    assert_true(c.len == ATTN_LEN_PACK && c.n_len == 1 && c.pack_sink);
    attn_case_free(&c);
    accept(made_attention,
           CHANGES({"score_w_q", ATTN_F32, "2,3,5"}, {"score_w_k", ATTN_F32, "2,3,5"},
                   {"score_w_v", ATTN_F32, "2,3"}),
           META("case", "score=additive scale=2"), &c);
    assert_true(c.params_head && c.dh == 3 && c.scale == 2);
    attn_case_free(&c);
}

static void refused_attention(void **state)
{
    (void)state;
    const struct made_tensor *base = made_attention;
    const char *const *plain = META("case", "mask=dense");
    refuse(base, NULL, META("source", "x"), "no `case`");
    refuse(base, NULL, META("case", "mask=dense", "source", NULL), "no `source`");
    refuse(base, NULL, META("case", "mask=dense", "source", ""), "no `source`");
    refuse(base, NULL, META("case", "mask=sideways"), "sideways");
    refuse(base, CHANGES({"querry", ATTN_F32, "1"}), plain, "unknown tensor 'querry'");
    refuse(base, CHANGES({"weight", ATTN_F32, "1"}), plain, "did you mean 'weights'");
    refuse(base, CHANGES({"x_q", ATTN_F32, "1"}), plain, "does not belong to op=attention");
    refuse(base, CHANGES({"k", 0, ""}), plain, "tensor 'k' is missing");
    refuse(base, CHANGES({"q", ATTN_I32, "2,2,3,5"}), plain, "not a floating type");
    refuse(base, CHANGES({"v", ATTN_F64, "2,1,4,6"}), plain, "'v' is f64, but q is f32");
    refuse(base, CHANGES({"v", ATTN_F32, "2,4,6"}), plain, "'v' has rank 3, not 4");
    refuse(base, CHANGES({"k", ATTN_F32, "3,1,4,5"}), plain, "but B is 2");
    refuse(base, CHANGES({"v", ATTN_F32, "2,1,5,6"}), plain, "but Sk is 4");
    refuse(base, CHANGES({"k", ATTN_F32, "2,1,4,6"}), plain, "this score cannot compare");
    refuse(base, CHANGES({"v", ATTN_F32, "2,1,4,0"}), plain, "Dv is 0");
    refuse(base, CHANGES({"k", ATTN_F32, "2,3,4,5"}, {"v", ATTN_F32, "2,3,4,6"}), plain, "divide");
    refuse(base, CHANGES({"m", ATTN_F32, "1,5,5"}), plain, "the score is not bilinear");
    refuse(base, CHANGES({"score_w_v", ATTN_F32, "1,5"}), plain, "the score is not additive");
    refuse(base, NULL, META("case", "score=bilinear"), "'m' is missing");
    refuse(base, NULL, META("case", "score=additive"), "'score_w_q' is missing");
    refuse(base, CHANGES({"m", ATTN_F32, "3,5,5"}), META("case", "score=bilinear"), "Hq is 2");
    refuse(base, CHANGES({"m", ATTN_F16, "1,5,5"}), META("case", "score=bilinear"), "not f32");
    refuse(base, NULL, META("case", "score=bilinear params=head"), "'m' is missing");
    refuse(base, CHANGES({"m", ATTN_F32, "1,5,5"}), META("case", "score=bilinear params=head"),
           "params=head");
}

static void refused_parts(void **state)
{
    (void)state;
    const struct made_tensor *base = made_attention;
    const char *const *plain = META("case", "mask=dense");
    refuse(base, NULL, META("case", "mask=bool"), "no tensor 'mask'");
    refuse(base, NULL, META("case", "mask=len"), "no tensor 'len'");
    refuse(base, NULL, META("case", "bias=tensor"), "no tensor 'bias'");
    refuse(base, NULL, META("case", "bias=alibi"), "no tensor 'alibi'");
    refuse(base, NULL, META("case", "sink=tensor"), "no tensor 'sink'");
    refuse(base, CHANGES({"mask", ATTN_F32, "1,1,3,4"}), plain, "'mask' is f32, not bool");
    refuse(base, CHANGES({"mask", ATTN_BOOL, "1,1,2,4"}), plain, "Sq is 3");
    refuse(base, CHANGES({"mask", ATTN_BOOL, "3,4"}), plain, "rank 2");
    refuse(base, CHANGES({"bias", ATTN_F64, "1,1,3,4"}), plain, "not f32");
    refuse(base, CHANGES({"len", ATTN_F32, "2"}), plain, "not i32 or i64");
    refuse(base, CHANGES({"len", ATTN_I32, "2"}), META("case", "mask=len2d"), "rank 1");
    refuse(base, CHANGES({"len", ATTN_I32, "2,3"}), META("case", "mask=causal_br"), "2-D");
    refuse(base, CHANGES({"keep", ATTN_BOOL, "2,2,3,4"}), plain, "no dropout=P");
    refuse(base, CHANGES({"keep", ATTN_BOOL, "1,2,3,4"}), META("case", "dropout=0.5"), "B is 2");
    refuse(base, NULL, META("case", "fill=ones"), "draw");
    refuse(base, NULL, META("case", "mask=bool:0.5"), "");
    /* Sk of 0 leaves no room for a length of 1 */
    refuse(base,
           CHANGES({"k", ATTN_F32, "2,1,0,5"}, {"v", ATTN_F32, "2,1,0,6"}, {"len", ATTN_I64, "2"}),
           plain, "outside 0..0");
}

static void refused_mha(void **state)
{
    (void)state;
    const struct made_tensor *base = made_mha;
    const char *const *plain = META("case", "op=mha hq=2");
    refuse(base, NULL, META("case", "op=mha"), "hq");
    refuse(base, NULL, META("case", "op=mha hq=3"), "cannot be cut into 3 heads");
    refuse(base, CHANGES({"q", ATTN_F32, "1"}), plain, "does not belong to op=mha");
    refuse(base, CHANGES({"w_o", 0, ""}), plain, "'w_o' is missing");
    refuse(base, NULL, META("case", "op=mha hq=2 wo=0"), "'w_o' contradicts");
    refuse(base, CHANGES({"w_o", 0, ""}, {"b_o", ATTN_F32, "12"}), META("case", "op=mha hq=2 wo=0"),
           "'b_o' contradicts");
    refuse(base, CHANGES({"b_q", ATTN_F32, "9"}), plain, "Hq*Dq is 10");
    refuse(base, CHANGES({"w_v", ATTN_F32, "14,9"}), plain, "Hq*Dv is 14");
    refuse(base, CHANGES({"w_k", ATTN_F32, "10,7"}), plain, "Ek is 8");
    refuse(base, CHANGES({"x_v", 0, ""}), plain, "Ev is 8");
    refuse(base, NULL, META("case", "op=mha hq=2 residual=1"), "residual=1");
    refuse(base, NULL, META("case", "op=mha hq=2 proj_bias=1"), "proj_bias=1");
    refuse(base, NULL, META("case", "op=mha hq=2 prune=1"), "prune=");
    refuse(base, NULL, META("case", "op=mha hq=2 weights=stiefel"), "draw");
    refuse(base,
           CHANGES({"x_k", 0, ""}, {"x_v", 0, ""}, {"w_k", ATTN_F32, "10,7"},
                   {"w_v", ATTN_F32, "12,7"}),
           META("case", "op=mha hq=2 kv=cross"), "no tensor 'x_k'");
}

static void refused_answers(void **state)
{
    (void)state;
    const struct made_tensor *base = made_attention;
    refuse(base, CHANGES({"out", ATTN_F16, "2,2,3,6"}), META("case", ""), "not f32 or f64");
    refuse(base, CHANGES({"out", ATTN_F32, "2,2,3,5"}), META("case", ""), "Dv is 6");
    refuse(base, CHANGES({"lse", ATTN_F32, "2,2,4"}), META("case", ""), "Sq is 3");
    refuse(base, CHANGES({"weights", ATTN_F64, "1,2,3,4"}), META("case", ""), "B is 2");
    refuse(base, CHANGES({"scores", ATTN_F64, "2,2,3,4"}), META("case", ""), "scores_stage");
    refuse(base, CHANGES({"scores", ATTN_F64, "2,2,3,4"}), META("case", "", "scores_stage", "x"),
           "scores_stage");
    refuse(base, NULL, META("case", "", "scores_stage", "raw"), "no tensor 'scores'");
    static const char *const bad[] = {"", "-1", "1e", "0x1p-3", "nan", "inf", "1e999", "1 ", "+1"};
    for (size_t b = 0; b < sizeof bad / sizeof bad[0]; b++)
        refuse(base, NULL, META("case", "", "rtol", bad[b]), "rtol=");
    refuse(base, NULL, META("case", "", "atol", "x"), "atol=");
    static const char *const tokens[] = {"",
                                         "{}",
                                         "[]",
                                         "[[\"a\"],[\"b\"]]",
                                         "[[\"a\",\"b\",\"c\",\"d\"]]",
                                         "[[\"a\",\"b\",\"c\",\"d\"],[1,2,3,4]]"};
    for (size_t t = 0; t < sizeof tokens / sizeof tokens[0]; t++)
        refuse(base, NULL, META("case", "", "tokens", tokens[t]), "2 JSON lists of 4 strings");
}

static struct attn_case parse(const char *rest)
{
    char line[512], why[512] = "";
    struct attn_case_list list = {0};
    snprintf(line, sizeof line, "data=%s %s", made_path, rest);
    if (attn_case_parse_line(line, strlen(line), NULL, 0, &list, why, sizeof why) != 0)
        fail_msg("%s: %s", line, why);
    struct attn_case c;
    assert_int_equal(attn_case_copy(&c, &list.items[0]), 0);
    attn_case_list_free(&list);
    return c;
}

static void lines_that_name_a_pack(void **state)
{
    (void)state;
    char why[512] = "", hash[65];
    made_write(made_attention, CHANGES({"len", ATTN_I32, "2"}),
               META("case", "mask=causal+len softcap=3"));
    struct attn_case c = parse("layout=bshd view=gaps out=lse");
    if (attn_pack_resolve(&c, why, sizeof why) != 0)
        fail_msg("%s", why);
    assert_true(c.causal && c.softcap == 3 && c.sk == 4 && c.layout == ATTN_LAYOUT_BSHD);
    assert_true(attn_case_asks(&c, ATTN_LSE) && c.len == ATTN_LEN_PACK);
    memcpy(hash, c.data_hash, sizeof hash);
    struct attn_instance *in = instantiate(&c);
    assert_int_equal(attn_tensor_find(&in->problem, ATTN_Q)->stride[1], 8);
    attn_instance_free(in);

    /* the canonical form leads to the same case */
    char canonical[4096], line[4200];
    attn_case_canonical(&c, canonical, sizeof canonical);
    attn_case_free(&c);
    struct attn_case_list list = {0};
    snprintf(line, sizeof line, "%s", canonical);
    if (attn_case_parse_line(line, strlen(line), NULL, 0, &list, why, sizeof why) != 0 ||
        attn_pack_resolve(&list.items[0], why, sizeof why) != 0)
        fail_msg("%s: %s", line, why);
    assert_string_equal(list.items[0].data_hash, hash);
    char again[4096];
    attn_case_canonical(&list.items[0], again, sizeof again);
    assert_string_equal(canonical, again);

    /* another pack under the old hash */
    made_write(made_attention, NULL, META("case", "mask=causal softcap=3"));
    struct attn_instance *instance = NULL;
    assert_int_equal(attn_instance_create(&list.items[0], 1, &instance, why, sizeof why), -1);
    assert_non_null(strstr(why, "has changed"));
    attn_case_list_free(&list);
}

static void contradictions(void **state)
{
    (void)state;
    static const char *const lines[][2] = {
        {"mask=window:1:1", "mask="},
        {"softcap=4", "softcap="},
        {"op=mha", "op="},
        {"score=dot", "score="},
        {"scale=0.25", "scale="},
        {"mask=len", "mask="},
        {"bias=tensor", "bias="},
        {"sink=tensor", "sink="},
        {"dropout=0.5", "dropout="},
        {"seed=4", "seed="},
        {"fill=ones", "fill="},
        {"sha256=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "sha256="}};
    made_write(made_attention, NULL, META("case", "mask=causal softcap=3"));
    for (size_t l = 0; l < sizeof lines / sizeof lines[0]; l++) {
        char why[512] = "";
        struct attn_case c = parse(lines[l][0]);
        if (attn_pack_resolve(&c, why, sizeof why) == 0)
            fail_msg("accepted: %s", lines[l][0]);
        if (strstr(why, lines[l][1]) == NULL || strstr(why, "contradicts") == NULL)
            fail_msg("%s: %s", lines[l][0], why);
        attn_case_free(&c);
    }
    char why[512] = "";
    struct attn_case c = parse("mask=causal softcap=3"); /* repeating is legal */
    if (attn_pack_resolve(&c, why, sizeof why) != 0)
        fail_msg("%s", why);
    attn_case_free(&c);
    c = parse("view=broadcast");
    assert_int_equal(attn_pack_resolve(&c, why, sizeof why), 0);
    struct attn_instance *instance = NULL;
    assert_int_equal(attn_instance_create(&c, 1, &instance, why, sizeof why), -1);
    assert_non_null(strstr(why, "view=broadcast"));
    attn_case_free(&c);
}

/* Overwrites the first byte of a tensor of the made pack. */
static void poke(const char *name, unsigned char byte)
{
    struct attn_st_file file;
    char why[512] = "";
    if (attn_st_open(made_path, &file, why, sizeof why) != 0)
        fail_msg("%s", why);
    const struct attn_st_entry *entry = attn_st_find(&file, name);
    assert_non_null(entry);
    const long place = (const char *)entry->data - (const char *)file.mapping;
    attn_st_close(&file);
    FILE *stream = fopen(made_path, "r+b");
    assert_non_null(stream);
    assert_int_equal(fseek(stream, place, SEEK_SET), 0);
    assert_int_equal(fputc(byte, stream), byte);
    assert_int_equal(fclose(stream), 0);
}

/* A line that prunes as many heads as the pack, but others. */
static void other_pruned_heads(void **state)
{
    (void)state;
    char why[512] = "";
    made_write(made_mha, CHANGES({"head_mask", ATTN_BOOL, "2"}), META("case", "op=mha hq=2"));
    poke("head_mask", 0);
    struct attn_case c = parse("op=mha hq=2 prune=0");
    if (attn_pack_resolve(&c, why, sizeof why) != 0)
        fail_msg("%s", why);
    assert_int_equal(c.n_prune, 1);
    assert_int_equal(c.prune->at[0], 0);
    attn_case_free(&c);
    c = parse("op=mha hq=2 prune=1");
    assert_int_equal(attn_pack_resolve(&c, why, sizeof why), -1);
    assert_non_null(strstr(why, "the line's prune= contradicts the pack"));
    attn_case_free(&c);
}

/* Damaged headers of a pack with all kinds of metadata: a case and an instance, or a sentence. */
static void damaged_packs(void **state)
{
    (void)state;
    made_write(made_attention,
               CHANGES({"len", ATTN_I64, "2"}, {"mask", ATTN_BOOL, "1,1,3,4"},
                       {"scores", ATTN_F32, "2,2,3,4"}),
               META("case", "mask=bool+len+window:1:2 softcap=3 scale=0.5", "rtol", "1e-3",
                    "scores_stage", "raw", "tokens",
                    "[[\"a\",\"\",\"\",\"\"],"
                    "[\"b\",\"\",\"\",\"\"]]"));
    static unsigned char whole[8192], copy[8192];
    FILE *stream = fopen(made_path, "rb");
    assert_non_null(stream);
    const size_t length = fread(whole, 1, sizeof whole, stream);
    fclose(stream);
    const size_t header = whole[0] + 256u * whole[1];
    const size_t metadata = 220; /* it comes first: case line, tolerance, stage, tokens */
    uint32_t seed = 1;
    int refused = 0, accepted = 0;
    for (int round = 0; round < 3000; round++) {
        char why[512] = "";
        struct attn_case c;
        struct attn_instance *instance;
        memcpy(copy, whole, length);
        remove(made_path); /* a file that is truncated instead may be flushed on close */
        stream = fopen(made_path, "wb");
        assert_non_null(stream);
        fwrite(copy, 1, damage(copy, length, round & 1 ? header : metadata, &seed), stream);
        fclose(stream);
        if (attn_pack_case(made_path, &c, why, sizeof why) != 0) {
            refused++;
            assert_true(strlen(why) > strlen(made_path) + 5);
            continue;
        }
        accepted++;
        if (attn_instance_create(&c, 1, &instance, why, sizeof why) == 0)
            attn_instance_free(instance);
        else
            assert_true(strlen(why) > 0);
        attn_case_free(&c);
    }
    assert_in_range(refused, 2000, 2990);
    assert_in_range(accepted, 10, 1500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_of_attention),
        cmocka_unit_test(sizes_of_mha),
        cmocka_unit_test(sizes_of_chunked),
        cmocka_unit_test(residual_without_projection),
        cmocka_unit_test(every_extra),
        cmocka_unit_test(parts_take_effect_unnamed),
        cmocka_unit_test(refused_attention),
        cmocka_unit_test(refused_parts),
        cmocka_unit_test(refused_mha),
        cmocka_unit_test(refused_answers),
        cmocka_unit_test(lines_that_name_a_pack),
        cmocka_unit_test(contradictions),
        cmocka_unit_test(other_pruned_heads),
        cmocka_unit_test(damaged_packs),
    };
    return cmocka_run_group_tests(tests, made_begin, made_end);
}
