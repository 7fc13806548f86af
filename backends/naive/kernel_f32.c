/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_f32.c - the instance of the kernels whose sums are f32. */
#include <math.h>

#define REAL       float
#define REAL_DTYPE ATTN_F32
#define NAME(stem) stem##_f32
#define EXP        expf
#define TANH       tanhf
#define LOG        logf
#define ERFC       erfcf

#include "rows_template.h"

#include "attention_template.h"

#include "mha_template.h"

#include "wkv_template.h"

#include "linear_decay_template.h"

#include "performer_template.h"

#include "chunked_template.h"

#include "linformer_template.h"

#include "nystrom_template.h"

#include "lsh_template.h"

#include "backward_template.h"

#include "entry_template.h"
