/* SPDX-License-Identifier: Apache-2.0 */
/* test_reproducer.c - reproducers of cases with every kind of operand, layout and type carry the
 * right answers: a right plugin passes them.
 *
 *   test_reproducer PLUGIN COMPILER HEADERS MUTANT */
#include "answered.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "explain/reproducer.h"

static const char *plugin, *compiler, *headers, *mutant;

static int shell(const char *format, const char *a, const char *b, const char *c)
{
    char command[4096];
    snprintf(command, sizeof command, format, a, b, c, c);
    const int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* As if naive had failed the case. */
static int write_of(const char *backend, const char *options, const char *line, const char *path,
                    double ratio, char *why, size_t size)
{
    struct attn_case_list list = {0};
    char message[512];
    if (attn_case_parse_line(line, strlen(line), NULL, 0, &list, message, sizeof message))
        fail_msg("%s: %s", line, message);
    const struct attn_judgement verdict = {.status = ATTN_FAIL,
                                           .rows_checked = 1,
                                           .max_ratio = ratio,
                                           .reason = "a reason that ends no comment: */"};
    const struct attn_numerics numerics = {.struct_size = sizeof numerics,
                                           .acc_type = ATTN_F32,
                                           .p_type = list.items[0].dtype,
                                           .e_exp = 1e-6};
    const struct attn_failure failure = {
        .c = &list.items[0],
        .backend = backend,
        .options = options,
        .verdict = &verdict,
        .numerics = options[0] ? &numerics : NULL, /* the mutant says: f32, p in the type of q */
        .threads = 1};
    const int result = attn_reproducer_write(path, &failure, why, size);
    attn_case_list_free(&list);
    return result;
}

static int write_case(const char *line, const char *path, double ratio, char *why, size_t size)
{
    return write_of("naive", "", line, path, ratio, why, size);
}

/* Does the fill know more than the bounds. */
static bool within(const char *line)
{
    return strstr(line, "census") || strstr(line, "exact") || strstr(line, "rounding");
}

static void a_right_plugin_passes(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "b=2 hq=4 hkv=2 sq=5 sk=7 d=6 dtype=bf16 layout=bshd view=gaps+offset1 out=lse+weights "
        "mask=causal_br+bool:0.7:hk+window:3:1 bias=normal:bq+alibi sink=1 softcap=3 dropout=0.3",
        "b=2 op=mha h=3 sq=5 sk=6 kv=cross dk=4 dv=3 e=7 dtype=f16 proj_bias=1 prune=1 residual=1 "
        "score=additive dh=5 out=lse+weights mask=len2d:rand",
        "h=2 sq=4 sk=0 d=3 dtype=f64 out=lse",
        "b=2 h=2 s=70 d=4 dtype=bf16 fill=census mask=causal",
        "b=2 h=2 s=48 d=8 fill=exact",
        "h=4 s=40 d=8 fill=rounding dtype=bf16",
        "op=linear_decay h=2 s=9 d=4 decay=inclusive",
        "op=chunked b=2 h=2 s=20 dk=4 dl=3 chunk=8 lin_scale=0.3 mask=causal+len:20/7 "
        "bias=normal:hk gate=1",
        "b=2 s=6 d=4 score=bilinear params=head layout=bhds view=broadcast fill=poison "
        "mask=len:3/5",
    };
    char folder[] = "/tmp/attnbench-reproducer-XXXXXX", source[64];
    assert_non_null(mkdtemp(folder));
    snprintf(source, sizeof source, "%s/r.c", folder);
    for (size_t l = 0; l < sizeof lines / sizeof *lines; l++) {
        char why[256];
        if (write_case(lines[l], source, within(lines[l]) ? 0.5 : 2, why, sizeof why))
            fail_msg("%s: %s", lines[l], why);
        const int compiled = shell("%s -std=c11 -Wall -Wextra -Werror -I %s -o %s.out %s -ldl -lm",
                                   compiler, headers, source);
        assert_int_equal(compiled, 0);
        const int result = shell("%s.out %s >%s.log", source, plugin, source);
        if (result != 0) {
            shell("cat %s.log", source, "", "");
            fail_msg("%s: exit code %d", lines[l], result);
        }
    }
    shell("rm -r %s", folder, "", "");
}

/* What lies within all bounds: roundings in one direction, and one bit. */
static void what_only_a_fill_knows_fails(void **state)
{
    (void)state;
    static const struct {
        const char *line, *wrong;
    } cases[] = {{"h=4 s=40 d=8 fill=rounding dtype=bf16", "bug=out_truncated"},
                 {"h=4 s=48 d=8 fill=exact", "bug=out_5_percent"}};
    char folder[] = "/tmp/attnbench-reproducer-XXXXXX", source[64], why[256];
    assert_non_null(mkdtemp(folder));
    snprintf(source, sizeof source, "%s/r.c", folder);
    for (size_t c = 0; c < 2; c++)
        for (int wrong = 0; wrong < 2; wrong++) {
            if (write_of("mutant", wrong ? cases[c].wrong : "bug=none", cases[c].line, source, 0.5,
                         why, sizeof why))
                fail_msg("%s: %s", cases[c].line, why);
            assert_int_equal(shell("%s -std=c11 -Wall -Wextra -Werror -I %s -o %s.out %s -ldl -lm",
                                   compiler, headers, source),
                             0);
            assert_int_equal(shell("%s.out %s >%s.log", source, mutant, source), wrong);
        }
    assert_int_equal(shell("grep -q 'allowed error 0$' %s.log", source, "", ""), 0);
    shell("rm -r %s", folder, "", "");
}

static void what_can_not_be_written_has_a_reason(void **state)
{
    (void)state;
    char why[256];
    assert_int_equal(write_case("s=9 d=8", "/nonexistent/r.c", 2, why, sizeof why), -1);
    assert_non_null(strstr(why, "cannot be written"));
    assert_int_equal(write_case("h=8 s=500 d=128", "/nonexistent/r.c", 2, why, sizeof why), -1);
    assert_non_null(strstr(why, "too large"));
    assert_int_equal(write_case("s=9 d=8", "/nonexistent/r.c", 0.5, why, sizeof why), -1);
    assert_non_null(strstr(why, "within their bounds"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_plugin_passes),
        cmocka_unit_test(what_only_a_fill_knows_fails),
        cmocka_unit_test(what_can_not_be_written_has_a_reason),
    };
    if (argc != 5)
        return 2;
    plugin = argv[1];
    compiler = argv[2];
    headers = argv[3];
    mutant = argv[4];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
