/* SPDX-License-Identifier: Apache-2.0 */
/* flash_meanwhile.h - other work of a thread, between the steps of a product of tiles. */
#ifndef ATTN_SIMD_FLASH_MEANWHILE_H
#define ATTN_SIMD_FLASH_MEANWHILE_H

/* A product calls step(what) once for each of its steps. step computes no products itself. */
struct meanwhile {
    void (*step)(void *what);
    void *what;
};

#endif
