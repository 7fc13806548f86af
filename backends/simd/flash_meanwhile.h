/* SPDX-License-Identifier: Apache-2.0 */
/* flash_meanwhile.h - work that a thread does between the steps of a product. */
#ifndef ATTN_SIMD_FLASH_MEANWHILE_H
#define ATTN_SIMD_FLASH_MEANWHILE_H

/* Other work of this thread that fills the time of products: `step` is called once for every step
 * of a block, and computes no products itself. */
struct meanwhile {
    void (*step)(void *what);
    void *what;
};

#endif
