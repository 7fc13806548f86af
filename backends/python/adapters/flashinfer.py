# SPDX-License-Identifier: Apache-2.0
"""FlashInfer on a GPU: prefill and decoding of the package flashinfer"""
REQUIRES = ("torch", "flashinfer")
DEVICE = "cuda"
OPS = ("attention",)

import math  # noqa: E402

import flashinfer  # noqa: E402
import torch  # noqa: E402

import attnbench_cuda as cuda  # noqa: E402

WORKSPACE = 128 << 20  # bytes, as its documentation recommends


def supports(problem):
    p = problem
    if (p.causal or p.window) and not cuda.from_last(p):
        return "its diagonal is the one from the last row and key"
    if p.window and (p.window_left < 0 or not (p.causal or p.window_right == 0)):
        return "its window is to the left of a causal diagonal"
    if p.dk not in (64, 128, 256):
        return "heads are 64, 128 or 256 wide"
    return cuda.supports(p, ("float16", "bfloat16"), "causal", "window", "bottom_right", "softcap", "groups",
                         "lse")


def flat(tensor):
    """[b s, h, d]: a view where tokens follow each other (layout=bshd), else a copy within `run`."""
    return cuda.view(tensor.permuted(0, 2, 1, 3))


class State:
    def __init__(self, problem, tensors):
        p = self.p = problem
        self.t = {role: flat(tensors[role]) for role in "qkv"}
        self.lse, self.wrapper = "lse" in tensors, None
        given = {"causal": p.causal or p.window, "sm_scale": p.scale, "logits_soft_cap": p.softcap or None,
                 "window_left": p.window_left if p.window else -1}
        if p.b == 1:
            self.given = given
            return
        device = self.t["q"].device
        self.wrapper = flashinfer.BatchPrefillWithRaggedKVCacheWrapper(
            torch.empty(WORKSPACE, dtype=torch.uint8, device=device), "NHD")
        starts = torch.arange(p.b + 1, dtype=torch.int32, device=device)
        self.wrapper.plan(starts * p.sq, starts * p.sk, p.hq, p.hkv, p.dk, q_data_type=self.t["q"].dtype,
                          **given)

    def run(self):
        p, (q, k, v) = self.p, (self.t[role].flatten(0, 1) for role in "qkv")
        if self.wrapper:
            return self.wrapper.run(q, k, v, return_lse=self.lse)
        return flashinfer.single_prefill_with_kv_cache(q, k, v, return_lse=self.lse, **self.given)


def prepare(problem, tensors):
    return State(problem, tensors)


def run(state):
    p, made = state.p, state.run()
    out = (made[0] if state.lse else made).view(p.b, p.sq, p.hq, p.dv).transpose(1, 2)
    if not state.lse:
        return out
    # its logarithm is that to base 2
    return {"out": out, "lse": (made[1] * math.log(2)).view(p.b, p.sq, p.hq).transpose(1, 2)}


def numerics(problem):
    return {**cuda.tensor_cores(problem, 16, cuda.splits_of(problem, 16)), "e_tanh": 2.0**-10,
            "source": "include/flashinfer/attention of FlashInfer: sums in f32, p in the type of q, the least "
                      "tile of keys there; ex2.approx 2^-22, tanh.approx 2^-10.987 by the PTX manual"}
