/* SPDX-License-Identifier: Apache-2.0 */
/* keep.h - a pid namespace for the worker. */
#ifndef ATTN_WORKER_KEEP_H
#define ATTN_WORKER_KEEP_H

/* Returns in a child of the calling process, which is in a pid namespace of its own, but not its
 * first process: signals that nobody handles end it, as anywhere. The caller itself never returns:
 * it tells the host which process that is, and ends as that one ends, with all of the namespace.
 * Returns -1 with errno if there is none. */
int attn_keep(void);

#endif
