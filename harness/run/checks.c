/* SPDX-License-Identifier: Apache-2.0 */
/* checks.c - names of the checks that need no reference. */
#include "run/checks.h"

static const struct {
    const char *name, *meaning;
} checks[ATTN_CHECK_COUNT] = {
    [ATTN_CHECK_PERMUTE_KEYS] = {"permute_keys", "keys in another order, with their values: same"},
    [ATTN_CHECK_SHIFT] = {"shift", "16 added to every score: same out, lse 16 higher"},
    [ATTN_CHECK_SCALE_V] = {"scale_v",
                            "columns of v times -1, 2, -2: out scales alike, bit for bit"},
    [ATTN_CHECK_LINEAR_V] = {"linear_v", "v of even keys and v of odd keys: results add up"},
    [ATTN_CHECK_ONES] = {"ones", "v = 1 gives 1, a row without keys 0"},
    [ATTN_CHECK_CAUSAL_PREFIX] = {"causal_prefix",
                                  "other future keys: rows before them keep every bit"},
    [ATTN_CHECK_GQA] = {"gqa", "key/value heads repeated for every query head: same"},
    [ATTN_CHECK_BATCH] = {"batch", "the last batch entry alone: same (bit for bit if declared)"},
    [ATTN_CHECK_SPLIT] = {"split", "keys in two parts, merged by lse or added up: same"},
    [ATTN_CHECK_DUPLICATE_KEY] = {"duplicate_key",
                                  "every key twice: same out, lse log 2 higher; twice the sum"},
    [ATTN_CHECK_KEEP] = {"keep",
                         "equal weights: out counts the keys that dropout keeps; as a mask: same"},
    [ATTN_CHECK_FUNCTIONS] = {"functions",
                              "two keys at known distances: exp, tanh, log as declared"},
    [ATTN_CHECK_PERMUTE_QUERIES] = {"permute_queries", "queries in another order: their rows too"},
    [ATTN_CHECK_PERMUTE_HEADS] = {"permute_heads",
                                  "heads in another order, with their weights: same"},
    [ATTN_CHECK_SHIFT_K] = {"shift_k", "2 added to every bias of k, or to k: same out, gradients"},
    [ATTN_CHECK_CHUNKS] = {"chunks", "the sequence in two calls, the state handed over: same"},
    [ATTN_CHECK_IDENTITY_PROJECTION] = {"identity_projection",
                                        "projected by the identity: same as attention"},
    [ATTN_CHECK_NO_DENOMINATOR] = {"no_denominator",
                                   "more keys that are forbidden or weigh 0: same out"},
    [ATTN_CHECK_LINEAR_DOUT] = {"linear_dout",
                                "two halves of dout, one doubled, one turned: gradients add up"},
    [ATTN_CHECK_THREADS] = {"threads", "another number of threads: same (bit for bit if declared)"},
    [ATTN_CHECK_RERUN] = {"rerun",
                          "up to 400 runs, some on a busy machine: same bits (if declared)"},
    [ATTN_CHECK_LEAKS] = {"leaks", "plans and runs leave no thread, descriptor or memory behind"},
    [ATTN_CHECK_NEW_DATA] = {"new_data",
                             "other values in every input after bind and many runs: right"},
    [ATTN_CHECK_INPUTS] = {"inputs", "no input is written to (always on)"},
    [ATTN_CHECK_BOUNDS] = {"bounds", "no access outside an operand, no gap touched (always on)"},
    [ATTN_CHECK_STATE] = {"state", "MXCSR and x87 control word left as they were (always on)"},
    [ATTN_CHECK_UNKNOWNS] = {"unknowns", "supports refuses what has no meaning yet (always on)"},
};

const char *attn_check_name(enum attn_check check)
{
    return checks[check].name;
}

const char *attn_check_meaning(enum attn_check check)
{
    return checks[check].meaning;
}
