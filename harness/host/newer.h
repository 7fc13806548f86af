/* SPDX-License-Identifier: Apache-2.0 */
/* newer.h - functions of C libraries newer than glibc 2.28, which the wheel must start with. Where
 * the library has one it is called, else what is nearest to it. */
#ifndef ATTN_HOST_NEWER_H
#define ATTN_HOST_NEWER_H

#include <spawn.h>
#include <stdint.h>

/* "SEGV"; NULL if the number is no signal's, or that of a real-time signal. */
const char *attn_signal_abbreviation(int sig);

/* The child has no descriptors from `least` on. Before glibc 2.34 it may have those that another
 * thread opens meanwhile without O_CLOEXEC. Returns 0 or an error number. */
int attn_add_close_from(posix_spawn_file_actions_t *actions, int least);

/* Bytes that malloc has given out. Before glibc 2.33 each of two parts is modulo 4 GiB. */
int64_t attn_allocated(void);

#endif
