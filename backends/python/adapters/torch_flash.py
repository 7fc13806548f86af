# SPDX-License-Identifier: Apache-2.0
"""PyTorch scaled_dot_product_attention pinned to the flash kernel for CPUs; mha over it"""
REQUIRES = ("torch", "numpy")
OPS = ("attention", "mha", "attention_backward")

from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

import attnbench_torch as sdpa  # noqa: E402
import attnbench_torch_backward as backward  # noqa: E402

# For the rest of the process, which serves one backend. Dropped, it would end here.
pinned = sdpa_kernel(SDPBackend.FLASH_ATTENTION)
pinned.__enter__()


def is_backward(problem):
    return problem.op == "attention_backward"


def supports(problem):
    reason = backward.supports(problem) if is_backward(problem) else sdpa.supports(problem, ())
    if reason or problem.op == "mha":
        return reason
    if any(problem.tensors[r].strides[-1] != 1 and problem.tensors[r].shape[-1] > 1
           for r in ("q", "k", "v", "out")):
        return "the flash kernel wants the elements of a head beside each other"
    return None


def prepare(problem, tensors):
    return (backward.prepare if is_backward(problem) else sdpa.State)(problem, tensors)


def run(s):
    (backward.flash if is_backward(s.problem) else sdpa.run)(s)


def numerics(problem):
    u = sdpa.unit(problem)
    low = problem.dtype in ("bfloat16", "float16")
    if is_backward(problem):
        return backward.flash_numerics(problem, u, problem.dtype if low else None)
    return {
        "key_tile": 512, "p_type": problem.dtype if low else None, "denominator": 1,
        "proj_type": problem.dtype,
        "e_exp": 40 * u,
        "source": "aten/src/ATen/native/cpu/FlashAttentionKernel.cpp: online softmax over 512 "
                  "keys, sums in f32, p stored in the type of q; exp_u20 of vec.h, 20 ulp",
    }
