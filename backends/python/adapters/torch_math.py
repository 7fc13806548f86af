# SPDX-License-Identifier: Apache-2.0
"""PyTorch scaled_dot_product_attention pinned to the unfused kernel; mha over it"""
REQUIRES = ("torch", "numpy")

from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

import attnbench_torch as sdpa  # noqa: E402

# For the rest of the process, which serves one backend. Dropped, it would end here.
pinned = sdpa_kernel(SDPBackend.MATH)
pinned.__enter__()
prepare, run = sdpa.State, sdpa.run


def supports(problem):
    return sdpa.supports(problem, ("value_width",))


def numerics(problem):
    u = sdpa.unit(problem)
    return {
        "p_normalised": 1, "u_in": 2 * u, "e_exp": 8 * u, "proj_type": problem.dtype,
        "source": "aten/src/ATen/native/transformers/attention.cpp, "
                  "_scaled_dot_product_attention_math: f16 and bf16 widened to f32, q and k each "
                  "times the root of the scale, matmul, softmax, matmul; exp of Sleef, 1 ulp",
    }
