# SPDX-License-Identifier: Apache-2.0
"""attnbench_plain - the whole operator in NumPy, step by step as backend.h lists the steps.

The adapter `numpy` is this. Other adapters take from it the rows in which their library let a
NaN of a masked key through: 0 * NaN is NaN."""
import math

import numpy as np

WIDE = {"float64": np.float64}  # the others are worked on in float32
OUTPUTS = ("out", "lse", "weights", "state_out", "buckets_out")
GRADIENTS = ("dq", "dk", "dv", "dbias", "dsink", "dalibi")
INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80}  # bits, the sign aside; beyond them is NaN


def view(tensor):
    """An operand as NumPy has it, without a copy; bfloat16, which it has not, as int16."""
    return (tensor.viewed("int16") if tensor.dtype == "bfloat16" else tensor).numpy()


def widen(array, dtype):
    """To the type that is worked in."""
    if dtype == "bfloat16":
        return (array.astype(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array.astype(WIDE.get(dtype, np.float32), copy=False)


def narrow(array, dtype):
    """To the type of an output, rounded to the nearest even; bfloat16 as int16."""
    if dtype != "bfloat16":
        return array.astype(dtype, copy=False)
    bits = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
    rounded = (bits + (0x7FFF + (bits >> 16 & 1))) >> 16
    return np.where(np.isnan(array), 0x7FC0, rounded).astype(np.uint16).view(np.int16)


def is_nan(array, dtype):
    """Of an array as `view` gives it. Types of 16 bits by their bits: widening is several times as slow."""
    if dtype not in INFINITY:
        return np.isnan(array)
    return array.view(np.int16) & np.int16(0x7FFF) > np.int16(INFINITY[dtype])


def philox(seed, count):
    """Word 0 of Philox4x32-10 for the counters 0 .. count-1."""
    low = np.uint64(0xFFFFFFFF)
    index = np.arange(count, dtype=np.uint64)
    c = [index & low, index >> np.uint64(32), np.zeros_like(index), np.zeros_like(index)]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [b >> np.uint64(32) ^ c[1] ^ np.uint64(key[0]), b & low,
             a >> np.uint64(32) ^ c[3] ^ np.uint64(key[1]), a & low]
        key = [key[0] + 0x9E3779B9 & 0xFFFFFFFF, key[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return c[0]


def offset(p, a):
    """off of causal, window and alibi, broadcastable over [B,Hq,Sq,Sk]."""
    if not p.bottom_right:
        return p.off
    keys = a["len"].astype(np.int64).reshape(-1, 1, 1, 1) if "len" in a else p.sk
    return keys - p.sq


def window_cells(p, a):
    """Boolean, broadcastable over [B,Hq,Sq,Sk]: the window, its steps, and global tokens."""
    i, j = np.arange(p.sq)[:, None] + offset(p, a), np.arange(p.sk)
    step = a["dilation"].astype(np.int64)[:, None, None] if "dilation" in a else 1
    cells = (i - j) % step == 0
    if p.window_left >= 0:
        cells = cells & (j >= i - p.window_left * step)
    if p.window_right >= 0:
        cells = cells & (j <= i + p.window_right * step)
    if "global" in a:
        token = global_tokens(a)
        cells = cells | token[:, None, :, None] | token[:, None, None, :]
    return cells


def global_tokens(a):
    """Boolean [B,S]."""
    return a["global"].view(np.uint8) != 0


def allowed_cells(p, a):
    """Boolean, broadcastable over [B,Hq,Sq,Sk]."""
    i, j = np.arange(p.sq)[:, None] + offset(p, a), np.arange(p.sk)
    cells = np.ones((1, 1, p.sq, p.sk), dtype=bool)
    if p.causal:
        cells = cells & (j <= i)
    if p.window:
        cells = cells & window_cells(p, a)
    if "len" in a:
        cells = cells & (j < a["len"].reshape(p.b, 1, -1, 1))
    if "mask" in a:
        cells = cells & (a["mask"].view(np.uint8) != 0)
    if "bias" in a:  # -inf forbids, whatever the score is
        cells = cells & (a["bias"] != -np.inf)
    return cells


def positions(p, a):
    """Rows of the tables of positions for c2p and p2c, broadcastable over [B,Hq,Sq,Sk]."""
    span = a["score_kr"].shape[1] // 2
    far = np.arange(p.sq)[:, None] - np.arange(p.sk)
    if "rel_buckets" in a:
        row = a["rel_buckets"][far + p.sk - 1].astype(np.int64)[None, None]
        mirrored = 2 * span - row
    else:
        far = far + np.zeros((1, 1, 1, 1), dtype=np.int64) + offset(p, a)
        row, mirrored = far + span, span - far
    row = np.clip(row, 0, 2 * span - 1)
    return row, np.clip(mirrored, 0, 2 * span - 1) if p.variant else row


def raw_scores(p, a, q, k):
    """[B,Hq,Sq,Sk]; k has a head for each query head."""
    if p.score == "disentangled":
        cells = q @ k.swapaxes(-1, -2)
        c2p, p2c = (np.broadcast_to(x, cells.shape) for x in positions(p, a))
        if p.parts != 2:
            cells += np.take_along_axis(q @ a["score_kr"].swapaxes(-1, -2), c2p, -1)
        if p.parts != 1:
            of_keys = k @ a["score_qr"].swapaxes(-1, -2)
            cells += np.take_along_axis(of_keys, p2c.swapaxes(-1, -2), -1).swapaxes(-1, -2)
        return cells
    if p.score == "bilinear":
        q = q @ a["score_m"]
    if p.score == "additive":
        hq = q @ a["score_wq"].swapaxes(-1, -2)
        hk = k @ a["score_wk"].swapaxes(-1, -2)
        cells = np.empty((p.b, p.hq, p.sq, p.sk), dtype=q.dtype)
        for i in range(p.sq):
            hidden = np.tanh(hq[:, :, i, None, :] + hk)
            cells[:, :, i] = (hidden @ a["score_wv"][:, :, None])[..., 0]
        return cells
    if p.score == "gaussian":
        cells = np.empty((p.b, p.hq, p.sq, p.sk), dtype=q.dtype)
        for i in range(p.sq):
            difference = q[:, :, i, None, :] - k
            cells[:, :, i] = -0.5 * (difference * difference).sum(-1)
        return cells
    return q @ k.swapaxes(-1, -2)


def per_query_head(p, x):
    return x if p.hq == p.hkv else np.repeat(x, p.hq // p.hkv, axis=1)


def softmax(s, cells, sink, odd):
    """Weights in place of the scores, and lse; `odd`: also which cells take no part, else None."""
    np.copyto(s, -np.inf, where=~cells)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    if sink is not None:
        top = np.maximum(top, sink)
    none = s == -np.inf if odd or not (top < np.inf).all() else None
    base = np.where(top == -np.inf, 0, top).astype(s.dtype)
    s -= base
    np.exp(s, out=s)
    total = s.sum(-1, keepdims=True)
    if sink is not None:
        total = total + np.exp(sink - base)
    s /= np.where(total == 0, 1, total).astype(s.dtype)
    if none is not None:
        np.copyto(s, 0, where=none)
    return (base + np.log(total))[..., 0], none


def weigh(p, s, cells):
    """Weights of another function than softmax in place of the scores; `none` as of softmax."""
    none = ~cells | (s == -np.inf)
    if p.weight_fn == "sigmoid":
        s[...] = 1 / (1 + np.exp(-s))
    elif p.weight_fn == "relu2":
        np.square(np.maximum(s, 0), out=s)
    else:  # laplace: erf element by element, in float64
        s[...] = 0.5 * np.vectorize(math.erfc, otypes=[np.float64])(
            (math.sqrt(0.5) - s.astype(np.float64)) * math.sqrt(2 * math.pi))
    np.copyto(s, 0, where=none)
    return none


def distances(p, a):
    """|i + off - j|, broadcastable over [B,Hq,Sq,Sk]."""
    return np.abs(np.arange(p.sq)[:, None] + offset(p, a) - np.arange(p.sk))


def logits(p, a, q, k):
    """Scores after bias and ALiBi, [B,Hq,Sq,Sk], and the tanh of a softcap or None."""
    s, t = raw_scores(p, a, q, k), None
    s *= s.dtype.type(p.scale)
    if p.softcap:
        s /= s.dtype.type(p.softcap)
        np.tanh(s, out=s)
        t = s.copy() if p.op == "attention_backward" else None
        s *= s.dtype.type(p.softcap)
    if "bias" in a:
        s += a["bias"]
    if "alibi" in a:
        s -= (a["alibi"][:, None, None] * distances(p, a)).astype(s.dtype)
    return s, t


def kept_cells(p, a, shape):
    """Which cells dropout keeps, boolean [B,Hq,Sq,Sk]."""
    if "keep" in a:
        return a["keep"].view(np.uint8) != 0
    words = philox(p.dropout_seed, math.prod(shape)).reshape(shape)
    return (words >> np.uint64(8)) * 2.0**-24 >= p.dropout_p


def heads(p, a, q, k, v):
    """Attention of heads [B,H,S,D]: out, lse, weights."""
    k, v = per_query_head(p, k), per_query_head(p, v)
    s, _ = logits(p, a, q, k)
    sink = a["sink"][:, None, None] if "sink" in a else None
    lse, weighed = None, p.weight_fn != "softmax"
    if weighed:
        none = weigh(p, s, allowed_cells(p, a))
    else:
        lse, none = softmax(s, allowed_cells(p, a), sink, not np.isfinite(v).all())
    weights = s
    if p.dropout:
        keep = kept_cells(p, a, s.shape)
        if not weighed:
            keep = keep | np.isnan(s)  # a row of NaN is one whatever of it is dropped
        weights = np.where(keep, s / s.dtype.type(1 - p.dropout_p), 0).astype(s.dtype)
        none = none if none is None else none | ~keep
    out = values(weights, none, v)
    return (out * a["gate"] if "gate" in a else out), lse, s


def values(weights, none, v):
    """weights @ v, in which a cell that takes no part does so even where v is NaN or infinite."""
    out = weights @ v
    if none is not None:
        for b, h, i in np.argwhere(~np.isfinite(out).all(-1)):
            c = ~none[b, h, i]
            out[b, h, i] = weights[b, h, i, c] @ v[b, h, c]
    return out


def backward(p, a):
    """Gradients of attention, as whole matrices, with the lse and, if it is there, the out that are given."""
    real = a["q"].dtype.type
    k, v, dout = per_query_head(p, a["k"]), per_query_head(p, a["v"]), a["dout"]
    s, t = logits(p, a, a["q"], k)
    cells = np.broadcast_to(allowed_cells(p, a), s.shape) & (s != -np.inf)
    lse = a["lse"][..., None]
    weights = np.where(cells, np.exp(s - lse), 0)
    seen = kept = cells
    dropped = weights
    if p.dropout:
        kept = kept_cells(p, a, s.shape)
        dropped = np.where(kept, weights / real(1 - p.dropout_p), weights * 0)
        seen = cells & kept
    dp = np.where(seen, dout @ v.swapaxes(-1, -2), 0)
    if p.dropout:
        dp /= real(1 - p.dropout_p)
    delta = (dout * a["out"] if "out" in a else weights * dp).sum(-1, keepdims=True)
    some = cells.any(-1, keepdims=True)
    if "dlse" in a:
        delta = np.where(some, delta, 0) - a["dlse"][..., None]
    ds = np.where(cells, weights * (dp - delta), 0)
    dz = ds if t is None else np.where(cells, ds * (1 - t * t), 0)
    columns = ~cells.swapaxes(-1, -2)

    def of_keys(x, y):
        made = values(x.swapaxes(-1, -2), columns, y)
        return made.reshape(p.b, p.hkv, p.hq // p.hkv, *made.shape[2:]).sum(2)
    made = {"dq": values(dz, ~cells, k) * real(p.scale),
            "dk": of_keys(dz, a["q"]) * real(p.scale), "dv": of_keys(dropped, dout)}
    if "dbias" in p.tensors:
        shape = p.tensors["dbias"].shape
        axes = tuple(n for n in range(4) if shape[n] == 1)
        made["dbias"] = ds.sum(axes, keepdims=True)
    if "dalibi" in p.tensors:
        made["dalibi"] = -(ds * distances(p, a)).astype(s.dtype).sum((0, 2, 3))
    if "dsink" in p.tensors:
        own = np.where(some | ("dlse" in a), np.exp(a["sink"][:, None, None] - lse) * delta, 0)
        made["dsink"] = -own.astype(s.dtype).sum((0, 2, 3))
    return made


def projected(p, a, x, name, n):
    """x W^T + b of [B,S,E] as heads [B,n,S,D]."""
    y = x @ a["w_" + name].T
    if "b_" + name in a:
        y = y + a["b_" + name]
    return y.reshape(*y.shape[:2], n, y.shape[2] // n).swapaxes(1, 2)


def wkv(a):
    """The recurrence of RWKV-4: one step after the other, all channels at once."""
    k, v, w, u = a["k"][:, 0], a["v"][:, 0], a["decay"], a["bonus"]
    zero = np.zeros_like(k[:, 0])
    num, den, top = np.moveaxis(a["state_in"], 2, 0) if "state_in" in a else \
        (zero, zero, np.full_like(zero, -1e38))
    out = np.empty_like(v)
    for t in range(k.shape[1]):
        best = np.maximum(top, u + k[:, t])
        old, own = np.exp(top - best), np.exp(u + k[:, t] - best)
        out[:, t] = (old * num + own * v[:, t]) / (old * den + own)
        best = np.maximum(top - w, k[:, t])
        old, own = np.exp(top - w - best), np.exp(k[:, t] - best)
        num, den, top = old * num + own * v[:, t], old * den + own, best
    return {"out": out[:, None], "state_out": np.stack((num, den, top), 2)}


def linear_decay(p, a):
    """Linear attention whose state decays, one step after the other, all heads at once."""
    q, k, v, decay = a["q"], a["k"], a["v"], np.exp(a["decay"])
    state = a.get("state_in", np.zeros((p.b, p.hq, p.dk, p.dv), dtype=v.dtype))
    own = (q * k * a["bonus"][:, None] if "bonus" in a else q * k).sum(-1, keepdims=True) * v
    out = np.empty_like(own)
    for t in range(p.sq):
        faded = decay[:, :, t, :, None] * state
        seen = faded if p.variant else state
        out[:, :, t] = (q[:, :, t, None] @ seen)[:, :, 0] + own[:, :, t]
        state = faded + k[:, :, t, :, None] * v[:, :, t, None]
    return {"out": out * v.dtype.type(p.scale), "state_out": state}


def features(p, x, w, seen):
    """exp(w x' - |x'|^2/2 - most) + eps of [B,H,S,D]. `seen`: the rows that count for the maximum of
    all, as for keys; None: each row has its own maximum."""
    x = x * x.dtype.type(p.scale**0.5)
    product, half = x @ w.swapaxes(-1, -2), (x * x).sum(-1, keepdims=True) / 2
    most = product if p.eps else product - half
    if seen is None:
        most = np.fmax.reduce(most, axis=-1, keepdims=True)
    else:
        most = np.fmax.reduce(np.where(seen, most, -np.inf), axis=(-2, -1), keepdims=True,
                              initial=-np.inf)
    most = np.where(np.isfinite(most), most, 0).astype(x.dtype)
    return np.exp(product - half - most) + x.dtype.type(p.eps)


def performer(p, a):
    """Attention by random features, as a matrix of weights."""
    k, v = per_query_head(p, a["k"]), per_query_head(p, a["v"])
    cells = np.broadcast_to(allowed_cells(p, a), (p.b, p.hq, p.sq, p.sk))
    phi_q = features(p, a["q"], a["features"], None)
    phi_k = features(p, k, a["features"], cells.any(-2)[..., None])
    weights = np.where(cells, phi_q @ phi_k.swapaxes(-1, -2), 0)
    total = weights.sum(-1, keepdims=True)
    weights /= np.where(cells.any(-1, keepdims=True), total, 1)
    return {"out": values(weights, None if np.isfinite(v).all() else ~cells, v)}


def chunk_scores(p, a, first, end):
    """relu(scale q.k + bias)^2 of the chunk of these tokens, [B,H,chunk,chunk]."""
    s = a["q"][:, :, first:end] @ a["k"][:, :, first:end].swapaxes(-1, -2)
    s *= s.dtype.type(p.scale)
    if "bias" in a:
        s += a["bias"][:, :, :end - first, :end - first]
    return np.where(s <= 0, 0, s).astype(s.dtype) ** 2  # NaN stays


def chunked(p, a):
    """FLASH: relu^2 attention in each chunk, and a state of lin_k v for the linear part."""
    t, real = np.arange(p.sq), a["v"].dtype.type
    seen = np.broadcast_to(t < (a["len"].reshape(-1, 1) if "len" in a else p.sk), (p.b, p.sq))
    for name in ("k", "lin_k", "v"):  # beyond len there may be anything
        a[name] = np.where(seen[:, None, :, None], a[name], 0).astype(real)
    by = p.lin_scale or 1 / (p.chunk if p.causal else p.sq)
    lin_q = a["lin_q"] * real(by)
    state = np.zeros((p.b, p.hq, lin_q.shape[-1], p.dv), dtype=real)
    if not p.causal:
        state = a["lin_k"].swapaxes(-1, -2) @ a["v"]
    out = np.empty_like(a["v"])
    for first in range(0, p.sq, p.chunk):
        end = min(first + p.chunk, p.sq)
        rows = np.s_[:, :, first:end]
        cells = np.broadcast_to(seen[:, None, None, first:end], (p.b, 1, end - first, end - first))
        if p.causal:
            cells = cells & (t[first:end, None] >= t[first:end])
        weights = np.where(cells, chunk_scores(p, a, first, end), 0).astype(real)
        out[rows] = lin_q[rows] @ state + values(weights, ~np.broadcast_to(cells, weights.shape),
                                                 a["v"][rows])
        if p.causal:
            state = state + a["lin_k"][rows].swapaxes(-1, -2) @ a["v"][rows]
    return {"out": out * a["gate"] if "gate" in a else out}


def linformer(p, a):
    """Attention over E k and F v; what lies beyond the lengths takes no part."""
    k, v = a["k"], a["v"]
    if "len" in a:
        seen = (np.arange(p.sk) < a["len"][:, None])[:, None, :, None]
        k, v = np.where(seen, k, k.dtype.type(0)), np.where(seen, v, v.dtype.type(0))
    k, v = a["proj_e"] @ k, a.get("proj_f", a["proj_e"]) @ v
    s = a["q"] @ per_query_head(p, k).swapaxes(-1, -2)
    s *= s.dtype.type(p.scale)
    lse, _ = softmax(s, np.True_, None, False)
    return {"out": s @ per_query_head(p, v), "lse": lse}


def nystrom(p, a):
    """Attention through the means of segments, with an iterated inverse of their matrix."""
    q, k, v = a["q"], a["k"], a["v"]
    first = np.arange(min(p.landmarks, p.sq) + 1) * p.sq // min(p.landmarks, p.sq)
    tokens = np.diff(first).astype(q.dtype)[:, None]
    q_mean, k_mean = (np.add.reduceat(x, first[:-1], axis=2) / tokens for x in (q, k))

    def weights(x, y):
        s = x @ y.swapaxes(-1, -2)
        s *= s.dtype.type(p.scale)
        softmax(s, np.True_, None, False)
        return s
    middle = weights(q_mean, k_mean)
    columns = middle.sum(-2).max(-1)
    inverse = middle.swapaxes(-1, -2) / (columns.max() if p.variant else columns[..., None, None])
    one = np.eye(middle.shape[-1], dtype=q.dtype)
    for _ in range(p.iterations):
        x = middle @ inverse
        inverse = inverse @ (13 * one - x @ (15 * one - x @ (7 * one - x))) / 4
    return {"out": weights(q, k_mean) @ (inverse @ (weights(q_mean, k) @ v))}


def hashed(p, a):
    """The bucket of each token in each round, [B,H,R,S]."""
    x = a["q"][:, :, None] @ a["rotations"].swapaxes(1, 2)
    return np.concatenate((x, -x), -1).argmax(-1)


class Pieces:
    """Tokens of all rounds, sorted by bucket and cut into pieces: [B,H,pieces,chunk]."""

    def __init__(self, p, buckets):
        self.order = buckets.argsort(-1, kind="stable")
        self.place = (self.order.argsort(-1) + p.sq * np.arange(p.rounds)[:, None]).reshape(
            p.b, p.hq, -1, 1)
        self.shape = (p.b, p.hq, -1, p.chunk or p.sq)
        self.rounds = (p.b, p.hq, p.rounds, p.sq)
        self.tokens = self.order.reshape(self.shape)

    def cut(self, x):
        """[B,H,S,X] to [B,H,pieces,chunk,X]."""
        sorted_x = np.take_along_axis(x, self.order.reshape(*self.shape[:3], 1), 2)
        return sorted_x.reshape(*self.shape, x.shape[-1])

    def seen(self, x):
        """[B,H,pieces,chunk,X] with the piece before: [B,H,pieces,2 chunk,X]; a single piece is all."""
        return np.concatenate((np.roll(x, 1, 2), x), 3) if x.shape[2] > 1 else x

    def by_token(self, x):
        """[B,H,pieces,chunk,X] to [B,H,S,R,X]."""
        flat = np.take_along_axis(x.reshape(*self.shape[:3], x.shape[-1]), self.place, 2)
        return flat.reshape(*self.rounds, x.shape[-1]).swapaxes(2, 3)

    def by_piece(self, x):
        """[B,H,S,R,X] to [B,H,pieces,chunk,X]."""
        return np.take_along_axis(x.swapaxes(2, 3), self.order[..., None], 3).reshape(
            *self.shape, x.shape[-1])


def lsh(p, a):
    """Attention of Reformer: one softmax over what a token sees in all rounds, in which a key counts as
    often as it is seen."""
    q, v = a["q"], a["v"]
    buckets = a["buckets_in"] if "buckets_in" in a else hashed(p, a)
    pieces = Pieces(p, buckets)
    length = np.sqrt((q * q).sum(-1, keepdims=True))
    key = pieces.seen(pieces.cut(q / np.where(length == 0, 1, length)))
    s = pieces.by_token(pieces.cut(q) @ key.swapaxes(-1, -2)) * q.dtype.type(p.scale)
    theirs = np.broadcast_to(pieces.seen(pieces.tokens[..., None]).swapaxes(-1, -2),
                             (*pieces.tokens.shape, key.shape[3]))
    theirs, mine = pieces.by_token(theirs), np.arange(p.sq)[:, None, None]
    none = theirs > mine if p.causal else np.zeros(theirs.shape, dtype=bool)
    if p.variant == 0:
        own = theirs == mine
        none |= own
        first = (own.reshape(*own.shape[:3], -1).cumsum(-1) == 1).reshape(own.shape) & own
        none &= ~(first & none.all((-1, -2), keepdims=True))  # a token that sees no other sees itself
    np.copyto(s, -np.inf, where=none)
    top = s.max((-1, -2), keepdims=True)
    weights = np.exp(s - top)
    total = weights.sum((-1, -2), keepdims=True)
    weights /= total
    made = pieces.by_piece(weights) @ pieces.seen(pieces.cut(v))
    out = pieces.by_token(made).sum(-2)
    for b, h, i in np.argwhere(~np.isfinite(out).all(-1)):  # 0 times a v that is not finite
        c = ~none[b, h, i]
        out[b, h, i] = weights[b, h, i][c] @ v[b, h, theirs[b, h, i][c]]
    return {"out": out, "lse": (top + np.log(total))[..., 0, 0], "buckets_out": buckets}


def outputs_of(p):
    return GRADIENTS if p.op == "attention_backward" else OUTPUTS


def operator(p, views):
    """The whole problem on arrays as `view` gives them: a dictionary of its outputs, widened."""
    a = {r: widen(x, p.tensors[r].dtype)
         if p.tensors[r].dtype not in ("bool", "int32", "int64") else x
         for r, x in views.items() if r not in outputs_of(p)}
    with np.errstate(all="ignore"):
        if p.op == "wkv":
            return wkv(a)
        if p.op == "linear_decay":
            return linear_decay(p, a)
        if p.op == "performer":
            return performer(p, a)
        if p.op == "chunked":
            return chunked(p, a)
        if p.op == "linformer":
            return linformer(p, a)
        if p.op == "nystrom":
            return nystrom(p, a)
        if p.op == "lsh":
            return lsh(p, a)
        if p.op == "attention_backward":
            return backward(p, a)
        if p.op == "attention":
            out, lse, weights = heads(p, a, a["q"], a["k"], a["v"])
            if "q_global" in a:  # rows of global tokens, from operands of their own
                own = heads(p, a, a["q_global"], a["k_global"], a["v_global"])
                token = global_tokens(a)[:, None, :]
                out = np.where(token[..., None], own[0], out)
                lse = np.where(token, own[1], lse)
                weights = np.where(token[..., None], own[2], weights)
            return {"out": out, "lse": lse, "weights": weights}
        x_k = a.get("x_k", a["x_q"])
        x_v = a.get("x_v", x_k)
        out, lse, weights = heads(p, a, projected(p, a, a["x_q"], "q", p.hq),
                                  projected(p, a, x_k, "k", p.hkv),
                                  projected(p, a, x_v, "v", p.hkv))
        if "head_mask" in a:
            out = np.where(a["head_mask"].view(np.uint8)[:, None, None] != 0, out, 0)
        out = out.swapaxes(1, 2).reshape(p.b, p.sq, -1)
        if "w_o" in a:
            out = out @ a["w_o"].T
        if "b_o" in a:
            out = out + a["b_o"]
        if p.residual:
            out = out + a["x_q"]
        return {"out": out, "lse": lse, "weights": weights}


def store(p, views, results, rows=None):
    """Results into the views of the outputs that there are; where given, only `rows` of those named."""
    for role in outputs_of(p) if rows is None else rows:
        if role in views:
            made = narrow(results[role], p.tensors[role].dtype)
            where = ... if rows is None else rows[role]
            views[role][where] = made[where]


def repair(p, views, roles=("out",)):
    """After a library that multiplies masked values by 0 without looking: rows of these outputs, or of
    gradients, that hold NaN once more, by the operator. One look at each where there is none."""
    odd = {role: is_nan(views[role], p.tensors[role].dtype)
           for role in (GRADIENTS if p.op == "attention_backward" else roles) if role in views}
    if any(x.any() for x in odd.values()):
        store(p, views, operator(p, views), {role: x.any(-1) for role, x in odd.items()})
