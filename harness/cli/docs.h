/* SPDX-License-Identifier: Apache-2.0 */
/* docs.h - the manual page and the completion. The program attnbench-docs writes them from the
 * tables of command.h during the build, so they always match the program. Write errors stay in
 * `to`. */
#ifndef ATTN_DOCS_H
#define ATTN_DOCS_H

#include <stdio.h>

/* The manual page attnbench(1), in the man macros of groff and mandoc. */
void attn_docs_man(FILE *to);

/* Completion for bash 4 and later: a function _attnbench, and its registration. */
void attn_docs_bash(FILE *to);

#endif
