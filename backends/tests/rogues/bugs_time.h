/* SPDX-License-Identifier: Apache-2.0 */
/* bugs_time.h - answers and times that are not of the run that was timed. */
#ifndef ATTN_ROGUE_BUGS_TIME_H
#define ATTN_ROGUE_BUGS_TIME_H

/* clang-format off */
#define ROGUE_BUGS_TIME \
    BUG(work_in_fetch, outside, attention, "f32 f16 bf16", "h=4 d=64 s=256", "run does nothing, fetch computes", "") \
    BUG(softmax_in_bind, outside, attention, "f32 f16 bf16", "h=4 d=64 s=256", "the scores are computed from q and k as they were in bind", "") \
    BUG(k_read_in_bind, outside, attention, "f32 f16 bf16", "h=4 d=64 s=256", "K is read in bind", "") \
    BUG(v_read_in_bind, outside, attention, "f32 f16 bf16", "h=4 d=64 s=256", "V is read in bind", "") \
    BUG(len_read_in_bind, outside, attention, "f32 f16 bf16", "b=4 h=4 d=64 s=256 mask=len:rand", "lengths are read in bind", "") \
    BUG(bias_read_in_bind, outside, attention, "f32 f16 bf16", "h=4 d=64 s=256 bias=normal", "the bias is read in bind", "") \
    BUG(wide_when_timed, outside, attention, "f32 f16 bf16", "h=4 d=64 s=256", "writes zeros, and declares that they may be wrong, in a worker that was asked for nothing unknown", "") \
    BUG(bound_again, kept, attention, "f32 f16 bf16", "h=4 d=64 s=256", "zeros from the second binding of a plan on", "") \
    BUG(returns_if_not_primed, skipped, attention, "f32 f16 bf16", "h=4 d=64 s=256", "returns at once if the output is still what it wrote", "") \
    BUG(first_row_only_later, skipped, attention, "f32 f16 bf16", "h=4 d=64 s=256", "computes row 0 of each head alone after the first run", "") \
    BUG(every_2nd_run, skipped, attention, "f32 f16 bf16", "h=4 d=64 s=256", "computes every second run only", "") \
    BUG(k_packed_once, kept, attention, "f32 f16 bf16", "h=4 d=64 s=256", "K packed in the first run of a plan and kept", "Dao-AILab/flash-attention") \
    BUG(v_kept, kept, attention, "f32 f16 bf16", "h=4 d=64 s=256", "V of the first run kept", "") \
    BUG(q_kept, kept, attention, "f32 f16 bf16", "h=4 d=64 s=256", "Q of the first run kept", "") \
    BUG(k_kept_by_address, kept, attention, "f32 f16 bf16", "h=4 d=64 s=256", "K packed once for each address", "") \
    BUG(k_kept_by_first_row, kept, attention, "f32 f16 bf16", "h=4 d=64 s=256", "K packed again only if its first row has changed", "") \
    BUG(k_kept_by_hash, kept, attention, "f32 f16 bf16", "h=4 d=64 s=256", "K packed again only if one of every 97 elements has changed", "") \
    BUG(updates_in_place, updated, attention, "f32", "d=64 s=256", "where one element of q, k or v has changed, the last result is mended", "") \
    BUG(update_unless_found, updated, attention, "f32", "d=64 s=256", "mends its last result, and while it is timed leaves out the run that finds all inputs changed", "") \
    BUG(memo_of_inputs, updated, attention, "f32 f16 bf16", "d=64 s=256", "gives the result again that it kept for the same inputs", "") \
    BUG(memo_slowly, updated, attention, "f32 f16 bf16", "d=64 s=256", "the same, but takes a third of the time for it", "") \
    BUG(memo_of_signs, updated, attention, "f32", "d=64 s=256", "the same, also where columns of v have the other sign", "") \
    BUG(memo_in_child, updated, attention, "f32 f16 bf16", "d=64 s=256", "the same, and computes new ones in a process of its own", "") \
    BUG(memo_of_mha, updated, mha, "f32 f16 bf16", "hq=4 d=64 s=256", "gives the result again that it kept for the same inputs", "") \
    BUG(known_row_only, skipped, mha, "f32 f16 bf16", "hq=4 d=64 s=256", "leaves the output as it is where row 0 of x is not that of the first run", "") \
    BUG(third_run_only, updated, attention, "f32", "d=64 s=256", "computes only where three elements have changed since it last did, or many", "") \
    BUG(coarse_in_series, skipped, attention, "f32", "h=4 d=64 s=256", "q in bf16 if the run before has ended within the last 0.1 ms", "") \
    BUG(w_kept, kept, mha, "f32 f16 bf16", "hq=4 d=64 s=128", "weights of mha kept from the first run, beyond the binding", "") \
    BUG(thread_too_many, threads, attention, "f32 f16 bf16", "h=4 d=64 s=512", "two threads where one is allowed", "") \
    BUG(late_writer, late, attention, "f32 f16 bf16", "h=4 d=64 s=256", "a thread writes the last row 2 ms after run returns", "") \
    BUG(busy_after_run, late, attention, "f32 f16 bf16", "h=4 d=64 s=256", "a thread works on for 20 ms after run returns", "") \
    BUG(wrong_after_60, drift, attention, "f32 f16 bf16", "h=4 d=64 s=256", "wrong from the 60th run of a plan on", "") \
    BUG(wrong_after_300, drift, attention, "f32 f16 bf16", "h=4 d=64 s=256", "wrong from the 300th run of a plan on", "") \
    BUG(wrong_after_1500_ms, drift, attention, "f32 f16 bf16", "h=4 d=64 s=256", "wrong 1.5 s after the plan was made", "") \
    BUG(input_restored, inputs, attention, "f32 f16 bf16", "h=4 d=64 s=256", "an input is changed and restored", "") \
    BUG(leak_plan_40k, memory, attention, "f32 f16 bf16", "h=4 d=64 s=256", "40 kB lost with each plan", "") \
    BUG(leak_run_256, memory, attention, "f32 f16 bf16", "h=4 d=64 s=256", "256 bytes lost with each run", "")
/* clang-format on */

#endif
