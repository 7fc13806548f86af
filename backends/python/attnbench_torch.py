# SPDX-License-Identifier: Apache-2.0
"""attnbench_torch - PyTorch's scaled_dot_product_attention and multi_head_attention_forward on the
CPU; the adapters torch_flash and torch_math pin the kernel."""
import math

import torch
import torch.nn.functional as F

import attnbench_plain as plain

BOTH = ("causal", "window", "bottom_right", "off", "mask", "bias", "len", "len2d", "groups")


def supports(problem, more):
    """What both kernels do, and what else the one in question does."""
    if problem.deterministic and problem.threads > 1:
        return "not said to be deterministic over threads"
    if problem.op == "mha":
        return problem.beyond("mha", "b_", "x_k", "x_v", "len", "causal") or mha_reason(problem)
    return problem.beyond(*BOTH, *more)


def mha_reason(problem):
    t = problem.tensors
    width = problem.hq * problem.dq
    if not math.isclose(problem.scale, problem.dk**-0.5, rel_tol=1e-12):
        return "multi_head_attention_forward has no scale of one's own"
    if t["x_q"].shape[-1] != width or t["out"].shape[-1] != width:
        return "multi_head_attention_forward wants the model as wide as its heads together"
    if "causal" in problem.features and problem.bottom_right:
        return "multi_head_attention_forward has no corner to choose"
    if any(f"b_{n}" in t for n in "qkv") != all(f"b_{n}" in t for n in "qkv"):
        return "multi_head_attention_forward has all input biases or none"
    return None


def view(tensor):
    """A tensor without a copy. True is any byte but 0 here, in PyTorch 1 alone."""
    return torch.from_dlpack(tensor.viewed("uint8") if tensor.dtype == "bool" else tensor)


def structure(problem):
    """The mask that shapes alone give, beyond is_causal; or None."""
    if "len" in problem.tensors and problem.bottom_right or not (problem.causal or problem.window):
        return None
    return torch.from_numpy(plain.allowed_cells(problem, {}))


class State:
    def __init__(self, problem, tensors):
        torch.set_num_threads(problem.threads)
        self.problem = problem
        self.t = {role: view(t) for role, t in tensors.items()}
        self.masks = problem.features & {"mask", "bias", "len", "len2d"}
        corner = problem.bottom_right and problem.sq != problem.sk or problem.off
        self.is_causal = problem.op == "attention" and problem.causal and \
            not (self.masks or problem.window or corner)
        self.given = None if self.is_causal else structure(problem)
        self.keys = torch.arange(problem.sk)
        self.rows = torch.arange(problem.sq)[:, None]
        checked = self.masks or problem.causal or problem.window
        self.views = {r: plain.view(t) for r, t in tensors.items()} if checked else None
        if problem.op == "mha":
            self.weights = pack(self.t)


def attn_mask(s):
    """One tensor of all masks and the bias: data decides, so it is work of `run`."""
    p, t, cells = s.problem, s.t, s.given
    if "len" in t:
        lengths = t["len"].reshape(p.b, 1, -1, 1)
        within = s.keys < lengths
        if p.bottom_right and (p.causal or p.window):
            i = s.rows + (lengths - p.sq)
            for there, cell in ((p.causal, s.keys <= i),
                                (p.window and p.window_left >= 0, s.keys >= i - p.window_left),
                                (p.window and p.window_right >= 0, s.keys <= i + p.window_right)):
                within = within & cell if there else within
        cells = within if cells is None else cells & within
    if "mask" in t:
        mask = t["mask"] != 0
        cells = mask if cells is None else cells & mask
    if "bias" not in t:
        return cells
    return t["bias"] if cells is None else t["bias"].masked_fill(~cells, -math.inf)


def attention(s):
    p, t = s.problem, s.t
    mask = attn_mask(s) if s.masks or s.given is not None else None
    if mask is not None:
        mask = mask.expand(-1, -1, p.sq, p.sk)
    return F.scaled_dot_product_attention(t["q"], t["k"], t["v"], attn_mask=mask,
                                          is_causal=s.is_causal, scale=p.scale,
                                          enable_gqa=p.hq != p.hkv)


def pack(t):
    """Weights as multi_head_attention_forward takes them."""
    biases = [t[r] for r in ("b_q", "b_k", "b_v") if r in t]
    return torch.cat(biases) if biases else None


def mha(s):
    p, t = s.problem, s.t
    x_q = t["x_q"].transpose(0, 1)
    x_k = t["x_k"].transpose(0, 1) if "x_k" in t else x_q
    x_v = t["x_v"].transpose(0, 1) if "x_v" in t else x_k
    cells = None if s.given is None else ~s.given[0, 0]
    ignored = s.keys >= t["len"][:, None] if "len" in t else None
    out, _ = F.multi_head_attention_forward(
        x_q, x_k, x_v, x_q.shape[-1], p.hq, None, s.weights, None, None, False, 0.0, t["w_o"],
        t.get("b_o"), training=False, key_padding_mask=ignored, need_weights=False,
        attn_mask=cells, use_separate_proj_weight=True, q_proj_weight=t["w_q"],
        k_proj_weight=t["w_k"], v_proj_weight=t["w_v"], is_causal=False)
    return out.transpose(0, 1)


@torch.no_grad()
def run(s):
    s.t["out"].copy_(mha(s) if s.problem.op == "mha" else attention(s))
    if s.views:
        plain.repair(s.problem, s.views)


def unit(problem):
    """Unit roundoff of the sums."""
    return 2.0**-53 if problem.dtype == "float64" else 2.0**-24
