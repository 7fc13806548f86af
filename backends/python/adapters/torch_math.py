# SPDX-License-Identifier: Apache-2.0
"""PyTorch scaled_dot_product_attention pinned to the unfused kernel; mha over it"""
REQUIRES = ("torch", "numpy")
OPS = ("attention", "mha", "attention_backward")

from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

import attnbench_torch as sdpa  # noqa: E402
import attnbench_torch_backward as backward  # noqa: E402

# For the rest of the process, which serves one backend. Dropped, it would end here.
pinned = sdpa_kernel(SDPBackend.MATH)
pinned.__enter__()


def is_backward(problem):
    return problem.op == "attention_backward"


def supports(problem):
    if is_backward(problem):
        return backward.supports(problem, "value_width", "dbias")
    return sdpa.supports(problem, ("value_width",))


def prepare(problem, tensors):
    return (backward.prepare if is_backward(problem) else sdpa.State)(problem, tensors)


def run(s):
    (backward.autograd if is_backward(s.problem) else sdpa.run)(s)


def describe(problem):
    return "includes forward" if is_backward(problem) else ""


def numerics(problem):
    u = sdpa.unit(problem)
    return {
        "p_normalised": 1, "u_in": 2 * u, "e_exp": 8 * u, "proj_type": problem.dtype,
        **({"bwd_lse": 1, "bwd_delta": 1} if is_backward(problem) else {}),
        "source": "aten/src/ATen/native/transformers/attention.cpp, "
                  "_scaled_dot_product_attention_math: f16 and bf16 widened to f32, q and k each "
                  "times the root of the scale, matmul, softmax, matmul; exp of Sleef, 1 ulp",
    }
