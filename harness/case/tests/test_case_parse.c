/* SPDX-License-Identifier: Apache-2.0 */
/* test_case_parse.c - values, defaults, and the message of every refusal. */
#include <float.h>
#include <math.h>

#include "case_test.h"

static void test_defaults(void **state)
{
    (void)state;
    struct attn_case c = parse_one("sq=5 dk=8");
    assert_string_equal(c.name, "");
    assert_string_equal(c.file, "smoke.cases");
    assert_int_equal(c.line, 12);
    assert_int_equal(c.op, ATTN_OP_ATTENTION);
    assert_int_equal(c.score, ATTN_SCORE_SCALED_DOT);
    assert_int_equal(c.dtype, ATTN_F32);
    assert_int_equal(c.b, 1);
    assert_int_equal(c.hq, 1);
    assert_int_equal(c.hkv, 1);
    assert_int_equal(c.sq, 5);
    assert_int_equal(c.sk, 5);
    assert_int_equal(c.dq, 8);
    assert_int_equal(c.dk, 8);
    assert_int_equal(c.dv, 8);
    assert_int_equal(c.dh, 0);
    assert_int_equal(c.e, 0);
    assert_true(c.scale == 1 / sqrt(8.0));
    assert_false(c.scale_given);
    assert_true(c.wo);
    assert_int_equal(c.seed, 1);
    assert_false(c.causal || c.window || c.off_br || c.mask_bool || c.bias_normal || c.alibi ||
                 c.sink || c.dropout || c.cross || c.params_head || c.proj_bias || c.out[0] ||
                 c.out[1] || c.residual || c.pack_mask || c.pack_bias);
    assert_int_equal(c.len, ATTN_LEN_NONE);
    assert_null(c.data);
    attn_case_free(&c);
}

static void test_sizes(void **state)
{
    (void)state;
    struct attn_case c = parse_one("x: b=2 h=6 sq=3 sk=0 dk=4 dq=5 dv=7 score=additive");
    assert_string_equal(c.name, "x");
    assert_int_equal(c.hkv, 6);
    assert_int_equal(c.sk, 0);
    assert_int_equal(c.dq, 5);
    assert_int_equal(c.dv, 7);
    assert_int_equal(c.dh, 4);
    assert_true(c.scale == 1);
    attn_case_free(&c);
    c = parse_one("op=chunked s=9 d=4 chunk=8");
    assert_true(c.scale == 0.125 && !c.scale_given);
    attn_case_free(&c);
    c = parse_one("op=mha hq=6 hkv=2 s=3 d=4");
    assert_int_equal(c.e, 24);
    assert_int_equal(c.hkv, 2);
    assert_int_equal(c.sk, 3);
    attn_case_free(&c);
    c = parse_one("sq=2147483647 sk=1 d=1 seed=18446744073709551615");
    assert_int_equal(c.sq, INT32_MAX);
    assert_true(c.seed == UINT64_MAX);
    attn_case_free(&c);
}

static void test_mask(void **state)
{
    (void)state;
    struct attn_case c = parse_one("b=2 s=9 d=8 mask=causal_br+window:3:-1+len:9/4+bool:0.25:qb");
    assert_true(c.causal && c.off_br && c.window && c.mask_bool);
    assert_int_equal(c.window_left, 3);
    assert_int_equal(c.window_right, -1);
    assert_int_equal(c.len, ATTN_LEN_LIST);
    assert_int_equal(c.n_len, 2);
    assert_int_equal(c.len_list->at[0], 9);
    assert_int_equal(c.len_list->at[1], 4);
    assert_true(c.mask_p == 0.25);
    assert_int_equal(c.mask_axes, ATTN_AXIS_B | ATTN_AXIS_Q);
    attn_case_free(&c);
    c = parse_one("s=9 d=8 mask=past:7+causal+len2d:rand+bool:1");
    assert_int_equal(c.off, 7);
    assert_false(c.off_br);
    assert_int_equal(c.len, ATTN_LEN_RAND_2D);
    assert_int_equal(c.mask_axes, ATTN_AXES_ALL);
    attn_case_free(&c);
    c = parse_one("s=9 d=8 mask=dense bias=none out=none view=none");
    assert_false(c.causal || c.bias_normal || c.out[0] || c.view);
    attn_case_free(&c);
}

