# SPDX-License-Identifier: Apache-2.0
"""attnbench_torch_attention - forms of attention that no single function of PyTorch has, composed of
several: other weights than a softmax's, gates, disentangled scores, windows in steps, global tokens."""
import math

import torch
import torch.nn.functional as F

import attnbench_torch as base

CELLS = 1 << 19  # scores of a block of rows: 2 MiB in float32
MU, SPREAD = math.sqrt(0.5), math.sqrt(0.5 / math.pi)  # Laplace's mean; its deviation times sqrt(2)
ONLY = {"window", "causal", "len", "global", "dilation", "q_global", "k_global", "v_global", "groups",
        "value_width"}  # what a band does


def is_band(p):
    """Do all rows see few keys near their own, so that blocks of rows save most of the scores."""
    return p.window and p.window_left >= 0 and (p.causal or p.window_right >= 0) and \
        p.sq == p.sk and not p.off and not p.features - ONLY and 4 * sum(reach(p)) <= p.sk


def reach(p):
    """Steps of a window to the left and to the right."""
    return p.window_left, 0 if p.causal else p.window_right


def operands(p, t):
    """k and v by query head; of disentangled scores also the products of keys and positions."""
    t = dict(t)
    for role in ("k", "v"):
        if p.hq != p.hkv:
            t[role] = t[role].repeat_interleave(p.hq // p.hkv, 1)
    if p.score == "disentangled" and p.parts != 1:
        t["of_keys"] = t["k"] @ (t["score_qr"] * p.scale).mT
    return t


def disentangle(s, t, q, x, rows):
    """Adds to scores x [B,Hq,rows,Sk] the products with positions."""
    p, span = s.problem, t["score_kr"].shape[1] // 2
    far = s.rows[rows] - s.keys
    if "rel_buckets" in t:
        row = t["rel_buckets"][far + p.sk - 1].long()
        mirrored = 2 * span - row
    else:
        far = far + base.offset(s, rows)
        row, mirrored = far + span, span - far
    row = row.clamp(0, 2 * span - 1)
    mirrored = mirrored.clamp(0, 2 * span - 1) if p.variant else row
    if p.parts != 2:
        x += (q @ t["score_kr"].mT).gather(-1, row.expand(x.shape))
    if p.parts != 1:
        x += t["of_keys"].gather(-1, mirrored.mT.expand(x.mT.shape)).mT


def scores(s, t, rows):
    """[B,Hq,rows,Sk], with bias and ALiBi."""
    p = s.problem
    q = t["q"][:, :, rows] * p.scale
    x = q @ t["k"].mT
    if p.score == "disentangled":
        disentangle(s, t, q, x, rows)
    if p.softcap:
        x.div_(p.softcap).tanh_().mul_(p.softcap)
    if "bias" in t:
        x += base.cut(t["bias"], rows)
    if "alibi" in t:
        far = s.rows[rows] + base.offset(s, rows) - s.keys
        x -= t["alibi"][:, None, None] * far.abs()
    return x


def softmax(x, sink):
    """Weights and lse; a row without keys weighs nothing."""
    top = x.amax(-1, keepdim=True)
    if sink is not None:
        top = top.maximum(sink)
    top = top.masked_fill(top == -math.inf, 0)
    x.sub_(top).exp_()
    total = x.sum(-1, keepdim=True)
    if sink is not None:
        total = total + (sink - top).exp()
    return x.div_(total.masked_fill(total == 0, 1)), (top + total.log())[..., 0]


def weigh(s, t, x):
    """Weights in the place of scores, -inf where a key takes no part; and lse or None."""
    p = s.problem
    if p.weight_fn == "sigmoid":
        return x.sigmoid_(), None
    if p.weight_fn == "relu2":
        return x.relu_().square_(), None
    if p.weight_fn == "laplace":
        return x.sub_(MU).div_(SPREAD).erf_().add_(1).mul_(0.5), None
    if {"sink", "lse", "weights"} & p.features:
        return softmax(x, t["sink"][:, None, None] if "sink" in t else None)
    return x.softmax(-1), None


def block(s, t, rows):
    """The outputs of some rows: a slice, or a tensor of their numbers."""
    x = scores(s, t, rows)
    cells = base.cells(s, rows)
    if cells is not None:
        x.masked_fill_(~cells, -math.inf)
    weights, lse = weigh(s, t, x)
    if cells is not None and "weights" in s.t:  # of a row of NaN, too
        weights.masked_fill_(~cells, 0)
    out = weights @ t["v"]
    if "gate" in t:
        out *= t["gate"][:, :, rows]
    return {"out": out, "lse": lse, "weights": weights}


def by_block(x, step, rows, before=0, after=0):
    """[B,H,S,D] as [B step N,H,before + rows + after,D]: each `step`th token, by blocks of rows with
    their neighbours; zeros beyond the ends."""
    steps = -(-x.shape[2] // (step * rows)) * rows
    x = F.pad(x, (0, 0, 0, steps * step - x.shape[2]))
    x = x.unflatten(2, (steps, step)).permute(0, 3, 1, 2, 4).flatten(0, 1)
    x = F.pad(x, (0, 0, before, after)).unfold(2, before + rows + after, rows)
    return x.permute(0, 2, 1, 4, 3).flatten(0, 1)


def band(s, t, step):
    """out of windows in steps of `step` keys, of the rows of tokens that are not global. Each block of
    rows meets the global tokens first, then the keys around it."""
    p = s.problem
    left, right = reach(p)
    rows = max(64, (left + right) // 2)
    q = by_block(t["q"], step, rows)
    k, v = (by_block(t[role], step, rows, left, right) for role in "kv")
    blocks = q.shape[0] // p.b
    within = s.keys < (t["len"][:, None] if "len" in t else p.sk + torch.zeros(p.b, 1))
    token = t["global"] != 0 if "global" in t else torch.zeros(p.b, p.sk, dtype=torch.bool)
    near = by_block((within & ~token).to(q)[:, None, :, None], step, rows, left, right)
    far = torch.arange(rows)[:, None] + left - torch.arange(left + rows + right)
    cells = (near.mT != 0) & (far <= left) & (far >= -right)
    seen = token.any(0).nonzero()[:, 0]
    if len(seen):
        k, v = (torch.cat((t[role][:, :, seen].repeat_interleave(blocks, 0), x), 2)
                for role, x in (("k", k), ("v", v)))
        shown = (token & within)[:, seen].repeat_interleave(blocks, 0)[:, None, None]
        if p.causal:
            i = by_block(s.rows.to(q)[None, None], step, rows)
            shown = shown & (seen <= i.repeat(p.b, 1, 1, 1))
        cells = torch.cat((shown.expand(-1, -1, rows, -1), cells), -1)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=cells, scale=p.scale)
    out = out.unflatten(0, (p.b, step, -1)).permute(0, 3, 2, 4, 1, 5)
    return out.flatten(2, 4)[:, :, :p.sq]


def bands(s, t):
    """Heads with the same step together."""
    if "dilation" not in t:
        s.t["out"].copy_(band(s, t, 1))
        return
    for step in t["dilation"].unique().tolist():
        heads = (t["dilation"] == step).nonzero()[:, 0]
        own = {**t, **{role: t[role][:, heads] for role in "qkv"}}
        s.t["out"][:, heads] = band(s, own, step).to(s.t["out"].dtype)


def global_rows(s, t):
    """Rows of global tokens, by operands of their own if there are any."""
    rows = (t["global"] != 0).any(0).nonzero()[:, 0]
    if not len(rows):
        return
    if "q_global" in t:
        t = {**t, **{role: t[role + "_global"] for role in "qkv"}}
    made = block(s, operands(s.problem, t), rows)
    token = (t["global"] != 0)[:, None, rows, None]
    for role in base.outputs(s):
        x = s.t[role][:, :, rows]
        new = made[role].to(x.dtype)
        s.t[role][:, :, rows] = torch.where(token if x.dim() == 4 else token[..., 0], new, x)


def attention(s, t):
    """Writes all outputs of a problem with operands t."""
    p, wide = s.problem, operands(s.problem, t)
    if is_band(p):
        bands(s, wide)
    else:
        step = max(1, CELLS // (p.b * p.hq * p.sk))
        for first in range(0, p.sq, step):
            rows = slice(first, first + step)
            made = block(s, wide, rows)
            for role in base.outputs(s):
                s.t[role][:, :, rows] = made[role]
    if "global" in t and (is_band(p) or "q_global" in t):
        global_rows(s, t)
