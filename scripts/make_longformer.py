#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_longformer.py - packs of windows with global tokens, with the answers of a published
implementation.

Usage: make_longformer.py OUTDIR     (the packs in cases/longformer/ were made by this script)

  global.safetensors    mask=window:4:4+global: transformers 4.57.1, LongformerSelfAttention
  own.safetensors       the same with projections of their own for global rows, and padding
  dilated.safetensors   mask=window:3:2:dilation+global: the definition in NumPy, row by row

Differences of formula: LongformerSelfAttention has windows that reach as far to the right as to
the left, in overlapping chunks; global tokens come first in its list of keys; it takes no dilation.
Rows of padding are zero there; here a boolean mask forbids these rows, so that they have no keys.
It always has projections of its own for global rows; in the first pack these are copies. Its
softmax computes in float32; here this `dtype` is dropped, so that all is float64.
Needs torch, transformers==4.57.1, numpy.
"""
import os
import sys

import numpy as np
import torch
from transformers import LongformerConfig, __version__
from transformers.models.longformer import modeling_longformer

import make_textbook

BATCHES, HEADS, TOKENS, WIDTH, SIDE = 2, 3, 48, 8, 4


def without_float32(function):
    def wrapped(*args, dtype=None, **kwargs):
        return function(*args, **kwargs)
    return wrapped


def layer(draw, own):
    """A layer with weights drawn in float32 and held in float64."""
    config = LongformerConfig(
        attention_window=[2 * SIDE], hidden_size=HEADS * WIDTH, num_attention_heads=HEADS,
        num_hidden_layers=1, attention_probs_dropout_prob=0.0)
    made = modeling_longformer.LongformerSelfAttention(config, 0).double().eval()
    for name, parameter in made.named_parameters():
        numbers = draw.standard_normal(parameter.shape).astype(np.float32).astype(np.float64)
        scale = 0.3 if name.endswith("weight") else 0.2
        parameter.data = torch.from_numpy(scale * numbers)
    for name in ("query", "key", "value") if not own else ():
        getattr(made, name + "_global").load_state_dict(getattr(made, name).state_dict())
    return made


def heads(projected):
    """[B,S,H*D] as [B,H,S,D]."""
    return projected.view(BATCHES, TOKENS, HEADS, WIDTH).transpose(1, 2).contiguous()


def of_transformers(path, own):
    draw = np.random.default_rng(40 + own)
    made = layer(draw, own)
    hidden = torch.from_numpy(
        draw.standard_normal((BATCHES, TOKENS, HEADS * WIDTH)).astype(np.float32).astype(np.float64))
    lengths = [TOKENS, 37] if own else [TOKENS, TOKENS]
    mask = torch.zeros(BATCHES, TOKENS, dtype=torch.float64)
    for b, tokens in enumerate(([0, 1, 2], [0, 19]) if own else ([0], [7, 8, 30, 47])):
        mask[b, tokens] = 10000.0
        mask[b, lengths[b]:] = -10000.0
    with torch.no_grad():
        out = made(hidden, attention_mask=mask, is_index_masked=mask < 0,
                   is_index_global_attn=mask > 0, is_global_attn=True)[0]
        tensors = {"q": heads(made.query(hidden)), "k": heads(made.key(hidden)),
                   "v": heads(made.value(hidden))}
        if own:
            tensors.update(q_global=heads(made.query_global(hidden)),
                           k_global=heads(made.key_global(hidden)),
                           v_global=heads(made.value_global(hidden)))
    tensors["out"] = heads(out)
    packed = {name: ("F64", tensor.tolist()) for name, tensor in tensors.items()}
    packed["global"] = ("BOOL", (mask > 0).tolist())
    line = f"mask=window:{SIDE}:{SIDE}+global"
    if own:
        packed["len"] = ("I64", lengths)
        rows = np.arange(TOKENS) < np.array(lengths)[:, None]
        packed["mask"] = ("BOOL", rows[:, None, :, None].tolist())
        line = f"mask=window:{SIDE}:{SIDE}+len+bool+global global_proj=1"
    make_textbook.write_pack(path, {
        "case": line, "rtol": "1e-12", "atol": "1e-12",
        "source": f"transformers {__version__}, LongformerSelfAttention in float64"}, packed)


def of_numpy(path):
    """Each row by the definition, from lists of its keys."""
    draw = np.random.default_rng(43)
    left, right, steps = 3, 2, [2, 1, 5]

    def normal(*shape):
        return draw.standard_normal(shape).astype(np.float32).astype(np.float64)
    q, k, v = (normal(BATCHES, HEADS, TOKENS, WIDTH) for _ in range(3))
    tokens = draw.random((BATCHES, TOKENS)) < 0.1
    out, lse = np.zeros_like(v), np.zeros((BATCHES, HEADS, TOKENS))
    for b, h, i in np.ndindex(lse.shape):
        near = {i - n * steps[h] for n in range(-right, left + 1)}
        keys = [j for j in range(TOKENS) if j in near or tokens[b, i] or tokens[b, j]]
        scores = k[b, h, keys] @ q[b, h, i] / np.sqrt(WIDTH)
        weights = np.exp(scores - scores.max())
        out[b, h, i] = weights @ v[b, h, keys] / weights.sum()
        lse[b, h, i] = scores.max() + np.log(weights.sum())
    tensors = {"q": q, "k": k, "v": v, "out": out, "lse": lse}
    packed = {name: ("F64", tensor.tolist()) for name, tensor in tensors.items()}
    packed.update({"global": ("BOOL", tokens.tolist()), "dilation": ("I64", steps)})
    make_textbook.write_pack(path, {
        "case": f"mask=window:{left}:{right}:dilation+global out=lse", "rtol": "1e-12",
        "atol": "1e-12", "source": f"NumPy {np.__version__} in float64, row by row"}, packed)


def main():
    softmax = modeling_longformer.nn.functional.softmax
    modeling_longformer.nn.functional.softmax = without_float32(softmax)
    os.makedirs(sys.argv[1], exist_ok=True)
    of_transformers(os.path.join(sys.argv[1], "global.safetensors"), False)
    of_transformers(os.path.join(sys.argv[1], "own.safetensors"), True)
    of_numpy(os.path.join(sys.argv[1], "dilated.safetensors"))


if __name__ == "__main__":
    main()