static void test_other_values(void **state)
{
    (void)state;
    struct attn_case c = parse_one("s=4 d=8 bias=alibi+normal:hk sink=1 dropout=0.5 softcap=3e1 "
                                   "scale=-0.5 layout=bhds out=weights+lse fill=uniform "
                                   "view=gaps+huge+offset1 score=bilinear params=head dtype=bf16");
    assert_true(c.alibi && c.bias_normal && c.sink && c.dropout);
    assert_true(attn_case_asks(&c, ATTN_LSE) && attn_case_asks(&c, ATTN_WEIGHTS));
    assert_int_equal(c.bias_axes, ATTN_AXIS_H | ATTN_AXIS_K);
    assert_true(c.dropout_p == 0.5 && c.softcap == 30 && c.scale == -0.5 && c.scale_given);
    assert_int_equal(c.layout, ATTN_LAYOUT_BHDS);
    assert_int_equal(c.fill, ATTN_FILL_UNIFORM);
    assert_int_equal(c.view, ATTN_VIEW_GAPS | ATTN_VIEW_HUGE | ATTN_VIEW_OFFSET1);
    assert_true(c.params_head);
    assert_int_equal(c.dtype, ATTN_BF16);
    attn_case_free(&c);
    c = parse_one("op=mha h=4 sq=4 sk=6 d=8 e=20 kv=cross prune=3/0 weights=stiefel proj_bias=1 "
                  "residual=1 # a comment, any=thing");
    assert_true(c.cross && c.proj_bias && c.residual && c.wo);
    assert_int_equal(c.n_prune, 2);
    assert_int_equal(c.prune->at[0], 0);
    assert_int_equal(c.prune->at[1], 3);
    assert_int_equal(c.weights, ATTN_WEIGHTS_STIEFEL);
    assert_int_equal(c.e, 20);
    attn_case_free(&c);
}

