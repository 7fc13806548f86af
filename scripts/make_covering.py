# SPDX-License-Identifier: Apache-2.0
"""Writes cases/covering/covering.cases: a covering array of small cases.

    make_covering.py [FILE]        default: cases/covering/covering.cases beside this script's folder

Every valid pair of values of two axes below is in at least one case, and every valid triple of mask,
path and type. Sizes, heads and widths are axes like features. The array is made by a greedy search
without random numbers: each case starts from a triple or a pair that is still missing, and every
further axis takes the value that covers most of what is missing. The same script always writes the
same file; a test compares them.
"""
import itertools
import os
import sys

# The values are words of a case line. Paths are shapes for which kernels take code of their own: one
# query; few queries and many keys; more than a tile of both; more queries than keys.
AXES = {
    "path": ["one", "few", "tiles", "tall"],
    "type": ["f32", "f16", "bf16", "f64"],
    "mask": ["", "causal_br", "window:9:3+br", "len:rand", "bool:0.7", "len2d:rand",
             "bool:0.6:bk+causal_br"],
    "group": [1, 2, 3, 5, 6, 7, 8, 17],
    "heads": [1, 2, 3, 32, 33],             # of keys and values
    "batch": [1, 2, 5, 100],
    "keys": [0, 1, 2, 3, 4, 5, 6, 7],       # a place in the path's own list of sizes
    "width": [8, 16, 33, 64, 80, 128],
    "value": ["same", 1, 40, 72, 264],      # the width of v
    "score": ["scaled_dot", "dot", "bilinear", "gaussian", "additive"],
    "bias": ["", "normal", "normal:hk", "alibi", "normal:k+alibi"],
    "softcap": [0, 3],
    "sink": [0, 1],
    "dropout": [0, 0.3],
    "out": ["", "lse", "lse+weights"],
    "layout": ["bhsd", "bshd", "bhds"],
    "view": ["", "gaps", "permuted", "broadcast", "offset1", "gaps+offset1"],
}
NAMES = list(AXES)
TRIPLE = ("path", "type", "mask")

# Queries and keys of a path: at and beside powers of two, and 1 above multiples of 32.
SIZES = {
    "one": [(1, n) for n in (1, 31, 33, 64, 97, 129, 257, 513)],
    "few": [(q, n) for q, n in ((2, 65), (3, 127), (4, 129), (5, 225), (7, 256), (8, 255),
                                (9, 257), (3, 513))],
    "tiles": [(n, m) for n, m in ((15, 17), (17, 33), (31, 32), (33, 31), (33, 65), (63, 64),
                                  (65, 63), (65, 97))],
    "tall": [(n, m) for n, m in ((17, 1), (31, 2), (33, 3), (63, 7), (64, 15), (65, 16),
                                 (97, 8), (127, 5))],
}
MOST_CELLS = 1 << 16        # scores of a case
MOST_ELEMENTS = 1 << 19     # of all operands together
# Time goes with size. A case may use the least of these shares of both limits that its first pair
# or triple leaves open.
SHARES = [1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1]


def cost(row):
    """Cells and elements of a row; what is not chosen yet counts as small as it can be."""
    sizes = SIZES[row["path"]] if "path" in row else [(1, 1)]
    sq, sk = sizes[row["keys"]] if "path" in row and "keys" in row else sizes[0]
    batch, heads = row.get("batch", 1), row.get("heads", 1)
    queries = heads * row.get("group", 1)
    width = row.get("width", 8)
    value = row.get("value", 1)
    value = width if value == "same" else value
    cells = batch * queries * sq * sk
    elements = batch * ((heads * sk + queries * sq) * (width + value))
    if row.get("score") == "additive":
        cells *= 4
    return cells, elements


