#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_performer.py - packs of op=performer with the answers of a published implementation.

Usage: make_performer.py OUTDIR     (the packs in cases/performer/ were made by this script)

  dense.safetensors   no eps: softmax_kernel(eps=0), linear_attention
  causal.safetensors  no eps: softmax_kernel(eps=0), causal_linear_attention_noncuda(eps=0)
  eps.safetensors     eps=1e-4, the package's default: softmax_kernel, linear_attention

All are functions of performer-pytorch 1.1.4, in float64. Its features are
gaussian_orthogonal_random_matrix, the same for all heads; its scale is 1/sqrt(Dk).
Differences of formula: the package adds eps to every feature, causal or not, and 1e-6 to the
denominator of causal attention. op=performer has no such 1e-6, and no eps if it is causal; there
both are 0. Where eps is 0, the maxima that the package takes out cancel.
Needs torch, numpy, and performer-pytorch==1.1.4 with what it imports.
"""
import importlib.metadata
import os
import sys

import numpy as np
import torch
from performer_pytorch.performer_pytorch import (
    causal_linear_attention_noncuda, gaussian_orthogonal_random_matrix, linear_attention,
    softmax_kernel)

import make_textbook

BATCHES, HEADS, STEPS, DK, DV, FEATURES = 2, 3, 30, 8, 12, 20


def pack(path, seed, words, eps, attend):
    draw = np.random.default_rng(seed)
    torch.manual_seed(seed)

    def normal(width):
        return torch.from_numpy(draw.standard_normal((BATCHES, HEADS, STEPS, width)))
    q, k, v = normal(DK), normal(DK), normal(DV)
    features = gaussian_orthogonal_random_matrix(FEATURES, DK)
    phi_q, phi_k = (softmax_kernel(x, projection_matrix=features, is_query=is_query, eps=eps)
                    for x, is_query in ((q, True), (k, False)))
    tensors = {"q": q, "k": k, "v": v, "features": features[None],
               "out": attend(phi_q, phi_k, v)}
    version = importlib.metadata.version("performer-pytorch")
    make_textbook.write_pack(path, {
        "case": f"op=performer features={FEATURES}{words}", "rtol": "1e-12", "atol": "1e-12",
        "source": f"performer-pytorch {version}, softmax_kernel with eps={eps:g} in float64; "
                  "nothing is added to the denominator"},
        {name: ("F64", tensor.tolist()) for name, tensor in tensors.items()})


def causal(q, k, v):
    return causal_linear_attention_noncuda(q, k, v, chunk_size=7, eps=0)


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    torch.set_default_dtype(torch.float64)
    pack(os.path.join(sys.argv[1], "dense.safetensors"), 1, "", 0, linear_attention)
    pack(os.path.join(sys.argv[1], "causal.safetensors"), 2, " mask=causal", 0, causal)
    pack(os.path.join(sys.argv[1], "eps.safetensors"), 3, " eps=0.0001", 1e-4, linear_attention)


if __name__ == "__main__":
    main()
