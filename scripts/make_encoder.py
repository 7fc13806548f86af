#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_encoder.py - packs of attention inputs as they occur within an encoder, one for each variant.

Usage: make_encoder.py OUTDIR     (the packs in cases/encoder/ were made by this script)

The encoder is that of Vaswani et al. 2017: embeddings plus sinusoid positions; a layer of multi-head
attention, residual and layer norm, feed-forward network, residual and layer norm. Its tokens are the
bytes of a sentence. Its weights are drawn by NumPy's legacy generator, whose numbers do not depend on
the version; it is not trained. All is float64. What enters its second layer is projected as the
variant asks, and stored as float32:

  longformer linformer nystrom performer disentangled   q, k and v of two heads
  lsh lsh_causal     shared queries and keys, and v, of two heads
  sigmoid laplace performer_eps                         q, k and v of two heads
  gau chunked        one head: q and k of one projection, v and gate, from SiLU
  wkv linear_decay   keys, values, decays of RWKV-4 and RWKV-6

The answers are those of formulas.py, in float64 from the stored numbers. Needs numpy.
"""
import math
import os
import sys

import numpy as np

import formulas
import make_textbook

TEXT = b"Every word of a sentence looks at every "  # one byte a token
WIDTH, HEADS, INNER, SEED = 32, 2, 128, 20261124


class Encoder:
    def __init__(self):
        self.draw = np.random.RandomState(SEED)
        self.embedding = self.draw.standard_normal((256, WIDTH))

    def normal(self, *shape, scale=1.0):
        return scale * self.draw.standard_normal(shape)

    def linear(self, x, width):
        """x times a matrix that is drawn anew, of N(0, 1 / fan-in)."""
        return x @ self.normal(x.shape[-1], width, scale=x.shape[-1] ** -0.5)

    def heads(self, x, width=WIDTH, count=HEADS):
        return formulas.split_heads(self.linear(x, width), count)

    def embed(self, text):
        tokens = np.frombuffer(text, dtype=np.uint8)
        return (self.embedding[tokens] + formulas.sinusoids(len(tokens), WIDTH))[None]

    def layer(self, x):
        seen = formulas.attention(*(self.heads(x) for _ in "qkv"))["out"]
        x = formulas.layer_norm(x + self.linear(formulas.join_heads(seen), WIDTH))
        inner = np.maximum(self.linear(x, INNER), 0.0)
        return formulas.layer_norm(x + self.linear(inner, WIDTH))


def stored(tensors):
    """As float32 holds them, in float64."""
    return {name: x if x.dtype == bool else x.astype(np.float32).astype(np.float64)
            for name, x in tensors.items()}


def write(folder, name, case, tensors, answers):
    typed = {key: ("BOOL" if x.dtype == bool else "F32", x.tolist()) for key, x in tensors.items()}
    typed.update({key: ("F64", x.tolist()) for key, x in answers.items() if key != "weights"})
    make_textbook.write_pack(os.path.join(folder, name + ".safetensors"), {
        "case": case, "rtol": "1e-12", "atol": "1e-12",
        "source": "what enters the second layer of a small encoder with drawn weights, projected; "
                  "answers of the formula in NumPy and float64"}, typed)


def softmax_variants(folder, encoder, x):
    steps = x.shape[1]
    qkv = stored({name: encoder.heads(x) for name in ("q", "k", "v")})

    def pack(name, case, extra, formula):
        extra = stored(extra)
        write(folder, name, case, {**qkv, **extra}, formula(**qkv, **extra))
    token = {"global": np.arange(steps)[None] == 0}
    write(folder, "longformer", "mask=window:4:4+global", {**qkv, **token},
          formulas.attention(**qkv, allowed=formulas.window(token["global"], 4)))
    rows = WIDTH // 2
    pack("linformer", "op=linformer landmarks=%d" % rows,
         {name: encoder.normal(1, rows, steps, scale=rows ** -0.5) for name in ("proj_e", "proj_f")},
         formulas.linformer)
    pack("nystrom", "op=nystrom landmarks=8", {},
         lambda **tensors: formulas.nystrom(**tensors, landmarks=8))
    pack("performer", "op=performer features=32",
         {"features": formulas.orthogonal_features(encoder.draw, 32, WIDTH // HEADS)},
         formulas.performer)
    positions = encoder.normal(2, 1, 2 * 8, WIDTH)  # embeddings of distances, for keys and for queries
    tables = {name: encoder.heads(at)[0] for name, at in zip(("score_kr", "score_qr"), positions)}
    write(folder, "disentangled", "score=disentangled params=head",
          {**qkv, **stored(tables)},
          formulas.disentangled(**qkv, kr=stored(tables)["score_kr"], qr=stored(tables)["score_qr"]))
    shared = stored({"q": encoder.heads(x), "v": encoder.heads(x),
                     "rotations": encoder.normal(HEADS, WIDTH // HEADS, 2, 2)})
    write(folder, "lsh", "op=lsh chunk=8 rounds=2 buckets=4", shared, formulas.lsh(**shared, chunk=8))


def gated(folder, encoder, x):
    """One head of 16 with values of 64: q and k are one projection, with scales and offsets of their own."""
    base = formulas.silu(encoder.linear(x, 16))
    names = ("q", "k", "lin_q", "lin_k")
    tensors = {name: (base * encoder.normal(16) + encoder.normal(16))[:, None] for name in names}
    tensors.update({name: formulas.silu(encoder.linear(x, 64))[:, None] for name in ("v", "gate")})
    tensors = stored(tensors)
    write(folder, "chunked", "op=chunked chunk=16 gate=1 mask=causal", tensors,
          formulas.chunked(**tensors, chunk=16))
    quadratic = {name: tensors[name] for name in ("q", "k", "v", "gate")}
    write(folder, "gau", "weight_fn=relu2 scale=%r gate=1 mask=causal" % (1 / x.shape[1]), quadratic,
          formulas.gated_unit(**quadratic))


def recurrences(folder, encoder, x):
    before = np.concatenate([np.zeros_like(x[:, :1]), x[:, :-1]], axis=1)

    def shifted():
        """Each channel a mean of this token's and the one's before, as RWKV has it."""
        share = encoder.draw.uniform(size=WIDTH)
        return share * x + (1 - share) * before
    ramp = np.arange(WIDTH) / (WIDTH - 1)
    tensors = stored({"k": encoder.linear(shifted(), WIDTH)[:, None],
                      "v": encoder.linear(shifted(), WIDTH)[:, None],
                      "decay": np.exp(6 * ramp - 5), "bonus": encoder.normal(WIDTH)})
    write(folder, "wkv", "op=wkv", tensors, formulas.wkv(**tensors))
    tensors = {name: encoder.heads(shifted()) for name in ("q", "k", "v")}
    tensors["decay"] = -np.exp(encoder.heads(np.tanh(shifted())) - 2)  # it depends on the token
    tensors["bonus"] = encoder.normal(HEADS, WIDTH // HEADS)
    tensors = stored(tensors)
    write(folder, "linear_decay", "op=linear_decay bonus=1", tensors, formulas.linear_decay(**tensors))


def further(folder, encoder, x):
    """Weight functions without a denominator, and forms of approximations."""
    steps = x.shape[1]
    qkv = stored({name: encoder.heads(x) for name in ("q", "k", "v")})
    shifts = stored({"bias": encoder.normal(1, HEADS, steps, steps, scale=0.5) - math.log(steps)})
    write(folder, "sigmoid", "weight_fn=sigmoid scale=0.25 bias=tensor", {**qkv, **shifts},
          formulas.elementwise(**qkv, **shifts, scale=0.25, weight=formulas.sigmoid))
    write(folder, "laplace", "weight_fn=laplace scale=0.25", qkv,
          formulas.elementwise(**qkv, scale=0.25, bias=0.0, weight=formulas.laplace))
    tensors = {**qkv, **stored({"features": formulas.orthogonal_features(encoder.draw, 32, WIDTH // HEADS)})}
    write(folder, "performer_eps", "op=performer features=32 eps=0.0009765625", tensors,
          formulas.performer_released(**tensors, eps=2.0 ** -10))
    shared = stored({"q": encoder.heads(x), "v": encoder.heads(x),
                     "rotations": encoder.normal(HEADS, WIDTH // HEADS, 2, 2)})
    write(folder, "lsh_causal", "op=lsh chunk=8 rounds=2 buckets=4 mask=causal", shared,
          formulas.lsh(**shared, chunk=8, masked=True))


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    encoder = Encoder()
    x = encoder.layer(encoder.embed(TEXT))
    softmax_variants(folder, encoder, x)
    gated(folder, encoder, x)
    recurrences(folder, encoder, x)
    further(folder, encoder, x)


if __name__ == "__main__":
    main()
