# SPDX-License-Identifier: Apache-2.0
"""our own flash attention in Triton, on a GPU"""
REQUIRES = ("torch", "triton")
DEVICE = "cuda"
OPS = ("attention",)

import os  # noqa: E402

import attnbench_cuda as cuda  # noqa: E402
import attnbench_triton as kernel  # noqa: E402

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def supports(problem):
    p = problem
    if max(p.dk, p.dv) > 256:
        return "heads are at most 256 wide"
    if INTERPRETED and p.dtype == "bfloat16":
        return "Triton's interpreter multiplies the bits of bf16 as if they were integers"
    return p.beyond("causal", "window", "off", "bottom_right", "len", "groups", "value_width", "lse",
                    "empty_keys", "deterministic") or \
        (f"it does not do {p.dtype}" if p.dtype == "float64" else cuda.reason(p))


def prepare(problem, tensors):
    return kernel.Launch(problem, cuda.views(tensors))


def run(state):
    state.run()


def describe(problem):
    return "blocks of %d rows, %d keys" % kernel.blocks(problem)


def numerics(problem):
    return {**cuda.tensor_cores(problem, kernel.blocks(problem)[1]), "deterministic": 1}
