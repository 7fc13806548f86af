/* SPDX-License-Identifier: Apache-2.0 */
/* test_report_page.c - can everybody read it: contrast of the page's and the pictures' colours,
 * links that lead somewhere.
 *
 * test_report_page SCRIPT_DIR */
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "folder.h"
#include "report/text.h"
#include "synthetic.h"

static const char *script_dir;

/* WCAG 2.1, 1.4.3: level AA for text that is not large. */
#define LEAST_CONTRAST 4.5

static char *source(const char *file)
{
    char path[512], why[256];
    size_t length;
    snprintf(path, sizeof path, "%s/%s", script_dir, file);
    char *text = attn_file_read(path, &length, why, sizeof why);
    if (!text)
        fail_msg("%s", why);
    return text;
}

/* Relative luminance of "#rrggbb", as WCAG 2.1 defines it. */
static double luminance(const char *colour)
{
    static const double weights[] = {0.2126, 0.7152, 0.0722};
    double sum = 0;
    assert_true(colour[0] == '#');
    for (int i = 0; i < 3; i++) {
        char digits[3] = {colour[1 + 2 * i], colour[2 + 2 * i], '\0'};
        assert_true(isxdigit((unsigned char)digits[0]) && isxdigit((unsigned char)digits[1]));
        double c = (double)strtol(digits, NULL, 16) / 255;
        sum += weights[i] * (c <= 0.03928 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4));
    }
    return sum;
}

static double contrast(const char *a, const char *b)
{
    double x = luminance(a), y = luminance(b);
    return (fmax(x, y) + 0.05) / (fmin(x, y) + 0.05);
}

/* The value of --NAME in the block of :root that follows `start`. */
static const char *variable(const char *css, const char *start, const char *name)
{
    char text[32];
    const char *block = strstr(css, start), *root = block ? strstr(block, ":root {") : NULL;
    const char *end = root ? strchr(root, '}') : NULL;
    snprintf(text, sizeof text, "--%s: ", name);
    const char *at = root ? strstr(root, text) : NULL;
    if (!end || !at || at > end)
        fail_msg("no --%s after %s", name, start);
    return at + strlen(text);
}

static void the_formula(void **state)
{
    (void)state;
    assert_true(fabs(contrast("#000000", "#ffffff") - 21) < 1e-9);
    assert_true(fabs(contrast("#ffffff", "#767676") - 4.54) < 0.01);
    assert_true(fabs(contrast("#ff0000", "#ffffff") - 4.0) < 0.01);
}

static void contrast_of_the_page(void **state)
{
    (void)state;
    static const char *const schemes[] = {"<style>", "prefers-color-scheme: dark", "@media print"};
    static const char *const texts[] = {"text", "soft", "pass", "fail", "warn", "none", "link"};
    static const char *const grounds[] = {"page", "card", "head", "here"};
    char *page = source("template.html");
    for (size_t s = 0; s < 3; s++)
        for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++)
            for (size_t g = 0; g < sizeof grounds / sizeof grounds[0]; g++) {
                double found = contrast(variable(page, schemes[s], texts[t]),
                                        variable(page, schemes[s], grounds[g]));
                if (!(found >= LEAST_CONTRAST))
                    fail_msg("%s: %s on %s has a contrast of %.2f", schemes[s], texts[t],
                             grounds[g], found);
            }
    /* No colour is set past the variables, but for the white that pictures are drawn on. */
    const char *end = strstr(page, "</style>");
    size_t plain = 0;
    for (const char *at = page; (at = strchr(at, '#')) && at < end; at++) {
        const char *line = at;
        while (line > page && line[-1] != '\n')
            line--;
        line += strspn(line, " ");
        plain += strncmp(line, "--", 2) != 0 && isxdigit((unsigned char)at[1]) != 0;
    }
    assert_int_equal(plain, 1);
    assert_non_null(strstr(page, "background: #ffffff"));
    free(page);
}

