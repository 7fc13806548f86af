#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_landmarks.py - answers of published implementations of attention through a few landmarks.

Usage: make_landmarks.py OUTDIR       (the packs in cases/landmarks/ were made by this script)

  linformer.safetensors         op=linformer: linformer 0.2.3, LinformerSelfAttention in float64
  linformer_shared.safetensors  the same with share_kv and one_kv_head: one matrix, one key head
  nystrom.safetensors           op=nystrom: transformers 4.57.1, NystromformerSelfAttention in float64
  nystrom_batch.safetensors     the same with start=batch

Differences of formula: none. The modules make q, k and v by linear maps of their inputs. The packs
hold what these give. The map after the heads of linformer is the identity. Its E and F are [Sk,r]
and shared by all heads; here they are [1,r,Sk]. The convolution over v of Nystroemformer is left
out. Its start over the batch is what the module calls `original`; the other one cannot be chosen by
its configuration, which fails, so it is set afterwards.
Needs torch, linformer==0.2.3, transformers==4.57.1 and numpy.
"""
import importlib.metadata
import os
import sys

import torch
import transformers
from linformer import LinformerSelfAttention
from transformers.models.nystromformer.modeling_nystromformer import NystromformerSelfAttention

import make_textbook


def write(path, case, source, tensors):
    make_textbook.write_pack(
        path, {"case": case, "rtol": "1e-12", "atol": "1e-12", "source": source},
        {name: ("F64", tensor.detach().tolist()) for name, tensor in tensors.items()})


def heads(x, count):
    """[B,S,H*D] as [B,H,S,D]"""
    return x.reshape(*x.shape[:2], count, -1).transpose(1, 2)


def linformer(path, shared):
    batches, queries, keys, rows, count, width = 2, 9, 30, 8, 3, 6
    torch.manual_seed(7 + shared)
    module = LinformerSelfAttention(count * width, keys, k=rows, heads=count, one_kv_head=shared,
                                    share_kv=shared).double()
    key_heads = 1 if shared else count
    with torch.no_grad():
        module.to_out.weight.copy_(torch.eye(count * width))
        module.to_out.bias.zero_()
        for matrix in ([module.proj_k] if shared else [module.proj_k, module.proj_v]):
            matrix.normal_(0, rows ** -0.5)
        x = torch.randn(batches, queries, count * width, dtype=torch.float64)
        context = torch.randn(batches, keys, count * width, dtype=torch.float64)
        k = module.to_k(context)
        tensors = {"q": heads(2 * module.to_q(x), count), "k": heads(k, key_heads),
                   "v": heads(k if shared else module.to_v(context), key_heads),
                   "proj_e": module.proj_k.T[None],
                   "out": heads(module(2 * x, context), count)}
        if not shared:
            tensors["proj_f"] = module.proj_v.T[None]
    write(path, "op=linformer landmarks=%d%s" % (rows, " proj_f=0" if shared else ""),
          "linformer " + importlib.metadata.version("linformer") +
          ", LinformerSelfAttention in float64", tensors)


def nystrom(path, batch):
    count, width, steps, segments = 3, 6, 40, 8
    torch.manual_seed(9 + batch)
    config = transformers.NystromformerConfig(
        hidden_size=count * width, num_attention_heads=count, num_landmarks=segments,
        segment_means_seq_len=steps, attention_probs_dropout_prob=0.0)
    module = NystromformerSelfAttention(config).double().eval()
    module.conv_kernel_size = None
    module.init_option = "original" if batch else "exact"
    with torch.no_grad():
        for layer in (module.query, module.key):
            layer.weight.normal_(0, 2 * (count * width) ** -0.5)
        x = torch.randn(2, steps, count * width, dtype=torch.float64)
        tensors = {name: heads(layer(x), count) for name, layer in
                   (("q", module.query), ("k", module.key), ("v", module.value))}
        tensors["out"] = heads(module(x)[0], count)
    write(path, "op=nystrom landmarks=%d%s" % (segments, " start=batch" if batch else ""),
          f"transformers {transformers.__version__}, NystromformerSelfAttention in float64, "
          f"init_option {module.init_option}, no convolution", tensors)


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    linformer(os.path.join(sys.argv[1], "linformer.safetensors"), False)
    linformer(os.path.join(sys.argv[1], "linformer_shared.safetensors"), True)
    nystrom(os.path.join(sys.argv[1], "nystrom.safetensors"), False)
    nystrom(os.path.join(sys.argv[1], "nystrom_batch.safetensors"), True)


main()
