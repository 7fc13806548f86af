/* SPDX-License-Identifier: Apache-2.0 */
/* docs_man.c - writes the manual page from the tables of the command line. */
#include "cli/docs.h"

#include "cli/command.h"
#include "run/version.h"

/* Parts that are not in the tables, as lines of man macros. */
static const char environment[] = ".SH ENVIRONMENT\n"
                                  ".TP\n.B ATTNBENCH_PLUGIN_PATH\n"
                                  "Folders of further plugins, separated by colons.\n"
                                  ".TP\n.B NO_COLOR\n"
                                  "If set and not empty, progress is shown without colour.\n"
                                  ".PP\n"
                                  "Each backend runs in a process with\n.B OMP_NUM_THREADS\n"
                                  "and processor affinity set from\n.BR \\-\\-threads .\n";
static const char files[] =
    ".SH FILES\n"
    "The program looks for its parts from its own place, PREFIX/bin; an installation can be\n"
    "moved.\n"
    ".TP\n.I PREFIX/" ATTNBENCH_LIB_DIR "\n"
    "The worker program; plugins,\n.IR NAME.so ;\n"
    "the refusals expected of each,\n.IR NAME.skips ;\n"
    "why a backend is not there,\n.IR NAME.missing .\n"
    ".TP\n.I PREFIX/" ATTNBENCH_SHARE_DIR "/cases\n"
    "The standard suite; README.md there is the case language.\n"
    ".TP\n.I RUN/results.ndjson\n"
    "The records of a run, one a line: the truth that reports are made from.\n"
    ".TP\n.I RUN/machine.json\n"
    "What the run was measured on.\n"
    ".TP\n.I RUN/matrix.json\n"
    "What each backend supports.\n"
    ".TP\n.I RUN/tensors/\n"
    "The weights of cases that ask for them, as packs.\n"
    ".TP\n.I RUN/report/\n"
    "What is derived from all these: index.html, report.md, results.csv, junit.xml, plots.\n"
    ".TP\n.I attnbench\\-history.sqlite\n"
    "In the current folder: the index of history. It is made from run folders, and can be made\n"
    "again.\n";
static const char examples[] =
    ".SH EXAMPLES\n"
    "One case, in the case language, on every backend:\n"
    ".PP\n.RS\n.nf\nattnbench verify \\(aqh=12 s=512 d=64 mask=causal\\(aq\n.fi\n.RE\n"
    ".PP\n"
    "The whole suite on a kernel of your own:\n"
    ".PP\n.RS\n.nf\nattnbench verify \\-\\-plugin ./mine.so\n.fi\n.RE\n"
    ".PP\n"
    "Did anything become slower:\n"
    ".PP\n.RS\n.nf\nattnbench bench \\-o base\nattnbench bench \\-o new\n"
    "attnbench compare base new\n.fi\n.RE\n"
    ".PP\n"
    "Since when:\n"
    ".PP\n.RS\n.nf\nattnbench history rebuild runs\n"
    "attnbench history seqlen_s512 \\-b mine \\-\\-anchor blas\n.fi\n.RE\n";

/* Writes plain text, escaped so that no character becomes a request or an escape. */
static void put(FILE *to, const char *text)
{
    bool start = true;
    for (const char *at = text; *at; at++) {
        if (start && (*at == '.' || *at == '\''))
            fputs("\\&", to);
        if (*at == '\\')
            fputs("\\e", to);
        else if (*at == '-')
            fputs("\\-", to);
        else
            fputc(*at, to);
        start = *at == '\n';
    }
}

/* Writes words that begin in lower case and have no full stop as a sentence. */
static void put_sentence(FILE *to, const char *text)
{
    char first[2] = {*text, '\0'};
    if (first[0] >= 'a' && first[0] <= 'z')
        first[0] = (char)(first[0] - 'a' + 'A');
    put(to, first);
    put(to, text + 1);
    fputs(".\n", to);
}

static void put_verb(FILE *to, const struct attn_verb *verb)
{
    fputs(".SS ", to);
    put(to, verb->name);
    if (*verb->arguments)
        fputc(' ', to);
    put(to, verb->arguments);
    fputc('\n', to);
    put_sentence(to, verb->summary);
    put(to, verb->details);
    fputs(*verb->details ? "\n.PP\nOptions:" : ".PP\nOptions:", to);
    const char *before = "\n";
    for (const struct attn_flag *f = attn_flags; f->name; f++) {
        if (!attn_flag_belongs(f, verb))
            continue;
        fprintf(to, "%s\\fB\\-\\-", before);
        put(to, f->name);
        fputs("\\fR", to);
        before = ",\n";
    }
    fputs(".\n", to);
}

static void put_flag(FILE *to, const struct attn_flag *flag)
{
    fputs(".TP\n", to);
    if (flag->letter)
        fprintf(to, "\\fB\\-%c\\fR, ", flag->letter);
    fputs("\\fB\\-\\-", to);
    put(to, flag->name);
    fputs("\\fR", to);
    if (flag->argument) {
        fputs(" \\fI", to);
        put(to, flag->argument);
        fputs("\\fR", to);
    }
    fputc('\n', to);
    put_sentence(to, flag->help);
}

void attn_docs_man(FILE *to)
{
    fputs(".\\\" Written by attnbench-docs from the tables of the program.\n"
          ".TH ATTNBENCH 1 \"\" \"attnbench " ATTNBENCH_VERSION "\" \"User Commands\"\n"
          ".SH NAME\nattnbench \\- ",
          to);
    put(to, attn_purpose);
    fputs(
        "\n.SH SYNOPSIS\n.B attnbench\n.I COMMAND\n"
        ".RI [ OPTIONS \"] [\" ARGUMENTS ]\n"
        ".SH DESCRIPTION\n"
        "Implementations of attention are plugins. Each of them gets the same case, in a process\n"
        "of its own. Every output element is compared with a double\\-precision reference, within\n"
        "a proven error bound. What passed is timed.\n.PP\n",
        to);
    put(to, attn_about_cases);
    fputs("\nResults go to standard output, everything else to standard error.\n.SH COMMANDS\n",
          to);
    for (const struct attn_verb *v = attn_verbs; v->name; v++)
        put_verb(to, v);
    fputs(".SH OPTIONS\n", to);
    for (const struct attn_flag *f = attn_flags; f->name; f++)
        put_flag(to, f);
    fputs(".SH EXIT STATUS\n", to);
    for (int code = 0; code < ATTN_EXIT_CODES; code++) {
        fprintf(to, ".TP\n.B %d\n", code);
        put_sentence(to, attn_exit_meanings[code]);
    }
    fputs(".TP\n.B 130\n", to);
    put_sentence(to, "interrupted: " ATTN_EXIT_INTERRUPTED);
    fputs(environment, to);
    fputs(files, to);
    fputs(examples, to);
}
