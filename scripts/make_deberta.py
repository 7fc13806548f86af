#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_deberta.py - packs of disentangled attention with the answers of published layers.

Usage: make_deberta.py OUTDIR         (the packs in cases/deberta/ were made by this script)

  v2, v2_c2p, v2_p2c                          transformers 4.57.1, models/deberta_v2,
  v2_buckets, v2_buckets_c2p, v2_buckets_p2c  DisentangledSelfAttention, in float64
  v1                                          the same of models/deberta

A layer takes hidden states. The packs have what its projections make of them: q, k, v and the two
tables of positions. A table that a layer does not have is drawn at random, and must not be read.

Differences of formula: none in the index of p2c, which is that of variant=code. The layers divide
by a square root in float32: widths are 12 with both parts and 8 with one, so that it is exact (of
36 and of 16). Version 1 cuts the middle min(S, max_relative_positions) distances out of its
embeddings: the packs have the rows that are left. Log buckets come from build_relative_position,
whose logarithm is float32, as the table rel_buckets. A mask is a large negative score, which weighs
exactly 0.
Needs torch, transformers==4.57.1 and numpy.
"""
import os
import sys

import numpy as np
import torch
from transformers import DebertaConfig, DebertaV2Config, __version__
from transformers.models.deberta import modeling_deberta as v1
from transformers.models.deberta_v2 import modeling_deberta_v2 as v2

import make_textbook

BATCHES, HEADS = 2, 3
LENGTHS = (20, 13)  # keys of the batches


def settle(layer, draw):
    """Every weight from N(0, 1 / fan-in), whatever this version of torch starts with."""
    for tensor in layer.parameters():
        values = draw.standard_normal(tuple(tensor.shape)) / np.sqrt(tensor.shape[-1])
        tensor.data = torch.from_numpy(values)
    return layer.double().eval()


def heads(x, width):
    """[B,S,H*D] as [B,H,S,D]."""
    return x.view(*x.shape[:2], HEADS, width).transpose(1, 2)


def table_of(rel, span):
    """[1,S,S] relative positions as rows by i - j + S - 1."""
    steps = rel.shape[-1]
    row = [int(rel[0, max(t - steps + 1, 0), max(steps - 1 - t, 0)]) + span
           for t in range(2 * steps - 1)]
    return [min(max(r, 0), 2 * span - 1) for r in row]


def pack(path, case, layer, operands, answers):
    tensors = {name: ("F64", x.tolist()) for name, x in {**operands, **answers}.items()
               if name not in ("rel_buckets", "len")}
    tensors.update({name: ("I64", operands[name]) for name in ("rel_buckets", "len")
                    if name in operands})
    make_textbook.write_pack(path, {
        "case": case, "rtol": "1e-12", "atol": "1e-12",
        "source": f"transformers {__version__}, {layer} in float64; q, k, v and tables of "
                  "positions are its projections"}, tensors)


def attended(layer, hidden, rel, mask, embeddings, width):
    out, weights = layer(hidden, mask, output_attentions=True, relative_pos=rel,
                         rel_embeddings=embeddings)
    return {"out": heads(out, width), "weights": weights}


def second(folder, name, parts, buckets, share):
    width, steps, span = 12 if len(parts) == 2 else 8, LENGTHS[0], buckets or 6
    draw = np.random.default_rng(100 + 10 * buckets + 3 * len(parts) + share)
    config = DebertaV2Config(
        hidden_size=HEADS * width, num_attention_heads=HEADS, relative_attention=True,
        pos_att_type=parts, position_buckets=buckets or -1, share_att_key=share,
        max_relative_positions=2 * buckets or span, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0)
    layer = settle(v2.DisentangledSelfAttention(config), draw)
    hidden = torch.from_numpy(draw.standard_normal((BATCHES, steps, HEADS * width)))
    embeddings = torch.from_numpy(draw.standard_normal((2 * span, HEADS * width)))
    unread = torch.from_numpy(draw.standard_normal((1, 2 * span, HEADS * width)))
    of_k = layer.key_proj if share else getattr(layer, "pos_key_proj", None)
    of_q = layer.query_proj if share else getattr(layer, "pos_query_proj", None)
    rel = v2.build_relative_position(hidden, hidden, bucket_size=layer.position_buckets,
                                     max_position=layer.max_relative_positions)
    keys = torch.arange(steps) < torch.tensor(LENGTHS)[:, None]
    operands = {
        "q": heads(layer.query_proj(hidden), width), "k": heads(layer.key_proj(hidden), width),
        "v": heads(layer.value_proj(hidden), width),
        "score_kr": heads(of_k(embeddings[None]) if "c2p" in parts else unread, width)[0],
        "score_qr": heads(of_q(embeddings[None]) if "p2c" in parts else unread, width)[0],
        "len": list(LENGTHS)}
    if buckets:
        operands["rel_buckets"] = table_of(rel, span)
    pack(os.path.join(folder, name + ".safetensors"),
         "score=disentangled" + (f" parts={parts[0]}" if len(parts) == 1 else ""),
         "models/deberta_v2 DisentangledSelfAttention", operands,
         attended(layer, hidden, None, keys[:, None, None], embeddings, width))


def first(folder):
    width, steps, most = 12, LENGTHS[0], 7
    draw = np.random.default_rng(7)
    config = DebertaConfig(
        hidden_size=HEADS * width, num_attention_heads=HEADS, relative_attention=True,
        pos_att_type=["c2p", "p2c"], max_relative_positions=most, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0)
    layer = settle(v1.DisentangledSelfAttention(config), draw)
    hidden = torch.from_numpy(draw.standard_normal((BATCHES, steps, HEADS * width)))
    embeddings = torch.from_numpy(draw.standard_normal((2 * most, HEADS * width)))
    q, k, v = layer.transpose_for_scores(layer.in_proj(hidden)).chunk(3, dim=-1)
    rel = v1.build_relative_position(hidden, hidden)
    keys = torch.arange(steps) < torch.tensor(LENGTHS)[:, None]
    pack(os.path.join(folder, "v1.safetensors"), "score=disentangled",
         "models/deberta DisentangledSelfAttention",
         {"q": q + layer.transpose_for_scores(layer.q_bias[None, None]), "k": k,
          "v": v + layer.transpose_for_scores(layer.v_bias[None, None]),
          "score_kr": layer.transpose_for_scores(layer.pos_proj(embeddings[None]))[0],
          "score_qr": layer.transpose_for_scores(layer.pos_q_proj(embeddings[None]))[0],
          "len": list(LENGTHS)},
         attended(layer, hidden, rel, keys[:, None, None], embeddings, width))


def main():
    torch.set_grad_enabled(False)
    os.makedirs(sys.argv[1], exist_ok=True)
    for suffix, parts in (("", ["c2p", "p2c"]), ("_c2p", ["c2p"]), ("_p2c", ["p2c"])):
        second(sys.argv[1], "v2" + suffix, parts, 0, bool(suffix))
        second(sys.argv[1], "v2_buckets" + suffix, parts, 6, not suffix)
    first(sys.argv[1])


if __name__ == "__main__":
    main()
