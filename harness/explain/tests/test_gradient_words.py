# SPDX-License-Identifier: Apache-2.0
"""The usual mistakes of backward passes are named: planted bugs and the words of their verdicts.

    test_gradient_words.py BUILD_DIR [unittest options]
"""
import json
import os
import subprocess
import sys
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
PROGRAM = os.path.join(BUILD, "bin", "attnbench")
PLUGIN = os.path.join(BUILD, "tests", "plugins", "op_mutant.so")
OP = "op=attention_backward "
# by case: the bug of backend op_mutant, and words of its verdict
CASES = {
    OP + "b=2 h=2 s=40 dk=16 dv=12 mask=causal": {
        "bwd_no_delta": "with no delta",
        "bwd_delta_head": "with delta of the head before",
        "bwd_delta_next": "with delta of the next row",
        "bwd_delta_bf16": "with delta rounded to bf16: if so, declare delta_type",
        "bwd_lse_head": "with lse of the head before",
        "bwd_scale_dk": "the right answer times 4 (1 / scale: not applied)",
        "bwd_scale_dq": "the right answer times 0.25 (scale: applied twice)",
        "bwd_mask_dkv": "the mask shifted by one: offset -1 instead of 0",
        "bwd_mask_dq": "the mask shifted by one: offset -1 instead of 0",
        "bwd_key_tail": "keys from 32 on lost",
        "bwd_query_tail": "queries from 32 on lost",
        "bwd_dq_adds": "the right answer times 2 (added to an earlier result)",
        "bwd_ds_f16": "within the bound if dS were stored in f16: if so, declare ds_type",
    },
    OP + "b=2 hq=4 hkv=2 sq=24 sk=37 dk=8 dv=12": {
        "bwd_group_overwrites": "the last head of each group alone: it overwrites the others",
        "bwd_group_dkv": "every second head of each group alone|the first head of each group alone",
    },
    OP + "b=2 h=2 sq=24 sk=37 d=8 mask=causal_br": {
        "bwd_corner": "mask causal instead of causal_br (offset 0 instead of 13)",
        "bwd_corner_dkv": "mask causal instead of causal_br (offset 0 instead of 13)",
    },
    OP + "h=2 s=40 d=8 mask=window:6:3": {
        "bwd_window_right": "the window without its right side",
        "bwd_window_left": "window:7:3 instead of window:6:3",
    },
    OP + "b=3 h=2 sq=24 sk=40 d=8 mask=len:40/17/0": {
        "bwd_empty_nan": "are NaN where a row sees no key: exp(s - lse) with an lse of -inf",
        "bwd_empty_seen": "rows without keys that see all of them, with an lse of 0",
        "bwd_unseen": "were never written",
    },
    OP + "b=2 h=2 s=24 d=8 softcap=1.5": {
        "bwd_cap_factor": "no factor 1 - tanh^2 of the softcap",
    },
    OP + "b=2 h=2 s=24 d=8 softcap=1.5 bias=normal:hqk out=dbias": {
        "bwd_bias_last": "the last batch alone: it overwrites the others",
        "bwd_bias_kept": "with no delta",
    },
    OP + "b=2 h=4 s=24 d=8 sink=1 bias=alibi mask=past:3 out=dsink+dalibi": {
        "bwd_sink_sign": "(the other sign)",
        "bwd_sink_batch": "the last batch alone: it overwrites the others",
        "bwd_sink_lse": "lse without the share of the sink",
        "bwd_slope_sign": "(the other sign)",
    },
    OP + "b=2 h=2 s=24 d=8 dropout=0.3": {
        "bwd_dp_kept": "what dropout keeps not divided by 1 - dropout",
        "bwd_dp_dropped": "no weight dropped, but every weight divided by 1 - dropout",
        "bwd_delta_kept": "delta divided by 1 - dropout once more",
        "bwd_delta_own": "delta of an out of its own, without dropout",
    },
    # What needs no rounding of operands is named in 16 bits, too.
    OP + "b=2 hq=4 hkv=2 s=40 d=16 mask=causal dtype=bf16": {
        "bwd_no_delta": "with no delta",
        "bwd_delta_next": "with delta of the next row",
        "bwd_group_overwrites": "the last head of each group alone: it overwrites the others",
        "bwd_scale_dk": "(1 / scale: not applied)",
    },
}


class GradientWords(unittest.TestCase):
    def test_each_mistake_is_named(self):
        for case, bugs in CASES.items():
            backends = [word for bug in bugs for word in ("-b", "op_mutant:bug=" + bug)]
            done = subprocess.run(
                [PROGRAM, "verify", "--plugin", PLUGIN, *backends, "--checks", "none", "--fills",
                 "none", "--json", case], capture_output=True, text=True, timeout=120,
                stdin=subprocess.DEVNULL, check=False)
            records = {r["options"]: r for r in map(json.loads, done.stdout.splitlines())}
            for bug, words in bugs.items():
                with self.subTest(bug=bug, case=case):
                    record = records["bug=" + bug]
                    self.assertEqual(record["status"], "fail", done.stderr)
                    self.assertTrue(any(w in record["reason"] for w in words.split("|")),
                                    record["reason"])


if __name__ == "__main__":
    unittest.main()