static void test_pack_line(void **state)
{
    (void)state;
    struct attn_case c;
    char why[512];
    assert_int_equal(attn_case_parse_pack_line("score=additive mask=len2d+bool bias=tensor+alibi "
                                               "sink=tensor dropout=0.1",
                                               "p.safetensors", &c, why, sizeof why),
                     0);
    assert_int_equal(c.sq, -1);
    assert_int_equal(c.dh, -1);
    assert_int_equal(c.hq, -1);
    assert_int_equal(c.len, ATTN_LEN_PACK);
    assert_int_equal(c.n_len, 2);
    assert_true(c.pack_mask && c.pack_bias && c.pack_alibi && c.pack_sink && c.dropout);
    assert_false(c.alibi || c.sink || c.mask_bool || c.bias_normal);
    assert_true(c.scale == 1);
    attn_case_free(&c);
    assert_int_equal(attn_case_parse_pack_line("", "p.safetensors", &c, why, sizeof why), 0);
    assert_true(c.scale == 0); /* dk is not known yet */
    attn_case_free(&c);

    assert_int_equal(attn_case_parse_pack_line("op=mha hq=12 mask=len", "p", &c, why, sizeof why),
                     0);
    assert_int_equal(c.hq, 12);
    assert_int_equal(c.hkv, 12);
    assert_int_equal(c.dk, -1);
    attn_case_free(&c);

    static const char *const bad[][2] = {
        {"name: op=mha", "p.safetensors:1:1: a pack's case line has no name"},
        {"hq=3", "p.safetensors:1:1: 'hq' comes from the pack's tensors"},
        {"h=3 mask=len", "p.safetensors:1:1: 'hq' comes from the pack's tensors"},
        {"op=mha sq=3 hq=2", "p.safetensors:1:8: 'sq' comes from the pack's tensors"},
        {"op=mha", "p.safetensors:1:1: 'hq' must be given with op=mha"},
        {"dtype=f32", "p.safetensors:1:1: 'dtype' comes from the pack's tensors"},
        {"data=x", "p.safetensors:1:1: 'data' is not allowed in a pack's own line"},
        {"mask=causal,len", "p.safetensors:1:1: a pack is one case: no lists"},
        {"mask=len:rand", "p.safetensors:1:6: a pack brings its own tensor: 'len' alone"},
        {"mask=br+len2d", "p.safetensors:1:1: 'br' has no meaning with 2-D lengths"},
        {"bias=normal", "p.safetensors:1:6: a pack brings its own bias: bias=tensor"},
        {"sink=1", "p.safetensors:1:6: a pack brings its own sink: sink=tensor"},
        {"bias=const:1", "p.safetensors:1:6: a pack brings its own bias: bias=tensor"},
        {"scale=1/sk", "p.safetensors:1:1: a pack's keys are in its tensors: give the number"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(attn_case_parse_pack_line(bad[i][0], "p.safetensors", &c, why, sizeof why),
                         -1);
        assert_string_equal(why, bad[i][1]);
    }
}

static void test_data(void **state)
{
    (void)state;
    struct attn_case_list list = {0};
    char why[512];
    const char *line = "x: data=textbook/a%20b%2C.safetensors mask=len out=lse";
    assert_int_equal(
        attn_case_parse_line(line, strlen(line), "dir/sub/t.cases", 3, &list, why, sizeof why), 0);
    assert_string_equal(list.items[0].data, "dir/sub/textbook/a b,.safetensors");
    assert_int_equal(list.items[0].sq, -1);
    assert_int_equal(attn_case_check(&list.items[0], why, sizeof why), 0);
    attn_case_list_free(&list);
    struct attn_case c = parse_one("data=/abs/x.safetensors");
    assert_string_equal(c.data, "/abs/x.safetensors");
    attn_case_free(&c);
    line = "data=t/x.safetensors";
    assert_int_equal(attn_case_parse_line(line, strlen(line), NULL, 0, &list, why, sizeof why), 0);
    assert_string_equal(list.items[0].data, "t/x.safetensors");
    attn_case_list_free(&list);
    expect_error("data=x sq=3", "smoke.cases:12:8: 'sq' comes from the pack's tensors");
    expect_error("data=x h=3", "smoke.cases:12:8: 'hq' comes from the pack's tensors");
    expect_error("data=a%2", "smoke.cases:12:6: bad escape in 'a%2': %XX, upper-case hex");
    expect_error("data=a%00b", "smoke.cases:12:6: bad escape in 'a%00b': %XX, upper-case hex");
    expect_error("data=x sha256=12", "smoke.cases:12:15: '12' is not 64 lower-case hex digits");
    expect_error("s=1 d=1 sha256=0123456789012345678901234567890123456789012345678901234567890123",
                 "smoke.cases:12:9: 'sha256' needs data=");
}

static void test_errors(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"x: s=4 d=8 h=2 dtpe=f32", "16: unknown key 'dtpe'; did you mean 'dtype'?"},
        {"s=4 d=8 quux=1", "9: unknown key 'quux'"},
        {"s=4 d=8 score=gausian", "15: unknown score 'gausian'; did you mean 'gaussian'?"},
        {"s=4 d=8 dtype=int", "15: unknown dtype 'int'; legal: f64|f32|f16|bf16"},
        {"s=4 d=8 dtype=float16", "15: unknown dtype 'float16'; did you mean 'f16'?"},
        {"s=4 d=8 dtype=float32", "15: unknown dtype 'float32'; did you mean 'f32'?"},
        {"s=4 d=8 dtype=bfloat16", "15: unknown dtype 'bfloat16'; did you mean 'bf16'?"},
        {"s=4 d=8 dtype=half", "15: unknown dtype 'half'; did you mean 'f16'?"},
        {"s=4 d=8 dtype=fp16", "15: unknown dtype 'fp16'; did you mean 'f16'?"},
        {"s=4 d=8 dtype=fp32", "15: unknown dtype 'fp32'; did you mean 'f32'?"},
        {"sq=4 skv=8 d=8", "6: unknown key 'skv'; did you mean 'sk'?"},
        {"s=4 d=8 score=half",
         "15: unknown score 'half'; legal: scaled_dot|dot|bilinear|gaussian|additive|disentangled"},
        {"s=4 d=8 mask=casual", "14: unknown mask 'casual'; did you mean 'causal'?"},
        {"s=4 d=8 mask=causal+lem:3", "21: unknown mask 'lem'; did you mean 'len'?"},
        {"s=4 d=8 out=lsee", "13: unknown out 'lsee'; did you mean 'lse'?"},
        {"s=4 d=8 view=gap", "14: unknown view 'gap'; did you mean 'gaps'?"},
        {"s=4 d=8 sink=2", "14: unknown sink '2'; legal: 0|1; tensor"},
        {"s=4 d=8 causal", "9: unknown word (not key=value) 'causal'"},
        {"s=4 d=8 h", "9: 'h' has no value"},
        {"s=4 d=8 h=", "9: 'h' has no value"},
        {"s=4 d=8 h=1,,2", "13: an empty value in a list"},
        {"s=4 d=8 h=1,", "13: an empty value in a list"},
        {"s=4 d=8 d=8", "9: 'd' is already given in column 5"},
        {"s=4 d=8 dq=8", "9: 'd' sets dk and dq and dv, and 'dq' is given, too: write "
                         "'dk=8 dq=8 dv=8' instead"},
        {"sq=4 d=8 s=4", "10: 's' sets sq and sk, and 'sq' is given, too: write 'sq=4 sk=4' "
                         "instead"},
        {"h=32 hkv=8 s=4 d=8", "6: 'h' sets hq and hkv, and 'hkv' is given, too: write "
                               "'hq=32 hkv=8' instead"},
        {"hq=32 s=4 h=8,4 d=8", "11: 'h' sets hq and hkv, and 'hq' is given, too: write "
                                "'hq=32 hkv=8,4' instead"},
        {"b/hq/hkv/sq/sk/dk/dv=1/1/1/1/1/1/1", "19: more than 6 linked keys"},
        {"s=4 d=8 b=0", "11: '0' is outside 1..2147483647"},
        {"s=4 d=2147483648", "7: '2147483648' is outside 1..2147483647"},
        {"s=4 d=99999999999999999999", "7: '99999999999999999999' is outside 1..2147483647"},
        {"s=4 d=08", "7: '08' is not a whole number"},
        {"s=4 d=+8", "7: '+8' is not a whole number"},
        {"s=4 d=8x", "7: '8x' is not a whole number"},
        {"s=4 d=8 seed=18446744073709551616",
         "14: '18446744073709551616' is outside 0..18446744073709551615"},
        {"s=4 d=8 scale=nan", "15: 'nan' is not a number"},
        {"s=4 d=8 scale=0x1p3", "15: '0x1p3' is not a number"},
        {"s=4 d=8 scale=1e", "15: '1e' is not a number"},
        {"s=4 d=8 scale=1e999", "15: '1e999' is too large"},
        {"s=4 d=8 softcap=-1", "17: softcap must be at least 0 (0: none)"},
        {"s=4 d=8 dropout=1", "17: dropout must be in 0 <= p < 1"},
        {"d=8", "1: 'sq' must be given (or 's')"},
        {"s=8 h=2", "1: 'dk' must be given (or 'd')"},
        {"op=mha s=8 d=8", "1: 'hq' must be given with op=mha (or 'h')"},
        {"s=4 d=8 hq=6 hkv=4", "14: hkv = 4 does not divide hq = 6"},
        {"sq=4 dk=8 dq=4",
         "11: dq = 4 and dk = 8 differ: only bilinear and additive scores allow it"},
        {"s=4 d=8 mask=past:2+br", "21: 'br' does not go with 'past': both set the same"},
        {"s=4 d=8 mask=causal_br+past:2",
         "24: 'past' does not go with 'causal_br': both set the same"},
        {"s=4 d=8 mask=br+len2d:rand", "9: 'br' has no meaning with 2-D lengths"},
        {"s=4 d=8 mask=causal+causal_br",
         "21: 'causal_br' does not go with 'causal': both set the same"},
        {"s=4 d=8 mask=window:3",
         "14: 'window:3' has too few values; legal: dense, or parts joined with +: causal br "
         "causal_br past:N window:L:R[:D/D/...] len:rand|N/N/... len2d:rand bool:P[:AXES] "
         "global:N|rand:P; len len2d bool global"},
        {"s=4 d=8 mask=window:1:1:0", "25: a dilation is at least 1"},
        {"s=4 d=8 mask=window:1:1:2/3", "9: window: 2 dilations, but hq = 1"},
        {"s=4 d=8 mask=global:5", "9: global: 5 is beyond sk = 4"},
        {"sq=4 sk=5 d=8 mask=global:2", "15: global tokens need sq = sk, not 4 and 5"},
        {"s=4 d=8 mask=global:some:0.5", "21: 'some': only global:rand:P is legal"},
        {"s=4 d=8 mask=global:rand:2", "26: a probability must be in 0..1"},
        {"s=4 d=8 mask=global", "14: 'global' alone names a pack's tensor; here: global:N or "
                                "global:rand:P"},
        {"s=4 d=8 global_proj=1", "9: 'global_proj' needs mask=global:N"},
        {"op=mha h=2 s=4 d=8 mask=global:1", "20: op=mha has no global tokens"},
        {"s=4 d=8 mask=window:-2:3", "21: '-2' is outside -1..2147483647"},
        {"s=4 d=8 mask=len:5", "9: len: 5 is beyond sk = 4"},
        {"s=4 d=8 mask=len:1/2", "9: len: 2 lengths, but b = 1"},
        {"s=4 d=8 mask=len:1//2", "20: '' is not a whole number"},
        {"s=4 d=8 mask=len",
         "14: 'len' alone names a pack's tensor; here: len:rand or len:N/N/..."},
        {"s=4 d=8 mask=bool", "14: 'bool' alone names a pack's tensor; here: bool:P[:AXES]"},
        {"s=4 d=8 mask=bool:1.5", "19: a probability must be in 0..1"},
        {"s=4 d=8 mask=bool:0.5:bx", "23: axes 'bx' are not some of b h q k, each once"},
        {"s=4 d=8 mask=bool:0.5:bb", "23: axes 'bb' are not some of b h q k, each once"},
        {"s=4 d=8 mask=bool:0.5:", "23: axes '' are not some of b h q k, each once"},
        {"s=4 d=8 mask=len:1:2:3:4:5", "24: too many ':' in 'len:1:2:3:4:5'"},
        {"s=4 d=8 mask=dense+causal",
         "14: unknown mask 'dense'; legal: dense, or parts joined with +: causal br causal_br "
         "past:N window:L:R[:D/D/...] len:rand|N/N/... len2d:rand bool:P[:AXES] "
         "global:N|rand:P; len len2d bool global"},
        {"s=4 d=8 bias=tensor", "14: bias=tensor names a pack's tensor; here it is bias=normal"},
        {"s=4 d=8 bias=const:1e9", "20: a constant bias must be in -65504..65504"},
        {"s=4 d=8 bias=const:-log(s)", "20: '-log(s)' is not a number"},
        {"s=4 d=8 weight_fn=relu2 sink=1",
         "25: a sink joins the denominator of a softmax, which this weight_fn has not"},
        {"s=4 d=8 weight_fn=relu2 out=lse",
         "25: lse is of the denominator of a softmax, which this weight_fn has not"},
        {"s=4 d=8 weight_fn=relu2 fill=one_hot", "25: fill=one_hot needs the weights of a softmax"},
        {"s=4 d=8 out=lse+lse", "17: 'lse' is given twice in out"},
        {"s=4 d=8 e=8", "9: 'e' needs op=mha"},
        {"op=chunked s=4 d=8 mask=past:1", "20: op=chunked has no offset"},
        {"op=performer sq=4 sk=5 d=8 mask=causal",
         "28: op=performer is causal within one sequence: sk = sq"},
        {"op=chunked s=4 d=8 mask=len2d:rand", "20: op=chunked has no lengths by query"},
        {"op=chunked s=4 d=8 chunk=0", "20: chunk = 0 is outside 1..1048576"},
        {"s=4 d=8 dh=8", "9: 'dh' needs score=additive"},
        {"s=4 d=8 kv=cross", "9: 'kv' needs op=mha"},
        {"s=4 d=8 wo=0", "9: 'wo' needs op=mha"},
        {"s=4 d=8 prune=0", "9: 'prune' needs op=mha"},
        {"s=4 d=8 score=disentangled", "1: 'span' must be given with score=disentangled"},
        {"s=4 d=8 span=3", "9: 'span' needs score=disentangled"},
        {"op=mha h=2 s=4 d=8 span=3", "20: 'span' needs op=attention"},
        {"op=mha h=2 s=4 d=8 score=disentangled", "20: op=mha has no such score"},
        {"s=4 d=8 score=disentangled span=0", "28: 'span' must be given with score=disentangled"},
        {"s=4 d=8 score=disentangled span=-1", "28: span = -1 is outside 1..1048576"},
        {"s=4 d=8 score=disentangled span=2 rel_buckets=log:1",
         "51: '1' is outside 2..9007199254740992"},
        {"s=4 d=8 score=disentangled span=2 rel_buckets=tensor",
         "47: rel_buckets=tensor names a pack's tensor, and only that"},
        {"s=4 d=8 score=disentangled span=2 rel_buckets=lag:4",
         "47: unknown rel_buckets 'lag:4'; legal: none|tensor|log:N"},
        {"s=4 d=8 params=head",
         "9: 'params' needs score=bilinear or score=additive or score=disentangled"},
        {"op=mha h=2 s=4 d=8 prune=0/2", "20: prune: head 2 of 2 (the first is 0)"},
        {"op=mha h=2 s=4 d=8 prune=1/1", "26: head 1 is pruned twice"},
        {"op=mha h=2 sq=4 sk=5 d=8", "17: sk = 5 differs from sq = 4: that needs kv=cross"},
        {"op=mha h=2 s=4 d=8 wo=0 e=20 residual=1",
         "30: residual=1 adds x_q of width e = 20 to an output of width hq*dv = 16"},
        {"op=mha h=65536 s=4 d=65536", "1: e = 4294967296 is outside 1..2147483647"},
        {"b=2147483647 h=2147483647 s=2147483647 d=8",
         "27: the operands are larger than any address space"},
        {"s=1073741824 d=1", "1: the product of the sizes does not fit in 64 bits"},
        {"op=performer s=4 d=8 mask=causal eps=0.1",
         "1: with eps the largest feature of all keys counts: not causal"},
        {"s=4 d=8 scale=-1 op=performer",
         "18: the scale of performer is not below 0: its root goes to q and to k"},
        {"x:s=4 d=8", "3: a blank must follow the name's ':'"},
        {": s=4 d=8", "1: the name before ':' is empty"},
        {"a/b: s=4 d=8", "2: '/' in a name: letters, digits, '_', '.' and '-' are legal"},
        {"x:", "1: 'x' is a name without a case"},
        {"s=4 d=8 \x01h=2", "9: byte 0x01 is not printable ASCII"},
        {"s=4 d=8 # caf\xc3\xa9", "14: byte 0xc3 is not printable ASCII"},
        {"s=4 d=8\r\n", "8: byte 0x0d is not printable ASCII: save the file with Unix line ends"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char message[512];
        snprintf(message, sizeof message, "smoke.cases:12:%s", bad[i][1]);
        expect_error(bad[i][0], message);
    }
}

