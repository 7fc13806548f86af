#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_onnx_packs.py - packs of the node tests of ONNX's operator Attention.

Usage: make_onnx_packs.py OUTDIR

Every case that the PyPI package onnx collects for `Attention` (opsets 23 to 25) becomes a pack,
with its inputs and its expected answers as they are; cases.json lists cases and packs, and for a
case that no pack can hold the reason. The mapping:

  past K and V      joined before K and V; `present` outputs are compared here, bit for bit
  3-D inputs        [B,S,H*D] cut into heads
  attn_mask         bool: mask; float: bias; aligned at the last axis, filled up with false or -inf
  nonpad_kv_seqlen  len
  is_causal,        off = number of past keys; nonpad_kv_seqlen - Sq where that is given (br); else
  windows           0. All opsets mean the same: opset 23's cases with a past say so, too
  qk_matmul_output  mode 0, 1, 2: scores at stage raw, softcap, bias; mode 3: weights
  scores with -inf  where a mask is no bias it forbids cells without touching their scores, so such
                    a case gets a second pack, in which all of its masks are one bias

Tolerance: ONNX holds itself to rtol 1e-3 (atol 1e-7), whatever the type. Its answers come from
numpy, operation by operation in the type T of the inputs. They are held to what that arithmetic can
do: here element by element, and by the pack with rtol 0 and the largest such number as atol. With u
the unit roundoff of T, a = scale sum |q||k|, n keys, and g = (d+1) 2^-24 (matrix products sum in f32
or better and round once):

  q and k times sqrt(scale), itself rounded; product     ds = ((1+u)^5 (1+g) - 1) a
  softcap: division, tanh, product; x sech(x)^2 <= tanh  ds += (2u + e) |s|
  bias                                                   ds += u (|s| + ds)
  difference to the maximum; exp                         w = ds + u (max - s + 2 max ds) - log(1-e)
  sum, quotient, cast                                    r = (1+u)^(n+2) - 1
  weights                  between p exp(-w) / sum(p exp(w)) (1-r) and p exp(w) / D (1+r) + eta,
                           D = sum(p exp(-w))
  out                      E = sum(p |v - out| expm1(w)) / D + (r + g) sum(P |v|) + eta sum |v|
                           with P = p exp(w) / D; rounding of the result u (|out| + E) on top

