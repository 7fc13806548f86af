/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_f32.c - the instance over sgemm, with an exp and a tanh that become vector code. */
#include <cblas.h>
#include <math.h>

#include "exp.h"

#define REAL       float
#define REAL_DTYPE ATTN_F32
#define NAME(stem) stem##_f32
#define EXP        exp_f32_inline
#define LIBM_EXP   expf
#define TANH       tanh_f32_inline
#define LOG        logf
#define GEMM       cblas_sgemm
#define GEMV       cblas_sgemv

#include "softmax_template.h"

#include "matrix_template.h"

#include "scores_template.h"

#include "attention_template.h"

#include "mha_template.h"

#include "backward_template.h"

#include "entry_template.h"

float attn_blas_exp(float x)
{
    return exp_f32_inline(x);
}

float attn_blas_tanh(float x)
{
    return tanh_f32_inline(x);
}