static void test_line_bounds(void **state)
{
    (void)state;
    struct attn_case_list list = {0};
    char text[ATTN_CASE_LINE_MAX + 2], why[512];
    memset(text, ' ', sizeof text);
    memcpy(text, "s=4 d=8", 7);
    assert_int_equal(
        attn_case_parse_line(text, ATTN_CASE_LINE_MAX, NULL, 0, &list, why, sizeof why), 0);
    assert_int_equal(list.count, 1);
    assert_null(list.items[0].file);
    assert_int_equal(
        attn_case_parse_line(text, ATTN_CASE_LINE_MAX + 1, NULL, 0, &list, why, sizeof why), -1);
    assert_string_equal(why, "case, column 4097: the line is over 4096 bytes");
    text[7] = '\0';
    assert_int_equal(attn_case_parse_line(text, 8, NULL, 0, &list, why, sizeof why), -1);
    assert_string_equal(why, "case, column 8: byte 0x00 is not printable ASCII");
    assert_int_equal(list.count, 1);
    assert_int_equal(attn_case_parse_line("  # nothing", 11, NULL, 0, &list, why, sizeof why), 0);
    assert_int_equal(attn_case_parse_line("", 0, NULL, 0, &list, why, sizeof why), 0);
    assert_int_equal(list.count, 1);
    attn_case_list_free(&list);
}

static void test_message_bounds(void **state)
{
    (void)state;
    struct attn_case_list list = {0};
    char file[600], why[24] = "untouched";
    memset(file, 'f', sizeof file - 1);
    file[sizeof file - 1] = '\0';
    assert_int_equal(attn_case_parse_line("quux", 4, file, 7, &list, why, sizeof why), -1);
    assert_int_equal(strlen(why), sizeof why - 1);
    assert_int_equal(attn_case_parse_line("quux", 4, file, 7, &list, NULL, 0), -1);
    attn_case_list_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),       cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_mask),           cmocka_unit_test(test_other_values),
        cmocka_unit_test(test_pack_line),      cmocka_unit_test(test_data),
        cmocka_unit_test(test_errors),         cmocka_unit_test(test_line_bounds),
        cmocka_unit_test(test_message_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
