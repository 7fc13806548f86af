/* SPDX-License-Identifier: Apache-2.0 */
/* no_image.c - in place of image.c, for whoever starts no kernel of ours, or has them itself. */
extern const unsigned char attn_cuda_f16[], attn_cuda_bf16[], attn_cuda_f32[], attn_cuda_hopper[];
const unsigned char attn_cuda_f16[1] = {0};
const unsigned char attn_cuda_bf16[1] = {0};
const unsigned char attn_cuda_f32[1] = {0};
#ifdef HOPPER /* what would be loaded is there */
const unsigned char attn_cuda_hopper[1] = {1};
#else
const unsigned char attn_cuda_hopper[1] = {0};
#endif
