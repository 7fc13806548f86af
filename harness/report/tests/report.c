/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - from a made-up run to every document. */
#include <stdio.h>
#include <stdlib.h>
#include "synthetic.h"
int main(int argc, char **argv)
{
    char why[512] = "", note[512] = "";
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1}), back;
    if (synthetic_folder(&run, argv[2]) != 0 || attn_run_read(argv[2], &back, why, sizeof why) != 0) { puts(why); return 1; }
    char out[512];
    snprintf(out, sizeof out, "%s/report", argv[2]);
    int s = attn_report_write(&back, argv[1], out, note, sizeof note, why, sizeof why);
    printf("%d %s %s %d\n", s, note, why, argc);
    attn_run_release(&run);
    attn_run_release(&back);
    return s;
}
