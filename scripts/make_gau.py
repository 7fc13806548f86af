#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_gau.py - packs of weight functions and gates with the answers of published implementations.

Usage: make_gau.py OUTDIR     (the packs in cases/gau/ were made by this script)

  gau_relu2.safetensors     FLASH-pytorch 0.1.9, GAU, causal, in float64
  gau_laplace.safetensors   the same with laplace_attn_fn and a padding mask
  mega_relu2.safetensors    transformers 4.57.1, MegaMovingAverageGatedAttention.element_attention
  mega_laplace.safetensors  the same with its Laplace function
  sigmoid.safetensors       x-transformers 2.31.10, Attend(sigmoid=True), in float64

Differences of formula: GAU has f((q.k + b) / n), which is f(q.k / n + b / n): the packs have b / n as
bias. Its q, k, v and gate are taken after their projections, and out before its projection. Mega gives
weights, which meet v here in one product. Its Laplace function has mu and sigma rounded to six digits;
here they are not. Attend takes the bias as it is: -log of the number of keys, and another for each head.
Needs torch, numpy, einops, transformers==4.57.1, FLASH-pytorch==0.1.9, rotary-embedding-torch, which it
imports, and a file of x-transformers==2.31.10, which is not imported as a whole.
"""
import importlib.metadata
import importlib.util
import math
import os
import sys

import torch
from flash_pytorch import GAU
from transformers import __version__
from transformers.activations import LaplaceActivation
from transformers.models.deprecated.mega.configuration_mega import MegaConfig
from transformers.models.deprecated.mega.modeling_mega import MegaMovingAverageGatedAttention

import make_textbook

BATCHES, STEPS = 2, 24
LENGTH = 21  # of padded batches


def write(path, line, source, tensors):
    make_textbook.write_pack(path, {"case": line, "rtol": "1e-12", "atol": "1e-12", "source": source},
                             {name: ("I32" if name == "len" else "F64", x.tolist())
                              for name, x in tensors.items()})


def gau(path, laplace):
    torch.manual_seed(11 + laplace)
    unit = GAU(dim=12, query_key_dim=8, expansion_factor=1.5, causal=not laplace,
               laplace_attn_fn=laplace).double()
    with torch.no_grad():  # as drawn, its q and k are near 0
        unit.offsetscale.gamma.normal_(std=12)
        unit.offsetscale.beta.normal_()
    seen = {}
    unit.to_hidden.register_forward_hook(lambda m, x, y: seen.update(hidden=y))
    unit.offsetscale.register_forward_hook(lambda m, x, y: seen.update(qk=y))
    unit.rel_pos_bias.register_forward_hook(lambda m, x, y: seen.update(bias=y))
    unit.to_out.register_forward_pre_hook(lambda m, x: seen.update(out=x[0]))
    mask = (torch.arange(STEPS) < LENGTH).expand(BATCHES, STEPS) if laplace else None
    with torch.no_grad():
        unit(torch.randn(BATCHES, STEPS, 12, dtype=torch.float64), mask=mask)
    v, gate = seen["hidden"].chunk(2, dim=-1)
    tensors = {"q": seen["qk"][0][:, None], "k": seen["qk"][1][:, None], "v": v[:, None],
               "gate": gate[:, None], "bias": (seen["bias"] / STEPS)[None, None],
               "out": seen["out"][:, None]}
    if laplace:
        tensors["len"] = torch.full((BATCHES,), LENGTH)
    version = importlib.metadata.version("FLASH-pytorch")
    write(path, f"weight_fn={'laplace' if laplace else 'relu2'} gate=1 scale={1 / STEPS!r} bias=tensor "
          f"mask={'len' if laplace else 'causal'}",
          f"FLASH-pytorch {version}, GAU in float64; the bias is its bias over the number of keys",
          tensors)


def mega(path, function):
    torch.manual_seed(13)
    LaplaceActivation.forward.__defaults__ = (math.sqrt(0.5), math.sqrt(0.25 / math.pi))
    layer = MegaMovingAverageGatedAttention(MegaConfig(
        hidden_size=16, shared_representation_size=8, intermediate_size=16, max_positions=STEPS,
        attention_activation=function, relative_positional_bias="simple")).double()
    q, k = 3 * torch.randn(2, BATCHES, 1, STEPS, 8, dtype=torch.float64)
    v = torch.randn(BATCHES, 1, STEPS, 10, dtype=torch.float64)
    padding = (torch.arange(STEPS) < LENGTH).double().expand(BATCHES, 1, STEPS)
    with torch.no_grad():
        layer.rel_pos_bias.rel_pos_bias.normal_()
        bias = layer.rel_pos_bias(STEPS)
        weights = layer.element_attention(q, k, padding, None)
    write(path, f"weight_fn={function} scale={1 / LENGTH!r} bias=tensor mask=len",
          f"transformers {__version__}, MegaMovingAverageGatedAttention.element_attention in float64, "
          "and torch.matmul with v",
          {"q": q, "k": k, "v": v, "bias": bias[None, None],
           "len": torch.full((BATCHES,), LENGTH), "weights": weights, "out": weights @ v})


def attend():
    """The class Attend: a file of x-transformers that needs no other."""
    file = importlib.metadata.distribution("x-transformers").locate_file("x_transformers/attend.py")
    spec = importlib.util.spec_from_file_location("attend", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["attend"] = module
    spec.loader.exec_module(module)
    return module.Attend


def sigmoid(path):
    torch.manual_seed(17)
    heads = 3
    q, k = 2 * torch.randn(2, BATCHES, heads, STEPS, 8, dtype=torch.float64)
    v = torch.randn(BATCHES, heads, STEPS, 10, dtype=torch.float64)
    bias = torch.randn(1, heads, 1, 1, dtype=torch.float64) - math.log(STEPS)
    out, seen = attend()(heads=heads, causal=True, sigmoid=True)(q, k, v, attn_bias=bias)
    version = importlib.metadata.version("x-transformers")
    write(path, "weight_fn=sigmoid bias=tensor mask=causal",
          f"x-transformers {version}, Attend with sigmoid=True in float64",
          {"q": q, "k": k, "v": v, "bias": bias, "weights": seen.post_softmax_attn, "out": out})


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    for function in ("relu2", "laplace"):
        gau(os.path.join(sys.argv[1], f"gau_{function}.safetensors"), function == "laplace")
        mega(os.path.join(sys.argv[1], f"mega_{function}.safetensors"), function)
    sigmoid(os.path.join(sys.argv[1], "sigmoid.safetensors"))


if __name__ == "__main__":
    main()
