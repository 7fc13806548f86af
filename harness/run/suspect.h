/* SPDX-License-Identifier: Apache-2.0 */
/* suspect.h - can a time be that of the work? */
#ifndef ATTN_SUSPECT_H
#define ATTN_SUSPECT_H

#include "run/entry.h"

/* Work that nobody can do without. */
struct attn_work {
    uint32_t dtype;
    double flops;
    double bytes; /* that must be read or written; 0: not known */
};

/* Of the timed runs of an entry; flops 0: nothing can be said (a device, an approximation, work
 * that may be left out). */
struct attn_work attn_work_of(const struct attn_entry *entry);

/* Is a run of `ns` faster than the machine's ceilings allow, with a margin for their noise? Then a
 * sentence goes into (why, size). False if there are no ceilings. */
bool attn_work_is_suspect(const struct attn_ceilings *ceilings, const struct attn_work *work,
                          double ns, char *why, size_t size);

/* Is a run of `ns` that is to find its operands in memory faster than this machine reads memory?
 * Then some of them were in a cache. work->bytes: of what it reads. False if nothing can be said.
 */
bool attn_work_was_warm(const struct attn_ceilings *ceilings, const struct attn_work *work,
                        double ns);

#endif
