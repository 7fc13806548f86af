/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_f64.c - the instance of the kernels whose sums are f64. */
#include <math.h>

#define REAL       double
#define REAL_DTYPE ATTN_F64
#define NAME(stem) stem##_f64
#define EXP        exp
#define TANH       tanh
#define LOG        log
#define ERFC       erfc

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
