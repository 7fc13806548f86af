/* SPDX-License-Identifier: Apache-2.0 */
/* test_keep.c - weights in the run folder: whose, of which cells, and when there are none. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "pack/make.h"
#include "pack/safetensors.h"
#include "reference/dtype.h"
#include "results/kept.h"
#include "run/keep.h"

static struct attn_session session;
static struct attn_contestant contestant;

static int begin(void **state)
{
    (void)state;
    memset(&session, 0, sizeof session);
    memset(&contestant, 0, sizeof contestant);
    session.settings.threads = 3;
    session.settings.host_threads = 2;
    snprintf(session.folder, sizeof session.folder, "/tmp/attn_keep_XXXXXX");
    snprintf(contestant.info.name, sizeof contestant.info.name, "fast");
    return mkdtemp(session.folder) ? 0 : -1;
}

static void path_of(const struct attn_instance *in, const char *backend, char path[ATTN_PATH_MAX])
{
    char id[ATTN_CASE_ID_LEN + 1], name[ATTN_KEPT_NAME_MAX];
    attn_case_id(&in->c, id);
    assert_int_equal(attn_kept_name(id, backend, "", name), 0);
    assert_int_equal(attn_path_join(path, session.folder, name), 0);
}

static struct attn_instance *instance_of(const char *line)
{
    struct attn_case_list list = {0};
    struct attn_instance *instance = NULL;
    char why[512] = "";
    if (attn_case_parse_line(line, strlen(line), NULL, 0, &list, why, sizeof why) ||
        attn_instance_create(&list.items[0], 2, &instance, why, sizeof why))
        fail_msg("%s: %s", line, why);
    attn_case_list_free(&list);
    return instance;
}

/* Opens what was kept; the test fails where there is nothing. */
static const struct attn_st_entry *open_kept(const struct attn_instance *in, const char *backend,
                                             struct attn_st_file *file)
{
    char path[ATTN_PATH_MAX], why[512];
    path_of(in, backend, path);
    if (attn_st_open(path, file, why, sizeof why) != 0)
        fail_msg("%s", why);
    assert_int_equal(file->count, 1);
    const struct attn_st_entry *entry = attn_st_find(file, "weights");
    assert_non_null(entry);
    assert_int_equal(entry->rank, 4);
    return entry;
}

static void nothing_kept(const struct attn_instance *in, const char *backend)
{
    char path[ATTN_PATH_MAX];
    path_of(in, backend, path);
    assert_int_not_equal(access(path, F_OK), 0);
}

static int end(void **state)
{
    char command[ATTN_PATH_MAX + 16];
    (void)state;
    snprintf(command, sizeof command, "rm -r '%s'", session.folder);
    return system(command); /* NOLINT(cert-env33-c): a folder of the test's own */
}

static void reference_of(const char *line, bool mha)
{
    struct attn_instance *in = instance_of(line);
    struct attn_st_file file;
    char why[512] = "", text[ATTN_CASE_LINE_MAX];
    assert_int_equal(attn_keep_reference(&session, in, why, sizeof why), 0);
    const struct attn_st_entry *entry = open_kept(in, ATTN_KEPT_REFERENCE, &file);
    assert_int_equal(entry->dtype, ATTN_F64);
    const int64_t n[] = {2, 3, 4, 6};
    for (int a = 0; a < 4; a++)
        assert_int_equal(entry->shape[a], n[a]);
    const double *kept = entry->data;
    struct ref_units rows = {.count = ref_output_units(&in->problem, 0)};
    double want[2 * 3 * 4 * 6];
    struct ref_result result = {.output[2].value = want};
    assert_int_equal(
        ref_compute(&in->problem,
                    &(struct ref_request){.units = {rows}, .fill = in->kind, .threads = 1}, &result,
                    why, sizeof why),
        0);
    for (int64_t b = 0; b < 2; b++)
        for (int64_t h = 0; h < 3; h++)
            for (int64_t i = 0; i < 4; i++)
                for (int64_t j = 0; j < 6; j++) {
                    int64_t row = mha ? (b * 4 + i) * 3 + h : (b * 3 + h) * 4 + i;
                    double value;
                    memcpy(&value, &kept[((b * 3 + h) * 4 + i) * 6 + j], sizeof value);
                    assert_true(value == want[row * 6 + j]);
                    assert_true((value == 0) == (j > i));
                }
    attn_case_canonical(&in->c, text, sizeof text);
    assert_string_equal(attn_st_metadata(&file, "case"), text);
    assert_string_equal(attn_st_metadata(&file, "backend"), ATTN_KEPT_REFERENCE);
    assert_string_equal(attn_st_metadata(&file, "source"), "drawn by the case line");
    assert_null(attn_st_metadata(&file, "tokens"));
    attn_st_close(&file);
    attn_instance_free(in);
}

static void the_reference_head_by_head(void **state)
{
    (void)state;
    reference_of("b=2 h=3 sq=4 sk=6 d=8 mask=causal out=weights", false);
    reference_of("op=mha b=2 h=3 sq=4 sk=6 d=8 kv=cross mask=causal out=weights", true);
}

