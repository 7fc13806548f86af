#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_poison.py - packs with NaN and infinities in keys and values that take no part.

Usage: make_poison.py OUTDIR        (the packs in cases/poison/ were made by this script)

Everything behind a length, a causal corner, a boolean mask or a bias of -inf is NaN or infinite, and
must not be seen: 0 * NaN is NaN. A few keys that do take part hold NaN, too, and that must be seen.
There are no expected answers, which NaN could not be held against: the reference says what is right.
Needs the Python standard library alone.
"""
import math
import os
import random
import sys

from make_textbook import normal_rows, write_pack

BATCHES, HEADS, GROUP, KEYS, DK, DV = 2, 2, 2, 37, 12, 9
LENGTHS = [KEYS, 18]
MASKED, BIASED = 7, 3  # keys that the boolean mask, and the bias, forbid to all queries
POISON = [math.nan, math.inf, -math.inf]


def poison(row, generator):
    row[:] = [generator.choice(POISON) for _ in row]


def pack(path, queries, causal, generator):
    q = [[normal_rows(generator, queries, DK) for _ in range(HEADS * GROUP)]
         for _ in range(BATCHES)]
    k, v = ([[normal_rows(generator, KEYS, width) for _ in range(HEADS)] for _ in range(BATCHES)]
            for width in (DK, DV))
    for b in range(BATCHES):
        seen = min(LENGTHS[b], queries if causal else KEYS)
        for h in range(HEADS):
            for j in [MASKED, BIASED, *range(seen, KEYS)]:
                poison(k[b][h][j], generator)
                poison(v[b][h][j], generator)
    k[0][1][12][5] = math.nan   # rows that see it are NaN
    v[1][0][15][2] = -math.nan  # one column of the rows that see it is NaN
    v[1][1][10][4] = math.inf
    mask = [[[[j != MASKED and (i + j) % 11 != 0 for j in range(KEYS)] for i in range(queries)]]]
    bias = [[[[-math.inf if j == BIASED else generator.gauss(0, 1) for j in range(KEYS)]]
             for _ in range(HEADS * GROUP)]]
    parts = "causal+len+bool" if causal else "len+bool"
    write_pack(path, {"case": f"mask={parts} bias=tensor out=lse+weights",
                      "source": "NaN and infinities where they must not be seen"},
               {"q": ("F32", q), "k": ("F32", k), "v": ("F32", v), "mask": ("BOOL", mask),
                "bias": ("F32", bias), "len": ("I64", LENGTHS)})


def tiles_pack(path, generator):
    """So many keys that any kernel cuts them into tiles, with poison near the end of each."""
    keys, width = 1300, 2
    q, k, v = ([[normal_rows(generator, n, width)]] for n in (20, keys, keys))
    dead = [j for j in range(keys) if j % 100 == 90 or j >= 1290]
    for j in dead:
        poison(k[0][0][j], generator)
        poison(v[0][0][j], generator)
    mask = [[[[j not in dead for j in range(keys)]]]]
    write_pack(path, {"case": "mask=bool out=lse", "source": "NaN where it must not be seen"},
               {"q": ("F32", q), "k": ("F32", k), "v": ("F32", v), "mask": ("BOOL", mask)})


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: make_poison.py OUTDIR")
    os.makedirs(sys.argv[1], exist_ok=True)
    generator = random.Random(1)
    pack(os.path.join(sys.argv[1], "rows.safetensors"), 20, True, generator)
    pack(os.path.join(sys.argv[1], "one_query.safetensors"), 1, False, generator)
    tiles_pack(os.path.join(sys.argv[1], "tiles.safetensors"), generator)


if __name__ == "__main__":
    main()
