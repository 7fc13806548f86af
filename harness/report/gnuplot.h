/* SPDX-License-Identifier: Apache-2.0 */
/* gnuplot.h - starts gnuplot, the only process that the report starts. */
#ifndef ATTN_REPORT_GNUPLOT_H
#define ATTN_REPORT_GNUPLOT_H

/* A picture takes well under a second. Beyond this limit gnuplot hangs. */
#define ATTN_GNUPLOT_LIMIT_S 60

/* Added to the number of a signal. */
#define ATTN_GNUPLOT_SIGNAL 128

/* Runs `gnuplot NAME.def.gp SCRIPT`, which changes to `folder` first, without the user's start-up
 * files. Its output goes to NAME.log there. Returns the exit status, ATTN_GNUPLOT_SIGNAL and the
 * number if a signal ended it, or -1 with errno: ETIMEDOUT if it was killed after limit_s seconds,
 * else why it did not start. */
int attn_gnuplot_run(const char *folder, const char *name, const char *script, double limit_s);

#endif
