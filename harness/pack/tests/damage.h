/* SPDX-License-Identifier: Apache-2.0 */
/* damage.h - damages a file as accidents and attackers do. */
#ifndef ATTN_DAMAGE_H
#define ATTN_DAMAGE_H

#include <stddef.h>
#include <stdint.h>

/* Damages the first `reach` bytes after the length field in one to four places: bytes, bits,
 * digits, punctuation, pieces moved, the end cut off. Returns the new length. `seed` counts on. */
size_t damage(unsigned char *bytes, size_t length, size_t reach, uint32_t *seed);

#endif
