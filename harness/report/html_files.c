/* SPDX-License-Identifier: Apache-2.0 */
/* html_files.c - links of a page to the files beside it. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/text.h"
#include "report/writers.h"

static bool is_there(const char *out_dir, const char *path)
{
    char full[4608];
    const int n = snprintf(full, sizeof full, "%s/%s", out_dir, path);
    return n > 0 && (size_t)n < sizeof full && access(full, F_OK) == 0;
}

static void put_link(FILE *out, const char *path, const char *text)
{
    fputs("<a href=\"", out);
    attn_html_put_url(out, path);
    fputs("\">", out);
    attn_put_html(out, text);
    fputs("</a>", out);
}

/* The bytes of a path at the start of a text: letters, digits and "_-./", no full stop at the end.
 */
static size_t path_length(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./");
    while (n > 0 && text[n - 1] == '.')
        n--;
    return n;
}

void attn_html_put_linked(FILE *out, const char *out_dir, const char *text)
{
    char word[256];
    while (*text) {
        size_t n = path_length(text);
        const bool path = n > 0 && n < sizeof word && *text != '/';
        n = n > 0 ? n : 1;
        /* A longer word is no path, and is written in parts. */
        n = n < sizeof word ? n : sizeof word - 1;
        snprintf(word, sizeof word, "%.*s", (int)n, text);
        if (path && strpbrk(word, "./") && !strstr(word, "..") && is_there(out_dir, word))
            put_link(out, word, word);
        else
            attn_put_html(out, word);
        text += n;
    }
}

void attn_html_put_picture_files(FILE *out, const char *out_dir, const char *name)
{
    static const char *const ends[][2] = {
        {".svg", "SVG"}, {".png", "PNG"}, {".dat", "data"}, {".def.gp", "definitions"}};
    fputs(" <span class=\"files\">", out);
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
        char path[128];
        snprintf(path, sizeof path, "plots/%s%s", name, ends[e][0]);
        if (is_there(out_dir, path)) {
            put_link(out, path, ends[e][1]);
            fputc(' ', out);
        }
    }
    fputs("</span>", out);
}

/* Is the page's folder in that of the run, so that a link from one leads to the other? */
static bool is_in_run(const char *out_dir, const char *run)
{
    char above[4608];
    struct stat a, b;
    const int n = snprintf(above, sizeof above, "%s/..", out_dir);
    return n > 0 && (size_t)n < sizeof above && stat(above, &a) == 0 && stat(run, &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

void attn_html_put_files(FILE *out, const char *out_dir, const char *run)
{
    static const char above[] = "../";
    static const char *const files[] = {"report.md",      "results.csv",       "junit.xml",
                                        "plots/",         "../results.ndjson", "../machine.json",
                                        "../matrix.json", "../workers.log",    "../tensors/"};
    const bool in_run = is_in_run(out_dir, run);
    const char *before = "<dt>Files</dt><dd>";
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        const bool of_run = strncmp(files[f], above, strlen(above)) == 0;
        if ((of_run && !in_run) || !is_there(out_dir, files[f]))
            continue;
        fputs(before, out);
        put_link(out, files[f], files[f] + (of_run ? strlen(above) : 0));
        before = ", ";
    }
    fputs(*before == ',' ? "</dd>\n" : "", out);
}
