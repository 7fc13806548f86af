# SPDX-License-Identifier: Apache-2.0
"""plain attention in f32 by NumPy"""

# A backend to start from. It refuses everything but plain attention in f32. Put your kernel into
# `run`, widen `supports` to what it does, and declare in `numerics` how it computes.

REQUIRES = ("numpy",)  # packages that are looked up before this file runs

import numpy as np  # noqa: E402


def supports(problem):
    """None, or the reason why not in one sentence."""
    if problem.op != "attention" or problem.score not in ("scaled_dot", "dot"):
        return "only dot products"
    if problem.dtype != "float32":
        return "only f32"
    # Refuses masks, biases and whatever else a problem may have.
    return problem.beyond("groups", "value_width")


def prepare(problem, tensors):
    """Once a plan; what it returns is what `run` gets."""
    return problem, {role: tensor.numpy() for role, tensor in tensors.items()}


def run(state):
    """What is timed. [b, h, s, d]; hq / hkv query heads share a key head."""
    p, t = state
    q = t["q"].reshape(p.b, p.hkv, p.hq // p.hkv, p.sq, p.dk)
    k, v = t["k"][:, :, None], t["v"][:, :, None]
    scores = np.float32(p.scale) * (q @ k.swapaxes(-1, -2))
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    out = (weights @ v) / weights.sum(-1, keepdims=True)
    t["out"][...] = out.reshape(p.b, p.hq, p.sq, p.dv)


def numerics(problem):
    """How it computes: the error bound is built from this. NumPy's exp is within 2.52 ulp."""
    return {"e_exp": 10 * 2.0**-24, "source": "NumPy's loops_exponent_log"}
