/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - the host's one clock. */
#ifndef ATTN_CLOCK_H
#define ATTN_CLOCK_H

/* Monotonic time in seconds. */
double attn_now(void);

#endif
