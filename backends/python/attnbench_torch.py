# SPDX-License-Identifier: Apache-2.0
"""attnbench_torch - PyTorch's scaled_dot_product_attention and multi_head_attention_forward on the
CPU; the adapters torch_flash and torch_math pin the kernel, torch_composed uses masks from here."""
import functools
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
    """The mask that shapes alone give, beyond is_causal; or None, where `cells` makes it."""
    data = {"dilation", "global"} | ({"len"} if problem.bottom_right else set())
    if data & set(problem.tensors) or not (problem.causal or problem.window) or \
            problem.op not in ("attention", "mha", "attention_backward"):
        return None
    return torch.from_numpy(plain.allowed_cells(problem, {}))


class State:
    def __init__(self, problem, tensors):
        torch.set_num_threads(problem.threads)
        self.problem = problem
        self.t = {role: view(t) for role, t in tensors.items()}
        self.masks = problem.features & {"mask", "bias", "len", "len2d"}
        corner = problem.bottom_right and problem.sq != problem.sk or problem.off
        self.is_causal = problem.op != "mha" and problem.causal and \
            not (self.masks or problem.window or corner)
        self.given = None if self.is_causal else structure(problem)
        self.keys = torch.arange(problem.sk)
        self.rows = torch.arange(problem.sq)[:, None]
        checked = self.masks or problem.causal or problem.window
        self.views = {r: plain.view(t) for r, t in tensors.items()} if checked else None
        if problem.op == "mha":
            self.weights = pack(self.t)

    def take_masks(self, tensors):
        """For a function without masks of its own: causal rows are masked like others, and an axis
        along which a mask or bias is the same has one element."""
        if self.is_causal:
            self.is_causal, self.given = False, structure(self.problem)
        self.t.update({r: view(tensors[r].squeezed()) for r in ("mask", "bias") if r in tensors})


def cut(x, rows):
    """Rows of [B,H,Sq,Sk], in which any axis may be 1."""
    return x if x.shape[2] == 1 else x[:, :, rows]


def lengths(s, rows):
    """[B,1,rows or 1,1]"""
    return cut(s.t["len"].reshape(s.problem.b, 1, -1, 1), rows)


def offset(s, rows):
    """off of causal, window and alibi."""
    p = s.problem
    if not p.bottom_right:
        return p.off
    return (lengths(s, rows) if "len" in s.t else p.sk) - p.sq


def window(s, rows):
    """The window, its steps, and global tokens."""
    p, t = s.problem, s.t
    step = t["dilation"][:, None, None] if "dilation" in t else 1
    far = s.rows[rows] + offset(s, rows) - s.keys
    found = far % step == 0 if "dilation" in t else torch.ones((1, 1, 1, 1), dtype=torch.bool)
    if p.window_left >= 0:
        found = found & (far <= p.window_left * step)
    if p.window_right >= 0:
        found = found & (far >= -p.window_right * step)
    if "global" in t:
        token = t["global"] != 0
        found = found | token[:, None, rows, None] | token[:, None, None, :]
    return found


def cells(s, rows=slice(None)):
    """Which cells of some rows take part, broadcastable over [B,Hq,rows,Sk], or None for all: data
    decides, so it is work of `run`."""
    p, t = s.problem, s.t
    parts = [] if s.given is None else [cut(s.given, rows)]
    if "len" in t:
        parts.append(s.keys < lengths(s, rows))
    if s.given is None and p.causal:
        parts.append(s.keys <= s.rows[rows] + offset(s, rows))
    if s.given is None and p.window:
        parts.append(window(s, rows))
    if "mask" in t:
        parts.append(cut(t["mask"], rows) != 0)
    return functools.reduce(torch.logical_and, parts) if parts else None


def attn_mask(s):
    """One tensor of all masks and the bias."""
    found = cells(s)
    if "bias" not in s.t:
        return found
    return s.t["bias"] if found is None else s.t["bias"].masked_fill(~found, -math.inf)


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


def outputs(s):
    """Roles of the outputs that are asked for."""
    return [role for role in plain.OUTPUTS if role in s.t]
