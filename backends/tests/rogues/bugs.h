/* SPDX-License-Identifier: Apache-2.0 */
/* bugs.h - the bugs that the rogue backend can be given, one at a time: option bug=NAME.
 *
 * One table a theme, in a file of its own. An entry is one line:
 *
 *     BUG(name, class, op, types, cases, text, source)
 *
 * `types` are the types of q in which it is tried; `cases` are words of a case, at a real size,
 * without op and dtype, and a list makes several lines: the bug has to be found on each of them.
 * "|" separates groups of such lines. `source` names the public report that it comes from, "" if
 * it is our own. score.py reads these files too. */
#ifndef ATTN_ROGUE_BUGS_H
#define ATTN_ROGUE_BUGS_H

#include "bugs_behaviour.h"
#include "bugs_declared.h"
#include "bugs_mha.h"
#include "bugs_operators.h"
#include "bugs_paths.h"
#include "bugs_rows.h"
#include "bugs_sizes.h"
#include "bugs_time.h"

/* clang-format off */
#define ROGUE_BUGS                                                                                 \
    ROGUE_BUGS_MHA ROGUE_BUGS_ROWS ROGUE_BUGS_DECLARED ROGUE_BUGS_TIME ROGUE_BUGS_SIZES              \
    ROGUE_BUGS_PATHS ROGUE_BUGS_BEHAVIOUR ROGUE_BUGS_OPERATORS
/* clang-format on */

enum rogue_bug {
    ROGUE_none,
#define BUG(name, class, op, types, cases, text, source) ROGUE_##name,
    ROGUE_BUGS
#undef BUG
        ROGUE_COUNT
};

/* The one that is planted; set by `create`. */
extern enum rogue_bug rogue_planted;

#define bug(name) (rogue_planted == ROGUE_##name)

#endif
