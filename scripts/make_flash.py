#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_flash.py - packs of mixed chunk attention with the answers of a published implementation.

Usage: make_flash.py OUTDIR     (the packs in cases/flash/ were made by this script)

  flash.safetensors         op=chunked: FLASH-pytorch 0.1.9, class FLASH, in float64
  flash_causal.safetensors  the same with mask=causal
  gau.safetensors           the same package, class GAU

The classes are whole layers. Taken from them are what enters the attention (q, k, lin_q, lin_k, v, gate
and the bias of relative positions, which is already multiplied by its own scale) and what leaves it
for the last projection. Its parameters and inputs are drawn here.

Differences of formula. FLASH: none that the packs use. It fills up the last chunk with zeros and a
mask, divides by the length without them, and sets lin_k of keys beyond the length to 0. GAU divides
the bias, too, by the number of tokens: relu((q.k + bias)/S)^2, so bias/S is stored. It is one chunk
with lin_q = lin_k = 0. Both have one head.
Needs torch, numpy, and FLASH-pytorch==0.1.9 with its own needs (einops, rotary-embedding-torch).
"""
import importlib.metadata
import os
import sys

import numpy as np
import torch
from flash_pytorch import FLASH, GAU

import make_textbook

BATCHES, TOKENS, WIDTH, QUERY, CHUNK = 2, 27, 10, 6, 8
LENGTHS = (27, 13)


def normal(draw, shape):
    """N(0,1), rounded to float32."""
    return torch.from_numpy(draw.standard_normal(shape).astype(np.float32).astype(np.float64))


def run(draw, made, mask):
    """What enters and leaves the attention of a layer, by the name of its part."""
    seen = {}

    def keep(name, of_input):
        def hook(_, inputs, result):
            seen[name] = inputs[0] if of_input else result
        return hook
    heads = getattr(made, "qk_offset_scale", None) or made.offsetscale
    for name, part in (("hidden", made.to_hidden), ("heads", heads), ("bias", made.rel_pos_bias),
                       ("out", made.to_out)):
        part.register_forward_hook(keep(name, name == "out"))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(normal(draw, tuple(parameter.shape)))
        made(normal(draw, (BATCHES, TOKENS, WIDTH)), mask=mask)
    return seen


def pack(path, made, seed, chunk, mask_word):
    mask = torch.arange(TOKENS) < torch.tensor(LENGTHS)[:, None]
    seen = run(np.random.default_rng(seed), made.double().eval(), mask)
    v, gate = seen["hidden"].chunk(2, dim=-1)
    if isinstance(made, GAU):
        q, k = seen["heads"]
        lin_q = lin_k = torch.zeros_like(q)
        bias = seen["bias"] / TOKENS
    else:
        q, lin_q, k, lin_k = seen["heads"]
        bias = seen["bias"]
    tensors = {name: ("F64", x[:, None].tolist()) for name, x in (
        ("q", q), ("k", k), ("lin_q", lin_q), ("lin_k", lin_k), ("v", v), ("gate", gate),
        ("out", seen["out"]))}
    tensors["bias"] = ("F64", bias.reshape(1, 1, chunk, chunk).tolist())
    tensors["len"] = ("I64", list(LENGTHS))
    make_textbook.write_pack(path, {
        "case": f"op=chunked chunk={chunk} gate=1 mask={mask_word} bias=tensor",
        "rtol": "1e-12", "atol": "1e-12",
        "source": f"FLASH-pytorch {importlib.metadata.version('FLASH-pytorch')}, class "
                  f"{type(made).__name__} in float64: what enters and leaves its attention"},
        tensors)


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for causal, word in ((False, "len"), (True, "causal+len")):
        pack(os.path.join(folder, "flash_causal.safetensors" if causal else "flash.safetensors"),
             FLASH(dim=WIDTH, group_size=CHUNK, query_key_dim=QUERY, causal=causal), 11 + causal,
             CHUNK, word)
    pack(os.path.join(folder, "gau.safetensors"), GAU(dim=WIDTH, query_key_dim=QUERY), 13, TOKENS,
         "len")


if __name__ == "__main__":
    main()
