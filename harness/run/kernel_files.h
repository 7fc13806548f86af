/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_files.h - reads the small text files by which the kernel describes the machine. Every path
 * is absolute and is taken below `root`: "" in programs, a planted tree in tests. */
#ifndef ATTN_KERNEL_FILES_H
#define ATTN_KERNEL_FILES_H

#include <stddef.h>

/* First line of the file without its newline; "" if it cannot be read. */
void attn_file_line(const char *root, const char *path, char *text, size_t size);

/* What follows "key :" in a file like /proc/cpuinfo, at the first line that begins with `key`; ""
 * if there is none. */
void attn_file_value(const char *root, const char *path, const char *key, char *text, size_t size);

#endif
