#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_textbook.py - the toy examples of the textbooks as packs, with the answers they print.

Usage: make_textbook.py OUTDIR        (the packs in cases/textbook/ were made by this script)

Keys are all ones, so every valid key has the same score and the weights are uniform whatever the
queries are: an output is the mean of the valid rows of the values. With values 0..39 as (10, 4) and
lengths 2 and 6 that is [2, 3, 4, 5] and [10, 11, 12, 13], the numbers printed in the books. Only
the log-sum-exp depends on the queries; it is computed here in double from the stored f32 values.
Needs the Python standard library alone.
"""
import json
import math
import os
import random
import struct
import sys

FORMAT = {"F32": "f", "F64": "d", "I64": "q", "BOOL": "?", "I32": "i"}
SOURCE = "toy example of the textbooks (keys of ones, values 0..39); answers by hand"


def f32(x):
    """The nearest f32, as a double."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def flatten(value):
    if not isinstance(value, list):
        return [value]
    return [leaf for item in value for leaf in flatten(item)]


def shape_of(value):
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0]
    return shape


def write_pack(path, metadata, tensors):
    """tensors: {name: (dtype, nested lists)}."""
    header, data = {"__metadata__": metadata}, b""
    for name, (dtype, value) in tensors.items():
        leaves = flatten(value)
        packed = struct.pack("<%d%s" % (len(leaves), FORMAT[dtype]), *leaves)
        header[name] = {"dtype": dtype, "shape": shape_of(value),
                        "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def normal_rows(generator, rows, columns, scale=1.0):
    return [[f32(scale * generator.gauss(0, 1)) for _ in range(columns)] for _ in range(rows)]


def uniform_answer(values, length):
    """Weights over all keys, and the mean of the first `length` rows."""
    weights = [1.0 / length if j < length else 0.0 for j in range(len(values))]
    mean = [sum(row[c] for row in values[:length]) / length for c in range(len(values[0]))]
    return weights, mean


def attention_pack(path, score, lengths, generator):
    """One head, ten keys. lengths: one a batch, or one a query (then a list a batch)."""
    two_dimensional = isinstance(lengths[0], list)
    per_query = lengths if two_dimensional else [[n] for n in lengths]
    dq = 20 if score == "additive" else 2
    keys, dk, dh = 10, 2, 8
    values = [[float(4 * j + c) for c in range(4)] for j in range(keys)]
    tensors = {
        "q": ("F32", [[normal_rows(generator, len(row), dq)] for row in per_query]),
        "k": ("F32", [[[[1.0] * dk] * keys]] * len(lengths)),
        "v": ("F32", [[values]] * len(lengths)),
    }
    if score == "additive":
        w_q = normal_rows(generator, dh, dq, 1 / math.sqrt(dq))
        w_k = normal_rows(generator, dh, dk, 1 / math.sqrt(dk))
        w_v = normal_rows(generator, 1, dh, 1 / math.sqrt(dh))[0]
        tensors.update({"score_w_q": ("F32", [w_q]), "score_w_k": ("F32", [w_k]),
                        "score_w_v": ("F32", [w_v])})

        def raw(q):
            return math.fsum(w_v[c] * math.tanh(math.fsum(a * x for a, x in zip(w_q[c], q)) +
                                                math.fsum(w_k[c])) for c in range(dh))
    else:
        def raw(q):
            return math.fsum(q) / math.sqrt(dk)
    out, lse, weights = [], [], []
    for batch, row in enumerate(per_query):
        answers = [uniform_answer(values, n) for n in row]
        queries = tensors["q"][1][batch][0]
        weights.append([[w for w, _ in answers]])
        out.append([[mean for _, mean in answers]])
        lse.append([[raw(q) + math.log(n) for q, n in zip(queries, row)]])
    tensors.update({"len": ("I64", lengths), "out": ("F64", out), "lse": ("F64", lse),
                    "weights": ("F64", weights)})
    mask = "len2d" if two_dimensional else "len"
    write_pack(path, {"case": "score=%s mask=%s out=lse+weights" % (score, mask),
                      "source": SOURCE, "rtol": "1e-12", "atol": "1e-12"}, tensors)


def mha_pack(path, generator):
    """100 hidden units, 5 heads, batch 2, 4 queries, 6 keys of ones, lengths 3 and 2.

    The weights are small multiples of 1/64, so that every sum is exact: each output row is
    W_o W_v 1, whatever the lengths are.
    """
    hidden, heads, batch, queries, keys = 100, 5, 2, 4, 6

    def matrix():
        return [[generator.randint(-3, 3) / 64 for _ in range(hidden)] for _ in range(hidden)]
    w_q, w_k, w_v, w_o = matrix(), matrix(), matrix(), matrix()
    value = [sum(row) for row in w_v]
    answer = [sum(a * x for a, x in zip(row, value)) for row in w_o]
    lengths = [3, 2]
    weights = [[[[1.0 / n if j < n else 0.0 for j in range(keys)]] * queries] * heads
               for n in lengths]
    write_pack(path, {"case": "op=mha hq=%d mask=len out=weights" % heads, "source":
                      "toy example of the textbooks (100 hidden units, 5 heads, inputs of ones); "
                      "answers exact", "rtol": "1e-12", "atol": "1e-12"},
               {"x_q": ("F32", [[[1.0] * hidden] * queries] * batch),
                "x_k": ("F32", [[[1.0] * hidden] * keys] * batch),
                "w_q": ("F32", w_q), "w_k": ("F32", w_k), "w_v": ("F32", w_v), "w_o": ("F32", w_o),
                "len": ("I64", lengths), "out": ("F64", [[answer] * queries] * batch),
                "weights": ("F64", weights)})


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: make_textbook.py OUTDIR")
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    generator = random.Random(1)
    for score in ("additive", "scaled_dot"):
        attention_pack(os.path.join(folder, score + "_1d.safetensors"), score, [2, 6], generator)
        attention_pack(os.path.join(folder, score + "_2d.safetensors"), score, [[1, 3], [2, 4]],
                       generator)
    mha_pack(os.path.join(folder, "mha.safetensors"), generator)


if __name__ == "__main__":
    main()
