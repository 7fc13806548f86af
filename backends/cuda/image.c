/* SPDX-License-Identifier: Apache-2.0 */
/* image.c - the compiled kernels as data. IMAGE_FOLDER holds a fat binary a type. */
#define EMBED(name, file)                                                                          \
    __asm__(".section .rodata\n.balign 64\n.globl " name "\n.hidden " name "\n" name ":\n"         \
            ".incbin \"" IMAGE_FOLDER "/" file "\"\n.byte 0\n.previous\n")

EMBED("attn_cuda_f16", "kernels_f16.fatbin");
EMBED("attn_cuda_bf16", "kernels_bf16.fatbin");
EMBED("attn_cuda_f32", "kernels_f32.fatbin");
#ifdef HOPPER
EMBED("attn_cuda_hopper", "kernels_hopper.fatbin");
#else
extern const unsigned char attn_cuda_hopper[];
const unsigned char attn_cuda_hopper[1] = {0};
#endif
