#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_recurrences.py - packs of recurrences with the answers of published implementations.

Usage: make_recurrences.py OUTDIR     (the packs in cases/recurrences/ were made by this script)

  rwkv4.safetensors        op=wkv: transformers 4.57.1, rwkv_linear_attention_cpu, in float64
  rwkv4_state.safetensors  the same, with a state of earlier steps

Differences of formula: that function takes the logarithm of the decay and returns (a, b, p) of the
state. Here the decay is stored. Its keys are cut to float32, so they are drawn as such.
Needs torch, transformers==4.57.1 and numpy.
"""
import os
import sys

import numpy as np
import torch
from transformers import __version__
from transformers.models.rwkv.modeling_rwkv import rwkv_linear_attention_cpu

import make_textbook

BATCHES, STEPS, CHANNELS = 2, 40, 16


def rwkv4(path, with_state):
    draw = np.random.default_rng(4 + with_state)
    def normal(*shape):
        return draw.standard_normal(shape).astype(np.float32).astype(np.float64)
    k, v = 2 * normal(BATCHES, STEPS, CHANNELS), normal(BATCHES, STEPS, CHANNELS)
    k = k.astype(np.float32).astype(np.float64)
    log_decay, bonus = 1.5 * normal(CHANNELS) - 2.5, normal(CHANNELS)
    state = [normal(BATCHES, CHANNELS), np.exp(normal(BATCHES, CHANNELS)), normal(BATCHES, CHANNELS)]
    out, _ = rwkv_linear_attention_cpu(
        torch.from_numpy(log_decay), torch.from_numpy(bonus), torch.from_numpy(k),
        torch.from_numpy(v), [torch.from_numpy(x) for x in state] if with_state else None)
    tensors = {"k": ("F64", k[:, None].tolist()), "v": ("F64", v[:, None].tolist()),
               "decay": ("F64", np.exp(log_decay).tolist()), "bonus": ("F64", bonus.tolist()),
               "out": ("F64", out[:, None].numpy().tolist())}
    if with_state:
        tensors["state_in"] = ("F64", np.stack(state, 2).tolist())
    make_textbook.write_pack(path, {
        "case": "op=wkv" + (" state_in=1" if with_state else ""), "rtol": "1e-12", "atol": "1e-12",
        "source": f"transformers {__version__}, rwkv_linear_attention_cpu in float64; the decay is "
                  "exp of its time_decay"}, tensors)


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    rwkv4(os.path.join(sys.argv[1], "rwkv4.safetensors"), False)
    rwkv4(os.path.join(sys.argv[1], "rwkv4_state.safetensors"), True)


if __name__ == "__main__":
    main()
