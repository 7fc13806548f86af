/* SPDX-License-Identifier: Apache-2.0 */
/* resume.h - continues a run that was cut off. */
#ifndef ATTN_RESUME_H
#define ATTN_RESUME_H

#include "run/session.h"

struct attn_resume_wish {
    const json_t
        *run;     /* what this session would begin a run with (provenance.h); NULL: no memory */
    bool cross;   /* continue it although that differs */
    bool salvage; /* of a damaged journal, keep the lines before the damage */
};

/* Opens the run folder, and its journal for the session's records. Takes over the records that it
 * holds, and counts their verdicts: what they say is not done again (restore.h). A folder without a
 * journal begins a new run. Returns ATTN_EXIT_OK, or the exit code with the reason: ATTN_EXIT_USAGE
 * if the run was begun on another machine, by another commit or with other settings,
 * ATTN_EXIT_INCOMPLETE if it is damaged. */
enum attn_exit attn_resume(struct attn_session *session, const char *folder,
                           const struct attn_resume_wish *wish, char *why, size_t size);

#endif
