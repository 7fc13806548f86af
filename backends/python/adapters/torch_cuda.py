# SPDX-License-Identifier: Apache-2.0
"""PyTorch on a GPU: scaled_dot_product_attention pinned to a kernel, or flex_attention"""
REQUIRES = ("torch",)
DEVICE = "cuda"
OPTION_KERNEL = "flash|cudnn|math|flex"  # the kernel
OPS = ("attention",)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.nn.attention.bias import causal_lower_right  # noqa: E402

import attnbench_cuda as cuda  # noqa: E402

PINNED = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION, "math": SDPBackend.MATH}
HALF = ("float16", "bfloat16")
TILE = 64  # flex_attention's least block of keys


def supports(problem):
    kernel = problem.options["kernel"]
    if kernel == "flex":
        return cuda.supports(problem, HALF + ("float32",), "causal", "window", "off", "bottom_right",
                             "alibi", "groups", "lse")
    if kernel != "math" and problem.dk > 256:
        return "heads are at most 256 wide"
    square = ("bottom_right",) if kernel == "flash" or problem.sq == problem.sk else ()
    more = ("value_width",) if kernel == "math" else ()
    types = HALF + (("float32", "float64") if kernel == "math" else ())
    refused = cuda.supports(problem, types, "causal", "groups", *square, *more)
    if not refused and problem.causal and problem.sq != problem.sk and not problem.bottom_right:
        return "is_causal wants as many queries as keys"
    return refused


class Flex:
    """flex_attention, compiled, with the masks that shapes give."""

    def __init__(self, problem, t):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        self.flex, self.t, self.problem = torch.compile(flex_attention, dynamic=False), t, problem
        p, off = problem, problem.sk - problem.sq if problem.bottom_right else problem.off

        def allowed(b, h, i, j):
            far = i + off - j
            left = far <= p.window_left if p.window and p.window_left >= 0 else far == far
            right = far >= -p.window_right if p.window and p.window_right >= 0 else far == far
            return left & right & (far >= 0) if p.causal else left & right

        self.mask = create_block_mask(allowed, None, None, p.sq, p.sk, device=t["q"].device) \
            if p.causal or p.window else None
        slopes = t.get("alibi")

        def biased(score, b, h, i, j):
            return score - slopes[h] * (i + off - j).abs()

        self.score = None if slopes is None else biased

    def run(self):
        t, p = self.t, self.problem
        made = self.flex(t["q"], t["k"], t["v"], score_mod=self.score, block_mask=self.mask, scale=p.scale,
                         enable_gqa=p.hq != p.hkv, return_lse="lse" in t)
        return {"out": made[0], "lse": made[1]} if "lse" in t else made


class Pinned:
    def __init__(self, problem, t):
        self.problem, self.t, self.kernel = problem, t, PINNED[problem.options["kernel"]]
        square = problem.sq == problem.sk
        self.is_causal = problem.causal and square
        self.mask = causal_lower_right(problem.sq, problem.sk) if problem.causal and not square else None

    def run(self):
        t, p = self.t, self.problem
        with sdpa_kernel(self.kernel):
            return F.scaled_dot_product_attention(
                t["q"], t["k"], t["v"], attn_mask=self.mask, is_causal=self.is_causal, scale=p.scale,
                enable_gqa=p.hq != p.hkv)


def prepare(problem, tensors):
    return (Flex if problem.options["kernel"] == "flex" else Pinned)(problem, cuda.views(tensors))


def run(state):
    return state.run()


def describe(problem):
    return problem.options["kernel"]


def numerics(problem):
    kernel = problem.options["kernel"]
    if kernel == "math":
        u = 2.0**-53 if problem.dtype == "float64" else cuda.UNIT
        return {"p_normalised": 1, "u_in": 2 * u, "e_exp": 8 * u,
                "source": "aten/src/ATen/native/transformers/attention.cpp, "
                          "_scaled_dot_product_attention_math: f16 and bf16 widened to f32"}
    tile = 32 if kernel == "flash" and max(problem.dk, problem.dv) > 128 else TILE
    return {**cuda.tensor_cores(problem, 16 if kernel == "flex" else tile, cuda.splits_of(problem, tile)),
            "source": "FlashAttention-2, cuDNN or Triton: sums in f32, p in the type of q; the least tile "
                      "in their sources, 2^-22 by the PTX manual for ex2.approx"}
