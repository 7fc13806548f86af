# SPDX-License-Identifier: Apache-2.0
"""attnbench_triton - flash attention in Triton: a block owns some rows of one key/value head, and goes
through the keys that any of them sees.

The query heads of a group lie next to each other in these rows: row r is query r // group of head
r % group, so k and v are read once for all heads of a group, in decoding, too. Weights are powers of
2, so the scale has log2(e) in it. A NaN or infinity in v of a key that a row does not see would be
multiplied by 0; a block that ends with a value that is not finite adds up its rows again, key by
key, from what each row sees."""
import torch
import triton
import triton.language as tl

LOG2E = 1.4426950408889634


@triton.jit
def flash_forward(Q, K, V, OUT, LSE, LEN,
                  qb, qh, qs, qd, kb, kh, ks, kd, vb, vh, vs, vd, ob, oh, os, od, lb, lh, ls, nb,
                  scale, hkv, group, sq, sk, dk, dv, off, left, right,
                  CAUSAL: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, HAS_LEN: tl.constexpr,
                  FROM_LAST: tl.constexpr, HAS_LSE: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
                  DK: tl.constexpr, DV: tl.constexpr):
    b, h = (tl.program_id(1) // hkv).to(tl.int64), (tl.program_id(1) % hkv).to(tl.int64)
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    i, head = r // group, h * group + r % group
    at = i.to(tl.int64)
    real = i < sq
    x, y = tl.arange(0, DK), tl.arange(0, DV)
    n = sk
    if HAS_LEN:
        n = tl.load(LEN + b * nb)
    corner = off
    if FROM_LAST:
        corner = n - sq
    # the keys first .. last-1 of each row, and of the block
    first = tl.zeros([ROWS], tl.int32)
    last = tl.zeros([ROWS], tl.int32) + n
    if CAUSAL:
        last = tl.minimum(last, i + corner + 1)
    if RIGHT:
        last = tl.minimum(last, i + corner + right + 1)
    if LEFT:
        first = tl.maximum(first, i + corner - left)
    last = tl.where(real, last, 0)
    begin = tl.min(tl.where(real, first, sk), 0)
    end = tl.max(last, 0)

    q = tl.load(Q + b * qb + head[:, None] * qh + at[:, None] * qs + x[None, :] * qd,
                mask=real[:, None] & (x[None, :] < dk), other=0.0)
    top = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, DV], tl.float32)
    for start in range(begin, end, KEYS):
        j = start + tl.arange(0, KEYS)
        there, key = j < end, j.to(tl.int64)
        k = tl.load(K + b * kb + h * kh + key[:, None] * ks + x[None, :] * kd,
                    mask=there[:, None] & (x[None, :] < dk), other=0.0)
        v = tl.load(V + b * vb + h * vh + key[:, None] * vs + y[None, :] * vd,
                    mask=there[:, None] & (y[None, :] < dv), other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        s = tl.where((j[None, :] >= first[:, None]) & (j[None, :] < last[:, None]), s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        base = tl.where(new == float("-inf"), 0.0, new)
        p = tl.exp2(s - base[:, None])
        old = tl.exp2(top - base)
        total = total * old + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        top = new

    whole = tl.sum(tl.where(tl.abs(acc) < float("inf"), 0, 1))
    if whole > 0:
        base = tl.where(top == float("-inf"), 0.0, top)
        acc = tl.zeros([ROWS, DV], tl.float32)
        for j in range(begin, end):
            sees = (j >= first) & (j < last)
            k = tl.load(K + b * kb + h * kh + j * ks + x * kd, mask=x < dk, other=0.0)
            v = tl.load(V + b * vb + h * vh + j * vs + y * vd, mask=y < dv, other=0.0)
            s = tl.sum(q.to(tl.float32) * k[None, :].to(tl.float32), 1) * scale
            p = tl.exp2(s - base).to(v.dtype).to(tl.float32)
            acc += tl.where(sees[:, None], p[:, None] * v[None, :].to(tl.float32), 0.0)

    out = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(OUT + b * ob + head[:, None] * oh + at[:, None] * os + y[None, :] * od,
             out.to(OUT.dtype.element_ty), mask=real[:, None] & (y[None, :] < dv))
    if HAS_LSE:
        tl.store(LSE + b * lb + head * lh + at * ls, (top + tl.log2(total)) * 0.6931471805599453, mask=real)


def blocks(problem):
    """(rows, keys) of a block: fewer for wide heads, and for few rows."""
    wide = max(problem.dk, problem.dv) > 128
    rows = problem.sq * (problem.hq // problem.hkv)
    most = 64 if wide or problem.dtype == "float32" else 128
    return max(16, min(most, triton.next_power_of_2(rows))), 32 if wide or problem.dtype == "float32" else 64


class Launch:
    def __init__(self, problem, t):
        p, none = problem, torch.empty(0, device=t["out"].device)
        rows, keys = blocks(p)
        group = p.hq // p.hkv
        lse, length = t.get("lse", none), t.get("len", none)
        self.grid = (triton.cdiv(p.sq * group, rows), p.b * p.hkv)
        self.arguments = (
            t["q"], t["k"], t["v"], t["out"], lse, length, *t["q"].stride(), *t["k"].stride(),
            *t["v"].stride(), *t["out"].stride(), *(lse.stride() if "lse" in t else (0, 0, 0)),
            length.stride(0) if "len" in t else 0, p.scale * LOG2E, p.hkv, group, p.sq, p.sk, p.dk, p.dv,
            p.sk - p.sq if p.bottom_right else p.off, p.window_left, p.window_right)
        self.shape = {
            "CAUSAL": p.causal, "LEFT": p.window and p.window_left >= 0,
            "RIGHT": p.window and p.window_right >= 0, "HAS_LEN": "len" in t,
            "FROM_LAST": p.bottom_right and "len" in t, "HAS_LSE": "lse" in t, "ROWS": rows, "KEYS": keys,
            "DK": max(16, triton.next_power_of_2(p.dk)), "DV": max(16, triton.next_power_of_2(p.dv))}

    def run(self):
        flash_forward[self.grid](*self.arguments, **self.shape)
