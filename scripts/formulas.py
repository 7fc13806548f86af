# SPDX-License-Identifier: Apache-2.0
"""formulas.py - parts of an encoder, attention, its variants and approximations, for makers of packs.

In NumPy and float64, as the formulas in reference/ops/*/OP.md stand, and with whole matrices. Nothing is
shared with the C code that packs check. q is [B,H,Sq,D], k [B,H,Sk,D], v [B,H,Sk,Dv], and every result
`out` is [B,H,Sq,Dv]. Inputs must be float64.
"""
import math

import numpy as np


def swap(x):
    """The last two axes exchanged."""
    return np.swapaxes(x, -1, -2)


# ---- parts of an encoder ----

def sinusoids(steps, width):
    """Positions [steps, width] of Vaswani et al. 2017 (3.5): sines in even columns, cosines in odd ones."""
    angles = np.arange(steps)[:, None] / 10000.0 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(steps, width)


def layer_norm(x, weight=1.0, bias=0.0, eps=1e-12):
    """Rows of x with mean 0 and variance 1, then times weight, plus bias."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * weight + bias


def gelu(x):
    erf = np.vectorize(math.erf, otypes=[np.float64])
    return 0.5 * x * (1.0 + erf(x / math.sqrt(2.0)))


def silu(x):
    return x / (1.0 + np.exp(-x))


def split_heads(x, heads):
    """[B,S,H*D] as [B,H,S,D]."""
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)


def join_heads(x):
    """[B,H,S,D] as [B,S,H*D]."""
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


# ---- exact variants ----

def softmax(scores):
    """Weights over the last axis, and the logarithms of their denominators."""
    top = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - top)
    total = powers.sum(axis=-1, keepdims=True)
    return powers / total, (top + np.log(total))[..., 0]


def softmax_attention(scores, v, allowed=True):
    weights, lse = softmax(np.where(allowed, scores, -np.inf))
    return {"out": weights @ v, "lse": lse, "weights": weights}


def attention(q, k, v, allowed=True):
    return softmax_attention(q @ swap(k) / math.sqrt(q.shape[-1]), v, allowed)


def window(is_global, reach):
    """Allowed cells [B,1,S,S] of Longformer: `reach` keys to either side; global tokens [B,S] see all, and
    all see them."""
    i = np.arange(is_global.shape[1])
    near = abs(i[:, None] - i[None, :]) <= reach
    return (near | is_global[:, :, None] | is_global[:, None, :])[:, None]


def disentangled(q, k, v, kr, qr):
    """DeBERTa: both products with positions; kr, qr [H, 2 span, D]."""
    span, i = kr.shape[-2] // 2, np.arange(q.shape[2])
    distance = np.clip(i[:, None] - i[None, :] + span, 0, 2 * span - 1)[None, None]
    from_key = np.take_along_axis(q @ swap(kr), distance, axis=-1)
    from_query = swap(np.take_along_axis(k @ swap(qr), swap(distance), axis=-1))
    scores = (q @ swap(k) + from_key + from_query) / math.sqrt(3 * q.shape[-1])
    return softmax_attention(scores, v)


def causal(steps):
    return np.tri(steps, dtype=bool)


def elementwise(q, k, v, scale, bias, weight):
    """A function of each score in place of softmax, no denominator."""
    return {"out": weight(scale * q @ swap(k) + bias) @ v}


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def laplace(x):
    """Of Mega: a normal distribution function with mean sqrt(1/2) and variance 1 / (4 pi)."""
    erf = np.vectorize(math.erf, otypes=[np.float64])
    return 0.5 * (1.0 + erf((x - math.sqrt(0.5)) * math.sqrt(2.0 * math.pi)))


def gated_unit(q, k, v, gate):
    """GAU, causal: squared relu of scores over the number of keys, no denominator."""
    scores = np.maximum(q @ swap(k) / k.shape[2], 0.0)
    return {"out": gate * (np.where(causal(k.shape[2]), scores * scores, 0.0) @ v)}


def chunked(q, k, lin_q, lin_k, v, gate, chunk):
    """FLASH, causal: quadratic within a chunk, linear over the chunks before."""
    steps = k.shape[2]
    of = np.arange(steps) // chunk
    scores = np.maximum(q @ swap(k) / chunk, 0.0)
    near = causal(steps) & (of[:, None] == of[None, :])
    far = of[:, None] > of[None, :]
    weights = np.where(near, scores * scores, 0.0) + np.where(far, lin_q @ swap(lin_k) / chunk, 0.0)
    return {"out": gate * (weights @ v)}


def wkv(k, v, decay, bonus):
    """RWKV-4: k, v [B,1,S,C], decay and bonus [C]."""
    steps = k.shape[2]
    age = np.arange(steps)[:, None] - np.arange(steps)[None, :]  # t - i
    logits = k[:, :, None] - (age[..., None] - 1) * decay
    logits = np.where((age == 0)[..., None], k[:, :, None] + bonus, logits)
    weights, _ = softmax(np.moveaxis(np.where((age >= 0)[..., None], logits, -np.inf), 3, -1))
    return {"out": np.einsum("bhtci,bhic->bhtc", weights, v)}


def linear_decay(q, k, v, decay, bonus):
    """RWKV-6: the state of steps before, and the own step times bonus [H,D]; decay [B,H,S,D] <= 0."""
    state = np.zeros(k.shape[:2] + (k.shape[3], v.shape[3]))
    rows = []
    for t in range(k.shape[2]):
        new = k[:, :, t, :, None] * v[:, :, t, None, :]
        rows.append(np.einsum("bhc,bhcd->bhd", q[:, :, t], state + bonus[None, :, :, None] * new))
        state = np.exp(decay[:, :, t, :, None]) * state + new
    return {"out": np.stack(rows, axis=2)}


# ---- approximations of softmax attention ----

def linformer(q, k, v, proj_e, proj_f=None):
    """proj_e, proj_f [1 or H, r, Sk]; without proj_f, proj_e takes its place."""
    projected = attention(q, proj_e @ k, (proj_e if proj_f is None else proj_f) @ v)
    return {"out": projected["out"], "lse": projected["lse"]}


def segment_means(x, count):
    ends = np.arange(count + 1) * x.shape[2] // count
    return np.stack([x[:, :, a:b].mean(axis=2) for a, b in zip(ends, ends[1:])], axis=2)


def nystrom(q, k, v, landmarks, iterations=6):
    ql, kl = segment_means(q, landmarks), segment_means(k, landmarks)
    left, middle, right = (softmax(x @ swap(y) / math.sqrt(q.shape[-1]))[0]
                           for x, y in ((q, kl), (ql, kl), (ql, k)))
    inverse = swap(middle) / middle.sum(axis=-2).max(axis=-1)[..., None, None]
    one = np.eye(landmarks)
    for _ in range(iterations):
        x = middle @ inverse
        inverse = inverse @ (13 * one - x @ (15 * one - x @ (7 * one - x))) / 4
    return {"out": left @ (inverse @ (right @ v))}


def orthogonal_features(draw, count, width):
    """Features of a Performer [1,count,width]: blocks of orthogonal rows, each as long as a row of normal
    numbers of its own."""
    blocks = []
    for _ in range(-(-count // width)):
        basis, upper = np.linalg.qr(draw.standard_normal((width, width)))
        blocks.append((basis * np.sign(np.diag(upper))).T)
    lengths = np.linalg.norm(draw.standard_normal((count, width)), axis=1)
    return (np.concatenate(blocks)[:count] * lengths[:, None])[None]


def performer(q, k, v, features):
    """features [1 or H, m, D]; eps 0, so a factor of each query's and of all keys' features cancels."""
    def exponents(x):
        x = x * q.shape[-1] ** -0.25
        return x @ swap(features) - (x * x).sum(axis=-1, keepdims=True) / 2
    of_q, of_k = exponents(q), exponents(k)
    of_q = np.exp(of_q - of_q.max(axis=-1, keepdims=True))
    of_k = np.exp(of_k - of_k.max(axis=(-2, -1), keepdims=True))
    return {"out": (of_q @ (swap(of_k) @ v)) / (of_q @ of_k.sum(axis=2)[..., None])}


def performer_released(q, k, v, features, eps):
    """The same as released: each query's largest product is taken out, and the largest of all keys', and
    eps is added, after which they do not cancel."""
    def feature_map(x, axes):
        x = x * q.shape[-1] ** -0.25
        products = x @ swap(features)
        return np.exp(products - (x * x).sum(axis=-1, keepdims=True) / 2
                      - products.max(axis=axes, keepdims=True)) + eps
    of_q, of_k = feature_map(q, -1), feature_map(k, (-2, -1))
    return {"out": (of_q @ (swap(of_k) @ v)) / (of_q @ of_k.sum(axis=2)[..., None])}


def lsh(q, v, rotations, chunk, masked=False):
    """Reformer, scale 1, self=last: each token looks at the two pieces around each of its R places, in one
    softmax. rotations [H,D,R,nb/2]. masked: not at later tokens."""
    steps, rounds, buckets = q.shape[2], rotations.shape[2], 2 * rotations.shape[3]
    length = np.linalg.norm(q, axis=-1, keepdims=True)
    keys = q / np.where(length > 0, length, 1.0)
    turned = np.einsum("bhsd,hdrn->bhrsn", q, rotations)
    hashes = np.concatenate([turned, -turned], axis=-1).argmax(axis=-1)
    out = np.empty_like(v)
    for at in np.ndindex(*q.shape[:2]):
        sorted_by = (hashes[at] + buckets * np.arange(rounds)[:, None]).reshape(-1)
        order = np.argsort(sorted_by, kind="stable")
        pieces = (order % steps).reshape(-1, chunk)
        if len(pieces) > 1:
            pieces = np.concatenate([pieces, np.roll(pieces, 1, axis=0)], axis=1)
        place = np.argsort(order).reshape(rounds, steps)
        looks = np.concatenate([pieces[place[r] // chunk] for r in range(rounds)], axis=1)
        own = looks == np.arange(steps)[:, None]
        away = own | (masked & (looks > np.arange(steps)[:, None]))
        alone = away.all(axis=1)
        away[alone] &= ~own[alone]  # who sees nobody else sees itself
        scores = np.einsum("sc,slc->sl", q[at], keys[at][looks])
        weights, _ = softmax(np.where(away, -np.inf, scores))
        out[at] = np.einsum("sl,slc->sc", weights, v[at][looks])
    return {"out": out, "buckets_out": hashes.astype(np.float64)}