/* As computed: bit for bit, whatever the verdict. */
static void a_backend_as_computed(void **state)
{
    (void)state;
    struct attn_instance *in = instance_of("b=2 h=3 sq=4 sk=6 d=8 dtype=bf16 out=weights");
    const struct attn_tensor *t = attn_tensor_find(&in->problem, ATTN_WEIGHTS);
    struct attn_entry entry = {.c = &in->c, .contestant = &contestant};
    struct attn_st_file file;
    char why[512] = "";
    attn_case_id(&in->c, entry.id);
    entry.verdict.status = ATTN_FAIL;
    entry.verdict.has = 1u << 2;
    for (int64_t c = 0; c < 144; c++)
        attn_dtype_store(t->dtype, t->data,
                         c / 72 * t->stride[0] + c / 24 % 3 * t->stride[1] +
                             c / 6 % 4 * t->stride[2] + c % 6 * t->stride[3],
                         c == 7 ? (double)NAN : (double)c);
    in->n_tokens = 6;
    in->tokens = calloc(12, sizeof *in->tokens);
    for (int k = 0; k < 12; k++)
        in->tokens[k] = strdup(k == 3 ? "\"##\\n" : "a");
    in->source = strdup("somewhere");
    assert_int_equal(attn_keep_weights(&session, in, &entry, why, sizeof why), 0);
    assert_true(entry.kept);
    const struct attn_st_entry *kept = open_kept(in, "fast", &file);
    assert_int_equal(kept->dtype, ATTN_BF16);
    for (int64_t c = 0; c < 144; c++) {
        double value = attn_dtype_load(ATTN_BF16, kept->data, c);
        assert_true(c == 7 ? isnan(value) : value == (double)c);
    }
    assert_string_equal(attn_st_metadata(&file, "source"), "somewhere");
    assert_string_equal(attn_st_metadata(&file, "threads"), "3");
    assert_string_equal(attn_st_metadata(&file, "tokens"),
                        "[[\"a\",\"a\",\"a\",\"\\\"##\\\\n\",\"a\",\"a\"],"
                        "[\"a\",\"a\",\"a\",\"a\",\"a\",\"a\"]]");
    attn_st_close(&file);
    attn_instance_free(in);
}

static void what_is_not_kept(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "h=2 s=8 d=8",                                      /* asks for none */
        "h=3 sq=512 sk=1024 d=1 out=weights",               /* more cells than the limit */
        "h=1 sq=2 sk=0 d=8 out=weights",                    /* none to keep */
        "h=2 s=400 d=8 dh=4000 score=additive out=weights", /* rows are sampled */
    };
    char why[512] = "";
    for (size_t l = 0; l < sizeof lines / sizeof lines[0]; l++) {
        struct attn_instance *in = instance_of(lines[l]);
        struct attn_entry entry = {.c = &in->c, .contestant = &contestant};
        attn_case_id(&in->c, entry.id);
        entry.verdict.has = 1u << 2;
        assert_int_equal(attn_keep_reference(&session, in, why, sizeof why), 0);
        assert_int_equal(attn_keep_weights(&session, in, &entry, why, sizeof why), 0);
        assert_false(entry.kept);
        nothing_kept(in, ATTN_KEPT_REFERENCE);
        nothing_kept(in, "fast");
        attn_instance_free(in);
    }
    /* A worker that crashed left the weights of another backend in the instance. */
    struct attn_instance *in = instance_of("h=2 s=8 d=8 out=weights");
    struct attn_entry entry = {.c = &in->c, .contestant = &contestant};
    attn_case_id(&in->c, entry.id);
    assert_int_equal(attn_keep_weights(&session, in, &entry, why, sizeof why), 0);
    assert_false(entry.kept);
    nothing_kept(in, "fast");
    /* Without a run folder there is no place. */
    char folder[ATTN_PATH_MAX];
    snprintf(folder, sizeof folder, "%s", session.folder);
    session.folder[0] = '\0';
    entry.verdict.has = 1u << 2;
    assert_int_equal(attn_keep_weights(&session, in, &entry, why, sizeof why), 0);
    assert_int_equal(attn_keep_reference(&session, in, why, sizeof why), 0);
    assert_false(entry.kept);
    snprintf(session.folder, sizeof session.folder, "%s", folder);
    attn_instance_free(in);
}

static void a_folder_that_can_not_be_made(void **state)
{
    char path[ATTN_PATH_MAX], why[512] = "";
    (void)state;
    assert_int_equal(attn_path_join(path, session.folder, ATTN_KEPT_FOLDER), 0);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    struct attn_instance *in = instance_of("h=2 s=8 d=8 out=weights");
    assert_int_equal(attn_keep_reference(&session, in, why, sizeof why), -1);
    assert_non_null(strstr(why, session.folder));
    attn_instance_free(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_reference_head_by_head, begin, end),
        cmocka_unit_test_setup_teardown(a_backend_as_computed, begin, end),
        cmocka_unit_test_setup_teardown(what_is_not_kept, begin, end),
        cmocka_unit_test_setup_teardown(a_folder_that_can_not_be_made, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
