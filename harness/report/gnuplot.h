/* SPDX-License-Identifier: Apache-2.0 */
/* gnuplot.h - the one process that the report starts. */
#ifndef ATTN_REPORT_GNUPLOT_H
#define ATTN_REPORT_GNUPLOT_H

/* A picture takes well under a second; who waits longer waits for nothing. */
#define ATTN_GNUPLOT_LIMIT_S 60

/* Runs `gnuplot NAME.def.gp SCRIPT` in `folder`, without the user's start-up files; what it says
 * goes to NAME.log there. Returns its exit status (128 when a signal ended it), or -1 with errno:
 * ETIMEDOUT when it was killed after limit_s seconds, else why it could not be started. */
int attn_gnuplot_run(const char *folder, const char *name, const char *script, double limit_s);

#endif
