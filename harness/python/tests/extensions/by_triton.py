# SPDX-License-Identifier: Apache-2.0
"""Flash attention in Triton, run by its interpreter, and two mistakes."""
import os

os.environ["TRITON_INTERPRET"] = "1"
import attnbench
import torch
import triton
import triton.language as tl


@triton.jit
def flash(Q, K, V, O, scale, sq, sk, hq, group, sqb, sqh, sqs, skb, skh, sks, svb, svh, svs, sob, soh, sos,
          D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BUG: tl.constexpr):
    b, h = tl.program_id(1) // hq, tl.program_id(1) % hq
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    q = tl.load(Q + b * sqb + h * sqh + i[:, None] * sqs + d[None, :], mask=i[:, None] < sq, other=0.0)
    top = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start in range(0, sk, BN):
        j = start + tl.arange(0, BN)
        there = j[:, None] < sk
        k = tl.load(K + b * skb + h // group * skh + j[:, None] * sks + d[None, :], mask=there, other=0.0)
        v = tl.load(V + b * svb + h // group * svh + j[:, None] * svs + d[None, :], mask=there, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        if BUG != 1:
            s = tl.where(j[None, :] < sk, s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        old = tl.exp(top - new)
        if BUG != 2:
            total = total * old
        total = total + tl.sum(p, 1)
        acc = acc * old[:, None] + tl.dot(p, v)
        top = new
    tl.store(O + b * sob + h * soh + i[:, None] * sos + d[None, :], acc / total[:, None],
             mask=i[:, None] < sq)


def launch(q, k, v, p, bug):
    out = torch.empty(q.shape, dtype=q.dtype)
    flash[(triton.cdiv(p.sq, 16), p.b * p.hq)](
        q, k, v, out, p.scale, p.sq, p.sk, p.hq, p.hq // p.hkv, *q.stride()[:3], *k.stride()[:3],
        *v.stride()[:3], *out.stride()[:3], D=p.dk, BM=16, BN=16, BUG=bug)
    return out


does = attnbench.kernel(features=("gqa",))


@does
def right(q, k, v, p):
    return launch(q, k, v, p, 0)


@does
def unmasked(q, k, v, p):
    return launch(q, k, v, p, 1)


@does
def unscaled(q, k, v, p):
    return launch(q, k, v, p, 2)
