/* SPDX-License-Identifier: Apache-2.0 */
/* docs.c - attnbench-docs MAN BASH: writes the manual page and the bash completion. */
#include "cli/docs.h"

#include "results/status.h"

static int write_file(const char *path, void (*content)(FILE *to))
{
    FILE *to = fopen(path, "w");
    if (!to) {
        perror(path);
        return -1;
    }
    content(to);
    int failed = ferror(to);
    if (fclose(to) || failed) {
        perror(path);
        return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: attnbench-docs MAN BASH\n");
        return ATTN_EXIT_USAGE;
    }
    if (write_file(argv[1], attn_docs_man) || write_file(argv[2], attn_docs_bash))
        return ATTN_EXIT_INTERNAL;
    return ATTN_EXIT_OK;
}
