#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_gradients.py - packs of the gradients of attention with the answers of PyTorch's autograd.

Usage: make_gradients.py OUTDIR     (the packs in cases/gradients/ were made by this script)

  autograd_causal    causal from the bottom right, sq != sk, two query heads to one of keys, dv != dk
  autograd_extras    softcap, a bias that broadcasts over batches and queries, ALiBi, a sink
  autograd_dropout   a keep mask, a boolean mask with a row that sees no key
  autograd_keep_f32  a keep mask, causal; the inputs are of float32

The graph is in float64; so are the inputs, if the name has no type. OUT and LSE are those of the same graph. A row that sees no key has the
answer 0 for out, and no path to the loss: the operator's rule.
Needs torch, numpy.
"""
import os
import sys

import torch

import make_textbook

B, HQ, HKV, SQ, SK, DK, DV = 2, 4, 2, 6, 9, 5, 4
TOLERANCE = "1e-12"


def drawn(*shape, grad=True):
    return torch.randn(*shape, dtype=torch.float64).requires_grad_(grad)


def distance(off):
    return (torch.arange(SQ)[:, None] + off - torch.arange(SK)).abs().double()


def forward(t, softcap=None, off=0, causal=False, pdrop=0.0):
    """out and lse of the tensors t, and which rows see a key."""
    group = HQ // HKV
    k, v = (t[name].repeat_interleave(group, 1) for name in "kv")
    s = t["q"] @ k.transpose(-1, -2) / DK**0.5
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    if "bias" in t:
        s = s + t["bias"]
    if "alibi" in t:
        s = s - t["alibi"][:, None, None] * distance(off)
    cells = torch.ones(B, HQ, SQ, SK, dtype=torch.bool)
    if causal:
        cells &= torch.arange(SK) <= torch.arange(SQ)[:, None] + off
    if "mask" in t:
        cells &= t["mask"]
    seen = cells.any(-1)
    s = s.masked_fill(~cells, -torch.inf)
    logits = torch.where(seen[..., None], s, 0.0)
    if "sink" in t:
        logits = torch.cat((logits, t["sink"][:, None, None].expand(B, HQ, SQ, 1)), -1)
    lse = torch.logsumexp(logits, -1)
    p = torch.where(cells, torch.exp(s - lse[..., None]), 0.0)
    if "keep" in t:
        p = torch.where(t["keep"], p / (1 - pdrop), 0.0)
    return p @ v, torch.where(seen, lse, -torch.inf)


def write(folder, name, words, t, dtype=torch.float64, **form):
    real = "F64" if dtype == torch.float64 else "F32"
    t = {"q": drawn(B, HQ, SQ, DK), "k": drawn(B, HKV, SK, DK), "v": drawn(B, HKV, SK, DV), **t}
    dout = drawn(B, HQ, SQ, DV, grad=False).to(dtype).double()
    with torch.no_grad():
        for n in "qkv":
            t[n].copy_(t[n].to(dtype))
    out, lse = forward(t, **form)
    out.backward(dout)
    tensors = {n: ("BOOL" if x.dtype == torch.bool else real, x.tolist()) for n, x in t.items()}
    tensors |= {"out": (real, out.tolist()), "lse": (real, lse.tolist()),
                "dout": (real, dout.tolist())}
    tensors |= {"d" + n: ("F64", x.grad.tolist()) for n, x in t.items() if x.requires_grad}
    make_textbook.write_pack(os.path.join(folder, name + ".safetensors"), {
        "case": f"op=attention_backward {words}", "rtol": TOLERANCE, "atol": TOLERANCE,
        "source": f"torch {torch.__version__.partition('+')[0]}, autograd in float64"}, tensors)


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(1)
    write(folder, "autograd_causal", "mask=causal_br", {}, causal=True, off=SK - SQ)
    write(folder, "autograd_extras",
          "softcap=1.5 bias=tensor+alibi sink=tensor out=dbias+dsink+dalibi",
          {"bias": drawn(1, HQ, 1, SK), "alibi": drawn(HQ), "sink": drawn(HQ)}, softcap=1.5)
    mask = torch.rand(B, HQ, SQ, SK) < 0.6
    mask[1, 2, 3] = False
    write(folder, "autograd_dropout", "mask=bool dropout=0.25",
          {"mask": mask, "keep": torch.rand(B, HQ, SQ, SK) < 0.7}, pdrop=0.25)
    write(folder, "autograd_keep_f32", "mask=causal dropout=0.25",
          {"keep": torch.rand(B, HQ, SQ, SK) < 0.7}, torch.float32, causal=True, pdrop=0.25)


if __name__ == "__main__":
    main()
