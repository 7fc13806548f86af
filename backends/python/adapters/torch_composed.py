# SPDX-License-Identifier: Apache-2.0
"""PyTorch: operators and forms that it has no function for, composed of those that it has"""
REQUIRES = ("torch", "numpy")
OPS = ("attention", "wkv", "linear_decay", "performer", "chunked", "linformer", "nystrom", "lsh")

import torch  # noqa: E402

import attnbench_plain as plain  # noqa: E402
import attnbench_torch as base  # noqa: E402
import attnbench_torch_attention as forms  # noqa: E402
import attnbench_torch_ops as ops  # noqa: E402

FORMS = {"weight_fn", "gate", "disentangled", "global", "dilation"}  # one of these, of attention
WITH = ("rel_buckets", "q_global", "k_global", "v_global", "lse", "weights", "softcap", "alibi", "sink",
        "value_width")


def supports(problem):
    if problem.deterministic and problem.threads > 1:
        return "not said to be deterministic over threads"
    if problem.op != "attention":
        return None
    if not problem.features & FORMS:
        return "torch_flash and torch_math have plain attention"
    return problem.beyond(*base.BOTH, *FORMS, *WITH)


class State(base.State):
    def __init__(self, problem, tensors):
        super().__init__(problem, tensors)
        self.take_masks(tensors)
        self.work = torch.float64 if problem.dtype == "float64" else torch.float32
        if problem.features & {"lsh", "global"}:  # these mask, too
            self.views = {r: plain.view(t) for r, t in tensors.items()}


prepare = State


@torch.no_grad()
def run(s):
    t = {r: x.to(s.work) if x.is_floating_point() else x
         for r, x in s.t.items() if r not in plain.OUTPUTS}
    if s.problem.op == "attention":
        forms.attention(s, t)
    else:
        made = getattr(ops, s.problem.op)(s.problem, t)
        for role in base.outputs(s):
            s.t[role].copy_(made[role])
    if s.views:
        plain.repair(s.problem, s.views)


def describe(problem):
    if problem.op != "attention":
        return "whole sequences"
    return "a band, by blocks of rows" if forms.is_band(problem) else "all keys, by blocks of rows"


def fused(problem):
    """Is a part of it scaled_dot_product_attention, by whichever kernel that chooses."""
    if problem.op == "attention":
        return forms.is_band(problem)
    return problem.op == "nystrom" or problem.op == "linformer" and "lse" not in problem.tensors


def numerics(problem):
    u = base.unit(problem)
    given = {
        "e_exp": 8 * u, "e_log": 8 * u, "e_tanh": 8 * u,
        "proj_type": "float64" if problem.dtype == "float64" else "float32",
        "source": "ATen/cpu/vec: exp, log and tanh of Sleef, 1 ulp; all sums in f32 or f64",
    }
    if problem.weight_fn == "sigmoid":
        given["e_f"] = 8 * u  # an exp, a sum and a quotient
    if problem.weight_fn == "laplace":
        given["a_f"] = 4 * u  # (1 + erf) / 2: the sum is at most 2, and erf within 1 ulp
    if problem.op == "lsh":
        given["key_tile"] = 2 * (problem.chunk or problem.sq)  # what one round sees
    if fused(problem):  # the flash kernel, or the unfused one: what either does worse
        given.update(e_exp=40 * u, key_tile=512, u_in=2 * u)
        given["source"] += "; torch_flash and torch_math name those of scaled_dot_product_attention"
    return given
