/* SPDX-License-Identifier: Apache-2.0 */
/* statement.h - the statement of a session of verify, as a file. */
#ifndef ATTN_CLI_STATEMENT_H
#define ATTN_CLI_STATEMENT_H

#include "cli/command.h"

/* May a statement be made of this command? It must be about whole cases and all of their checks,
 * and its file must end in .md or .json and be writable. Returns 0, or -1 with the reason. */
int attn_statement_check_command(const struct attn_command *command, char *why, size_t size);

/* Writes the statement of a session, and its badge beside it (FILE.svg in place of .md or .json).
 * Returns 0, or -1 with the reason. */
int attn_statement_write(const struct attn_command *command, const struct attn_session *session,
                         char *why, size_t size);

#endif
