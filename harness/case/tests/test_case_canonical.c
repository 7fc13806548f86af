/* SPDX-License-Identifier: Apache-2.0 */
/* test_case_canonical.c - the canonical form is an identity: it parses back to the same case. */
#include <stdlib.h>

#include "case/generate.h"
#include "case/language.h"
#include "case/operator.h"
#include "case_test.h"

enum { GENERATED = 20000 };

static void expect_canonical(const char *line, const char *canonical)
{
    struct attn_case c = parse_one(line);
    char text[TEST_LINE_MAX];
    assert_int_equal(attn_case_canonical(&c, text, sizeof text), strlen(canonical));
    assert_string_equal(text, canonical);
    attn_case_free(&c);
}

static void test_forms(void **state)
{
    (void)state;
    expect_canonical("s=4 d=8", "dk=8 sq=4");
    expect_canonical("x: d=8 s=4 h=1 b=1 dtype=f32 op=attention mask=dense bias=none seed=1 wo=1 "
                     "dropout=0 softcap=0 scale=0.35355339059327373 out=none layout=bhsd sink=0",
                     "dk=8 sq=4");
    expect_canonical("hq=8 hkv=2 sq=4 sk=0 dk=8 dv=3", "dk=8 dv=3 hkv=2 hq=8 sk=0 sq=4");
    expect_canonical("op=mha h=1 s=4 d=8", "dk=8 hq=1 op=mha sq=4");
    expect_canonical("op=mha h=2 s=4 d=8 e=16 prune=1/0 wo=0",
                     "dk=8 hq=2 op=mha prune=0/1 sq=4 wo=0");
    expect_canonical("s=4 d=8 mask=bool:0.50:kb+br+window:-1:2+len:3+causal",
                     "dk=8 mask=causal_br+window:-1:2+len:3+bool:0.5:bk sq=4");
    expect_canonical("h=3 s=4 d=8 global_proj=1 mask=global:rand:0.50+window:1:2:3/1",
                     "dk=8 global_proj=1 hq=3 mask=window:1:2:3/1+global:rand:0.5 sq=4");
    expect_canonical("s=4 d=8 mask=global:2+len:3", "dk=8 mask=len:3+global:2 sq=4");
    expect_canonical("s=4 d=8 mask=past:0", "dk=8 sq=4");
    expect_canonical("s=4 d=8 bias=alibi+normal:bhqk out=weights+lse scale=0.1 softcap=1e2",
                     "bias=normal+alibi dk=8 out=lse+weights scale=0.1 softcap=100 sq=4");
    expect_canonical("s=4 d=8 scale=1/sk bias=alibi+const:-log(sk) weight_fn=relu2 gate=1",
                     "bias=const:-1.3862943611198906+alibi dk=8 gate=1 scale=0.25 sq=4 "
                     "weight_fn=relu2");
    expect_canonical("sq=4 sk=0 d=8 scale=1/sk bias=const:-log(sk) weight_fn=softmax gate=0",
                     "bias=const:0 dk=8 scale=1 sk=0 sq=4");
    /* To name all outputs that are there by default is to name none. */
    expect_canonical("op=attention_backward s=4 d=8 out=dv+dk+dq",
                     "dk=8 op=attention_backward sq=4");
    expect_canonical("op=attention_backward s=4 d=8 bias=normal out=dbias+dv+dk+dq",
                     "bias=normal dk=8 op=attention_backward out=dbias sq=4");
    expect_canonical("op=attention_backward s=4 d=8 out=dv+dq",
                     "dk=8 op=attention_backward out=dq+dv sq=4");
    expect_canonical("data=/a%20b/c.safetensors mask=len2d sink=tensor bias=alibi",
                     "bias=alibi data=/a%20b/c.safetensors mask=len2d sink=tensor");
}

static void test_bounds(void **state)
{
    (void)state;
    struct attn_case c = parse_one("s=4 d=8");
    char text[8] = "#######";
    assert_int_equal(attn_case_canonical(&c, NULL, 0), 9);
    assert_int_equal(attn_case_canonical(&c, text, 6), 9);
    assert_string_equal(text, "dk..."); /* what was cut off is not hidden */
    assert_int_equal(text[6], '#');
    assert_int_equal(attn_case_canonical(&c, text, 3), 9);
    assert_string_equal(text, "dk"); /* no room for that */
    attn_case_free(&c);
}

/* The identity of a case must never change: these are the first digits of `sha256sum`. */
static void test_id(void **state)
{
    (void)state;
    char id[ATTN_CASE_ID_LEN + 1];
    struct attn_case c = parse_one("name: s=4 d=8");
    attn_case_id(&c, id);
    assert_string_equal(id, "990b603f26711be9");
    attn_case_free(&c);
}

