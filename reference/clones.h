/* SPDX-License-Identifier: Apache-2.0 */
/* clones.h - a function built for wider instruction sets as well, chosen when a program starts. */
#ifndef ATTN_REFERENCE_CLONES_H
#define ATTN_REFERENCE_CLONES_H

/* Before a definition: ATTN_CLONES("avx2", "avx512f"). Sanitizers start before the choice could be
 * made; clang 14 loses the function in a static library. */
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&                \
    !defined(__SANITIZE_THREAD__)
#define ATTN_CLONES(...) __attribute__((target_clones(__VA_ARGS__, "default")))
#else
#define ATTN_CLONES(...)
#endif

#endif
