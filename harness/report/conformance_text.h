/* SPDX-License-Identifier: Apache-2.0 */
/* conformance_text.h - a statement as Markdown, with its object in a comment, and as a badge. Both
 * are made from the object alone, so that a change of either shows. */
#ifndef ATTN_REPORT_CONFORMANCE_TEXT_H
#define ATTN_REPORT_CONFORMANCE_TEXT_H

#include <jansson.h>
#include <stdio.h>

/* Both write a whole document. Return 0, or -1: no memory. */
int attn_conformance_put_markdown(FILE *out, const json_t *statement);
int attn_conformance_put_badge(FILE *out, const json_t *statement);

/* What stands around the text, and before the object. */
#define ATTN_STATEMENT_BEGIN  "<!-- attnbench statement begins -->\n"
#define ATTN_STATEMENT_OBJECT "<!-- attnbench statement: "
#define ATTN_STATEMENT_END    "<!-- attnbench statement ends -->\n"

#endif
