/* SPDX-License-Identifier: Apache-2.0 */
/* docs.h - what the program attnbench-docs writes from the tables of command.h when attnbench is
 * built, so that neither can say other than what the program does. Write errors stay in `to`. */
#ifndef ATTN_DOCS_H
#define ATTN_DOCS_H

#include <stdio.h>

/* The manual page attnbench(1), in the man macros of groff and mandoc. */
void attn_docs_man(FILE *to);

/* Completion for bash 4 and later: a function _attnbench, and its registration. */
void attn_docs_bash(FILE *to);

#endif
