# SPDX-License-Identifier: Apache-2.0
"""attnbench_torch_ops - operators beside attention, composed of functions of PyTorch as their users
write them: whole sequences by matrix products, recurrences by chunks.

Each takes the problem and its operands, floats all of one type, and returns its outputs by role."""
import math

import torch
import torch.nn.functional as F

CHUNK = 64  # steps of linear_decay that are multiplied at once: a power of 2
KEYS = 128  # the same of causal performer


def per_query_head(p, x):
    return x if p.hq == p.hkv else x.repeat_interleave(p.hq // p.hkv, 1)


def chunks(x, size):
    """[B,H,S,D] as [B,H,N,size,D], filled up with zeros."""
    return F.pad(x, (0, 0, 0, -x.shape[2] % size)).unflatten(2, (-1, size))


def before(x):
    """Sums over the chunks before each: [B,H,N,...]."""
    return F.pad(x[:, :, :-1].cumsum(2), (0, 0, 0, 0, 1, 0))


def within(p, t):
    """Keys that lengths leave, [B,1,Sk,1]; None: all."""
    if "len" not in t:
        return None
    return (torch.arange(p.sk) < t["len"][:, None])[:, None, :, None]


def only(x, seen):
    return x if seen is None else x.masked_fill(~seen, 0)


# --- recurrences ---

def wkv_step(state, k, v, w):
    num, den, top = state
    best = torch.maximum(top - w, k)
    old, own = (top - w - best).exp(), (k - best).exp()
    return old * num + own * v, old * den + own, best


def wkv_steps(state, k, v, w, u, out):
    """Steps along axis -2 of k, v and out, one after the other, everything else at once."""
    for t in range(k.shape[-2]):
        num, den, top = state
        key, value = k[..., t, :], v[..., t, :]
        best = torch.maximum(top, u + key)
        old, own = (top - best).exp(), (u + key - best).exp()
        out[..., t, :] = (old * num + own * value) / (old * den + own)
        state = wkv_step(state, key, value, w)
    return state


def wkv(p, t):
    """Chunks in two passes: first each from nothing, which says how each begins; then with outputs."""
    k, v, w, u = t["k"][:, 0], t["v"][:, 0], t["decay"], t["bonus"]
    nothing = k.new_tensor([0, 0, -1e38])
    state = t["state_in"].unbind(-1) if "state_in" in t else \
        nothing.expand(p.b, k.shape[-1], 3).unbind(-1)
    size = math.isqrt(p.sq)
    whole = p.sq // size * size
    out = torch.empty_like(k)
    if size > 1:
        k_of, v_of, out_of = (x[:, :whole].unflatten(1, (-1, size)) for x in (k, v, out))
        local = nothing.expand(*k_of[:, :, 0].shape, 3).unbind(-1)
        for step in range(size):
            local = wkv_step(local, k_of[:, :, step], v_of[:, :, step], w)
        first = []
        for num, den, top in zip(*(x.unbind(1) for x in local)):
            first.append(state)
            best = torch.maximum(state[2] - size * w, top)
            old, own = (state[2] - size * w - best).exp(), (top - best).exp()
            state = old * state[0] + own * num, old * state[1] + own * den, best
        wkv_steps([torch.stack(x, 1) for x in zip(*first)], k_of, v_of, w, u, out_of)
        k, v, rest = k[:, whole:], v[:, whole:], out[:, whole:]
    else:
        rest = out
    state = wkv_steps(state, k, v, w, u, rest)
    return {"out": out[:, None], "state_out": torch.stack(state, -1)}


def linear_decay(p, t):
    """Chunks by matrix products. Within a chunk, blocks of 1, 2, 4, ... steps read the block before
    theirs: all decays are products of factors of at most 1, and nothing overflows."""
    size = min(CHUNK, 1 << (p.sq - 1).bit_length())
    q, k, v, g = (chunks(t[role], size) for role in ("q", "k", "v", "decay"))
    decay = g.exp()
    with_own = q * k * t["bonus"][:, None, None] if "bonus" in t else q * k
    out = with_own.sum(-1, keepdim=True) * v
    into = q.clone() if p.variant == 0 else q * decay  # q, decayed since its block began
    after, block = k.clone(), decay                    # k, decayed until its block ends; of blocks
    half = 1
    while half < size:
        q_of, k_of, v_of, out_of = (x.unflatten(3, (-1, 2, half)) for x in (into, after, v, out))
        out_of[..., 1, :, :] += (q_of[..., 1, :, :] @ k_of[..., 0, :, :].mT) @ v_of[..., 0, :, :]
        first, second = block.unflatten(3, (-1, 2)).unbind(4)
        q_of[..., 1, :, :] *= first[..., None, :]
        k_of[..., 0, :, :] *= second[..., None, :]
        block = first * second
        half *= 2
    made, block = after.mT @ v, block[:, :, :, 0, :, None]
    state = t["state_in"] if "state_in" in t else torch.zeros_like(made[:, :, 0])
    for n in range(made.shape[2]):
        out[:, :, n] += into[:, :, n] @ state
        state = state * block[:, :, n] + made[:, :, n]
    return {"out": out.flatten(2, 3)[:, :, :p.sq] * p.scale, "state_out": state}


# --- attention by chunks, by features, by landmarks ---

def chunked(p, t):
    """FLASH: all chunks at once."""
    seen, size = within(p, t), min(p.chunk, p.sq)
    q, lin_q = chunks(t["q"] * p.scale, size), t["lin_q"]
    k, lin_k, v = (chunks(only(t[role], seen), size) for role in ("k", "lin_k", "v"))
    weights = q @ k.mT
    if "bias" in t:
        weights += t["bias"][:, :, None, :size, :size]
    weights = weights.relu_().square_()
    if p.causal:
        weights.tril_()
    made = lin_k.mT @ v
    state = before(made) if p.causal else made.sum(2, keepdim=True)
    by = p.lin_scale or 1 / (p.chunk if p.causal else p.sq)
    out = weights @ v + chunks(lin_q * by, size) @ state
    out = out.flatten(2, 3)[:, :, :p.sq]
    return {"out": out * t["gate"] if "gate" in t else out}


def features(p, x, w, seen, of_keys):
    """exp(w x' - |x'|^2/2 - most) + eps of [B,H,S,D]; `most` of queries row by row, where with eps = 0
    the square cancels, too."""
    x = x * math.sqrt(p.scale)
    made, half = x @ w.mT, 0
    if p.eps or of_keys:
        half = x.square().sum(-1, keepdim=True) / 2
    if not p.eps:
        made -= half
    most = made if seen is None else made.masked_fill(~seen, -math.inf)
    most = most.amax((-2, -1) if of_keys else -1, keepdim=True)
    made = made.sub_(most + half if p.eps else most).exp_()
    return made.add_(p.eps) if p.eps else made


def performer(p, t):
    """A column of ones beside v brings the denominator."""
    seen, w = within(p, t), t["features"]
    k = per_query_head(p, t["k"])
    v = per_query_head(p, F.pad(only(t["v"], seen), (0, 1), value=1))
    of_q = features(p, t["q"], w, None, False)
    of_k = only(features(p, k, w, seen, True), seen)
    if p.causal:
        of_q, of_k, v = (chunks(x, min(KEYS, p.sk)) for x in (of_q, of_k, v))
        out = of_q @ before(of_k.mT @ v) + (of_q @ of_k.mT).tril_() @ v
        out = out.flatten(2, 3)[:, :, :p.sq]
    else:
        out = of_q @ (of_k.mT @ v)
    out = out[..., :-1] / out[..., -1:]
    return {"out": out if seen is None else out.masked_fill_(~seen.any(2, keepdim=True), 0)}


def linformer(p, t):
    seen = within(p, t)
    k = t["proj_e"] @ only(t["k"], seen)
    v = t.get("proj_f", t["proj_e"]) @ only(t["v"], seen)
    if "lse" not in p.tensors:
        return {"out": F.scaled_dot_product_attention(t["q"], k, v, scale=p.scale,
                                                      enable_gqa=p.hq != p.hkv)}
    s = (t["q"] * p.scale) @ per_query_head(p, k).mT
    return {"out": s.softmax(-1) @ per_query_head(p, v), "lse": s.logsumexp(-1)}


def means(x, segments):
    """Means of segments of tokens, [B,H,segments,D]."""
    tokens = x.shape[2]
    if tokens % segments == 0:
        return x.unflatten(2, (segments, -1)).mean(3)
    first = torch.arange(segments + 1) * tokens // segments
    of = torch.repeat_interleave(torch.arange(segments), first.diff())
    total = x.new_zeros(*x.shape[:2], segments, x.shape[3]).index_add_(2, of, x)
    return total / first.diff()[:, None]


def nystrom(p, t):
    q, k, v = t["q"], t["k"], t["v"]
    segments = min(p.landmarks, p.sq)
    q_mean, k_mean = means(q, segments), means(k, segments)
    middle = ((q_mean * p.scale) @ k_mean.mT).softmax(-1)
    columns = middle.sum(-2).amax(-1)
    inverse = middle.mT / (columns.max() if p.variant else columns[..., None, None])
    one = torch.eye(segments, dtype=q.dtype)
    for _ in range(p.iterations):
        x = middle @ inverse
        inverse = 0.25 * inverse @ (13 * one - x @ (15 * one - x @ (7 * one - x)))
    seen = F.scaled_dot_product_attention(q_mean, k, v, scale=p.scale)
    return {"out": F.scaled_dot_product_attention(q, k_mean, inverse @ seen, scale=p.scale)}


# --- attention by hashes ---

def unsorted(x, place):
    """[B,H,pieces,c,D], in the order of pieces, as [B,H,R,S,D]."""
    x = x.flatten(2, 3)
    index = place.flatten(2)[..., None].expand(-1, -1, -1, x.shape[-1])
    return x.gather(2, index).unflatten(2, place.shape[2:])


def lsh(p, t):
    """As published: tokens sorted by bucket, in pieces that see themselves and the piece before; the
    rounds are merged by their maxima."""
    q, v = t["q"], t["v"]
    if "buckets_in" in t:
        buckets = t["buckets_in"]
    else:
        x = torch.einsum("bhsd,hdrn->bhrsn", q, t["rotations"])
        buckets = torch.cat((x, -x), -1).argmax(-1)
    order = buckets.argsort(dim=-1, stable=True)
    place = order.argsort(-1) + p.sq * torch.arange(p.rounds)[:, None]
    size = p.chunk or p.sq
    length = q.norm(dim=-1, keepdim=True)
    key, q = q / length.masked_fill(length == 0, 1), q * p.scale
    tokens = order.flatten(2)

    def pieces(x):
        x = x.gather(2, tokens[..., None].expand(-1, -1, -1, x.shape[-1]))
        return x.unflatten(2, (-1, size))

    def seen(x):
        return torch.cat((x.roll(1, 2), x), 3) if x.shape[2] > 1 else x

    s = pieces(q) @ seen(pieces(key)).mT
    mine = tokens.unflatten(2, (-1, size))[..., None]
    theirs = seen(mine).mT
    if p.causal:
        s.masked_fill_(theirs > mine, -math.inf)
    if p.variant == 0:
        s.masked_fill_(theirs == mine, -math.inf)
    top = s.amax(-1, keepdim=True)
    weights = s.sub_(top.masked_fill(top == -math.inf, 0)).exp_()
    made = torch.cat((weights @ seen(pieces(v)), weights.sum(-1, keepdim=True)), -1)
    made, top = unsorted(made, place), unsorted(top, place)
    most = top.amax(2, keepdim=True)
    alone = most == -math.inf
    made = (made * (top - most.masked_fill(alone, 0)).exp()).sum(2)
    alone, total = alone[:, :, 0], made[..., -1:]
    own = (q * key).sum(-1, keepdim=True)
    return {"out": torch.where(alone, v, made[..., :-1] / total),
            "lse": torch.where(alone, own, most[:, :, 0] + total.log())[..., 0],
            "buckets_out": buckets}
