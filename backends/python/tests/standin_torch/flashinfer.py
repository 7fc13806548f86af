# SPDX-License-Identifier: Apache-2.0
"""As much of the package flashinfer as its documentation promises of prefill, for the layout NHD: a
diagonal from the last row and key, lse [s, h] to base 2."""
import math

import torch
from flash_attn import flash_attn_func


def single_prefill_with_kv_cache(q, k, v, *, causal=False, sm_scale=None, logits_soft_cap=None, window_left=-1,
                                 return_lse=False):
    assert q.dim() == 3 and window_left < 0 or causal
    out, lse, _ = flash_attn_func(q[None], k[None], v[None], softmax_scale=sm_scale, causal=causal,
                                  softcap=logits_soft_cap or 0, window_size=(window_left, -1),
                                  return_attn_probs=True)
    return (out[0], lse[0].T / math.log(2)) if return_lse else out[0]


class BatchPrefillWithRaggedKVCacheWrapper:
    def __init__(self, workspace, kv_layout):
        assert workspace.dtype == torch.uint8 and workspace.numel() >= 1 << 20 and kv_layout == "NHD"

    def plan(self, qo_indptr, kv_indptr, num_qo_heads, num_kv_heads, head_dim_qk, *, q_data_type, **given):
        assert qo_indptr.dtype == kv_indptr.dtype == torch.int32
        self.starts, self.given = [x.tolist() for x in (qo_indptr, kv_indptr)], given
        self.shape = num_qo_heads, num_kv_heads, head_dim_qk, q_data_type

    def run(self, q, k, v, *, return_lse=False):
        assert self.shape == (q.shape[1], k.shape[1], q.shape[2], q.dtype)
        made = [single_prefill_with_kv_cache(q[a:b], k[c:d], v[c:d], return_lse=True, **self.given)
                for a, b, c, d in zip(self.starts[0], self.starts[0][1:], self.starts[1], self.starts[1][1:])]
        out, lse = (torch.cat([m[n] for m in made]) for n in range(2))
        return (out, lse) if return_lse else out
