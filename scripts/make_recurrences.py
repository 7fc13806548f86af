#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_recurrences.py - packs of recurrences with the answers of published implementations.

Usage: make_recurrences.py OUTDIR     (the packs in cases/recurrences/ were made by this script)

  rwkv4.safetensors        op=wkv: transformers 4.57.1, rwkv_linear_attention_cpu, in float64
  rwkv4_state.safetensors  the same, with a state of earlier steps
  gla.safetensors          op=linear_decay decay=inclusive: fla-core 0.6.0, naive_recurrent_gla
  rwkv6_state.safetensors  op=linear_decay bonus=1, with a state: fla-core, naive_recurrent_rwkv6

Differences of formula: the function for RWKV-4 takes the logarithm of the decay and returns
(a, b, p) of the state. Here the decay is stored. Its keys are cut to float32, so they are drawn as
such. The functions of fla-core compute in float32; here their `float` is replaced by `double`. The
scale of naive_recurrent_gla is 1/sqrt(Dk), of the other one 1.
Needs torch, transformers==4.57.1, numpy, and the files of fla-core==0.6.0, which is not imported.
"""
import importlib.metadata
import importlib.util
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


def from_fla(path, name):
    """A function of a file of fla-core, with its arithmetic in float64."""
    file = importlib.metadata.distribution("fla-core").locate_file(path)
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.Tensor.float = torch.Tensor.double
    return getattr(module, name)


def linear_decay(path, function, line, with_state):
    batches, heads, steps, dk, dv = 2, 3, 30, 8, 12
    draw = np.random.default_rng(6 + with_state)

    def normal(*shape):
        return torch.from_numpy(draw.standard_normal(shape).astype(np.float32).astype(np.float64))
    q, k, v = (normal(batches, heads, steps, width) for width in (dk, dk, dv))
    g = -torch.exp(1.2 * normal(batches, heads, steps, dk) - 2.5)
    bonus, state = normal(heads, dk), normal(batches, heads, dk, dv)
    if with_state:
        out, after = function(q, k, v, g, bonus, scale=1.0, initial_state=state,
                              output_final_state=True)
    else:
        out, after = function(*(x.transpose(1, 2) for x in (q, k, v, g)), output_final_state=True)
        out = out.transpose(1, 2)
    tensors = {"q": q, "k": k, "v": v, "decay": g, "out": out, "state_out": after}
    if with_state:
        tensors.update(bonus=bonus, state_in=state)
    version = importlib.metadata.version("fla-core")
    make_textbook.write_pack(path, {
        "case": line, "rtol": "1e-12", "atol": "1e-12",
        "source": f"fla-core {version}, {function.__name__} in float64"},
        {name: ("F64", tensor.tolist()) for name, tensor in tensors.items()})


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    rwkv4(os.path.join(sys.argv[1], "rwkv4.safetensors"), False)
    rwkv4(os.path.join(sys.argv[1], "rwkv4_state.safetensors"), True)
    linear_decay(os.path.join(sys.argv[1], "gla.safetensors"),
                 from_fla("fla/ops/gla/naive.py", "naive_recurrent_gla"),
                 f"op=linear_decay decay=inclusive scale={8 ** -0.5!r}", False)
    linear_decay(os.path.join(sys.argv[1], "rwkv6_state.safetensors"),
                 from_fla("fla/ops/rwkv6/recurrent_naive.py", "naive_recurrent_rwkv6"),
                 "op=linear_decay bonus=1 state_in=1", True)


if __name__ == "__main__":
    main()
