# SPDX-License-Identifier: Apache-2.0
"""FlashAttention on a GPU: flash_attn_func of the package flash_attn"""
REQUIRES = ("torch", "flash_attn")
DEVICE = "cuda"
OPS = ("attention",)

from flash_attn import flash_attn_func  # noqa: E402

import attnbench_cuda as cuda  # noqa: E402


def supports(problem):
    p = problem
    if (p.causal or p.window or "alibi" in p.tensors) and not cuda.from_last(p):
        return "its diagonal is the one from the last row and key"
    if p.dk > 256 or p.dk % 8:
        return "heads are multiples of 8 up to 256"
    return cuda.supports(p, ("float16", "bfloat16"), "causal", "window", "bottom_right", "softcap", "alibi",
                         "groups", "lse")


def prepare(problem, tensors):
    """Its tensors are [b, s, h, d]: views."""
    t = {role: cuda.view(x.permuted(0, 2, 1, 3) if role in "qkv" else x) for role, x in tensors.items()}
    return problem, t, t["alibi"].float() if "alibi" in t else None


def run(state):
    p, t, slopes = state
    window = (p.window_left, 0 if p.causal else p.window_right) if p.window else (-1, -1)
    made = flash_attn_func(t["q"], t["k"], t["v"], softmax_scale=p.scale, causal=p.causal,
                           window_size=window, softcap=p.softcap, alibi_slopes=slopes,
                           return_attn_probs="lse" in t)
    if "lse" in t:
        return {"out": made[0].transpose(1, 2), "lse": made[1]}
    return made.transpose(1, 2)


def numerics(problem):
    tile = 32 if problem.dk > 128 else 64
    return {**cuda.tensor_cores(problem, tile, cuda.splits_of(problem, tile)), "e_tanh": 2.0**-10,
            "source": "csrc/flash_attn of FlashAttention-2: sums in f32, p in the type of q, the least tile "
                      "of keys there; ex2.approx 2^-22, tanh.approx 2^-10.987 by the PTX manual"}