/* A path, a name or a line without blanks breaks anywhere, so that no page scrolls sideways. */
static void narrow_screens(void **state)
{
    (void)state;
    char *page = source("template.html");
    assert_non_null(
        strstr(page, "h1, h2, p, li, summary, figcaption { overflow-wrap: anywhere; }"));
    const char *narrow = strstr(page, "@media (max-width: 600px)");
    assert_non_null(narrow);
    assert_non_null(strstr(narrow, "tr.folded { display: none; }"));
    free(page);
}

static void contrast_of_pictures(void **state)
{
    (void)state;
    static const char *const scripts[] = {
        "throughput.gp", "latency.gp", "memory.gp", "roofline.gp", "errors.gp",
        "heatmap.gp",    "speedup.gp", "best.gp",   "against.gp",  "samples.gp"};
    static const char *const before[] = {"text_grey = '", " tc rgb '", "set border 3 lc rgb '"};
    for (size_t s = 0; s < sizeof scripts / sizeof scripts[0]; s++) {
        char *text = source(scripts[s]);
        assert_int_equal(folder_count(text, "background '#ffffff'"), 2);
        size_t found = 0;
        for (size_t b = 0; b < sizeof before / sizeof before[0]; b++)
            for (const char *at = text; (at = strstr(at, before[b])); found++) {
                at += strlen(before[b]);
                if (!(contrast(at, "#ffffff") >= LEAST_CONTRAST))
                    fail_msg("%s: text in %.7s on white", scripts[s], at);
            }
        assert_true(found > 0);
        free(text);
    }
}

/* Every case has one place on the page, and every link leads to one. */
static void permalinks(void **state)
{
    (void)state;
    char out[128], note[512], why[512], id[80], *path = strdup(getenv("PATH"));
    const struct attn_report_options options = {.script_dir = script_dir, .out_dir = out};
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    run.matrix = synthetic_matrix();
    /* An id that can stand in no address, and one of two lines: with other threads. */
    size_t i;
    json_t *record, *more = json_array();
    json_array_foreach(run.records, i, record)
    {
        if (strcmp(attn_field_text(record, "case"), "dk=64 hq=8 sq=256") == 0)
            json_object_set_new(record, "id", json_string("a\"onclick=\"b"));
        if (strcmp(attn_field_text(record, "case"), "dk=64 hq=8 sq=512") == 0) {
            json_t *copy = json_deep_copy(record);
            json_object_set_new(copy, "threads", json_integer(1));
            json_array_append_new(more, copy);
        }
    }
    json_array_extend(run.records, more);
    json_decref(more);
    snprintf(out, sizeof out, "%s/report", folder);
    setenv("PATH", "/nonexistent", 1);
    int status = attn_report_write(&run, &options, note, sizeof note, why, sizeof why);
    setenv("PATH", path, 1);
    free(path);
    assert_int_equal(status, 0);
    char *text = folder_text("index.html");
    assert_int_equal(folder_count(text, "<tr id=\""), 39);
    size_t links = 0;
    for (const char *at = text; (at = strstr(at, "href=\"#")); links++) {
        at += strlen("href=\"#");
        const int length = (int)strcspn(at, "\"");
        snprintf(id, sizeof id, "<tr id=\"%.*s\">", length, at);
        size_t places = folder_count(text, id);
        snprintf(id, sizeof id, "<h2 id=\"%.*s\">", length, at);
        places += folder_count(text, id);
        assert_int_equal(places, 1);
    }
    assert_true(links > 3 * 39);
    /* What a narrow screen folds is open before the script and without it. */
    assert_int_equal(folder_count(text, "<details class=\"narrow\" open><summary>"), 3);
    assert_int_equal(folder_count(text, "<details"), folder_count(text, "</details>"));
    assert_int_equal(folder_count(text, "onclick"), 0);
    free(text);
    attn_run_release(&run);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_formula),
        cmocka_unit_test(contrast_of_the_page),
        cmocka_unit_test(contrast_of_pictures),
        cmocka_unit_test(narrow_screens),
        cmocka_unit_test_setup_teardown(permalinks, folder_setup, folder_teardown),
    };
    if (argc < 2) {
        fprintf(stderr, "usage: %s SCRIPT_DIR\n", argv[0]);
        return 2;
    }
    script_dir = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
