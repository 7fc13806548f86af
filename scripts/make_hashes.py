#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_hashes.py - packs of attention over hashed keys with the answers of a published implementation.

Usage: make_hashes.py OUTDIR     (the packs in cases/hashes/ were made by this script)

  reformer_r1 _r2 _r4             op=lsh: transformers 4.57.1, LSHSelfAttention in float64, with 1, 2
                                  and 4 rounds; each sees its own piece and the one before
  reformer_r1_causal _r2_ _r4_    the same with a causal mask (is_decoder)

Differences of formula: the class adds 1e-6 to the mean square by which it normalises keys; here
it adds 0. It divides keys of length sqrt(dk) by sqrt(dk), so its scale is 1. It numbers the
buckets of all rounds in a row; here each round begins at 0. It masks the own token by -1e5 and
later tokens by -1e9, which in float64 is what self=last says; but it merges rounds by lse of
about -1e5 where a token sees itself alone, which costs it 1e5 2^-53: there 1e-10 is asked for. It
draws its rotations from torch's generator; here the generator is set to the same seed again, and
the pack has what it gives.
Needs torch, transformers==4.57.1, numpy.
"""
import os
import sys

import torch
from transformers import ReformerConfig, __version__
from transformers.models.reformer.modeling_reformer import LSHSelfAttention

import make_textbook

BATCHES, HEADS, STEPS, WIDTH, CHUNK, BUCKETS, SEED = 2, 2, 24, 8, 4, 4, 7


class Exact(LSHSelfAttention):
    def _len_norm(self, x, epsilon=0.0):
        return super()._len_norm(x, 0.0)


def heads(x):
    return x.view(BATCHES, STEPS, HEADS, WIDTH).transpose(1, 2)


def reformer(path, rounds, causal):
    torch.manual_seed(10 * rounds + causal)
    layer = Exact(ReformerConfig(
        num_attention_heads=HEADS, attention_head_size=WIDTH, hidden_size=HEADS * WIDTH,
        lsh_attn_chunk_length=CHUNK, lsh_num_chunks_before=1, lsh_num_chunks_after=0,
        num_buckets=BUCKETS, num_hashes=rounds, hash_seed=SEED, is_decoder=causal,
        lsh_attention_probs_dropout_prob=0.0)).double().eval()
    x = torch.randn(BATCHES, STEPS, HEADS * WIDTH, dtype=torch.float64)
    with torch.no_grad():
        layer.query_key.weight.copy_(torch.randn(HEADS * WIDTH, HEADS * WIDTH) / 4)
        layer.value.weight.copy_(torch.randn(HEADS * WIDTH, HEADS * WIDTH) / 4)
        q, v = heads(layer.query_key(x)), heads(layer.value(x))
        answer = layer(x, num_hashes=rounds)
    torch.manual_seed(SEED)
    rotations = torch.randn(HEADS, WIDTH, rounds, BUCKETS // 2, dtype=torch.float64)
    first = BUCKETS * torch.arange(rounds).view(1, 1, -1, 1)
    tensors = {"q": q, "v": v, "rotations": rotations, "out": heads(answer.hidden_states),
               "buckets_out": (answer.buckets - first).double()}
    tolerance = "1e-10" if causal and rounds > 1 else "1e-12"
    make_textbook.write_pack(path, {
        "case": f"op=lsh chunk={CHUNK} rounds={rounds} buckets={BUCKETS}"
                + (" mask=causal" if causal else ""),
        "rtol": tolerance, "atol": tolerance,
        "source": f"transformers {__version__}, LSHSelfAttention in float64, without the 1e-6 that it "
                  "adds to the mean square of a key"},
        {name: ("F64", tensor.tolist()) for name, tensor in tensors.items()})


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    for rounds in (1, 2, 4):
        for causal in (False, True):
            name = f"reformer_r{rounds}" + ("_causal" if causal else "") + ".safetensors"
            reformer(os.path.join(sys.argv[1], name), rounds, causal)


if __name__ == "__main__":
    main()