e = 4u for exp and tanh (numpy's are within 4 ulp), eta half the least subnormal of T. Needs numpy,
safetensors, onnx with ml_dtypes; no network.
"""
import json
import math
import os
import sys
import warnings

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import onnx
    from onnx.backend.test.case.node import collect_testcases

INPUTS = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")
OUTPUTS = ("Y", "present_key", "present_value", "qk_matmul_output")
ATTRIBUTES = {"scale", "softcap", "is_causal", "q_num_heads", "kv_num_heads",
              "qk_matmul_output_mode", "softmax_precision", "left_window_size",
              "right_window_size"}
SOFTMAX = 3
STAGES = ("raw", "softcap", "bias")


class LeftOut(Exception):
    """Why a case does not become a pack."""


def node_of(test):
    """Inputs, outputs and attributes of a test, by name."""
    node = test.model.graph.node[0]
    values_in, values_out = test.data_sets[0]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    unknown = set(attributes) - ATTRIBUTES
    if unknown:
        raise LeftOut("attributes that this script does not know: %s" % ", ".join(sorted(unknown)))

    def named(names, present, values):
        values = iter(values)
        return {name: np.asarray(next(values)) for name, here in zip(names, present) if here}
    return named(INPUTS, node.input, values_in), named(OUTPUTS, node.output, values_out), attributes


def heads_first(x, heads):
    """[B,S,H*D] as [B,H,S,D]; rank 4 as it is."""
    if x.ndim == 4:
        return x
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(0, 2, 1, 3)


def join_past(given, expected, k, v):
    """K and V with what came before them, which must be the `present` outputs."""
    if "past_key" in given:
        k = np.concatenate((given["past_key"], k), axis=2)
        v = np.concatenate((given["past_value"], v), axis=2)
    for name, joined in (("present_key", k), ("present_value", v)):
        if name in expected and expected[name].tobytes() != np.ascontiguousarray(joined).tobytes():
            raise SystemExit("make_onnx_packs.py: %s is not past and new joined" % name)
    return k, v


def full_mask(mask, keys):
    """attn_mask with rank 4 and all keys."""
    fill = False if mask.dtype == np.bool_ else -np.inf
    mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    if mask.shape[3] not in (1, keys):
        mask = np.pad(mask, [(0, 0)] * 3 + [(0, keys - mask.shape[3])], constant_values=fill)
    return mask


class Case:
    """One test: the tensors of a pack, its case line, and the masks once more as one array."""

    def __init__(self, test):
        given, expected, a = node_of(test)
        self.q = heads_first(given["Q"], a.get("q_num_heads"))
        k = heads_first(given["K"], a.get("kv_num_heads"))
        v = heads_first(given["V"], a.get("kv_num_heads"))
        past = given["past_key"].shape[2] if "past_key" in given else 0
        self.k, self.v = join_past(given, expected, k, v)
        self.out = heads_first(expected["Y"], self.q.shape[1])
        self.scale = a.get("scale", 1 / math.sqrt(self.q.shape[3]))
        self.softcap = a.get("softcap", 0.0)
        self.line = {"scale": repr(self.scale)} if "scale" in a else {}
        if self.softcap > 0:
            self.line["softcap"] = repr(self.softcap)
        self.masks = {}
        self.allowed = np.ones((self.q.shape[0], 1, self.q.shape[2], self.k.shape[2]), bool)
        self.bias = np.zeros((1, 1, 1, 1))
        self.parts = []
        self.take_mask(given)
        self.take_order(given, a, past)
        mode = a.get("qk_matmul_output_mode", 0)
        seen = expected.get("qk_matmul_output")
        self.weights = seen if mode == SOFTMAX else None
        self.scores = None if mode == SOFTMAX else seen
        # Without softcap numpy's stage softcap is raw.
        self.stage = STAGES[mode] if self.scores is not None else None

    def take_mask(self, given):
        lengths = given.get("nonpad_kv_seqlen")
        if lengths is not None:
            self.masks["len"] = lengths
            self.parts.append("len")
            valid = np.arange(self.k.shape[2]) < lengths[:, None]
            self.allowed = self.allowed & valid[:, None, None, :]
        if "attn_mask" not in given:
            return
        mask = full_mask(given["attn_mask"], self.k.shape[2])
        if mask.dtype == np.bool_:
            self.masks["mask"] = mask
            self.parts.append("bool")
            self.allowed = self.allowed & mask
        else:
            self.masks["bias"] = mask
            self.line["bias"] = "tensor"
            self.bias = mask.astype(np.float64)

    def take_order(self, given, a, past):
        """causal and windows, with the offset that they share."""
        left, right = a.get("left_window_size", -1), a.get("right_window_size", -1)
        causal = a.get("is_causal", 0)
        if not causal and left < 0 and right < 0:
            return
        offset = np.full(self.q.shape[0], past)
        if "nonpad_kv_seqlen" in given:
            offset = given["nonpad_kv_seqlen"] - self.q.shape[2]
            self.parts.append("br")
        elif past:
            self.parts.append("past:%d" % past)
        at = offset[:, None] + np.arange(self.q.shape[2])
        apart = (np.arange(self.k.shape[2]) - at[:, :, None])[:, None]
        if causal:
            self.parts.append("causal")
            self.allowed = self.allowed & (apart <= 0)
        if left >= 0 or right >= 0:
            self.parts.append("window:%d:%d" % (left, right))
            self.allowed = self.allowed & ((left < 0) | (apart >= -left))
            self.allowed = self.allowed & ((right < 0) | (apart <= right))

    def one_bias(self):
        """All masks as a bias of [B,H,Sq,Sk], in the type of the inputs."""
        shape = (self.q.shape[0], self.q.shape[1], self.q.shape[2], self.k.shape[2])
        return np.broadcast_to(np.where(self.allowed, self.bias, -np.inf), shape).astype(
            self.q.dtype)


def roundoff(dtype):
    """u, and half the least subnormal."""
    info = ml_dtypes.finfo(dtype)
    return float(info.eps) / 2, float(info.smallest_subnormal) / 2


def growth(u, n):
    return math.expm1(n * math.log1p(u))


def answers(case):
    """What float64 makes of a case, and how far ONNX's arithmetic may be from it: a pair of arrays
    for each of scores at the case's stage, weights, out."""
    u, eta = roundoff(case.q.dtype)
    transcendental = 4 * u
    q, k, v = (x.astype(np.float64) for x in (case.q, case.k, case.v))
    group, keys = q.shape[1] // k.shape[1], k.shape[2]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    g = (q.shape[3] + 1) * 2.0 ** -24
    s = case.scale * (q @ k.swapaxes(2, 3))
    ds = (growth(u, 5) * (1 + g) + g) * abs(case.scale) * (abs(q) @ abs(k).swapaxes(2, 3))
    stages = {"raw": (s, ds)}
    if case.softcap > 0:
        s = case.softcap * np.tanh(s / case.softcap)
        ds = ds + (2 * u + transcendental) * abs(s)
    stages["softcap"] = (s, ds)
    allowed = np.broadcast_to(case.allowed & (case.bias > -np.inf), s.shape)
    s = np.where(allowed, s + np.where(allowed, case.bias, 0), -np.inf)
    ds = np.where(allowed, ds + u * (abs(np.where(allowed, s, 0)) + ds), 0)
    stages["bias"] = (s, ds)

    top = s.max(axis=-1, keepdims=True)
    away = np.where(allowed, np.where(np.isfinite(top), top, 0) - np.where(allowed, s, 0), 0)
    p = np.where(allowed, np.exp(-away), 0)
    p = p / np.maximum(p.sum(axis=-1, keepdims=True), 1e-300)
    w = ds + u * (away + 2 * ds.max(axis=-1, keepdims=True)) - math.log1p(-transcendental)
    r = growth(u, keys + 2)
    least = np.maximum((p * np.exp(-w)).sum(axis=-1, keepdims=True), 1e-300)
    most = np.maximum((p * np.exp(w)).sum(axis=-1, keepdims=True), 1e-300)
    upper = p * np.exp(w) / least
    weight_error = np.where(allowed, np.maximum(upper * (1 + r) - p,
                                                p - p * np.exp(-w) / most * (1 - r)) + eta, 0)
    out = p @ v
    apart = abs(v[:, :, None] - out[:, :, :, None])  # [B,H,Sq,Sk,Dv]
    error = ((p * np.expm1(w) / least)[..., None] * apart).sum(axis=3) + \
        (r + g) * (upper @ abs(v)) + eta * (allowed @ abs(v))
    error = error + u * (abs(out) + error)
    return {"scores": stages.get(case.stage), "weights": (p, weight_error), "out": (out, error)}


def judge(name, case, what, expected, answer):
    """Holds ONNX's answer to float64's, element by element; returns the largest allowed error, and
    the largest part of an allowed error that is used."""
    want = expected.astype(np.float64)
    mine, allowed = answer
    finite = np.isfinite(mine)
    if not np.array_equal(np.where(finite, 0, mine), np.where(np.isfinite(want), 0, want)):
        raise SystemExit("make_onnx_packs.py: %s: %s is infinite elsewhere" % (name, what))
    difference = np.where(finite, abs(np.where(finite, want, 0) - np.where(finite, mine, 0)), 0)
    if not (difference <= allowed).all():
        worst = np.unravel_index(np.argmax(difference - allowed), difference.shape)
        raise SystemExit("make_onnx_packs.py: %s: %s%s is %g, float64 says %g, allowed %g" %
                         (name, what, list(worst), want[worst], mine[worst], allowed[worst]))
    used = difference[allowed > 0] / allowed[allowed > 0]
    return float(allowed.max()), float(used.max()) if used.size else 0.0


def write(folder, name, source, case, parts, masks, line, expected):
    """Writes one pack; returns its file name and the largest part used of an allowed error."""
    errors = answers(case)
    atol, used = 0.0, 0.0
    for what, values in expected.items():
        largest, part = judge(name, case, what, values, errors[what])
        atol, used = max(atol, largest), max(used, part)
    words = (["mask=" + "+".join(parts)] if parts else []) + \
        ["%s=%s" % pair for pair in sorted(line.items())]
    tensors = {"q": case.q, "k": case.k, "v": case.v, **masks}
    tensors.update({what: values.astype(np.float32) for what, values in expected.items()})
    metadata = {"case": " ".join(words), "source": source, "rtol": "0", "atol": "%.9g" % atol}
    if "scores" in expected:
        metadata["scores_stage"] = case.stage
    file = name + ".safetensors"
    save_file({key: np.ascontiguousarray(value) for key, value in tensors.items()},
              os.path.join(folder, file), metadata)
    return file, used


def write_case(folder, test, source):
    """The packs of one test, and the largest part used of an allowed error."""
    case, name = Case(test), test.name
    expected, line = {"out": case.out}, dict(case.line)
    if case.weights is not None:
        expected["weights"] = case.weights
        line["out"] = "weights"
    # Scores after the bias hold -inf where any mask forbids; a pack says so of a bias alone.
    forbids = case.stage == "bias" and case.parts
    if case.scores is not None and not forbids:
        expected["scores"] = case.scores
    packs = [write(folder, name, source, case, case.parts, case.masks, line, expected)]
    if forbids:
        packs.append(write(folder, name + "_scores", source, case, [], {"bias": case.one_bias()},
                           {**line, "bias": "tensor"}, {**expected, "scores": case.scores}))
    return [file for file, _ in packs], max(used for _, used in packs)


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: make_onnx_packs.py OUTDIR")
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = collect_testcases("Attention")
    # Each test is there twice: as the operator, and expanded into others with the same data.
    tests = [t for t in tests if [n.op_type for n in t.model.graph.node] == ["Attention"]]
    cases, most = [], 0.0
    for test in tests:
        entry = {"name": test.name, "opset": test.model.opset_import[0].version, "packs": []}
        try:
            entry["packs"], used = write_case(folder, test, "PyPI onnx %s (Apache-2.0), %s" %
                                              (onnx.__version__, test.name))
            most = max(most, used)
        except LeftOut as reason:
            entry["left_out"] = str(reason)
        cases.append(entry)
    with open(os.path.join(folder, "cases.json"), "w", encoding="utf-8") as file:
        json.dump({"onnx": onnx.__version__, "cases": cases}, file, indent=1)
    print("%d cases of onnx %s in %d packs; ONNX's own answers use up to %.2f of the error that "
          "its arithmetic may make" % (len(cases), onnx.__version__,
                                       sum(len(c["packs"]) for c in cases), most))


if __name__ == "__main__":
    main()