/* A pack is its bytes, not its path. */
static void test_pack_id(void **state)
{
    (void)state;
    static const char hash[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    char a_id[ATTN_CASE_ID_LEN + 1], b_id[ATTN_CASE_ID_LEN + 1];
    struct attn_case a = parse_one("data=a.safetensors"), b = parse_one("data=b.safetensors");
    attn_case_id(&a, a_id);
    attn_case_id(&b, b_id);
    assert_string_not_equal(a_id, b_id);
    memcpy(a.data_hash, hash, sizeof hash);
    memcpy(b.data_hash, hash, sizeof hash);
    attn_case_id(&a, a_id);
    attn_case_id(&b, b_id);
    assert_string_equal(a_id, b_id);
    b.data_hash[0] = 'f';
    attn_case_id(&b, b_id);
    assert_string_not_equal(a_id, b_id);
    attn_case_free(&a);
    attn_case_free(&b);
}

/* A line of a pack that has been opened, sizes filled in, still parses back. */
static void test_resolved_pack(void **state)
{
    (void)state;
    struct attn_case a = parse_one("data=a.safetensors mask=len");
    char text[TEST_LINE_MAX];
    a.b = a.hq = a.hkv = 2;
    a.sq = a.sk = a.dq = a.dk = a.dv = 16;
    a.dtype = ATTN_F16;
    attn_case_canonical(&a, text, sizeof text);
    assert_string_equal(text, "data=a.safetensors mask=len");
    a.op = ATTN_OP_MHA;
    attn_case_canonical(&a, text, sizeof text);
    assert_string_equal(text, "data=a.safetensors hq=2 mask=len op=mha");
    attn_case_free(&a);
}

static void test_label(void **state)
{
    (void)state;
    char text[64];
    struct attn_case c = parse_one("some: s=4 d=8");
    assert_string_equal(attn_case_label(&c, text, sizeof text), "some");
    attn_case_free(&c);
    c = parse_one("s=4 d=8");
    assert_string_equal(attn_case_label(&c, text, sizeof text), "dk=8 sq=4");
    attn_case_free(&c);
}

static void test_generated(void **state)
{
    (void)state;
    uint64_t seed = 20261121;
    char line[TEST_LINE_MAX], canonical[TEST_LINE_MAX], again[TEST_LINE_MAX];
    for (int i = 0; i < GENERATED; i++) {
        char id[ATTN_CASE_ID_LEN + 1], id_again[ATTN_CASE_ID_LEN + 1];
        attn_case_generate(&seed, true, line, sizeof line);
        struct attn_case_list first = parse(line);
        assert_int_equal(first.count, 1);
        attn_case_canonical(&first.items[0], canonical, sizeof canonical);
        attn_case_id(&first.items[0], id);

        struct attn_case_list second = {0};
        char why[512];
        /* as on the command line: a path in the canonical form is already resolved */
        if (attn_case_parse_line(canonical, strlen(canonical), NULL, 0, &second, why, sizeof why) !=
            0)
            fail_msg("%s: %s: %s", line, canonical, why);
        assert_int_equal(second.count, 1);
        if (!same_case(&first.items[0], &second.items[0]))
            fail_msg("not the same case: %s: %s", line, canonical);
        attn_case_canonical(&second.items[0], again, sizeof again);
        attn_case_id(&second.items[0], id_again);
        assert_string_equal(canonical, again);
        assert_string_equal(id, id_again);
        attn_case_list_free(&first);
        attn_case_list_free(&second);
    }
}

/* Sorted, complete, each documented: the table is the help. */
static void test_keys(void **state)
{
    (void)state;
    size_t count = 0;
    for (const struct attn_case_key *key = attn_case_keys(); key->name; key++, count++) {
        assert_non_null(key->values);
        assert_non_null(key->help);
        assert_non_null(key->rule);
        if (count > 0)
            assert_true(strcmp(key[-1].name, key->name) < 0);
    }
    assert_int_equal(count, 60);
}

/* Tables of operators and keys of the language agree: what an operator takes or needs is a key, and
 * a parameter is none of the language's. */
static void test_keys_of_operators(void **state)
{
    (void)state;
    for (const struct ref_op *const *op = ref_ops; *op; op++) {
        for (const char *const *name = (*op)->keys; *name; name++)
            assert_non_null(attn_key_find((struct attn_word){*name, strlen(*name), 0}));
        for (const char *const *name = (*op)->needed; *name; name++) {
            const struct attn_case_key *key =
                attn_key_find((struct attn_word){*name, strlen(*name), 0});
            assert_true(key && (key->rule->flags & ATTN_KEY_SIZE));
        }
        for (const struct ref_param *p = (*op)->params; p && p->key; p++) {
            for (const struct attn_case_key *key = attn_language_keys; key->name; key++)
                assert_string_not_equal(key->name, p->key);
            /* Below the least: it must be given with the score that it belongs to. */
            assert_true(p->fallback >= p->least ||
                        !ref_score_reads(ref_score_named(ATTN_DEFAULT_SCORE), p->key));
            assert_true(p->fallback <= p->most);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_id),
        cmocka_unit_test(test_pack_id),
        cmocka_unit_test(test_resolved_pack),
        cmocka_unit_test(test_label),
        cmocka_unit_test(test_generated),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_keys_of_operators),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
