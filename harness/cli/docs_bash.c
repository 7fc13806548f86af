/* SPDX-License-Identifier: Apache-2.0 */
/* docs_bash.c - writes the bash completion from the tables of the command line.
 *
 * The tables become two `case` commands: what follows an option, and what a verb accepts. Both give
 * fixed words, and kinds of things that are looked up during completion. */
#include "cli/docs.h"

#include <string.h>

#include "cli/command.h"

/* The parts that do not depend on the tables. For bash, the '=' of --option=value is a word of its
 * own. A backend's options come after a colon and are not completed. The list of backends is made
 * once per shell, because it loads every plugin. */
static const char opening[] =
    "# attnbench - completion for bash; written by attnbench-docs from the tables of the program.\n"
    "_attnbench()\n"
    "{\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    local verb='' options='' words='' kind=''\n"
    "    COMPREPLY=()\n"
    "    ((COMP_CWORD == 1)) || verb=${COMP_WORDS[1]}\n"
    "    if [[ $cur == = ]]; then\n"
    "        cur=''\n"
    "    elif [[ $prev == = ]]; then\n"
    "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    fi\n";
static const char closing[] =
    "    [[ $cur != -* ]] || words=$options kind=''\n"
    "    case $kind in\n"
    "    backend)\n"
    "        : \"${_attnbench_backends:=$(\"${COMP_WORDS[0]}\" list 2>/dev/null |\n"
    "            sed -n '/not available/d; s/^\\([a-z][a-z0-9_]*\\) .*/\\1/p')}\"\n"
    "        words=$_attnbench_backends\n"
    "        ;;\n"
    "    cases | file | folder) compopt -o filenames 2>/dev/null ;;\n"
    "    esac\n"
    "    [[ -z $words ]] || mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
    "    case $kind in\n"
    "    cases)\n"
    "        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(\n"
    "            compgen -f -X '!*.cases' -- \"$cur\"\n"
    "            compgen -f -X '!*.safetensors' -- \"$cur\"\n"
    "            compgen -d -- \"$cur\")\n"
    "        ;;\n"
    "    file) mapfile -t COMPREPLY < <(compgen -f -- \"$cur\") ;;\n"
    "    folder) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d -- \"$cur\") ;;\n"
    "    esac\n"
    "}\n"
    "complete -F _attnbench attnbench\n";

/* Writes "a|b|c" in lower case as a list of words with blanks between; anything else as nothing. */
static void put_choices(FILE *to, const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz_-|");
    if (!memchr(text, '|', n))
        return;
    fputs(" words='", to);
    for (size_t i = 0; i < n; i++)
        fputc(text[i] == '|' ? ' ' : text[i], to);
    fputc('\'', to);
}

static const char *kind_of_value(const char *argument)
{
    return !strncmp(argument, "NAME", 4) ? "backend"
           : !strcmp(argument, "FILE")   ? "file"
           : !strcmp(argument, "DIR")    ? "folder"
                                         : "";
}

static const char *kind_of_operands(const char *arguments)
{
    return strstr(arguments, "CASES")                              ? "cases"
           : strstr(arguments, "RUN") || strstr(arguments, "BASE") ? "folder"
                                                                   : "";
}

/* Does the same option mean something else for other verbs? */
static bool is_shared(const struct attn_flag *flag)
{
    int n = 0;
    for (const struct attn_flag *f = attn_flags; f->name; f++)
        n += !strcmp(f->name, flag->name);
    return n > 1;
}

static void put_flag(FILE *to, const struct attn_flag *flag)
{
    if (!flag->argument)
        return;
    fputs("    ", to);
    if (flag->letter)
        fprintf(to, "*' -%c' | ", flag->letter);
    const char *before = "";
    for (const struct attn_verb *v = attn_verbs; v->name; v++)
        if (is_shared(flag) && attn_flag_belongs(flag, v)) {
            fprintf(to, "%s'%s --%s'", before, v->name, flag->name);
            before = " | ";
        }
    if (!*before)
        fprintf(to, "*' --%s'", flag->name);
    fprintf(to, ") kind='%s'", kind_of_value(flag->argument));
    put_choices(to, flag->argument);
    fputs(" ;;\n", to);
}

static void put_verb(FILE *to, const struct attn_verb *verb)
{
    fprintf(to, "        %s)\n            kind='%s'", verb->name,
            kind_of_operands(verb->arguments));
    put_choices(to, verb->arguments + (*verb->arguments == '['));
    fputs("\n            options='", to);
    const char *before = "";
    for (const struct attn_flag *f = attn_flags; f->name; f++) {
        if (!attn_flag_belongs(f, verb))
            continue;
        fprintf(to, "%s--%s", before, f->name);
        before = " ";
    }
    fputs("'\n            ;;\n", to);
}

void attn_docs_bash(FILE *to)
{
    fputs(opening, to);
    fputs("    case \"$verb $prev\" in\n", to);
    for (const struct attn_flag *f = attn_flags; f->name; f++)
        put_flag(to, f);
    fputs("    *)\n        case $verb in\n        '') words='--help", to);
    for (const struct attn_verb *v = attn_verbs; v->name; v++)
        fprintf(to, " %s", v->name);
    fputs("' ;;\n", to);
    for (const struct attn_verb *v = attn_verbs; v->name; v++)
        put_verb(to, v);
    fputs("        esac\n        ;;\n    esac\n", to);
    fputs(closing, to);
}
