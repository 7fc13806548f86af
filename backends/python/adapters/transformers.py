# SPDX-License-Identifier: Apache-2.0
"""transformers: attention functions and modules of its models, given the operands as they are"""
REQUIRES = ("torch", "numpy", "transformers")
OPS = ("attention", "mha", "wkv", "nystrom", "lsh")

import torch  # noqa: E402

import attnbench_plain as plain  # noqa: E402
import attnbench_torch as base  # noqa: E402
import attnbench_transformers as forms  # noqa: E402


def form_of(problem):
    """What of the package does this problem."""
    if problem.op != "attention":
        return {"mha": forms.Bart, "wkv": forms.Rwkv, "nystrom": forms.Nystromformer,
                "lsh": forms.Reformer}[problem.op]
    if problem.weight_fn != "softmax":
        return forms.Mega
    if problem.score == "disentangled":
        return forms.Deberta
    return forms.Longformer if "global" in problem.features else forms.Eager


def supports(problem):
    if problem.deterministic and problem.threads > 1:
        return "not said to be deterministic over threads"
    return form_of(problem).refusal(problem)


class State(base.State):
    def __init__(self, problem, tensors):
        super().__init__(problem, tensors)
        self.take_masks(tensors)
        if problem.features & {"global", "head_mask"}:  # these mask, too
            self.views = {r: plain.view(t) for r, t in tensors.items()}
        self.form = form_of(problem)(self)


prepare = State


@torch.no_grad()
def run(s):
    made = s.form.run(s)
    for role in base.outputs(s):
        s.t[role].copy_(made[role])
    if s.views:
        plain.repair(s.problem, s.views, ("out", "weights"))


def describe(problem):
    return form_of(problem).__doc__


def numerics(problem):
    u = base.unit(problem)
    return {"e_exp": 8 * u, "e_log": 8 * u, "e_tanh": 8 * u, "p_normalised": 1,
            "proj_type": problem.dtype, **form_of(problem).numerics(problem, u)}
