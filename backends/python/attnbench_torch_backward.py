# SPDX-License-Identifier: Apache-2.0
"""attnbench_torch_backward - gradients of PyTorch's scaled_dot_product_attention on the CPU: its flash
kernel called by itself, its unfused kernel by autograd."""
import math

import torch
import torch.nn.functional as F

import attnbench_plain as plain
import attnbench_torch as base

KNOWN = ("attention_backward", "lse", *base.BOTH)  # every problem of gradients has an lse


def supports(problem, *more):
    if problem.deterministic and problem.threads > 1:
        return "not said to be deterministic over threads"
    return problem.beyond(*KNOWN, *more)


def prepare(problem, tensors):
    s = base.State(problem, tensors)
    if "bias" in s.t:
        s.t["bias"] = base.view(tensors["bias"].squeezed())
    if s.given is not None and not s.masks:  # PyTorch wants numbers, and shapes alone give these
        s.given = numbers(s, s.given)
    return s


def numbers(s, cells):
    """0 where a cell takes part, else -inf, in the type of q."""
    return torch.zeros(cells.shape, dtype=s.t["q"].dtype).masked_fill_(~cells, -math.inf)


def attn_mask(s, bias=None):
    """All masks and the bias, or what is given for it, as one tensor of numbers, or None."""
    p = s.problem
    if not s.masks:
        mask = s.given
    elif "bias" in s.t:
        mask = s.t["bias"] if bias is None else bias
        cells = base.cells(s)
        mask = mask if cells is None else mask.masked_fill(~cells, -math.inf)
    else:
        mask = numbers(s, base.cells(s))
    return None if mask is None else mask.expand(-1, -1, p.sq, p.sk)


def store(s, made):
    for role, x in made.items():
        s.t[role].copy_(x)
    if s.views:
        plain.repair(s.problem, s.views)


@torch.no_grad()
def flash(s):
    t = s.t
    made = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        t["dout"], t["q"], t["k"], t["v"], t["out"], t["lse"], 0.0, s.is_causal,
        attn_mask=attn_mask(s), scale=s.problem.scale)
    store(s, dict(zip(("dq", "dk", "dv"), made)))


def autograd(s):
    """Runs the forward pass, too: PyTorch keeps weights of its own."""
    p, t = s.problem, s.t
    of = {role: t[role].detach().requires_grad_() for role in ("q", "k", "v")}
    if "dbias" in t:  # widened, so that what a bias broadcasts to is added up in float32
        of["bias"] = s.t["bias"].detach().to(s.t["dbias"].dtype).requires_grad_()
    with torch.enable_grad():
        out = F.scaled_dot_product_attention(of["q"], of["k"], of["v"], is_causal=s.is_causal,
                                             attn_mask=attn_mask(s, of.get("bias")), scale=p.scale,
                                             enable_gqa=p.hq != p.hkv)
    made = torch.autograd.grad(out, list(of.values()), t["dout"])
    if s.views:  # rows that are repaired need no out, either
        s.views.pop("out", None)
    store(s, {"d" + role: x for role, x in zip(of, made)})


def flash_numerics(problem, u, low):
    """`low`: the type of 16 bits, or None."""
    return {
        "key_tile": 512, "query_tile": rows(problem), "e_exp": 40 * u,
        "p_type": low, "ds_type": low, "dq_acc_type": low, "dkv_acc_type": low,
        "source": "aten/src/ATen/native/cpu/FlashAttentionKernel.cpp, cpu_flash_attention_backward: "
                  "lse and out as given, sums in f32; p and dS stored in the type of q, gradients "
                  "added up in it; exp_u20 or Sleef",
    }


def rows(problem):
    """Queries of a tile of the flash kernel."""
    return 256 if problem.sq >= 768 else 64 if problem.sq >= 192 else 32
