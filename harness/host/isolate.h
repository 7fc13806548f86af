/* SPDX-License-Identifier: Apache-2.0 */
/* isolate.h - keeps a plugin's process from the host's memory. README.md says what that is worth.
 */
#ifndef ATTN_HOST_ISOLATE_H
#define ATTN_HOST_ISOLATE_H

/* Makes this process not dumpable: a process of the same user can then neither trace it nor open
 * its memory, unless it has CAP_SYS_PTRACE here. Call it before the first worker. */
void attn_isolate_host(void);

/* Puts the calling process, which must have one thread, into a user namespace of its own. Its user
 * and groups keep their numbers, and as root all numbers stay; but it has no power over processes
 * outside. Returns 0; 1: refused, and nothing has changed; -1: the
 * process is in the namespace without its numbers. Clears PR_SET_PDEATHSIG. */
int attn_isolate_self(void);

#endif
