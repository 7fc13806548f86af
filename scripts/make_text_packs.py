#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_text_packs.py - q, k, v of a long text, from the sentence encoder of make_packs.py, for every
approximation of attention.

Usage: make_text_packs.py OUTDIR

Writes text.VARIANT_TOKENS.safetensors: 1024 tokens into OUTDIR, 4096 and 16384 into OUTDIR/long, which
`bench` and `run` read and `verify` does not. The variants have the same q, k and v:

  exact      softmax attention
  longformer a window of 128 to either side; the first token of each window of the model is global
  linformer  256 rows, each the mean of a segment (the pooling of the paper); the same for keys and values
  nystrom    64 segments
  performer  256 features; drawn, orthogonal
  lsh        pieces of 64, 2 rounds; keys are the queries, normed; rotations are drawn

The text: licences from Debian's base-files, one after the other. The model has room for 256 tokens, so
the text is cut into windows of 254, each between [CLS] and [SEP] with positions 0 to 255, and each is
encoded alone. q, k and v of a head of layer 2 (after two whole layers: attention, residuals, layer
norms, feed-forward) stand side by side, and attention goes over all of them. So its scores within a
window are those of the model, and those across windows are of real queries and keys that the model
never compared: a position means a place in the window. An approximation that is right for this input
is not thereby right for a model that was trained on long texts. The head looks near and far: of 1024
tokens, 46 % of its weight are on keys that longformer sees.

Packs of 1024 tokens have answers, computed in float64 from the stored f32 values (formulas.py).
Needs what make_packs.py needs, and /usr/share/common-licenses.
"""
import hashlib
import os
import pathlib
import sys

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer

import formulas
import make_packs

TEXTS = pathlib.Path("/usr/share/common-licenses")
NAMES = ("GPL-3", "GFDL-1.3", "LGPL-2.1", "MPL-2.0")
WINDOW, LAYER, HEAD, SEED = 256, 2, 5, 20261124
LENGTHS = (1024, 4096, 16384)
AT_ONCE = 4  # windows: their scores take 4 * 12 * 256 * 256 numbers


def windows_of(tokenizer, count):
    """[count,256] token numbers, and the SHA-256 of the text that they come from."""
    missing = [str(TEXTS / name) for name in NAMES if not (TEXTS / name).exists()]
    if missing:
        raise SystemExit("make_text_packs.py: there is no %s" % ", ".join(missing))
    text = "\n".join((TEXTS / name).read_text() for name in NAMES)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    first, last = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    inner = WINDOW - 2
    if len(ids) < count * inner:
        raise SystemExit("make_text_packs.py: %s has %d tokens, %d are needed" %
                         (TEXTS, len(ids), count * inner))
    rows = [[first] + ids[n * inner:(n + 1) * inner] + [last] for n in range(count)]
    return np.asarray(rows), hashlib.sha256(text.encode()).hexdigest()


def projected(encoder, ids):
    """q, k, v [1,1,S,D] of HEAD in LAYER for all windows side by side, as f32."""
    parts = []
    for n in range(0, len(ids), AT_ONCE):
        some = ids[n:n + AT_ONCE]
        x = encoder.embed(some)
        for layer in range(LAYER):
            x = encoder.layer(x, layer, [WINDOW] * len(some))
        answer = make_packs.multi_head(x, encoder.projections(LAYER), encoder.heads,
                                       [WINDOW] * len(some))
        parts.append([answer[c][:, HEAD].reshape(-1, answer[c].shape[-1]) for c in "qkv"])
    joined = [np.concatenate(tensors) for tensors in zip(*parts)]
    return {c: x[None, None].astype(np.float32) for c, x in zip("qkv", joined)}


def variants(qkv):
    """name -> case line, tensors, formula that makes the answers of them in float64."""
    draw = np.random.RandomState(SEED)
    steps, width = qkv["q"].shape[2:]
    is_global = (np.arange(steps) % WINDOW == 0)[None]
    segment = np.arange(steps) * 256 // steps
    rows = {"proj_e": ((segment == np.arange(256)[:, None]) * 256 / steps)[None]}
    features = {"features": formulas.orthogonal_features(draw, 256, width)}
    buckets = steps // 64
    rotations = {"rotations": draw.standard_normal((1, width, 2, buckets // 2))}
    return {
        "exact": ("mask=dense", qkv, formulas.attention),
        "longformer": ("mask=window:128:128+global", {**qkv, "global": is_global},
                       lambda **t: formulas.attention(
                           t["q"], t["k"], t["v"], formulas.window(is_global, 128))),
        "linformer": ("op=linformer landmarks=256 proj_f=0", {**qkv, **rows}, formulas.linformer),
        "nystrom": ("op=nystrom landmarks=64", qkv,
                    lambda **t: formulas.nystrom(**t, landmarks=64)),
        "performer": ("op=performer features=256", {**qkv, **features}, formulas.performer),
        "lsh": ("op=lsh chunk=64 rounds=2 buckets=%d" % buckets,
                {"q": qkv["q"], "v": qkv["v"], **rotations},
                lambda **t: formulas.lsh(**t, chunk=64)),
    }


def write(path, line, source, tensors, formula):
    tensors = {name: np.ascontiguousarray(x if x.dtype == bool else x.astype(np.float32))
               for name, x in tensors.items()}
    if formula:
        answers = formula(**{name: x if x.dtype == bool else x.astype(np.float64)
                             for name, x in tensors.items()})
        tensors.update({name: np.ascontiguousarray(x) for name, x in answers.items()
                        if name in ("out", "buckets_out")})
    save_file(tensors, path, {"case": line, "source": source, "rtol": "1e-12", "atol": "1e-12"})


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: make_text_packs.py OUTDIR")
    model = make_packs.model_folder()
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    ids, digest = windows_of(tokenizer, LENGTHS[-1] // WINDOW)
    qkv = projected(make_packs.Encoder(model), ids)
    source = ("%s, layer %d, head %d; text %s of %s (SHA-256 %s), each window of %d tokens encoded "
              "alone, q, k, v side by side" % (make_packs.source_of_model(), LAYER, HEAD,
                                               ", ".join(NAMES), TEXTS, digest, WINDOW))
    for length in LENGTHS:
        folder = os.path.join(sys.argv[1], "" if length == LENGTHS[0] else "long")
        os.makedirs(folder, exist_ok=True)
        cut = {c: x[:, :, :length] for c, x in qkv.items()}
        for name, (line, tensors, formula) in variants(cut).items():
            write(os.path.join(folder, "text.%s_%d.safetensors" % (name, length)), line, source,
                  tensors, formula if length == LENGTHS[0] else None)


if __name__ == "__main__":
    main()
