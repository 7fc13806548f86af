# SPDX-License-Identifier: Apache-2.0
"""As much of the package flash_attn as its documentation promises of flash_attn_func, step by step:
tensors [b, s, h, d], a diagonal from the last row and key, lse [b, h, s]."""
import math

import torch


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                    alibi_slopes=None, deterministic=False, return_attn_probs=False):
    assert q.dtype in (torch.float16, torch.bfloat16) and q.dtype == k.dtype == v.dtype
    assert all(x.stride(-1) == 1 and x.dim() == 4 for x in (q, k, v)) and q.shape[-1] <= 256
    assert alibi_slopes is None or alibi_slopes.dtype == torch.float32
    group = q.shape[2] // k.shape[2]
    wide = [x.transpose(1, 2).float() for x in (q, k, v)]
    wide[1:] = [x.repeat_interleave(group, 1) for x in wide[1:]]
    s = wide[0] @ wide[1].mT * softmax_scale
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    far = torch.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1] - torch.arange(k.shape[1])
    if alibi_slopes is not None:
        s = s - alibi_slopes[:, None, None] * far.abs()
    left, right = window_size[0], 0 if causal else window_size[1]
    seen = ((far <= left) | (left < 0)) & ((far >= -right) | (right < 0))
    s = s.masked_fill(~seen, -math.inf)
    out = (s.softmax(-1).to(q.dtype).float() @ wide[2]).to(q.dtype).transpose(1, 2).contiguous()
    return (out, s.logsumexp(-1), None) if return_attn_probs else out