def valid(row, share=1):
    """False if no case of this share of the limits can have all of these values, whatever the others
    are."""
    cells, elements = cost(row)
    if cells > share * MOST_CELLS or elements > share * MOST_ELEMENTS:
        return False
    if row.get("heads", 1) >= 32 and row.get("group", 1) > 2:
        return False                         # 17 times 33 heads prove nothing more
    if row.get("batch", 1) == 100 and row.get("heads", 1) * row.get("group", 1) > 8:
        return False
    return True


def key(part):
    return tuple(sorted(part.items()))


def wanted():
    """Every pair, and every triple of TRIPLE, that is valid."""
    parts = []
    for names in [TRIPLE] + list(itertools.combinations(NAMES, 2)):
        for values in itertools.product(*(AXES[n] for n in names)):
            part = dict(zip(names, values))
            if valid(part) and complete(part):
                parts.append(part)
    return parts


def complete(part, share=1):
    """The row with the least values that has this part, or None."""
    row = dict(part)
    for name in NAMES:
        if name in row:
            continue
        for value in AXES[name]:
            if valid({**row, name: value}, share):
                row[name] = value
                break
        else:
            return None
    return row


def covers(row):
    found = {key({n: row[n] for n in TRIPLE})}
    found.update(key({a: row[a], b: row[b]}) for a, b in itertools.combinations(NAMES, 2))
    return found


def share_of(part):
    return next(share for share in SHARES if complete(part, share))


def extend(part, missing, uses):
    """A row with this part that covers much of what is missing, and is no larger than it must be."""
    share = share_of(part)
    row = dict(part)
    for name in NAMES:
        if name in row:
            continue
        best = None
        for place, value in enumerate(AXES[name]):
            tried = {**row, name: value}
            if not valid(tried, share) or not complete(tried, share):
                continue
            gain = sum(key({name: value, other: row[other]}) in missing for other in row)
            if set(TRIPLE) <= set(tried) and name in TRIPLE:
                gain += 2 * (key({n: tried[n] for n in TRIPLE}) in missing)
            rank = (-gain, uses.get((name, value), 0), place)
            if best is None or rank < best[0]:
                best = (rank, value)
        row[name] = best[1]
    return row


def array():
    # What needs the largest cases comes first: they cover much of the rest.
    parts = sorted(wanted(), key=share_of, reverse=True)
    missing = {key(p): None for p in parts}   # in order
    uses, rows = {}, []
    for part in parts:
        if key(part) not in missing:
            continue
        row = extend(part, missing, uses)
        for found in covers(row):
            missing.pop(found, None)
        for item in row.items():
            uses[item] = uses.get(item, 0) + 1
        rows.append(row)
    return rows


def line(number, row):
    sq, sk = SIZES[row["path"]][row["keys"]]
    score = row["score"]
    short = "" if score in ("scaled_dot", "dot") else "_" + score
    words = [f"cov{number:03}_{row['path']}_{row['type']}{short}:",
             f"b={row['batch']} hq={row['heads'] * row['group']} hkv={row['heads']}",
             f"sq={sq} sk={sk} dk={row['width']}", f"dtype={row['type']}"]
    if row["value"] != "same":
        words.append(f"dv={row['value']}")
    if score == "additive":
        words.append("dh=8")
    for name, word, none in (("score", "score", "scaled_dot"), ("mask", "mask", ""),
                             ("bias", "bias", ""), ("softcap", "softcap", 0), ("sink", "sink", 0),
                             ("dropout", "dropout", 0), ("out", "out", ""),
                             ("layout", "layout", "bhsd"), ("view", "view", "")):
        if row[name] != none:
            words.append(f"{word}={row[name]}")
    return " ".join(words)


def text():
    head = ["# SPDX-License-" + "Identifier: Apache-2.0",
            "# covering.cases - a covering array, written by scripts/make_covering.py: every pair of",
            "# values of its axes, and every triple of mask, path and type."]
    return "\n".join(head + [line(n, row) for n, row in enumerate(array(), 1)]) + "\n"


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(root, "cases", "covering",
                                                              "covering.cases")
    with open(path, "w", encoding="ascii") as file:
        file.write(text())


if __name__ == "__main__":
    main()
