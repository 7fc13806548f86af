/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_f64.c - the instance over dgemm. */
#include <cblas.h>
#include <math.h>

#define REAL       double
#define REAL_DTYPE ATTN_F64
#define NAME(stem) stem##_f64
#define EXP        exp
#define LIBM_EXP   exp
#define TANH       tanh
#define LOG        log
#define GEMM       cblas_dgemm
#define GEMV       cblas_dgemv

#include "softmax_template.h"

#include "matrix_template.h"

#include "scores_template.h"

#include "attention_template.h"

#include "mha_template.h"

#include "backward_template.h"

#include "entry_template.h"
